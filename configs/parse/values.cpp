// Reads layers, losses, optimizers and the like from YAML, each by its name in its registry.
#include "nixie/configs/parse/values.h"

#include <algorithm>

namespace nixie {
namespace {

// The fields of an initialiser; `make` gives the Init.
struct ConstantInit {
  float value = 0;
  static constexpr const char* name = "constant";
  static constexpr auto fields() { return field_list(field("value", &ConstantInit::value, "every element")); }
  Init make() const { return Init::constant(value); }
};
struct UniformInit {
  float low = -0.1f, high = 0.1f;
  static constexpr const char* name = "uniform";
  static constexpr auto fields() {
    return field_list(field("low", &UniformInit::low, "smallest value"),
                      field("high", &UniformInit::high, "bound of the values"));
  }
  Init make() const { return Init::uniform(low, high); }
};
struct NormalInit {
  float deviation = 0.01f, mean = 0;
  static constexpr const char* name = "normal";
  static constexpr auto fields() {
    return field_list(field("deviation", &NormalInit::deviation, "standard deviation", {0}),
                      field("mean", &NormalInit::mean, "mean"));
  }
  Init make() const { return Init::normal(deviation, mean); }
};
struct GlorotInit {
  float gain = 1;
  static constexpr const char* name = "glorot";
  static constexpr auto fields() { return field_list(field("gain", &GlorotInit::gain, "factor")); }
  Init make() const { return Init::glorot(gain); }
};
struct KaimingInit {
  float gain = Init::kaiming().a;
  static constexpr const char* name = "kaiming";
  static constexpr auto fields() { return field_list(field("gain", &KaimingInit::gain, "factor")); }
  Init make() const { return Init::kaiming(gain); }
};
struct OrthonormalInit {
  float scale = 1;
  static constexpr const char* name = "orthonormal";
  static constexpr auto fields() { return field_list(field("scale", &OrthonormalInit::scale, "factor")); }
  Init make() const { return Init::orthonormal(scale); }
};
using AllInits = Types<ConstantInit, UniformInit, NormalInit, GlorotInit, KaimingInit, OrthonormalInit>;

/// Reads one of a list of types into the value that holds any of them.
template <class List, class Any>
void read_any(const Tree& tree, Any& value, Problems& problems) {
  read_choice<List>(tree, problems, [&](const auto& chosen) { value = Any(chosen); });
}

/// The name of a layer that is read, or a list of them.
void read_inputs(const Tree& tree, std::vector<std::string>& input, Problems& problems) {
  Scope scope("input");
  if (tree.is_scalar())
    read_value(tree, input.emplace_back(), problems);
  else if (tree.is_list() && !tree.items.empty())
    read_value(tree, input, problems);
  else
    problems.add_unexpected(tree, "the name of a layer, or a list of names");
}

/// Names that no layer of the list has; those that come too late are found when the list is built.
void check_inputs(const Tree& tree, const std::vector<NamedLayer>& layers, Problems& problems) {
  std::vector<std::string> names = {"input"};
  for (const NamedLayer& layer : layers)
    if (layer.name && !layer.name->empty()) names.push_back(*layer.name);
  const auto check_name = [&](const Tree& place, std::size_t index, const std::string& name) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (name == name_in_list(layers[i], i)) return;
    const Scope scope(std::to_string(index));
    if (std::find(names.begin(), names.end(), name) == names.end())
      add_unknown(place.place, "input", name, names, problems);
  };
  for (std::size_t i = 0; i < layers.size() && i < tree.items.size(); ++i) {
    const Tree* input = tree.items[i].find("input");
    for (std::size_t k = 0; input && k < layers[i].input.size(); ++k)
      check_name(input->is_list() ? input->items[k] : *input, i, layers[i].input[k]);
    if (const std::string& shared = layers[i].layer.shared(); !shared.empty())
      check_name(tree.items[i].find(Shared::name) ? *tree.items[i].find(Shared::name) : tree.items[i], i, shared);
  }
}

}  // namespace

AnyDataset::AnyDataset() : AnyDataset(Glyphs{}) {}

Splits AnyDataset::open() const {
  Splits halves = at_place(place_, open_);
  check_halves(halves);
  return halves;
}

std::string field_text(const AnyDataset& dataset) { return "{" + dataset.text() + "}"; }

void read_value(const Tree& tree, Init& init, Problems& problems) {
  read_choice<AllInits>(tree, problems, [&](const auto& chosen) {
    try {
      init = chosen.make();
    } catch (const Error& error) {  // its fields do not go together
      problems.add(tree.place, error.what());
    }
  });
}

void read_value(const Tree& tree, NamedLayer& layer, Problems& problems) {
  Tree choice = tree;
  const Tree *name = tree.find("name"), *input = tree.find("input");
  const bool has_one_kind = tree.entries.size() == 1u + (name ? 1 : 0) + (input ? 1 : 0);
  if (input && has_one_kind) {
    read_inputs(*input, layer.input, problems);
    std::erase_if(choice.entries, [](const Tree::Entry& entry) { return entry.key == "input"; });
  }
  if (name && has_one_kind) {
    Scope scope("name");
    layer.name.emplace();
    read_value(*name, *layer.name, problems);
    constexpr std::size_t kMostShown = 100;
    if (const std::string fault = name_fault(*layer.name); !layer.name->empty() && !fault.empty())
      problems.add(name->place, Scope::path(), " is ", field_text(layer.name->substr(0, kMostShown)), ", ", fault);
    std::erase_if(choice.entries, [](const Tree::Entry& entry) { return entry.key == "name"; });
  }
  read_any<AllLayers>(choice, layer.layer, problems);
}

void read_value(const Tree& tree, Sequential& layers, Problems& problems) {
  read_value(tree, layers.layers, problems);
  check_inputs(tree, layers.layers, problems);
}

void read_value(const Tree& tree, AnyModel& model, Problems& problems) {
  if (!tree.is_list()) return read_any<AllModels>(tree, model, problems);
  Sequential layers;
  read_value(tree, layers, problems);
  model = AnyModel(layers);
}

void read_value(const Tree& tree, AnyLoss& loss, Problems& problems) { read_any<AllLosses>(tree, loss, problems); }
void read_value(const Tree& tree, AnyMetric& metric, Problems& problems) {
  read_any<AllMetrics>(tree, metric, problems);
}
void read_value(const Tree& tree, AnyOptimizer& rule, Problems& problems) {
  read_any<AllOptimizers>(tree, rule, problems);
}
void read_value(const Tree& tree, AnySchedule& schedule, Problems& problems) {
  read_any<AllSchedules>(tree, schedule, problems);
}
void read_value(const Tree& tree, AnyDataset& dataset, Problems& problems) {
  read_choice<AllDatasets>(tree, problems, [&]<class T>(T chosen) {
    for_each_field<T>([&](const auto& field) {  // those at their defaults
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(chosen.*field.member)>, Path>)
        if ((chosen.*field.member).is_relative())
          chosen.*field.member = resolved_path(chosen.*field.member, tree.place);
    });
    dataset = AnyDataset(chosen, tree.place);
  });
}

}  // namespace nixie
