// The CPU backend.
#include "nixie/backends/cpu/backend.h"

#include <cstring>

#include "nixie/backends/cpu/stages/executor.h"

namespace nixie {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : shared_(std::make_shared<cpu::Shared>(threads)) {}
  std::string name() const override { return "cpu"; }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override {
    return std::make_shared<cpu::HostBuffer>(size_bytes);
  }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override {
    if (size_bytes > 0) std::memcpy(to.address(), from, static_cast<std::size_t>(size_bytes));
  }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override {
    if (size_bytes > 0) std::memcpy(to, from.address(), static_cast<std::size_t>(size_bytes));
  }
  MemoryPlace memory_place() const override { return {.is_shared = true}; }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<cpu::CpuExecutable>(plan, shared_);
  }

 private:
  std::shared_ptr<cpu::Shared> shared_;
};

}  // namespace

std::shared_ptr<Backend> make_cpu_backend(int threads) { return std::make_shared<CpuBackend>(threads); }

}  // namespace nixie
