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

/// A matcher of texts with this part, or the matcher that it is.
template <class Expected>
[[nodiscard]] auto part(const Expected& expected) {
  if constexpr (std::is_convertible_v<Expected, std::string>)
    return HasSubstr(std::string(expected));
  else
    return expected;
}

/// Matches texts with all of these parts; a part may be a matcher of the text.
template <class... Expected>
[[nodiscard]] auto HasParts(const Expected&... expected) {
  return AllOf(part(expected)...);
}

}  // namespace nixie

/// Expects that the statement behind them throws an Error of this fault whose line has this part (a text or a matcher):
/// EXPECT_FAULT(usage, "batch is 0", Loader(dataset, {.batch = 0})).
#define EXPECT_FAULT(kind, expected, ...) \
  EXPECT_THAT(::nixie::error_of(::nixie::Fault::kind, [&] { __VA_ARGS__; }), ::nixie::part(expected))
