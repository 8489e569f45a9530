// Picks the families of a kernel: the first in the list that accepts it, or by estimate among those that compete.
#include "nixie/backends/cuda/families/registry.h"

#include <algorithm>
#include <map>
#include <set>

#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/families/conv/families.h"
#include "nixie/backends/cuda/families/outer_product.h"
#include "nixie/backends/cuda/families/pool_average.h"
#include "nixie/backends/cuda/families/pool_max.h"
#include "nixie/backends/cuda/families/portable.h"
#include "nixie/backends/cuda/families/turn.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

double fastest(const Plan& plan, const Choice& choice, const Chip& chip) {
  const std::vector<Algorithm> algorithms = choice.family->algorithms(plan, choice, chip);
  return algorithms.empty() ? 0 : algorithms.front().estimate;
}

// The memory that stages read and write is part of an operation's cost.
std::string with_memory(std::string operation, const Plan& plan, const Choice& choice) {
  const auto list = [&](const char* word, const std::vector<Access>& accesses) {
    std::string types;
    for (const Access& access : accesses) types += fmt::format(" {}", dtype_of(plan, access.slot));
    if (!types.empty()) operation += word + types;
  };
  list(", reads", choice.kernel.loads);
  list(", writes", stores_of(choice));
  if (choice.leaves) operation += ", reduces";
  return operation;
}

// Each element once: what the members of a group read and write of the slots that the group does.
// The shape of what a head reads of an operand: a window that is smaller than its stride leaves pixels out.
Shape read_part(const Kernel& kernel, std::size_t operand) {
  const std::vector<Operand>& operands = kernel.head->operands;
  const auto* conv = product_in<Conv>(kernel.head->op);
  if (!conv || conv->role == ConvRole::input_grad || operand != at(images_operand(conv->role)))
    return operands[operand].shape;
  const bool forward = conv->role == ConvRole::output;
  const Shape &results = forward ? kernel.domain : operands[0].shape,
              &filters = forward ? operands[1].shape : kernel.domain;
  Shape part = operands[operand].shape;
  for (int axis = 2; axis < part.rank(); ++axis)
    part = part.with(axis, std::min(part[axis], results[axis] * filters[axis]));
  return part;
}

double bytes_touched(const Plan& plan, const Group& group) {
  std::map<int, double> elements;
  const auto add = [&](int slot, const Strides& strides, const Shape& shape) {
    double touched = 1;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (strides[at(axis)] != 0) touched *= static_cast<double>(shape[axis]);
    elements[slot] += touched;
  };
  for (const int member : group.members) {
    const Kernel& kernel = plan.kernels[at(member)];
    for (const std::vector<Access>* accesses : {&kernel.loads, &kernel.stores})
      for (const Access& access : *accesses) add(access.slot, access.strides, kernel.domain);
    if (!kernel.head) continue;
    for (std::size_t i = 0; i < kernel.head->operands.size(); ++i) {
      const Operand& operand = kernel.head->operands[i];
      add(operand.slot, operand.strides, read_part(kernel, i));
    }
  }
  double bytes = 0;
  for (const std::vector<int>* slots : {&group.reads, &group.writes})
    for (const int slot : std::set<int>(slots->begin(), slots->end())) {
      const auto whole = static_cast<double>(plan.slots[at(slot)].size_bytes());
      const auto found = elements.find(slot);  // not that of an implementation's own
      bytes += found == elements.end()
                   ? whole
                   : std::min(whole, found->second * static_cast<double>(size_of(dtype_of(plan, slot))));
    }
  return bytes;
}

KernelCode generate_shared(const Plan& plan, const Choice& choice) {
  const Plan apart = with_slots_apart(plan);
  std::vector<OneLaunch> launches{*choice.family->one_launch(apart, choice)};
  for (const Choice& other : choice.beside) launches.push_back(*choice.family->one_launch(apart, other));
  return share_launch(launches);
}

KernelCode generate(const Plan& plan, const Implementers& by, const Chip& chip, const std::string& name,
                    const std::string& label) {
  struct Candidate {
    const Choice* choice;
    Algorithm algorithm;
  };
  std::vector<Candidate> candidates;
  for (const Choice& choice : by.choices)
    for (const Algorithm& algorithm : choice.family->algorithms(plan, choice, chip))
      candidates.push_back({&choice, algorithm});
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.algorithm.estimate < b.algorithm.estimate; });
  const auto taken = name.empty() ? candidates.begin()
                                  : std::find_if(candidates.begin(), candidates.end(),
                                                 [&](const Candidate& c) { return c.algorithm.name == name; });
  check(name.empty() || taken != candidates.end(), "there is no algorithm ", name, " for \"", label, "\"");
  if (!by.choices.front().beside.empty()) return generate_shared(plan, by.choices.front());
  const Choice& choice = candidates.empty() ? by.choices.front() : *taken->choice;
  KernelCode code =
      choice.family->generate(plan, choice, chip, candidates.empty() ? std::string() : taken->algorithm.name);
  for (const Candidate& candidate : candidates) code.algorithms.push_back(candidate.algorithm);
  if (!candidates.empty()) code.operation = with_memory(choice.family->operation(plan, choice), plan, choice);
  return code;
}

}  // namespace

std::span<const Family* const> families() {
  static const Family* const all[] = {
      &blas(),       &conv_s2d(),  &conv_c3(),   &conv_rows(), &conv_fprop(),   &conv_halo(),  &outer_product(),
      &conv_wgrad(), &conv_ffma(), &depthwise(), &pool_max(),  &pool_average(), &collective(), &reduce(),
      &gemm(),       &scan(),      &argsort(),   &turn(),      &map(),
  };
  return all;
}

std::shared_ptr<Implementers> take(const Plan& plan, const Kernel& kernel, const Chip& chip) {
  auto by = std::make_shared<Implementers>();
  for (const Family* family : families()) {
    if (!by->choices.empty() && (family->unit().empty() || family->unit() != by->choices[0].family->unit())) continue;
    auto match = family->match(plan, kernel, chip);
    if (const auto* refusal = std::get_if<Refusal>(&match)) {
      by->refused.push_back(fmt::format("{}: {}", family->name(), refusal->why));
    } else {
      by->choices.push_back(std::get<Choice>(std::move(match)));
      by->choices.back().family = family;
    }
  }
  sort_by_estimate(plan, by->choices, chip);
  return by;
}

void sort_by_estimate(const Plan& plan, std::vector<Choice>& choices, const Chip& chip) {
  if (choices.size() < 2) return;
  std::stable_sort(choices.begin(), choices.end(),
                   [&](const Choice& a, const Choice& b) { return fastest(plan, a, chip) < fastest(plan, b, chip); });
}

KernelCode generate(const Plan& plan, const Group& group, const Chip& chip, const std::string& algorithm) {
  const auto* by = dynamic_cast<const Implementers*>(group.implementation.get());
  check(by != nullptr, "cuda: \"", label_of(plan, group), "\" was not lowered for CUDA; call Backend::lower first");
  return generate(plan, *by, chip, algorithm, label_of(plan, group));
}

KernelCode generate(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::string& algorithm) {
  return generate(plan, *take(plan, kernel, chip), chip, algorithm, kernel.label);
}

Price price_of(const Plan& plan, const Group& group, const Chip& chip) {
  Price price;
  Work work;
  if (const auto* by = dynamic_cast<const Implementers*>(group.implementation.get())) {
    const Choice& choice = by->choices.front();
    const std::vector<Algorithm> algorithms = choice.family->algorithms(plan, choice, chip);
    price.program = choice.family->name();
    price.operation = choice.family->operation(plan, choice);
    if (!algorithms.empty()) price.program += " " + algorithms.front().name;
    work = choice.family->work(plan, choice, chip);
  }
  work.bytes = bytes_touched(plan, group), work.launches = 1;
  const bool runs =
      !std::ranges::all_of(group.members, [&](int k) { return stays_in_place(plan, plan.kernels[at(k)]); });
  if (runs) price.seconds = chip.seconds(work);
  return price;
}

std::string explain(const Plan& plan, const Group& group) {
  std::string text = fmt::format("\"{}\":", label_of(plan, group));
  const auto* by = dynamic_cast<const Implementers*>(group.implementation.get());
  if (!by) return text + " not lowered for CUDA";
  for (const std::string& refused : by->refused) text += " not " + refused + ";";
  text += " taken:";
  for (const Choice& choice : by->choices) text += fmt::format(" {}", choice.family->name());
  return text;
}

}  // namespace nixie::cuda
