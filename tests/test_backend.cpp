// The backend that tests run on, in one place: each test program links it, and none compiles it again.
#include "nixie/tests/test_backend.h"

#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/tests/cuda_plans_backend.h"

namespace nixie {
namespace {

// Another backend, but before every run what the plan only writes holds bytes that no result leaves, so that an
// element nobody wrote is seen.
class Poisoned final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<Run>(inner(), inner()->compile(plan), outputs_of(plan));
  }

 private:
  // Places among the externals that kernels write and none reads.
  static std::vector<std::size_t> outputs_of(const Plan& plan) {
    std::set<int> read, written;
    for (const Kernel& kernel : plan.kernels) {
      for (int slot : slots_read(kernel)) read.insert(slot);
      for (const Access& store : kernel.stores) written.insert(store.slot);
    }
    std::vector<std::size_t> outputs;
    for (std::size_t i = 0; i < plan.externals.size(); ++i)
      if (written.count(plan.externals[i]) && !read.count(plan.externals[i])) outputs.push_back(i);
    return outputs;
  }

  class Run final : public Executable {
   public:
    Run(std::shared_ptr<Backend> backend, std::unique_ptr<Executable> inner, std::vector<std::size_t> outputs)
        : backend_(std::move(backend)), inner_(std::move(inner)), outputs_(std::move(outputs)) {}
    void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
      for (std::size_t i : outputs_) {
        const std::vector<unsigned char> poison(static_cast<std::size_t>(externals[i]->size_bytes()), 0xab);
        backend_->upload(poison.data(), *externals[i], externals[i]->size_bytes());
      }
      inner_->run(externals, scalars);
    }

   private:
    std::shared_ptr<Backend> backend_;
    std::unique_ptr<Executable> inner_;
    std::vector<std::size_t> outputs_;
  };
};

}  // namespace

std::shared_ptr<Backend> make_test_backend(const std::string& name) {
#ifdef NIXIE_WITH_CUDA
  if (name == "cuda-plans") return std::make_shared<CudaPlansBackend>();
#endif
  return name == "cpu" ? make_cpu_backend(2) : make_backend(name);
}

std::string test_backend_name() {
  const char* name = std::getenv("NIXIE_TEST_BACKEND");
  return name ? name : "cpu";
}

std::shared_ptr<Backend> new_test_backend() {
  return std::make_shared<Poisoned>(make_test_backend(test_backend_name()));
}

Backend& test_backend() {
  static const std::shared_ptr<Backend> backend = [] {
    std::shared_ptr<Backend> made = new_test_backend();
    set_default_backend(made);
    return made;
  }();
  return *backend;
}

unsigned count_of_random(unsigned on_cpu, unsigned on_device) {
  return test_backend_name() == "cuda" ? on_device : on_cpu;
}

namespace {

// Skips, test by test so that they are counted, where the named backend has no device.
class SkipWithoutDevice final : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo&) override {
    try {
      test_backend();
    } catch (const Error& error) {
      if (error.fault() != Fault::device) throw;
      GTEST_SKIP() << error.what();
    }
  }
};
[[maybe_unused]] const bool kSkipsWithoutDevice = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SkipWithoutDevice);
  return true;
}();

}  // namespace
}  // namespace nixie
