// Forwarding: a backend that passes every call to another one; tests derive from it and change what they ask about.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "nixie/core/graph/backend.h"

namespace nixie {

class Forwarding : public Backend {
 public:
  explicit Forwarding(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  Target target() const override { return inner_->target(); }
  void lower(Plan& plan) override { inner_->lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return inner_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { inner_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { inner_->download(from, to, size_bytes); }
  void synchronize() override { inner_->synchronize(); }
  std::unique_ptr<Executable> compile(const Plan& plan) override { return inner_->compile(plan); }

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace nixie
