// Hand-made plans with heads: convolutions, matrix products, pooling, gather, scatter, sorting and scans.
#pragma once

#include "nixie/tests/backends/cuda/plans.h"

namespace nixie::cuda_plans {

/// A head alone or with a bias and a ReLU after it, results and operands dense in the given axis orders.
inline Draft headed(std::string name, decltype(Head::op) op, Dtype dtype, const std::vector<Shape>& shapes,
                    const Shape& domain, bool channels_last = false, bool epilogue = true) {
  Draft d(std::move(name));
  const auto order = [&](int slot) {
    Slot& s = d.plan.slots[at(slot)];
    const int rank = s.shape.rank();
    std::int64_t stride = s.shape[1];
    s.strides[1] = 1;
    for (int axis = rank - 1; axis > 1; stride *= s.shape[axis--]) s.strides[at(axis)] = stride;
    s.strides[0] = stride;
  };
  Kernel k{.label = d.name, .domain = domain};
  k.head = Head{.op = std::move(op), .operands = {}, .dtype = dtype};
  const auto* pool = std::get_if<Pool>(&k.head->op);
  const bool gathers = std::holds_alternative<Gather>(k.head->op) || std::holds_alternative<Scatter>(k.head->op);
  if (pool && pool->role == PoolRole::index) k.head->dtype = Dtype::u8;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Dtype type = i == 1 && pool ? Dtype::u8 : i == 1 && gathers ? Dtype::i32 : dtype;
    const int slot = d.slot(type, shapes[i]);
    if (channels_last && !(i == 1 && std::holds_alternative<Conv>(k.head->op))) order(slot);
    k.head->operands.push_back({slot, 0, shapes[i], d.plan.slots[at(slot)].strides});
  }
  const Dtype type = compute_dtype(k.head->dtype);
  const int y = d.output(k.head->dtype, domain);
  if (channels_last) order(y);
  k.stores = {d.dense(y)};
  Stage stage{.body = {head(type)}, .stores = {{0, 0}}};
  if (epilogue) {
    const int bias = d.slot(dtype, Shape{1, domain[1]});
    Strides strides(static_cast<std::size_t>(domain.rank()), 0);
    strides[1] = domain[1] == 1 ? 0 : 1;
    k.loads = {{bias, 0, strides, {}, 0}};
    stage.body = {head(type), load(0, type), apply(Primitive::add, {0, 1}, type), number(0, type),
                  apply(Primitive::max, {2, 3}, type)};
    stage.stores = {{4, 0}};
  }
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// The shape of a convolution's results.
inline Shape results_of(const Conv& conv, const Shape& x, const Shape& w) {
  std::vector<std::int64_t> sizes{x[0], w[0]};
  for (std::size_t i = 0; i < conv.stride.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    sizes.push_back((x[axis] + 2 * conv.pad[i] - conv.dilation[i] * (w[axis] - 1) - 1) / conv.stride[i] + 1);
  }
  return Shape(sizes);
}

/// The three roles of a convolution of x with w.
inline std::vector<Draft> convolutions(Dtype dtype, const Shape& x, const Shape& w, const Conv& conv,
                                       bool channels_last) {
  const Shape y = results_of(conv, x, w);
  Conv input_grad = conv, filter_grad = conv;
  input_grad.role = ConvRole::input_grad;
  filter_grad.role = ConvRole::filter_grad;
  return {headed("conv", conv, dtype, {x, w}, y, channels_last),
          headed("conv_input_grad", input_grad, dtype, {y, w}, x, channels_last),
          headed("conv_filter_grad", filter_grad, dtype, {y, x}, w, false, false)};
}

inline std::vector<Draft> all_convolutions(Dtype dtype) {
  std::vector<Draft> all;
  const auto add = [&](const Shape& x, const Shape& w, const Conv& conv) {
    for (bool channels_last : {false, true})
      for (Draft& draft : convolutions(dtype, x, w, conv, channels_last)) all.push_back(std::move(draft));
  };
  add({2, 3, 9, 9}, {5, 3, 3, 3}, {.stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}});
  add({2, 4, 11, 10}, {6, 2, 3, 2}, {.stride = {2, 3}, .pad = {2, 0}, .dilation = {1, 2}, .groups = 2});
  add({3, 2, 17}, {4, 2, 5}, {.stride = {2}, .pad = {3}, .dilation = {2}});
  add({1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {.stride = {1, 2, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}});
  add({8, 64, 14, 14}, {96, 64, 3, 3}, {.stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}});
  add({64, 1, 28, 28}, {20, 1, 5, 5}, {.stride = {1, 1}, .pad = {0, 0}, .dilation = {1, 1}});
  // A window of one tap, whose pixels are one axis: results one by one, in pairs and in pieces.
  for (const auto& [channels, filters] : {std::pair(17, 1), {5, 37}, {12, 70}, {24, 40}})
    add({3, channels, 9, 8}, {filters, channels, 1, 1}, {.stride = {1, 1}, .pad = {0, 0}, .dilation = {1, 1}});
  return all;
}

/// Matrix products of every kind: as a library takes them, batched, transposed, odd and of integers.
inline std::vector<Draft> all_products(Dtype dtype) {
  std::vector<Draft> all;
  all.push_back(headed("matmul", Matmul{}, dtype, {{64, 96}, {96, 80}}, {64, 80}, false, false));
  all.push_back(headed("matmul_bias_relu", Matmul{}, dtype, {{33, 17}, {17, 45}}, {33, 45}));
  all.push_back(headed("matmul_long", Matmul{}, dtype, {{8, 5000}, {5000, 10}}, {8, 10}));
  Draft transposed = headed("matmul_transposed", Matmul{}, dtype, {{40, 24}, {24, 56}}, {40, 56});
  for (Operand& operand : transposed.plan.kernels[0].head->operands) operand.strides = {1, operand.shape[0]};
  all.push_back(transposed);
  Draft batched("matmul_batched");
  Kernel k{.label = "matmul_batched", .domain = {3, 2, 9, 7}};
  k.head = Head{.op = Matmul{}, .operands = {}, .dtype = dtype};
  for (const Shape& shape : {Shape{3, 2, 9, 5}, Shape{3, 2, 5, 7}})
    k.head->operands.push_back({batched.slot(dtype, shape), 0, shape, shape.row_major()});
  k.stores = {batched.dense(batched.output(dtype, k.domain))};
  k.stages = {Stage{.body = {head(compute_dtype(dtype))}, .stores = {{0, 0}}}};
  batched.plan.kernels = {k};
  all.push_back(batched);
  return all;
}

/// Those of 8-bit floats, on tensor cores or by multiply-adds.
inline std::vector<Draft> products_of_stored(Math math) {
  std::vector<Draft> all = all_products(Dtype::f32);
  for (Draft& draft : all) {
    Head& head = *draft.plan.kernels[0].head;
    std::get<Matmul>(head.op).math = math;
    draft.plan.slots[at(head.operands[0].slot)].dtype = Dtype::f8e4m3;
    draft.plan.slots[at(head.operands[1].slot)].dtype = Dtype::f8e5m2;
  }
  return all;
}

/// Their products of f32 may round operands to tf32.
inline std::vector<Draft> in_tf32(std::vector<Draft> drafts) {
  for (Draft& draft : drafts)
    for (Kernel& kernel : draft.plan.kernels) {
      if (auto* conv = std::get_if<Conv>(&kernel.head->op)) conv->math = Math::tf32;
      if (auto* matmul = std::get_if<Matmul>(&kernel.head->op)) matmul->math = Math::tf32;
    }
  return drafts;
}

/// Pooling in every role, over channels too; gather.
inline std::vector<Draft> all_lookups(Dtype dtype) {
  std::vector<Draft> all;
  struct Case {
    Shape x, y;
    std::vector<int> window, stride, pad, dilation = {};
  };
  const std::vector<Case> cases{{{2, 3, 8, 8}, {2, 3, 4, 4}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
                                {{2, 4, 9, 7}, {2, 4, 5, 4}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
                                {{2, 16, 9, 7}, {2, 16, 9, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
                                {{3, 8, 8, 9}, {3, 8, 4, 4}, {1, 2, 3}, {1, 2, 2}, {0, 0, 0}},
                                {{1, 6, 5}, {1, 3, 3}, {2, 3}, {2, 1}, {0, 0}},
                                {{2, 2, 5, 6, 4}, {2, 2, 2, 3, 3}, {1, 3, 2, 2}, {1, 2, 2, 1}, {0, 0, 0, 0}},
                                {{2, 8, 9, 11}, {2, 8, 4, 9}, {1, 3, 2}, {1, 2, 1}, {0, 1, 1}, {1, 2, 4}},
                                {{1, 3, 13}, {1, 3, 5}, {1, 3}, {1, 2}, {0, 2}, {1, 4}}};
  for (const Case& c : cases)
    for (PoolKind kind : {PoolKind::max, PoolKind::average})
      for (bool count_pad : {false, true})
        for (bool channels_last : {false, true}) {
          if (count_pad && kind == PoolKind::max) continue;
          const bool max = kind == PoolKind::max;
          const auto pool = [&](PoolRole role) {
            return Pool{kind, role, c.window, c.stride, c.pad, count_pad, c.dilation};
          };
          all.push_back(headed("pool", pool(PoolRole::output), dtype, {c.x}, c.y, channels_last));
          all.push_back(headed("pool_input_grad", pool(PoolRole::input_grad), dtype,
                               max ? std::vector<Shape>{c.y, c.y} : std::vector<Shape>{c.y}, c.x, channels_last,
                               false));
          if (!max) continue;
          all.push_back(headed("pool_index", pool(PoolRole::index), dtype, {c.x}, c.y, channels_last, false));
          all.push_back(headed("pool_gather", pool(PoolRole::gather), dtype, {c.x, c.y}, c.y, channels_last, false));
        }
  for (Dtype type : {dtype, Dtype::i64, Dtype::u32, Dtype::u16, Dtype::boolean}) {
    all.push_back(headed("gather", Gather{0}, type, {{7, 5}, {4, 3}}, {4, 3, 5}, false, false));
    all.push_back(headed("gather", Gather{1}, type, {{3, 7, 5}, {6}}, {3, 6, 5}, false, false));
  }
  return all;
}

/// A scatter by indices [count], which are sorted before it, negative ones as positions.
inline Draft scattered(ReduceKind kind, int axis, Dtype dtype, const Shape& updates, const Shape& domain) {
  const std::int64_t count = updates[axis];
  Draft d = headed("scatter", Scatter{axis, kind}, dtype, {updates, {count}}, domain, false, false);
  Kernel wrap{.label = "wrap", .domain = {count}}, sort{.label = "argsort", .domain = {count}};
  const int indices = d.plan.kernels[0].head->operands[1].slot;
  const int wrapped = d.slot(Dtype::i32, {count}), order = d.slot(Dtype::i32, {count});
  wrap.loads = {d.dense(indices)};
  wrap.stores = {d.dense(wrapped)};
  const Dtype i32 = Dtype::i32;
  wrap.stages = {Stage{.body = {load(0, i32), number(0, i32), apply(Primitive::less, {0, 1}, i32),
                                number(static_cast<double>(domain[axis]), i32), apply(Primitive::add, {0, 3}, i32),
                                apply(Primitive::select, {2, 4, 0}, i32)},
                       .stores = {{5, 0}}}};
  sort.head = Head{.op = ArgSort{0}, .operands = {{wrapped, 0, {count}, {1}}}, .dtype = i32};
  sort.stores = {d.dense(order)};
  sort.stages = {Stage{.body = {head(i32)}, .stores = {{0, 0}}}};
  d.plan.kernels[0].head->operands.push_back({order, 0, {count}, {1}});
  d.plan.kernels.insert(d.plan.kernels.begin(), {wrap, sort});
  return d;
}

/// Scatters of every kind; sorting and scans, of rows that fit a tile and of longer ones, along any axis.
inline std::vector<Draft> all_row_heads(Dtype dtype) {
  std::vector<Draft> all;
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min}) {
    all.push_back(scattered(kind, 0, dtype, {12, 5}, {9, 5}));
    all.push_back(scattered(kind, 1, dtype, {3, 40, 5}, {3, 9, 5}));
  }
  const auto of_positions = [](Draft d) {
    d.plan.kernels[0].head->dtype = d.plan.kernels[0].stages[0].body[0].type = d.plan.slots.back().dtype = Dtype::i32;
    return d;
  };
  const auto sorted = [&](Dtype type, const Shape& x, int axis, const Shape& y, bool descending) {
    return of_positions(headed("argsort", ArgSort{axis, descending}, type, {x}, y, false, false));
  };
  for (const Dtype type : {dtype, Dtype::i32, Dtype::f64, Dtype::i64})
    for (const bool descending : {false, true}) {
      all.push_back(sorted(type, {5, 300, 2}, 1, {5, 300, 2}, descending));
      all.push_back(sorted(type, {7, 33}, 1, {7, 4}, descending));
      all.push_back(sorted(type, {2, 9000}, 1, {2, 9000}, descending));
      all.push_back(sorted(type, {5000, 2}, 0, {10, 2}, descending));
    }
  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true}) {
      const auto scan = [&](ReduceKind kind, int axis) { return Scan{kind, axis, reverse, exclusive}; };
      for (const Dtype type : {dtype, Dtype::i64}) {
        all.push_back(headed("scan_sum", scan(ReduceKind::sum, 1), type, {{3, 2500}}, {3, 2500}, false, false));
        all.push_back(headed("scan_prod", scan(ReduceKind::prod, 0), type, {{9, 40}}, {9, 40}, false, false));
      }
      if (exclusive) continue;
      for (const ReduceKind kind : {ReduceKind::argmax, ReduceKind::argmin})
        all.push_back(
            of_positions(headed("scan_position", scan(kind, 1), dtype, {{4, 1100, 2}}, {4, 1100, 2}, false, false)));
    }
  return all;
}

}  // namespace nixie::cuda_plans
