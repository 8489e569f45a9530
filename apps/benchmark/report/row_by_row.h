// RowByRow: makes the rows of a table that is summed up at its end. A row that fails is reported, the others go on; a
// signal such as Ctrl-C ends the table after the row in hand, so that those it has are summed up.
#pragma once

#include <fmt/format.h>

#include <exception>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/signals.h"
#include "nixie/core/base/error.h"

namespace nixie::benchmark {

class RowByRow {
 public:
  RowByRow() { listen_to_signals(); }

  /// Calls `work`, unless a signal came; prints an Error that it throws, and keeps the first.
  template <class Work>
  void make(Work&& work) {
    if (stop_is_requested()) return;
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
