// Signals that tell a running trainer to end or to save.
#pragma once

#include <stdexcept>

namespace nixie {

/// A signal ended the work before its time. Programs end with the line and kInterrupted.
class Interrupted final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// From here on SIGINT, SIGTERM, SIGHUP and SIGXCPU ask the run to save and end. Another one ends the program at once,
/// but not within a second of the first: process groups, shells and containers often send the same signal twice; nor
/// does another SIGXCPU, which comes every second. A signal that is ignored already (nohup) stays so.
void listen_to_signals();
/// From here on SIGUSR1 asks the run to save and go on.
void listen_to_save_requests();

bool stop_is_requested();
/// Whether SIGUSR1 came since the last call.
bool take_save_request();

/// Opens /dev/null as those of the descriptors 0, 1 and 2 that are closed, so that no file of the run becomes standard
/// output. For reading only: what is printed there fails, as it does where none is open. To be called before any file
/// is opened.
void reserve_standard_descriptors();

}  // namespace nixie
