// Expected exit codes and outputs of programs: a line for each run of a test, a row for each of a table.
#pragma once

#include <source_location>

#include "nixie/tests/apps/support.h"

namespace nixie::test {

/// An exit code, and where a test expects it.
struct ExitCode {
  int value;
  std::source_location place;

  ExitCode(int code, std::source_location at = std::source_location::current()) : value(code), place(at) {}
};

/// Expects an exit code and outputs: parts of the text, or matchers of all of it. Gives the run back.
template <class... Outputs>
Ran expect_ran(Ran ran, const ExitCode& code, const Outputs&... outputs) {
  const testing::ScopedTrace trace(code.place.file_name(), static_cast<int>(code.place.line()), ran.command);
  EXPECT_EQ(ran.code, code.value) << ran.output;
  [[maybe_unused]] const auto expect = [&](const auto& output) { EXPECT_THAT(ran.output, part(output)); };
  (expect(outputs), ...);
  return ran;
}

struct RunRow {
  std::string arguments;
  ExitCode code;
  std::string part;  ///< of what it prints
};

inline void expect_runs(const std::function<Ran(const std::string&)>& run, const std::vector<RunRow>& rows) {
  for (const RunRow& row : rows) expect_ran(run(row.arguments), row.code, row.part);
}

}  // namespace nixie::test
