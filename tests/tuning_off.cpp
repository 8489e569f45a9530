// Tests do the same on every machine: no measured choices, unless NIXIE_TUNING asks for them.
#include <cstdlib>

namespace {

[[maybe_unused]] const int kTuningIsOff = setenv("NIXIE_TUNING", "off", 0);

#if defined(__SANITIZE_ADDRESS__)
// What asks for too much memory is told so, as without the sanitizer: by a null pointer.
[[maybe_unused]] const int kLargeAllocationsFail = setenv("ASAN_OPTIONS", "allocator_may_return_null=1", 0);
#endif

}  // namespace
