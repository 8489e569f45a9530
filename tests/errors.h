// Questions of tests to errors: the fault, the text, and whether it is one line.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/core/base/error.h"

namespace nixie {

/// The line of the Error of this fault that an action throws; "no error" where it throws none.
template <class Action>
[[nodiscard]] std::string error_of(Fault fault, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.fault()), static_cast<int>(fault)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "more than one line: " << error.what();
    return error.what();
  }
  return "no error";
}

/// Of Fault::usage.
template <class Action>
[[nodiscard]] std::string error_of(Action&& action) {
  return error_of(Fault::usage, action);
}

}  // namespace nixie
