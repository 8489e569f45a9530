// Compilation: programs compile in threads of their own, equal ones once; a compiler's error reaches the caller.
#ifdef NIXIE_WITH_CUDA
#include <gmock/gmock.h>

#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

std::string kernel(int number) {
  return "extern \"C\" __global__ void store(int* x) { *x = " + std::to_string(number) + "; }\n";
}

TEST(CudaCompilation, GivesEachSourceItsCubin) {
  Compilation compilation({kernel(1), kernel(2), kernel(1)}, "sm_90a");
  const std::vector<Cubin> cubins = compilation.wait();
  ASSERT_EQ(cubins.size(), 3u);
  EXPECT_FALSE(cubins[0].code.empty());
  EXPECT_EQ(cubins[0].code, cubins[2].code);
  EXPECT_NE(cubins[0].code, cubins[1].code);
}

TEST(CudaCompilation, NobodyNeedWaitForIt) {
  std::vector<std::string> sources;
  for (int i = 0; i < 20; ++i) sources.push_back(kernel(i));
  const Compilation compilation(sources, "sm_90a");
}

TEST(CudaCompilation, ThrowsWhatTheCompilerSays) {
  Compilation compilation({kernel(1), "no program"}, "sm_90a");
  try {
    compilation.wait();
    ADD_FAILURE() << "it compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::device);
    EXPECT_THAT(error.what(), testing::HasSubstr("kernel.cu(1)"));
  }
}

}  // namespace
}  // namespace nixie::cuda
#endif
