// How containers name, build and run their layers, and how the layers of a list find each other.
#include "nixie/layers/sequential.h"

#include <algorithm>

namespace nixie {
namespace {

constexpr const char* kListInput = "input";

std::vector<std::size_t> layers_named(const std::vector<NamedLayer>& layers, const std::string& name) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (name_in_list(layers[i], i) == name) found.push_back(i);
  return found;
}

std::string known_names(const std::vector<NamedLayer>& layers, std::size_t before) {
  std::string known = kListInput;
  for (std::size_t i = 0; i < before; ++i)
    if (layers[i].name && !layers[i].name->empty()) known += ", " + *layers[i].name;
  return known;
}

/// The one layer before `index` that has the name, or -1 for the list's input.
int layer_named(const std::vector<NamedLayer>& layers, std::size_t index, const std::string& name) {
  const std::vector<std::size_t> all = layers_named(layers, name);
  const auto earlier = std::count_if(all.begin(), all.end(), [index](std::size_t i) { return i < index; });
  check(earlier <= 1, "reads ", field_text(name), ", which is the name of ", earlier,
        " layers before it; give them names of their own");
  if (earlier == 1) return static_cast<int>(all[0]);
  if (name == kListInput) return -1;
  check(all.empty() || all[0] == index, "reads ", field_text(name),
        ", which comes after it in the list; move that layer in front of this one");
  check(all.empty(), "reads itself; name a layer before it");
  fail(Fault::usage, "reads ", field_text(name),
       ", expected the name of a layer before it in the list: ", known_names(layers, index));
}

}  // namespace

std::string name_in_list(const NamedLayer& layer, std::size_t index) {
  return layer.name.value_or(std::to_string(index));
}

std::vector<std::vector<int>> layer_inputs(const std::vector<NamedLayer>& layers) {
  std::vector<std::vector<int>> inputs;
  std::vector<bool> is_read(layers.size(), false);
  const auto read = [&](int from) {
    if (from >= 0) is_read[static_cast<std::size_t>(from)] = true;
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Scope scope(name_in_list(layers[i], i), layers[i].layer.kind());
    std::vector<int>& reads = inputs.emplace_back();
    if (layers[i].input.empty()) reads.push_back(static_cast<int>(i) - 1);
    for (const std::string& name : layers[i].input) reads.push_back(layer_named(layers, i, name));
    std::ranges::for_each(reads, read);
    if (!layers[i].layer.shared().empty()) read(layer_named(layers, i, layers[i].layer.shared()));
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const Scope scope(name_in_list(layers[i], i), layers[i].layer.kind());
    check(is_read[i] || layers[i].layer.adds_loss(),
          "no layer reads its result; name it as an input of another layer, or remove it");
  }
  return inputs;
}

std::size_t shared_layer(const std::vector<NamedLayer>& layers, std::size_t index) {
  const Scope scope(name_in_list(layers[index], index), layers[index].layer.kind());
  const int found = layer_named(layers, index, layers[index].layer.shared());
  check(found >= 0, "shares the list's input, expected the name of a layer: ", known_names(layers, index));
  const auto at = static_cast<std::size_t>(found);
  return layers[at].layer.shared().empty() ? at : shared_layer(layers, at);
}

namespace {

// A layer in its place: built there, and run with its path in front of errors.
struct Member {
  std::string name, kind;
  Forward forward;
  Shape out;

  Tensor operator()(const Tensor& x, const Pass& pass) const {
    Scope scope(name, kind);
    const Tensor y = forward(x, pass);
    if (pass.observe) pass.observe(y);
    return y;
  }
};

Member build_member(const NamedLayer& layer, std::size_t index, const Shape& in, Parameters& parameters) {
  Member member{name_in_list(layer, index), layer.layer.kind(), {}, {}};
  Scope scope(member.name, member.kind);
  Parameters inner = member.name.empty() ? parameters : parameters.scope(member.name);
  member.forward = layer.layer.build(in, inner);
  check(member.forward != nullptr, "its build returned no function");
  member.out = output_shape(member.forward, in);
  return member;
}

// A layer of a list: what it reads, as layer_inputs gives it, and how it joins several values.
struct ListMember {
  Member member;
  std::vector<int> reads;
  AnyLayer::Join join;

  Tensor operator()(const std::vector<Tensor>& values, const Pass& pass) const {
    if (values.size() == 1) return member(values[0], pass);
    Scope scope(member.name, member.kind);
    const Tensor y = join(values);
    if (pass.observe) pass.observe(y);
    return y;
  }
};

ListMember join_member(const NamedLayer& layer, std::size_t index, const std::vector<Shape>& in) {
  ListMember each{{name_in_list(layer, index), layer.layer.kind(), {}, {}}, {}, layer.layer.join()};
  const Scope scope(each.member.name, each.member.kind);
  check(each.join != nullptr, "reads ", in.size(), " inputs, expected one; concat, sum and product join several");
  Trace trace;
  std::vector<Tensor> parts;
  for (const Shape& shape : in) parts.push_back(placeholder(shape));
  each.member.out = each.join(parts).shape();
  return each;
}

ListMember shared_member(const NamedLayer& layer, std::size_t index, const ListMember& original, const Shape& in) {
  ListMember each = original;
  each.member.name = name_in_list(layer, index);
  const Scope scope(each.member.name, each.member.kind);
  check(each.member.forward != nullptr, "the shared layer joins several inputs and has no parameters; write it again");
  each.member.out = output_shape(each.member.forward, in);
  return each;
}

std::vector<ListMember> build_list(const std::vector<NamedLayer>& layers, const Shape& in, Parameters& parameters) {
  const std::vector<std::vector<int>> inputs = layer_inputs(layers);
  std::vector<ListMember> members;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<Shape> shapes;
    for (const int from : inputs[i])
      shapes.push_back(from < 0 ? in : members[static_cast<std::size_t>(from)].member.out);
    if (shapes.size() > 1)
      members.push_back(join_member(layers[i], i, shapes));
    else if (!layers[i].layer.shared().empty())
      members.push_back(shared_member(layers[i], i, members[shared_layer(layers, i)], shapes[0]));
    else
      members.push_back({build_member(layers[i], i, shapes[0], parameters), {}, {}});
    members.back().reads = inputs[i];
  }
  return members;
}

std::vector<Member> build_branches(const std::vector<NamedLayer>& branches, const Shape& in, Parameters& parameters) {
  check(!branches.empty(), "has neither branches nor several inputs");
  std::vector<Member> members;
  for (const NamedLayer& branch : branches) {
    check(branch.input.empty() && branch.layer.shared().empty(), "branch ", name_in_list(branch, members.size()),
          " reads what its container reads; put layers that read each other in a sequential");
    members.push_back(build_member(branch, members.size(), in, parameters));
  }
  return members;
}

std::vector<Tensor> results_of(const std::vector<Member>& members, const Tensor& x, const Pass& pass) {
  std::vector<Tensor> results;
  for (const Member& member : members) results.push_back(member(x, pass));
  return results;
}

void check_no_branches(const std::vector<NamedLayer>& branches) {
  check(branches.empty(), "has branches and several inputs, expected one of the two");
}

}  // namespace

std::string field_text(const NamedLayer& layer) {
  const std::string name = layer.name ? ", name: " + field_text(*layer.name) : "";
  return "{" + layer.layer.text() + name + (layer.input.empty() ? "" : ", input: " + field_text(layer.input)) + "}";
}

Sequential& Sequential::add(NamedLayer layer) {
  layers.push_back(std::move(layer));
  return *this;
}

bool Sequential::adds_loss() const {
  return std::ranges::any_of(layers, [](const NamedLayer& layer) { return layer.layer.adds_loss(); });
}

Forward Sequential::build(const Shape& in, Parameters& parameters) const {
  return [members = build_list(layers, in, parameters)](const Tensor& x, const Pass& pass) {
    std::vector<Tensor> results;
    for (const ListMember& each : members) {
      std::vector<Tensor> values;
      for (const int from : each.reads) values.push_back(from < 0 ? x : results[static_cast<std::size_t>(from)]);
      results.push_back(each(values, pass));
    }
    return results.empty() ? x : results.back();
  };
}

Forward ConcatBranches::build(const Shape& in, Parameters& parameters) const {
  return [members = build_branches(branches, in, parameters), axis = axis](const Tensor& x, const Pass& pass) {
    return concat(results_of(members, x, pass), axis);
  };
}

Tensor ConcatBranches::join(const std::vector<Tensor>& parts) const {
  check_no_branches(branches);
  return concat(parts, axis);
}

Forward SumBranches::build(const Shape& in, Parameters& parameters) const {
  const std::vector<Member> members = build_branches(branches, in, parameters);
  for (const Member& member : members)
    check(member.out == members[0].out, "branch ", member.name, " gives ", member.out, ", branch ", members[0].name,
          " gives ", members[0].out);
  return [members](const Tensor& x, const Pass& pass) {
    Tensor total = members[0](x, pass);
    for (std::size_t i = 1; i < members.size(); ++i) total += members[i](x, pass);
    return total;
  };
}

Tensor SumBranches::join(const std::vector<Tensor>& parts) const {
  check_no_branches(branches);
  Tensor total = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    check(parts[i].shape() == parts[0].shape(), "input ", i, " is ", parts[i].shape(), ", input 0 is ",
          parts[0].shape());
    total += parts[i];
  }
  return total;
}

Forward ProductBranches::build(const Shape& in, Parameters& parameters) const {
  return [members = build_branches(branches, in, parameters)](const Tensor& x, const Pass& pass) {
    return ProductBranches{}.join(results_of(members, x, pass));
  };
}

Tensor ProductBranches::join(const std::vector<Tensor>& parts) const {
  check_no_branches(branches);
  Tensor product = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) product *= parts[i];
  return product;
}

Forward Shared::build(const Shape&, Parameters&) const {
  check(!layer.empty(), "layer is \"\", expected the name of an earlier layer of the list");
  fail(Fault::usage, "is outside a list of layers; only a list knows the layer ", field_text(layer));
}

}  // namespace nixie
