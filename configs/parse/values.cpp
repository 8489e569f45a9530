// Reads layers, losses, optimizers and the like from YAML, each by its name in its registry.
#include "nixie/configs/parse/values.h"

namespace nixie {
namespace {

// What an initialiser's key may hold; `make` gives the Init.
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

/// Reads one of a list of types into the value that stands for any of them.
template <class List, class Any>
void read_any(const Tree& tree, Any& value, Problems& problems) {
  read_choice<List>(tree, problems, [&](const auto& chosen) { value = Any(chosen); });
}

}  // namespace

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
  if (const Tree* name = tree.find("name"); name && tree.entries.size() == 2) {
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

void read_value(const Tree& tree, Sequential& layers, Problems& problems) { read_value(tree, layers.layers, problems); }

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
    for_each_field<T>([&](const auto& field) {  // those that stand at their defaults
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(chosen.*field.member)>, Path>)
        if ((chosen.*field.member).is_relative())
          chosen.*field.member = resolved_path(chosen.*field.member, tree.place);
    });
    dataset = AnyDataset(chosen, tree.place);
  });
}

}  // namespace nixie
