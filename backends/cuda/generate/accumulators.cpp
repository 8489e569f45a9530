// Picks the accumulators of reductions and prints their updates.
#include "nixie/backends/cuda/generate/accumulators.h"

#include <algorithm>
#include <map>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/backends/cuda/generate/print.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
std::vector<Accumulator> accumulators_of(const Stage& stage) {
  std::vector<Accumulator> list;
  std::map<int, int> welford;  // register -> member
  int members = 0;
  for (const Reduction& reduction : stage.reductions) {
    const Dtype dtype = stage.body[at(reduction.value)].type;
    const int size = static_cast<int>(size_of(dtype));
    if (is_moment(reduction.kind)) {
      const auto [known, added] = welford.emplace(reduction.value, members);
      const bool squares = std::ranges::any_of(stage.reductions, [&](const Reduction& other) {
        return other.kind == ReduceKind::m2 && other.value == reduction.value;
      });
      list.push_back({added ? fmt::format("Moments<{}, {}>", type_name(dtype), squares) : "",
                      reduction.kind == ReduceKind::mean ? "mean_of_all()" : "m2", known->second, 3 * size, size / 2,
                      size == 8});
      members += added;
    } else {
      const bool position = gives_position(reduction.kind);
      list.push_back(
          {fold_name(reduction.kind, dtype), "value", members++, position ? 2 * size : size, size / 4 + position});
    }
  }
  return list;
}

AccumulatorCode accumulator_code(const Stage& stage) {
  AccumulatorCode code;
  const std::vector<Accumulator> list = accumulators_of(stage);
  const bool doubles = std::ranges::any_of(list, &Accumulator::doubles);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].type.empty()) {
      code.members += fmt::format("    {} m{};\n", list[i].type, list[i].member);
      code.merge += fmt::format("      m{0}.merge(next.m{0});\n", list[i].member);
      if (is_moment(stage.reductions[i].kind)) code.saw += fmt::format("      m{}.count = seen;\n", list[i].member);
      code.bytes += doubles ? (list[i].bytes + 7) / 8 * 8 : list[i].bytes;  // doubles are aligned
      code.words += list[i].words;
    }
    code.finish += fmt::format("    carried.c{} = accumulators.m{}.{};\n", stage.reductions[i].carried, list[i].member,
                               list[i].result);
  }
  return code;
}

std::string accumulators_struct(const Stage& stage, const std::string& name) {
  const AccumulatorCode code = accumulator_code(stage);
  std::string text = fmt::format("  struct {} {{\n{}", name, code.members);
  text += fmt::format("    void merge(const {}& next) {{\n{}    }}\n", name, code.merge);
  return text + fmt::format("    void saw(f32 seen) {{\n{}    }}\n  }};\n", code.saw);
}

}  // namespace nixie::cuda
