// trainer doctor: what of this machine a run would use, and the remedy for what is missing.
#pragma once

namespace nixie {

/// Prints to stdout; false where a run on the CPU would have a problem. A missing GPU is none.
bool run_doctor();

}  // namespace nixie
