// One target under libFuzzer; the build names it.
#include "nixie/tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const nixie::fuzz::Target& target = nixie::fuzz::target_named(NIXIE_FUZZ_TARGET);
  target.read({bytes, size});
  return 0;
}
