// FirstError: continues with the other rows of a table after one has failed.
#pragma once

#include <fmt/format.h>

#include <exception>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/base/error.h"

namespace nixie::benchmark {

class FirstError {
 public:
  /// Calls `work`; prints an Error that it throws, and keeps the first.
  template <class Work>
  void keep(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      tell("\nleft out: {}\n", error.what());
      if (!first_) first_ = std::current_exception();
    }
  }
  /// Throws the first Error, if there was one.
  void raise() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace nixie::benchmark
