// ForwardingBackend: passes every call to another backend; one that changes something about it derives from this.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nixie/core/graph/backend.h"

namespace nixie {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  Target target() const override { return inner_->target(); }
  void lower(Plan& plan) override { inner_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return inner_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { inner_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { inner_->download(from, to, size_bytes); }
  void synchronize() override { inner_->synchronize(); }
  MemoryPlace memory_place() const override { return inner_->memory_place(); }
  void wait_for(void* stream) override { inner_->wait_for(stream); }
  void be_awaited_by(void* stream) override { inner_->be_awaited_by(stream); }
  std::unique_ptr<Stopwatch> stopwatch() override { return inner_->stopwatch(); }
  std::unique_ptr<Executable> compile(const Plan& plan) override { return inner_->compile(plan); }

 protected:
  const std::shared_ptr<Backend>& inner() const { return inner_; }

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace nixie
