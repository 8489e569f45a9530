// trainer doctor: checks the parts of this machine that a run uses, with remedies for missing ones.
#pragma once

namespace nixie {

/// Prints to stdout; false where a run on the CPU would have a problem. A missing GPU is none.
bool run_doctor();

}  // namespace nixie
