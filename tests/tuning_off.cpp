// Tests do the same on every machine: no measured choices, unless NIXIE_TUNING asks for them.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kTuningIsOff = setenv("NIXIE_TUNING", "off", 0);

#if defined(__SANITIZE_ADDRESS__)
// A call that asks for too much memory gets a null pointer, as without the sanitizer.
[[maybe_unused]] const int kLargeAllocationsFail = setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 0);
#endif

}  // namespace
