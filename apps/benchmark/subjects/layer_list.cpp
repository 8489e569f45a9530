// Reads a list of layers line by line.

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/sweep_layers.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

using Sizes = SweepLayer::Sizes;

constexpr ConvRole kRoles[] = {ConvRole::output, ConvRole::input_grad, ConvRole::filter_grad};

// `32x64x56`; nothing for other text.
std::optional<Sizes> sizes_in(const std::string& text) {
  Sizes sizes;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, 'x');) {
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc() || end != part.data() + part.size() || size < 0 || size > (1 << 30)) return {};
    sizes.push_back(size);
  }
  return sizes.empty() || text.back() == 'x' ? std::nullopt : std::optional(sizes);
}

// One line's layer. Errors say what was found; the reader adds the line.
class LayerText {
 public:
  explicit LayerText(const std::string& text) : text_(text) {
    std::istringstream words(text);
    std::string first, second;
    words >> first >> word_ >> second;
    if (!second.empty() && second.back() == ',') second.pop_back(), has_options_ = true;
    first_ = sizes(first), second_ = sizes(second);
    check(std::ranges::count(first_, 0) + std::ranges::count(second_, 0) == 0, "\"", text, "\" has a size of zero");
    check(word_ == "to" || word_ == "by", "\"", text, "\" has neither \"SIZES to FILTERS\" nor \"SIZES by SIZES\"");
    std::getline(words, options_, '\0');
    check(has_options_ || options_.find_first_not_of(" \t") == std::string::npos, "\"", text,
          "\" has no comma before \"", options_, "\"");
  }

  bool is_product() const { return word_ == "by"; }
  bool is_linear() const { return !is_product() && first_.size() == 2; }

  Tensor product() const {
    check(!has_options_, "a product has no options");
    return matmul(operand(first_), operand(second_));
  }

  Tensor linear(ConvRole role) const {
    check(!has_options_ && second_.size() == 1, "a linear layer is \"ROWSxUNITS to UNITS\"");
    const std::int64_t out = second_[0];
    const Tensor x = operand(first_), w = operand({out, first_[1]}), y = operand({first_[0], out});
    switch (role) {
      case ConvRole::output:
        return matmul(x, w, {.trans_b = true});
      case ConvRole::input_grad:
        return matmul(y, w);
      case ConvRole::filter_grad:
        break;
    }
    return matmul(y, x, {.trans_a = true});
  }

  SweepLayer convolution(ConvRole role) const {
    check(first_.size() >= 3 && first_.size() <= 5 && second_.size() == 1,
          "a convolution is \"IMAGESxCHANNELSxHEIGHTxWIDTH to FILTERS\", with one to three spatial axes");
    const std::size_t axes = first_.size() - 2;
    SweepLayer layer{.batch = first_[0], .channels = first_[1], .out = second_[0], .role = role};
    layer.image.assign(first_.begin() + 2, first_.end());
    for (Sizes* each : {&layer.window, &layer.stride, &layer.dilation}) each->assign(axes, 1);
    layer.pad.assign(axes, 0);
    Sizes groups{1};
    const std::pair<std::string, Sizes*> names[] = {{"window", &layer.window},
                                                    {"stride", &layer.stride},
                                                    {"pad", &layer.pad},
                                                    {"dilation", &layer.dilation},
                                                    {"groups", &groups}};
    std::istringstream options(options_);
    for (std::string option; std::getline(options, option, ',');) {
      std::istringstream words(option);
      std::string name, value, more;
      words >> name >> value >> more;
      const auto found = std::ranges::find(names, name, [](const auto& each) { return each.first; });
      check(found != std::end(names) && more.empty(), "\"", option,
            "\" is no option of a layer: window, stride, pad, dilation, groups");
      const Sizes given = sizes(value);
      check(given.size() == 1 || given.size() == found->second->size(), "\"", option, "\" has ", given.size(),
            " numbers for ", found->second->size());
      check(name == "pad" || std::ranges::all_of(given, [](std::int64_t size) { return size > 0; }), "\"", option,
            "\" has a zero");
      std::fill(found->second->begin(), found->second->end(), given[0]);
      if (given.size() > 1) *found->second = given;
    }
    layer.groups = groups[0];
    const bool fits = std::ranges::all_of(layer.result(), [](std::int64_t size) { return size > 0; });
    check(layer.groups > 0 && layer.channels % layer.groups == 0 && layer.out % layer.groups == 0, layer.groups,
          " groups do not divide ", layer.channels, " channels and ", layer.out, " filters");
    check(fits, "the window does not fit into the image");
    return layer;
  }

 private:
  Sizes sizes(const std::string& text) const {
    const auto found = sizes_in(text);
    check(found.has_value(), "\"", text, "\" in \"", text_, "\" is not sizes such as 32x64x56x56");
    return *found;
  }
  static Tensor operand(const Sizes& sizes) {
    return Tensor::make(Input{.name = "operand"}, {}, Shape(sizes), Dtype::f32);
  }

  std::string text_, word_, options_;
  Sizes first_, second_;
  bool has_options_ = false;
};

std::string kind_of(const SweepLayer& layer) {
  if (layer.groups > 1) return layer.kind();
  return std::ranges::all_of(layer.window, [](std::int64_t size) { return size == 1; }) ? "1x1" : "window";
}

void add_line(const std::string& line, std::vector<ListedLayer>& layers) {
  std::istringstream fields(line);
  ListedLayer row;
  std::string count, layer;
  fields >> row.source >> count >> row.role >> std::ws;
  std::getline(fields, layer);
  layer.erase(layer.find_last_not_of(" \t\r") + 1);
  check(!layer.empty(), "\"", line, "\" is not SOURCE COUNT ROLE LAYER");
  const auto counted = sizes_in(count);
  check(counted && counted->size() == 1 && (*counted)[0] > 0, "the count \"", count, "\" is no positive number");
  row.count = (*counted)[0];
  row.layer = layer;
  const LayerText text(layer);
  check(text.is_product() == (row.role == "product"), "\"", layer, "\" under the role ", row.role,
        "; products are SIZES by SIZES, layers SIZES to FILTERS");
  if (text.is_product()) {
    row.kind = "product", row.node = text.product();
    layers.push_back(row);
    return;
  }
  const std::string asked = row.role;
  bool is_known = false;
  for (const ConvRole role : kRoles) {
    row.role = role_name(role);
    if (asked != "all" && asked != row.role) continue;
    is_known = true;
    if (text.is_linear()) {
      row.kind = "linear", row.node = text.linear(role);
    } else {
      const SweepLayer convolution = text.convolution(role);
      row.kind = kind_of(convolution), row.node = convolution.node();
    }
    layers.push_back(row);
  }
  check(is_known, "\"", asked, "\" is no role: output, input_grad, filter_grad, all or product");
}

}  // namespace

std::vector<ListedLayer> read_layer_list(const std::filesystem::path& file) {
  std::ifstream in = open_to_read(file, Fault::storage, "name a list of layers (docs/benchmarks.md)");
  std::vector<ListedLayer> layers;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      add_line(line, layers);
    } catch (const Error& error) {
      fail(Fault::usage, file.string(), ":", number, ": ", error.what());
    }
  }
  if (layers.empty()) fail(Fault::usage, file.string(), ": there is no layer in it");
  return layers;
}

}  // namespace nixie::benchmark
