// How every program of nixie begins, prints, listens to signals and ends. Nothing else writes to standard output or
// turns an exception into an exit code (tests/gates_test.cpp).
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "nixie/core/base/one_line.h"

/// A path is printed as one_line gives it: a name may hold a line's end.
template <>
struct fmt::formatter<std::filesystem::path> : fmt::formatter<std::string> {
  auto format(const std::filesystem::path& path, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(nixie::one_line(path.string()), context);
  }
};

namespace nixie {

/// The text with every line as one_line gives it; its lines and tabs stay.
std::string printable(std::string_view text);

/// Prints to standard output what `printable` leaves of the text.
void tell_text(std::string_view text);

/// The same, formatted as by fmt::print.
template <class... Parts>
void tell(fmt::format_string<Parts...> format, Parts&&... parts) {
  tell_text(fmt::format(format, std::forward<Parts>(parts)...));
}

/// A line on standard error that the next one takes the place of, on a terminal only.
class MovingLine {
 public:
  MovingLine();
  ~MovingLine();
  MovingLine(const MovingLine&) = delete;
  MovingLine& operator=(const MovingLine&) = delete;
  void operator()(const std::string& text) const;

 private:
  bool is_shown_;
};

/// Has std::terminate without an exception, which is what the runtime calls where even the memory for one is wanting,
/// end the program as any want of memory does. For a program's constructor: declaring the library's ops takes memory.
void name_want_of_memory();

/// To be called before a program does anything else: takes the descriptors 0 to 2 where they are closed, so that no
/// file becomes standard output, has a write past a limit of file sizes fail with a message (SIGXFSZ would end the
/// program without one), and under a limit of addresses has all threads share an arena, but for large arrays.
void begin_program();

enum class Output {
  result,  ///< what is printed is what the program is for: it must have arrived
  log,     ///< the result is in files; who reads along does not matter
};

/// The exit code of work that a signal ended before its time.
constexpr int kInterrupted = 130;

/// The exit code of the work, or of what it throws, whose line goes to standard error behind `before`. Output that was
/// lost is Fault::storage, unless its reader has seen enough (EPIPE).
int exit_code_of(Output output, const std::function<int()>& work, const std::string& before = "");

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
