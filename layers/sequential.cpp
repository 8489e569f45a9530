// How containers name, build and run their layers.
#include "nixie/layers/sequential.h"

namespace nixie {
namespace {

// A layer in its place: built there, and run with its path in front of errors.
struct Member {
  std::string name, kind;
  Forward forward;
  Shape out;

  Tensor operator()(const Tensor& x, Pass& pass) const {
    Scope scope(name, kind);
    const Tensor y = forward(x, pass);
    if (pass.observe) pass.observe(y);
    return y;
  }
};

Member build_member(const NamedLayer& layer, std::size_t index, const Shape& in, Parameters& parameters) {
  Member member{layer.name.value_or(std::to_string(index)), layer.layer.kind(), {}, {}};
  Scope scope(member.name, member.kind);
  Parameters inner = member.name.empty() ? parameters : parameters.scope(member.name);
  member.forward = layer.layer.build(in, inner);
  check(member.forward != nullptr, "its build returned no function");
  member.out = output_shape(member.forward, in);
  return member;
}

std::vector<Member> build_branches(const std::vector<NamedLayer>& branches, const Shape& in, Parameters& parameters) {
  check(!branches.empty(), "has no branches");
  std::vector<Member> members;
  for (const NamedLayer& branch : branches) members.push_back(build_member(branch, members.size(), in, parameters));
  return members;
}

}  // namespace

std::string field_text(const NamedLayer& layer) {
  return "{" + layer.layer.text() + (layer.name ? ", name: " + field_text(*layer.name) : "") + "}";
}

Sequential& Sequential::add(NamedLayer layer) {
  layers.push_back(std::move(layer));
  return *this;
}

Forward Sequential::build(const Shape& in, Parameters& parameters) const {
  std::vector<Member> members;
  for (const NamedLayer& layer : layers)
    members.push_back(build_member(layer, members.size(), members.empty() ? in : members.back().out, parameters));
  return [members](const Tensor& x, Pass& pass) {
    Tensor y = x;
    for (const Member& member : members) y = member(y, pass);
    return y;
  };
}

Forward ConcatBranches::build(const Shape& in, Parameters& parameters) const {
  return [members = build_branches(branches, in, parameters), axis = axis](const Tensor& x, Pass& pass) {
    std::vector<Tensor> parts;
    for (const Member& member : members) parts.push_back(member(x, pass));
    return concat(parts, axis);
  };
}

Forward SumBranches::build(const Shape& in, Parameters& parameters) const {
  const std::vector<Member> members = build_branches(branches, in, parameters);
  for (const Member& member : members)
    check(member.out == members[0].out, "branch ", member.name, " gives ", member.out, ", branch ", members[0].name,
          " gives ", members[0].out);
  return [members](const Tensor& x, Pass& pass) {
    Tensor total = members[0](x, pass);
    for (std::size_t i = 1; i < members.size(); ++i) total += members[i](x, pass);
    return total;
  };
}

}  // namespace nixie
