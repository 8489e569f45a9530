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
  NullBackend(std::function<void(const Plan&)> see, Planning as) : see_(std::move(see)), as_(std::move(as)) {}
  std::string name() const override { return as_.name; }
  Target target() const override { return as_.target; }
  void lower(Plan& plan) override {
    if (as_.lower) as_.lower(plan);
  }
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
  Planning as_;
};

}  // namespace

std::shared_ptr<Backend> make_null_backend(std::function<void(const Plan&)> see, Planning as) {
  return std::make_shared<NullBackend>(std::move(see), std::move(as));
}

}  // namespace nixie
