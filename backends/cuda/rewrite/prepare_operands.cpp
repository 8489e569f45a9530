// Copies operands to the layouts that the chosen families read.
#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/families/conv/image_map.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/split_fp32_to_fp16.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

class Preparation {
 public:
  explicit Preparation(Grouping& grouping) : grouping_(grouping), plan_(grouping.plan), splitter_(grouping) {}

  void operator()() {
    std::vector<Grouping::Group> groups = std::move(grouping_.groups);
    for (Grouping::Group& group : groups) {
      Kernel& kernel = group.members.front();
      if (group.by) {
        const auto* conv = std::any_cast<ConvProblem>(&group.by->choices.front().sizes);
        if (conv && conv->planes > 0)
          split_operands(group, *conv);
        else if (conv)
          copy_operands(group, *conv);
        else if (product_in<Conv>(kernel.head->op))
          copy_filter(group);
        else if (std::holds_alternative<Matmul>(kernel.head->op) && portable(group))
          split_product(group);
      }
      const bool alone = group.by && group.by->choices.front().alone;
      if (alone && !only_stores(plan_, kernel)) {
        auto [head, rest] = split_head(plan_, kernel, kernel.domain.channels_last(), "conv_filter_grad");
        kernel = std::move(head);
        runs(group, kernel);
        grouping_.groups.push_back(std::move(group));
        grouping_.groups.push_back({.members = {std::move(rest)}});
      } else {
        grouping_.groups.push_back(std::move(group));
      }
      for (const Kernel& member : grouping_.groups.back().members) forget_copies_of_what_is_written(member);
    }
  }

 private:
  struct Copy {
    Operand original;
    Dtype dtype;
    Operand made;
  };

  // All choices of a group run this kernel.
  static void runs(Grouping::Group& group, const Kernel& kernel) {
    for (Choice& choice : group.by->choices) choice.kernel = kernel;
  }
  static bool portable(const Grouping::Group& group) { return group.by->choices.front().family->name() == "gemm"; }
  void add(Kernel kernel) { grouping_.groups.push_back({.members = {std::move(kernel)}}); }

  // One plane is an ordinary convolution or product of halves, which any backend runs; two of them, or rows, are not.
  void split_operands(Grouping::Group& group, const ConvProblem& conv) {
    std::vector<Kernel> added;
    const auto [planes, inverses] = splitter_.split(group.members[0], conv, added);
    for (Kernel& kernel : added) add(std::move(kernel));
    Kernel kernel = group.members[0];
    kernel.head->operands = {planes[0].high, planes[1].high};
    if (conv.by_rows) {
      auto& op = std::get<Conv>(kernel.head->op);
      op.stride[1] = 1, op.pad[1] = 0;
    }
    scale_head(kernel, inverses);
    runs(group, kernel);
    for (Choice& choice : group.by->choices)
      if (planes[0].low) choice.low_planes = {*planes[0].low, *planes[1].low};
    if (conv.planes == 1 && !conv.by_rows) group.members[0] = kernel;
  }

  void copy_operands(Grouping::Group& group, const ConvProblem& conv) {
    Kernel& kernel = group.members[0];
    const std::vector<OperandLayout>& layouts = group.by->choices.front().layouts;
    for (std::size_t i = 0; i < layouts.size(); ++i)
      if (layouts[i] == OperandLayout::terms_inside)
        copy_terms_inside(kernel.head->operands[i], i == 0 ? 1 : 0);
      else if (layouts[i] != OperandLayout::as_it_is)
        copy_operand(kernel.head->operands[i], conv.dtype, layouts[i] == OperandLayout::pieces);
    runs(group, kernel);
  }

  void copy_operand(Operand& operand, Dtype dtype, bool in_pieces) {
    const auto is_ready = [&] {
      return dtype_of(plan_, operand) == dtype &&
             (is_channels_last(operand.shape, operand.strides, operand.offset) || (in_pieces && is_in_pieces(operand)));
    };
    if (is_ready()) return;
    // A mere conversion of another slot: copy from that slot.
    if (const auto map = before_map(plan_.kernels, operand); map && map->body.empty()) operand = map->view;
    if (!is_ready()) copy(operand, operand.shape.channels_last(), dtype, "operand, channels last");
  }

  // A matrix whose terms, along this axis, are neighbours.
  void copy_terms_inside(Operand& operand, int axis) {
    Strides strides(2, operand.shape[axis]);
    strides[at(axis)] = 1;
    if (operand.strides != strides) copy(operand, strides, dtype_of(plan_, operand), "operand, terms inside");
  }

  // Copies are shared by the kernels that read them until the original is written again.
  void copy(Operand& operand, const Strides& strides, Dtype dtype, const char* label) {
    const Operand original = operand;
    const auto known = std::ranges::find_if(copies_, [&](const Copy& copy) {
      return copy.original == original && copy.dtype == dtype && copy.made.strides == strides;
    });
    if (known != copies_.end()) {
      operand = known->made;
    } else {
      add(pack(plan_, operand, strides, dtype, label));
      copies_.push_back({original, dtype, operand});
    }
  }

  // Where a portable convolution reads channels-last images, it wants the channels of its filter innermost, too; a
  // Variable's are not. The copy is small, and it waits for nothing but the last update.
  void copy_filter(Grouping::Group& group) {
    Kernel& kernel = group.members[0];
    if (product_in<Conv>(kernel.head->op)->role == ConvRole::filter_grad) return;
    const Operand& images = kernel.head->operands[0];
    Operand& filter = kernel.head->operands[1];
    const Shape shape = filter.shape;
    if (images.strides[1] != 1 || filter.strides[1] == 1 || shape[1] == 1 || shape.size() == shape[0] * shape[1])
      return;
    add(pack(plan_, filter, shape.channels_last(), dtype_of(plan_, filter), "filter, channels last"));
    runs(group, kernel);
  }

  // A product for the library, and a kernel for the work on its result, where the library does the product alone.
  void split_product(Grouping::Group& group) {
    Kernel& kernel = group.members[0];
    auto [alone, rest] = split_head(plan_, kernel, kernel.domain.row_major(), "matmul");
    auto by = take(plan_, alone, grouping_.chip);
    if (by->choices.front().family->name() != "cuBLASLt") {
      plan_.slots.pop_back();
      return;
    }
    grouping_.groups.push_back({.members = {std::move(alone)}, .by = std::move(by)});
    group.by = nullptr;
    kernel = std::move(rest);
  }

  void forget_copies_of_what_is_written(const Kernel& kernel) {
    std::erase_if(copies_, [&](const Copy& copy) { return writes(kernel, copy.original.slot); });
    splitter_.forget_copies_of_what_is_written(kernel);
  }

  Grouping& grouping_;
  Plan& plan_;
  Splitter splitter_;
  std::vector<Copy> copies_;
};

}  // namespace

void prepare_operands(Grouping& grouping) { Preparation{grouping}(); }

}  // namespace nixie::cuda
