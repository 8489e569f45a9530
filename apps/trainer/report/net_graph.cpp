// Each part of the net is drawn into a block of its own, which its container then moves to its place.
#include "nixie/apps/trainer/report/net_graph.h"

#include <algorithm>
#include <map>

#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/configs/parse/values.h"

namespace nixie {
namespace {

constexpr double kBoxWidth = 170, kBoxHeight = 34, kGap = 14;
constexpr std::size_t kMostLayers = 300;

/// A part of the picture; data enters and leaves it in the middle of its upper and lower edge.
struct Block {
  double width = 0, height = 0;
  std::string svg = {};
};

std::string moved(const Block& block, double x, double y) {
  return fmt::format("<g transform=\"translate({:.0f} {:.0f})\">{}</g>", x, y, block.svg);
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"grid\" x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\"/>", x1, y1, x2, y2);
}

Block box(const std::string& title, const std::string& shape, bool joins) {
  return {kBoxWidth, kBoxHeight,
          fmt::format(
              "<rect class=\"{}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"5\"/><text class=\"middle\" x=\"{:.0f}\" "
              "y=\"14\">{}</text><text class=\"middle small\" x=\"{:.0f}\" y=\"28\">{}</text>",
              joins ? "join" : "box", kBoxWidth, kBoxHeight, kBoxWidth / 2, html_text(title), kBoxWidth / 2, shape)};
}

/// The names of what a part reads, above it in place of a line from the part before it.
Block label(const std::string& text) {
  constexpr double kHeight = 14;
  return {kBoxWidth, kHeight,
          fmt::format("<text class=\"middle small\" x=\"{:.0f}\" y=\"11\">{}</text>", kBoxWidth / 2, html_text(text))};
}

/// A line joins each part to the one before it, but for those that do not follow it.
Block below_each_other(const std::vector<Block>& parts, const std::vector<bool>& follows = {}) {
  Block all;
  for (const Block& part : parts) all.width = std::max(all.width, part.width);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Block& part = parts[i];
    if (i > 0) {
      if (follows.empty() || follows[i]) all.svg += line(all.width / 2, all.height, all.width / 2, all.height + kGap);
      all.height += kGap;
    }
    all.svg += moved(part, (all.width - part.width) / 2, all.height);
    all.height += part.height;
  }
  return all;
}

/// Lines fan out from the middle above and come together in the middle below.
Block beside_each_other(const std::vector<Block>& parts) {
  Block all;
  double tallest = 0;
  for (const Block& part : parts) {
    all.width += part.width + (all.width > 0 ? kGap : 0);
    tallest = std::max(tallest, part.height);
  }
  all.height = tallest + 2 * kGap;
  double left = 0;
  for (const Block& part : parts) {
    const double middle = left + part.width / 2;
    all.svg += line(all.width / 2, 0, middle, kGap) + moved(part, left, kGap) +
               line(middle, kGap + part.height, middle, kGap + tallest) +
               line(middle, kGap + tallest, all.width / 2, all.height);
    left += part.width + kGap;
  }
  return all;
}

class Drawing {
 public:
  Drawing(const AnyModel& model, const Shape& input) {
    for (const LayerRow& row : layer_rows(model, input)) rows_[row.name] = row;
  }
  std::size_t size() const { return rows_.size(); }

  Block layers(const Tree& list, const std::string& path) const {
    std::vector<Block> parts;
    std::vector<bool> follows;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const Block block = layer(list.items[i], i, path);
      const Tree* input = list.items[i].find("input");
      parts.push_back(input ? below_each_other({label("reads " + names(*input)), block}) : block);
      follows.push_back(!input);
    }
    return below_each_other(parts, follows);
  }

 private:
  static std::string names(const Tree& input) {
    std::string all = input.text;
    for (const Tree& item : input.items) all += (all.empty() ? "" : ", ") + item.text;
    return all;
  }

  Block layer(const Tree& tree, std::size_t index, const std::string& path) const {
    const Tree* given = tree.find("name");
    const std::string own = given ? given->text : std::to_string(index);
    const std::string name = path.empty() || own.empty() ? path + own : path + "." + own;
    const Tree::Entry& kind = tree.entries.front();
    if (kind.key == Sequential::name) return layers(kind.value, name);
    const auto row = rows_.find(name);
    const std::string shape = row == rows_.end() ? "" : row->second.shape;
    const Tree* branches = kind.value.find("branches");
    if (!branches || branches->items.empty()) return box(fmt::format("{} {}", name, kind.key), shape, false);
    std::vector<Block> parts;
    for (std::size_t i = 0; i < branches->items.size(); ++i) parts.push_back(layer(branches->items[i], i, name));
    return below_each_other({beside_each_other(parts), box(kind.key, shape, true)});
  }

  std::map<std::string, LayerRow> rows_;
};

}  // namespace

std::string net_graph(const AnyModel& model, const Shape& input) {
  const Drawing drawing(model, input);
  if (drawing.size() > kMostLayers) return {};
  const Tree tree = parse_yaml("model: " + model.layers().text(), "model");
  const Block net = drawing.layers(*tree.find("model"), "");
  return fmt::format(
      "<div class=\"wide\"><svg class=\"net\" role=\"img\" aria-label=\"the net, whose layers the table lists\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\">{2}</svg></div>\n",
      net.width + 2, net.height + 2, moved(net, 1, 1));
}

}  // namespace nixie
