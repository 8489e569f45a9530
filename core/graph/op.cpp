// The role of each op in a kernel, and the names of kinds.
#include "nixie/core/graph/op.h"

namespace nixie {

OpRole role_of(const Op& op) {
  return std::visit(overloaded{
                        []<OneOf<Constant, Input> T>(const T&) { return OpRole::leaf; },
                        []<OneOf<Map, Coordinate, Random> T>(const T&) { return OpRole::elementwise; },
                        [](const Reduce&) { return OpRole::reduction; },
                        []<OneOf<Expand, Reshape, Permute, Slice, Pad> T>(const T&) { return OpRole::view; },
                        [](const Concat&) { return OpRole::concat; },
                        []<OneOf<Gather, Scatter, ArgSort, Scan, Matmul, Conv, RoundedProduct, Pool, Collective> T>(
                            const T&) { return OpRole::head; },
                    },
                    op);
}

std::string_view to_string(ReduceKind kind) {
  constexpr std::string_view names[] = {"sum", "prod", "max", "min", "argmax", "argmin", "mean", "m2"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_string(CollectiveKind kind) {
  constexpr std::string_view names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace nixie
