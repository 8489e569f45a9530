// Programs that tests compile without a GPU: all of them or one of each form, and what the compiler may say of them.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/tests/compiler_log.h"

namespace nixie {

/// The form of a program of any sizes: its template and tile, and its text with # for numbers. Digits of names
/// stay, and a macro's 0, which turns something off.
inline std::string form_of(const cuda::KernelCode& code) {
  std::string form = code.variant + "\n";
  std::istringstream lines(code.source);
  for (std::string line; std::getline(lines, line); form += '\n') {
    if (line.starts_with("#define ") && line.ends_with(" 0")) {
      form += line;
      continue;
    }
    bool in_name = false, in_number = false;
    for (const char c : line) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c));
      if (!digit || in_name)
        form += c;
      else if (!in_number)
        form += '#';
      in_number = digit && !in_name;
      in_name = (in_name && digit) || std::isalpha(static_cast<unsigned char>(c)) || c == '_';
    }
  }
  return form;
}

/// What a lowered group runs by estimate.
inline const cuda::Choice& choice_of(const Group& group) {
  return dynamic_cast<const cuda::Implementers&>(*group.implementation).choices.front();
}

/// Distinct programs.
class CudaPrograms {
 public:
  /// One program of a form may represent the others. `spilled_bytes`: how many of its registers may be in memory.
  void add(const cuda::KernelCode& code, const std::string& form, const std::string& label, int spilled_bytes = 0) {
    programs_.emplace(code.source, Program{form, label, spilled_bytes});
  }
  /// Those of a lowered plan's groups, but for what a library computes.
  void add(const Plan& plan, const cuda::Chip& chip, const std::string& label, int spilled_bytes = 0) {
    for (const Group& group : plan.groups) {
      if (cuda::blas_problem(group)) continue;
      const cuda::KernelCode code = cuda::generate(plan, group, chip);
      add(code, form_of(code), label + ": " + label_of(plan, group), spilled_bytes);
    }
  }

  std::size_t size() const { return programs_.size(); }
  /// The longest program of each form.
  CudaPrograms one_of_each_form() const {
    std::map<std::string, const std::pair<const std::string, Program>*> chosen;
    for (const auto& program : programs_) {
      const auto*& best = chosen[program.second.form];
      if (!best || program.first.size() > best->first.size()) best = &program;
    }
    CudaPrograms found;
    for (const auto& [form, program] : chosen) found.programs_.insert(*program);
    return found;
  }

  void expect_compile(const std::string& architecture) const {
    ASSERT_FALSE(programs_.empty());
    std::vector<std::string> texts;
    for (const auto& [text, program] : programs_) texts.push_back(text);
    const std::vector<cuda::Cubin> cubins = cuda::compile_sources(texts, architecture);
    std::size_t i = 0;
    for (const auto& [text, program] : programs_) {
      const cuda::Cubin& cubin = cubins[i++];
      EXPECT_FALSE(cubin.code.empty()) << program.label;
      EXPECT_EQ(cuda::complaints(cubin.log, program.spilled_bytes), "")
          << program.label << " for " << architecture << "\n"
          << text;
    }
  }

 private:
  struct Program {
    std::string form, label;
    int spilled_bytes;
  };
  std::map<std::string, Program> programs_;  // by text
};

}  // namespace nixie
#endif
