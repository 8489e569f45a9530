// The null backend and the registry.
#include "nixie/backends/null/backend.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <typeindex>
#include <vector>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/registry.h"
#include "nixie/backends/validate.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(NullBackend, PlansOfAnySizeRunNothing) {
  int seen = 0;
  const auto backend = make_null_backend([&](const Plan& plan) { seen += static_cast<int>(plan.kernels.size()); });
  Plan plan;
  plan.kernels.resize(3);
  plan.slots.push_back({.name = "huge", .shape = Shape{1 << 20, 1 << 20}, .external = true});
  plan.externals = {0};
  const auto buffer = backend->allocate(plan.slots[0].size_bytes());
  EXPECT_EQ(buffer->size_bytes(), std::int64_t{4} << 40);
  const auto executable = backend->compile(plan);
  EXPECT_EQ(seen, 3);
  const std::vector<std::shared_ptr<Buffer>> externals{buffer};
  executable->run(externals, {});
  EXPECT_THROW(executable->run({}, {}), Error);
  std::vector<int> values{1, 2, 3};
  backend->upload(values.data(), *buffer, 12);
  backend->download(*buffer, values.data(), 12);
  EXPECT_EQ(values, std::vector<int>(3, 0));
}

TEST(Registry, NamesBackends) {
  for (const char* name : {"cpu", "null"}) EXPECT_EQ(make_backend(name)->name(), name);
  EXPECT_THROW(make_backend("abacus"), Error);
}

TEST(Registry, ValidatesTheCpuTooAndRefusesAnotherValue) {
  const auto type = [](const Backend& backend) { return std::type_index(typeid(backend)); };
  const auto cpu = make_cpu_backend(1);
  const std::type_index plain = type(*cpu), validating = type(*make_validating_backend(cpu, cpu));
  const std::map<std::string, std::type_index> kRows = {{"", plain}, {"0", plain}, {"1", validating}};
  for (const auto& [value, expected] : kRows) {
    ::setenv("NIXIE_VALIDATE", value.c_str(), 1);
    EXPECT_EQ(type(*make_backend("cpu")), expected) << value;
  }
  ::setenv("NIXIE_VALIDATE", "yes", 1);
  for (const char* name : {"cpu", "auto"})
    EXPECT_THAT(error_of(Fault::usage, [&] { make_backend(name); }),
                testing::HasSubstr("NIXIE_VALIDATE is yes, expected 0 or 1"));
  ::unsetenv("NIXIE_VALIDATE");
}

TEST(DefaultBackend, IsWhatWasSet) {
  set_default_backend(nullptr);
  EXPECT_THROW(default_backend(), Error);
  const auto backend = make_backend("null");
  set_default_backend(backend);
  EXPECT_EQ(&default_backend(), backend.get());
  set_default_backend(nullptr);
}

}  // namespace
}  // namespace nixie
