// The null backend.
#include "nixie/backends/null/backend.h"

#include <cstring>

namespace nixie {
namespace {

class NullBuffer final : public Buffer {
 public:
  using Buffer::Buffer;
  void* address() override { return nullptr; }
};

class NullExecutable final : public Executable {
 public:
  explicit NullExecutable(const Plan& plan) : externals_(plan.externals.size()) {}
  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double>) override {
    check(externals.size() == externals_, "null: ", externals.size(), " buffers for ", externals_, " external slots");
  }

 private:
  std::size_t externals_;
};

class NullBackend final : public Backend {
 public:
  explicit NullBackend(std::function<void(const Plan&)> see) : see_(std::move(see)) {}
  std::string name() const override { return "null"; }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override {
    return std::make_shared<NullBuffer>(size_bytes);
  }
  void upload(const void*, Buffer&, std::int64_t) override {}
  void download(Buffer&, void* to, std::int64_t size_bytes) override {
    if (size_bytes > 0) std::memset(to, 0, static_cast<std::size_t>(size_bytes));
  }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    if (see_) see_(plan);
    return std::make_unique<NullExecutable>(plan);
  }

 private:
  std::function<void(const Plan&)> see_;
};

}  // namespace

std::shared_ptr<Backend> make_null_backend(std::function<void(const Plan&)> see) {
  return std::make_shared<NullBackend>(std::move(see));
}

}  // namespace nixie
