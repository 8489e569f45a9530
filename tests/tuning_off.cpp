// Tests compute the same on every machine: no measured choices, unless NIXIE_TUNING asks for them.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kTuningIsOff = setenv("NIXIE_TUNING", "off", 0);

}  // namespace
