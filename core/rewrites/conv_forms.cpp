// Lists the forms of a convolution, prices them, and rewrites a graph by the cheapest.
#include "nixie/core/rewrites/conv_forms.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "nixie/core/ops/ops.h"
#include "nixie/core/passes/fuse.h"
#include "nixie/core/passes/layout.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/rewrites/fold.h"
#include "nixie/core/rewrites/over_taps.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

// A value, as it is or as the image of a fold.
struct Folded {
  Tensor value = {};
  const Fold* fold = nullptr;
  Tensor unfolded(const Shape& shape) const { return fold ? nixie::unfolded(*fold, value, shape) : value; }
};

constexpr std::int64_t kFewFilters = 4;

// Whether a convolution of images is of few filters of one pixel, whose sums wait for memory whoever computes them.
bool has_few_filters(const Tensor& x) {
  const auto* conv = op_as<Conv>(x);
  if (!conv || conv->role != ConvRole::output || conv->groups != 1 || !is_floating(x.dtype())) return false;
  const Shape &images = x.inputs()[0].shape(), &filters = x.inputs()[1].shape();
  return filters[0] <= kFewFilters && filters == Shape{filters[0], images[1], 1, 1} &&
         x.shape() == images.with(1, filters[0]);
}

// For each filter the sum over channels, in f32 at least, and these side by side behind the pixels.
Tensor sums_of_channels(const Tensor& images, const Tensor& filters, Dtype dtype) {
  const Dtype computed = dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  const Tensor pixels = retype(permute(images, {0, 2, 3, 1}), computed);
  std::vector<Tensor> sums;
  for (std::int64_t k = 0; k < filters.shape()[0]; ++k) {
    const Tensor filter = reshape(slice(filters, {Index::range(k, k + 1)}), {1, 1, 1, filters.shape()[1]});
    sums.push_back(retype(sum(pixels * retype(broadcast_to(filter, pixels.shape()), computed), {3}, true), dtype));
  }
  return permute(concat(sums, 3), {0, 3, 1, 2});
}

class ConvForms {
 public:
  ConvForms(const Target& target, std::int64_t most_bytes) : target_(target), most_bytes_(most_bytes) {}

  Graph operator()(const Graph& graph) {
    const std::vector<Tensor> order = topological(graph);
    if (std::ranges::none_of(order, wants_form)) return graph;
    for (const Tensor& x : order)
      if (const std::optional<Way> way = wants_form(x) ? cheapest(x) : of_inputs(x)) ways_.emplace(x.id(), *way);
    if (ways_.empty()) return graph;
    follow_readers(graph, order);
    for (const Tensor& x : order) rebuild(x);
    return simplify(with_roots(graph, [this](const Tensor& root) { return in(nullptr, root); }));
  }

 private:
  // How a node is computed: as an image of a fold, or as an array. A convolution over taps reads arrays, and so do
  // sums.
  struct Way {
    const Fold* fold = nullptr;
    bool over_taps = false, as_sums = false;
    const Fold* of_inputs() const { return over_taps ? nullptr : fold; }
  };

  // Convolutions and poolings of other than two spatial axes, and convolutions of few filters.
  static bool wants_form(const Tensor& x) {
    const bool slides = is_a<Conv, Pool>(x);
    const auto has_elements = [](const Tensor& y) { return y.shape().size() > 0; };
    return slides && (x.rank() != 4 || has_few_filters(x)) && has_elements(x) &&
           std::ranges::all_of(x.inputs(), has_elements);
  }

  // The fold of the newest value that a node reads, if its op can be computed on images: a gradient's, where it meets a
  // value that the forward pass stored.
  std::optional<Way> of_inputs(const Tensor& x) const {
    const Fold* fold = nullptr;
    std::int64_t newest = -1;
    for (const Tensor& input : x.inputs()) {
      const auto known = ways_.find(input.id());
      if (known == ways_.end() || input.rank() != x.rank() || input.node().number <= newest) continue;
      newest = input.node().number, fold = known->second.fold;
    }
    return fold && folded_op(*fold, x) ? std::optional(Way{fold}) : std::nullopt;
  }

  // Whether x is computed as an image where its readers are. Random numbers that cannot be drawn as an image stay an
  // array, and so does a mask that is made of them.
  static bool follows(const Fold& fold, const Tensor& x) {
    const auto is_drawn = [&](const Tensor& y) { return is_a<Random>(y) && !folded_op(fold, y); };
    return (role_of(x.node().op) == OpRole::elementwise || is_a<Expand>(x)) && folded_op(fold, x) &&
           std::ranges::none_of(x.inputs(), is_drawn);
  }

  // Elementwise work whose readers all are images of one fold is as well.
  void follow_readers(const Graph& graph, const std::vector<Tensor>& order) {
    std::unordered_map<const Node*, const Fold*> wanted;  // null: as an array, or by several
    for (const Tensor& output : graph.outputs) wanted[output.id()] = nullptr;
    for (const Trace::Set& set : graph.sets) wanted[set.value.id()] = nullptr;
    for (auto x = order.rbegin(); x != order.rend(); ++x) {
      const auto by = wanted.find(x->id());
      if (by != wanted.end() && by->second && follows(*by->second, *x)) ways_.try_emplace(x->id(), Way{by->second});
      const auto own = ways_.find(x->id());
      const Fold* fold = own == ways_.end() ? nullptr : own->second.of_inputs();
      for (const Tensor& input : x->inputs()) {
        const auto [known, fresh] = wanted.try_emplace(input.id(), fold);
        if (!fresh && known->second != fold) known->second = nullptr;
      }
    }
  }

  void rebuild(const Tensor& x) {
    if (const auto way = ways_.find(x.id()); way != ways_.end()) {
      made_.emplace(x.id(), form_of(x, way->second, [this](const Fold* fold, const Tensor& y) { return in(fold, y); }));
    } else {
      std::vector<Tensor> inputs;
      for (const Tensor& input : x.inputs()) inputs.push_back(in(nullptr, input));
      made_.emplace(x.id(), Folded{with_inputs(x, std::move(inputs))});
    }
  }

  // A value as an image, or as it is.
  Tensor in(const Fold* fold, const Tensor& x) {
    const Folded& made = made_.at(x.id());
    if (made.fold == fold) return made.value;
    if (is_a<Constant>(x)) return x.rank() < 3 ? x : Tensor::make(x.node().op, {}, folded(*fold, x.shape()), x.dtype());
    const auto [plain, fresh] = unfolded_.try_emplace(x.id());
    if (fresh) plain->second = made.unfolded(x.shape());
    return fold ? folded(*fold, plain->second) : plain->second;
  }

  static std::vector<Way> ways_of(const Tensor& x) {
    if (x.rank() == 4) return {{.as_sums = true}};
    std::vector<Way> ways;
    for (const Fold* fold : {&kRows, &kPlanes, &kColumns})
      if (folded_op(*fold, x)) ways.push_back({fold});
    const auto* conv = op_as<Conv>(x);
    if (conv && x.rank() == 5 && !folded_op(kPlanes, x) && can_go_over_taps(x))
      ways.push_back({.fold = conv->role == ConvRole::filter_grad ? nullptr : &kPlanes, .over_taps = true});
    return ways;
  }

  // `input` gives an operand as the image of a fold, or as it is.
  template <class GetInput>
  Folded form_of(const Tensor& x, Way way, const GetInput& input) const {
    std::vector<Tensor> inputs;
    for (const Tensor& y : x.inputs()) inputs.push_back(input(way.of_inputs(), y));
    if (way.as_sums) return {sums_of_channels(inputs[0], inputs[1], x.dtype())};
    if (!way.over_taps)
      return {Tensor::make(*folded_op(*way.fold, x), std::move(inputs), folded(*way.fold, x.shape()), x.dtype()),
              way.fold};
    return {over_taps(Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype()), most_bytes_), way.fold};
  }

  // None where x stays as it is.
  std::optional<Way> cheapest(const Tensor& x) {
    if (folded_op(kRows, x)) return Way{&kRows};  // no program is faster for fewer axes
    std::vector<Tensor> leaves;
    for (const Tensor& input : x.inputs())
      leaves.push_back(Tensor::make(Input{.name = std::to_string(leaves.size()), .has_variable_layout = true}, {},
                                    input.shape(), input.dtype()));
    const Tensor alone = Tensor::make(x.node().op, std::move(leaves), x.shape(), x.dtype());
    const auto [known, fresh] = cheapest_.try_emplace(signature({.outputs = {alone}}));
    if (!fresh) return known->second;
    double least = seconds_of({alone}, x.shape());
    for (const Way way : ways_of(x)) {
      const Folded form =
          form_of(alone, way, [](const Fold* fold, const Tensor& y) { return fold ? folded(*fold, y) : y; });
      const double seconds = seconds_of(form, x.shape());
      if (seconds < least || (!way.over_taps && seconds == least)) least = seconds, known->second = way;
    }
    return known->second;
  }

  // Stored where images and filters are stored in a target's layout.
  double seconds_of(const Folded& form, const Shape& shape) const {
    const auto result = std::make_shared<VariableState>();
    result->name = "result", result->shape = shape, result->dtype = form.value.dtype();
    const Graph graph = simplify({.sets = {{result, form.unfolded(shape)}}});
    return target_.seconds(fuse(graph, choose_layout(graph, target_)));
  }

  const Target& target_;
  const std::int64_t most_bytes_;
  std::map<std::string, std::optional<Way>> cheapest_;
  std::unordered_map<const Node*, Way> ways_;
  std::unordered_map<const Node*, Folded> made_;
  std::unordered_map<const Node*, Tensor> unfolded_;
};

}  // namespace

Graph choose_conv_forms(const Graph& graph, const Target& target, std::int64_t most_bytes) {
  return target.seconds ? ConvForms(target, most_bytes)(graph) : graph;
}

}  // namespace nixie
