// The text of the layers is YAML; here it becomes JSON.
#include "nixie/apps/benchmark/subjects/peer_request.h"

namespace nixie::benchmark {
namespace {

nlohmann::json json_of(const Tree& tree) {
  nlohmann::json json;
  switch (tree.kind) {
    case Tree::Kind::null:
      break;
    case Tree::Kind::scalar:
      json = tree.quoted ? nlohmann::json(tree.text) : nlohmann::json::parse(tree.text, nullptr, false);
      if (json.is_discarded()) json = tree.text;  // a word
      break;
    case Tree::Kind::list:
      json = nlohmann::json::array();
      for (const Tree& item : tree.items) json.push_back(json_of(item));
      break;
    case Tree::Kind::map:
      json = nlohmann::json::object();
      for (const Tree::Entry& entry : tree.entries) json[entry.key] = json_of(entry.value);
      break;
  }
  return json;
}

}  // namespace

nlohmann::json layers_json(const AnyModel& model) {
  return json_of(*parse_yaml("layers: " + model.layers().text(), model.kind()).find("layers"));
}

nlohmann::json peer_request(const Net& net, const std::string& precision, int batch) {
  std::vector<std::int64_t> input{1};
  input.insert(input.end(), net.sample.begin(), net.sample.end());
  return {{"net", net.name},
          {"kind", net.model.kind()},
          {"layers", layers_json(net.model)},
          {"parameters", Model(net.model, Shape(input)).parameters().count()},
          {"sample", net.sample.sizes()},
          {"classes", net.classes},
          {"precision", precision},
          {"batch", batch}};
}

}  // namespace nixie::benchmark
