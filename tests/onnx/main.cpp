// onnx_nodes: computes ONNX's node tests by nixie's ops on the CPU. tests/onnx/nodes.py writes its input and compares
// its output.
//   onnx_nodes FOLDER     reads cases.json and cases.bin, writes results.json and results.bin
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/step.h"
#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {
namespace {

using nlohmann::json;

Array read_array(std::ifstream& data, const json& entry) {
  Array array(dtype_named(entry.at("dtype").get<std::string>()),
              Shape(entry.at("shape").get<std::vector<std::int64_t>>()));
  data.seekg(entry.at("offset").get<std::int64_t>());
  data.read(reinterpret_cast<char*>(array.bytes()), array.size_bytes());
  return array;
}

json write_array(std::ofstream& data, const Array& array) {
  json entry = {{"dtype", to_string(array.dtype())},
                {"shape", array.shape().sizes()},
                {"offset", static_cast<std::int64_t>(data.tellp())}};
  data.write(reinterpret_cast<const char*>(array.bytes()), array.size_bytes());
  return entry;
}

const Functions& functions() {
  static const Functions all = [] {
    Functions table;
    add_elementwise(table);
    add_shapes(table);
    add_indexing(table);
    add_reductions(table);
    add_products(table);
    add_normalisations(table);
    return table;
  }();
  return all;
}

// One after another, so that the values that shapes depend on are known.
std::map<std::string, Tensor> run_nodes(const json& test, std::ifstream& data, Backend& backend) {
  std::map<std::string, Tensor> values;
  for (const auto& [name, entry] : test.at("arrays").items()) values.emplace(name, read_array(data, entry));
  for (const json& json_node : test.at("nodes")) {
    const std::string op = json_node.at("op");
    const auto function = functions().find(op);
    if (function == functions().end()) throw Outside{"no op"};
    std::vector<std::optional<Tensor>> inputs;
    for (const std::string name : json_node.at("inputs"))
      inputs.push_back(name.empty() ? std::optional<Tensor>() : values.at(name));
    std::map<std::string, Array> tensors;
    for (const auto& [name, entry] : json_node.at("tensors").items()) tensors.emplace(name, read_array(data, entry));
    const std::vector<std::string> names = json_node.at("outputs");
    Results results = function->second(Node(json_node, std::move(inputs), std::move(tensors)));
    check(results.size() >= names.size(), op, " gives ", results.size(), " results, expected ", names.size());
    results.resize(names.size());
    const std::vector<Tensor> stored = evaluate(results, backend);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty()) values.insert_or_assign(names[i], stored[i]);
  }
  return values;
}

json run_case(const json& test, std::ifstream& data, std::ofstream& results, Backend& backend) {
  try {
    const std::map<std::string, Tensor> values = run_nodes(test, data, backend);
    json outputs = json::array();
    for (const std::string name : test.at("outputs")) outputs.push_back(write_array(results, values.at(name).array()));
    return {{"outputs", outputs}};
  } catch (const Outside& outside) {
    return {{"outside", outside.reason}};
  } catch (const std::exception& error) {  // nixie's, or of an attribute that is not there
    return {{"error", error.what()}};
  }
}

void run(const std::filesystem::path& folder) {
  const auto backend = make_cpu_backend(1);
  set_default_backend(backend);
  std::ifstream data(folder / "cases.bin", std::ios::binary);
  std::ofstream results(folder / "results.bin", std::ios::binary);
  json all = json::object();
  for (const json& test : json::parse(std::ifstream(folder / "cases.json")))
    all[test.at("name").get<std::string>()] = run_case(test, data, results, *backend);
  std::ofstream(folder / "results.json") << all;
}

}  // namespace
}  // namespace nixie::onnx_nodes

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", arguments[0]);
    return 2;
  }
  nixie::onnx_nodes::run(arguments[1]);
}
