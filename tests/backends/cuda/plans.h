// Hand-made plans that cover what the CUDA code generator distinguishes.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda_plans {

/// A plan that is being written down: slots are external and dense row-major unless said otherwise.
class Draft {
 public:
  explicit Draft(std::string name) : name(std::move(name)) {}
  std::string name;
  Plan plan;
  std::vector<int> outputs;  ///< slots that hold results

  int slot(Dtype dtype, const Shape& shape) {
    const int index = static_cast<int>(plan.slots.size());
    plan.slots.push_back({fmt::format("s{}", index), dtype, shape, shape.row_major(), true, 0});
    plan.externals.push_back(index);
    return index;
  }
  int output(Dtype dtype, const Shape& shape) {
    outputs.push_back(slot(dtype, shape));
    return outputs.back();
  }
  /// Strides of a slot seen from a domain of its rank: 0 along axes of size 1.
  Access dense(int slot) const {
    const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
    Strides strides = s.strides;
    for (int axis = 0; axis < s.shape.rank(); ++axis)
      if (s.shape[axis] == 1) strides[static_cast<std::size_t>(axis)] = 0;
    return {slot, 0, strides, {}, 0};
  }
};

inline Instruction load(int index, Dtype type = Dtype::f32) {
  return {.primitive = Primitive::load, .type = type, .index = index};
}
inline Instruction number(double value, Dtype type = Dtype::f32) {
  return {.primitive = Primitive::constant, .type = type, .value = value};
}
inline Instruction carried(int index, Dtype type = Dtype::f32) {
  return {.primitive = Primitive::carried, .type = type, .index = index};
}
inline Instruction head(Dtype type = Dtype::f32) { return {.primitive = Primitive::head, .type = type}; }
inline Instruction apply(Primitive primitive, std::vector<int> args, Dtype type = Dtype::f32) {
  Instruction in{.primitive = primitive, .type = type};
  for (std::size_t i = 0; i < args.size(); ++i) in.args[i] = args[i];
  return in;
}

/// y = relu(x * 2 + b) with b broadcast along rows.
inline Draft bias_relu(Dtype dtype, const Shape& shape) {
  Draft d("bias_relu");
  const int x = d.slot(dtype, shape), b = d.slot(dtype, Shape{1, shape[1]}), y = d.output(dtype, shape);
  Kernel k{.label = "bias_relu", .domain = shape};
  k.loads = {d.dense(x), d.dense(b)};
  k.stores = {d.dense(y)};
  Stage stage;
  stage.body = {load(0),
                number(2),
                apply(Primitive::mul, {0, 1}),
                load(1),
                apply(Primitive::add, {2, 3}),
                number(0),
                apply(Primitive::max, {4, 5})};
  stage.stores = {{6, 0}};
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// y[i, j] = x[j, i - 1] inside, 7 outside: a transposed load with bounds and every storage type.
inline Draft shifted_transpose(Dtype from, Dtype to) {
  Draft d("shifted_transpose");
  const int x = d.slot(from, {40, 30}), y = d.output(to, {32, 40});
  Kernel k{.label = "shifted_transpose", .domain = {32, 40}};
  k.loads = {{x, -1, {1, 30}, {{1, 31}, {0, 40}}, 7}};
  k.stores = {d.dense(y)};
  const Dtype type = compute_dtype(from);
  Stage stage;
  stage.body = {load(0, type)};
  stage.stores = {{0, 0}};
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// Row-wise softmax: three stages over the positions with two reductions between them.
inline Draft softmax(Dtype dtype, std::int64_t rows, std::int64_t columns) {
  Draft d("softmax");
  const Shape shape{rows, columns};
  const int x = d.slot(dtype, shape), y = d.output(dtype, shape);
  Kernel k{.label = "softmax", .domain = shape, .reduced = {1}};
  k.loads = {d.dense(x)};
  k.stores = {d.dense(y)};
  k.carried = {Dtype::f32, Dtype::f32};
  Stage largest{.body = {load(0)}, .reductions = {{ReduceKind::max, 0, 0}}};
  Stage total{.body = {load(0), carried(0), apply(Primitive::sub, {0, 1}), apply(Primitive::exp, {2})},
              .reductions = {{ReduceKind::sum, 3, 1}}};
  Stage divide{.body = {load(0), carried(0), apply(Primitive::sub, {0, 1}), apply(Primitive::exp, {2}), carried(1),
                        apply(Primitive::div, {3, 4})},
               .stores = {{5, 0}}};
  k.stages = {largest, total, divide};
  d.plan.kernels = {k};
  return d;
}

/// Normalises over `reduced` axes of [N, C, H, W], adds a residual, and keeps the mean and variance: full, kept and
/// full stages, of which the last reads what the first one read, and more.
inline Draft normalise(Dtype dtype, const Shape& shape, const Axes& reduced, bool channels_last) {
  Draft d("normalise");
  const int x = d.slot(dtype, shape), residual = d.slot(dtype, shape), y = d.output(dtype, shape);
  if (channels_last)
    for (int s : {x, residual, y})
      d.plan.slots[static_cast<std::size_t>(s)].strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1],
                                                           shape[1]};
  Kernel k{.label = "normalise", .domain = shape, .reduced = reduced};
  std::int64_t count = 1;
  for (int axis : reduced) count *= shape[axis];
  const int mean = d.output(Dtype::f32, kept_shape(k)), variance = d.output(Dtype::f32, kept_shape(k));
  k.loads = {d.dense(x), d.dense(residual)};
  k.stores = {d.dense(y), d.dense(mean), d.dense(variance)};
  k.carried = {Dtype::f32, Dtype::f32, Dtype::f32};
  Stage moments{.body = {load(0)}, .reductions = {{ReduceKind::mean, 0, 0}, {ReduceKind::m2, 0, 1}}};
  Stage scale{.full = false,
              .body = {carried(0), carried(1), number(1.0 / static_cast<double>(count)), apply(Primitive::mul, {1, 2}),
                       number(1e-5), apply(Primitive::add, {3, 4}), apply(Primitive::rsqrt, {5})},
              .stores = {{0, 1}, {3, 2}},
              .carries = {{6, 2}}};
  Stage apply_it{.body = {load(0), carried(0), apply(Primitive::sub, {0, 1}), carried(2), apply(Primitive::mul, {2, 3}),
                          load(1), apply(Primitive::add, {4, 5})},
                 .stores = {{6, 0}}};
  k.stages = {moments, scale, apply_it};
  d.plan.kernels = {k};
  return d;
}

/// Every reduction kind of a [rows, columns] matrix along an axis.
inline Draft reductions(Dtype dtype, const Shape& shape, int axis) {
  Draft d("reductions");
  const Dtype type = compute_dtype(dtype);
  const int x = d.slot(dtype, shape);
  Kernel k{.label = "reductions", .domain = shape, .reduced = {axis}};
  k.loads = {d.dense(x)};
  Stage all{.body = {load(0, type)}};
  Stage keep{.full = false};
  std::vector<ReduceKind> kinds{ReduceKind::sum, ReduceKind::prod,   ReduceKind::max,
                                ReduceKind::min, ReduceKind::argmax, ReduceKind::argmin};
  if (is_floating(type)) kinds.insert(kinds.end(), {ReduceKind::mean, ReduceKind::m2});
  for (ReduceKind kind : kinds) {
    const int c = static_cast<int>(k.carried.size());
    const bool position = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
    k.carried.push_back(position ? Dtype::i32 : type);
    all.reductions.push_back({kind, 0, c});
    keep.body.push_back(carried(c, k.carried.back()));
    keep.stores.push_back({c, c});
    k.stores.push_back(d.dense(d.output(k.carried.back(), kept_shape(k))));
  }
  k.stages = {all, keep};
  d.plan.kernels = {k};
  return d;
}

/// Uniform and normal numbers at step 3, in one kernel.
inline Draft random(const Shape& shape) {
  Draft d("random");
  const int u = d.output(Dtype::f32, shape), n = d.output(Dtype::f32, shape);
  Kernel k{.label = "random", .domain = shape};
  k.stores = {d.dense(u), d.dense(n)};
  Instruction uniform = apply(Primitive::uniform, {0}), normal = apply(Primitive::normal, {0});
  uniform.stream = normal.stream = 0x123456789abcdef0u;
  Stage stage{.body = {number(3, Dtype::i32), uniform, normal}, .stores = {{1, 0}, {2, 1}}};
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// Every primitive of one argument or more, summed up, in a computing type.
inline Draft primitives(Dtype type) {
  Draft d("primitives");
  const int x = d.slot(type, {64}), y = d.slot(type, {64});
  Kernel k{.label = "primitives", .domain = {64}};
  k.loads = {d.dense(x), d.dense(y)};
  Stage stage{.body = {load(0, type), load(1, type)}};
  const int last = static_cast<int>(is_floating(type) ? Primitive::trunc : Primitive::is_nan);
  const auto add = [&](Primitive primitive) {
    std::vector<int> args{0, 1, 0};
    args.resize(static_cast<std::size_t>(arity(primitive)));
    stage.body.push_back(apply(primitive, args, type));
    const int access = static_cast<int>(k.stores.size());
    stage.stores.push_back({static_cast<int>(stage.body.size()) - 1, access});
    k.stores.push_back(d.dense(d.output(type, {64})));
  };
  for (int p = static_cast<int>(Primitive::neg); p <= last; ++p) add(static_cast<Primitive>(p));
  if (!is_floating(type))
    for (Primitive p : {Primitive::bit_and, Primitive::bit_or, Primitive::bit_xor, Primitive::bit_not,
                        Primitive::shift_left, Primitive::shift_right})
      add(p);
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// SGD with momentum, in place: weights and momentum are read and written by one kernel.
inline Draft sgd(std::int64_t n) {
  Draft d("sgd");
  const int w = d.output(Dtype::f32, {n}), v = d.output(Dtype::f32, {n}), g = d.slot(Dtype::f32, {n});
  d.plan.scalars = {0.125};
  Kernel k{.label = "sgd", .domain = {n}};
  k.loads = {d.dense(w), d.dense(v), d.dense(g)};
  k.stores = {d.dense(w), d.dense(v)};
  Stage stage{.body = {load(0), load(1), load(2), number(0.9), apply(Primitive::mul, {1, 3}),
                       apply(Primitive::add, {4, 2}), Instruction{.primitive = Primitive::scalar},
                       apply(Primitive::mul, {6, 5}), apply(Primitive::sub, {0, 7})},
              .stores = {{8, 0}, {5, 1}}};
  k.stages = {stage};
  d.plan.kernels = {k};
  return d;
}

/// All of the above over sizes that divide by the vector width and sizes that do not.
inline std::vector<Draft> elementwise_and_reductions() {
  std::vector<Draft> all;
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64})
    if (dtype != Dtype::f64) all.push_back(bias_relu(dtype, {96, 64})), all.push_back(bias_relu(dtype, {7, 5}));
  for (int i = 0; i < kDtypeCount; ++i) all.push_back(shifted_transpose(static_cast<Dtype>(i), static_cast<Dtype>(i)));
  for (Dtype dtype : {Dtype::f64, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::u8}) {
    all.push_back(shifted_transpose(Dtype::boolean, dtype)), all.push_back(shifted_transpose(dtype, Dtype::boolean));
    all.push_back(shifted_transpose(Dtype::i64, dtype)), all.push_back(shifted_transpose(dtype, Dtype::i64));
  }
  all.push_back(shifted_transpose(Dtype::f32, Dtype::u8));
  all.push_back(shifted_transpose(Dtype::u8, Dtype::f16));
  for (const auto& [rows, columns] : {std::pair{3, 5}, {64, 1000}, {2, 40000}, {5000, 64}})
    all.push_back(softmax(Dtype::f32, rows, columns));
  all.push_back(softmax(Dtype::f16, 64, 1024));
  for (bool channels_last : {false, true}) {
    all.push_back(normalise(Dtype::f32, {8, 16, 6, 6}, {0, 2, 3}, channels_last));
    all.push_back(normalise(Dtype::f16, {64, 24, 30, 30}, {0, 2, 3}, channels_last));
    all.push_back(normalise(Dtype::f16, {37, 40, 31, 29}, {0, 2, 3}, channels_last));
    all.push_back(normalise(Dtype::f32, {40, 64, 61, 57}, {0, 2, 3}, channels_last));  // more than shared memory
    all.push_back(normalise(Dtype::f16, {128, 1024, 3, 3}, {2, 3}, channels_last));
    all.push_back(normalise(Dtype::f32, {3, 5, 7, 2}, {1, 2, 3}, channels_last));
    all.push_back(normalise(Dtype::f32, {3, 5, 7, 2}, {0, 1, 2, 3}, channels_last));
  }
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32, Dtype::i8})
    for (int axis : {0, 1}) {
      all.push_back(reductions(dtype, {9, 11}, axis));
      all.push_back(reductions(dtype, {300, 200}, axis));
    }
  all.push_back(reductions(Dtype::f32, {1, 100000}, 1));
  all.push_back(reductions(Dtype::f32, {100000, 4}, 0));
  all.push_back(random({16, 24}));
  all.push_back(random({7, 3}));
  for (Dtype type : {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32}) all.push_back(primitives(type));
  all.push_back(sgd(1000));
  all.push_back(sgd(1 << 21));
  return all;
}

/// A head alone or with a bias and a ReLU after it, results and operands dense in the given axis orders.
inline Draft headed(std::string name, decltype(Head::op) op, Dtype dtype, const std::vector<Shape>& shapes,
                    const Shape& domain, bool channels_last = false, bool epilogue = true) {
  Draft d(std::move(name));
  const auto order = [&](int slot) {
    Slot& s = d.plan.slots[static_cast<std::size_t>(slot)];
    const int rank = s.shape.rank();
    std::int64_t stride = s.shape[1];
    s.strides[1] = 1;
    for (int axis = rank - 1; axis > 1; stride *= s.shape[axis--]) s.strides[static_cast<std::size_t>(axis)] = stride;
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
    k.head->operands.push_back({slot, 0, shapes[i], d.plan.slots[static_cast<std::size_t>(slot)].strides});
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

/// The three roles of a convolution of x with w.
inline std::vector<Draft> convolutions(Dtype dtype, const Shape& x, const Shape& w, const Conv& conv,
                                       bool channels_last) {
  std::vector<std::int64_t> sizes{x[0], w[0]};
  for (std::size_t i = 0; i < conv.stride.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    sizes.push_back((x[axis] + 2 * conv.pad[i] - conv.dilation[i] * (w[axis] - 1) - 1) / conv.stride[i] + 1);
  }
  const Shape y(sizes);
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

/// Their products of f32 may round operands to tf32.
inline std::vector<Draft> in_tf32(std::vector<Draft> drafts) {
  for (Draft& draft : drafts)
    for (Kernel& kernel : draft.plan.kernels) {
      if (auto* conv = std::get_if<Conv>(&kernel.head->op)) conv->math = Math::tf32;
      if (auto* matmul = std::get_if<Matmul>(&kernel.head->op)) matmul->math = Math::tf32;
    }
  return drafts;
}

/// Pooling in every role, over channels too; gather and scatter.
inline std::vector<Draft> all_lookups(Dtype dtype) {
  std::vector<Draft> all;
  struct Case {
    Shape x, y;
    std::vector<int> window, stride, pad;
  };
  const std::vector<Case> cases{{{2, 3, 8, 8}, {2, 3, 4, 4}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}},
                                {{2, 4, 9, 7}, {2, 4, 5, 4}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}},
                                {{2, 16, 9, 7}, {2, 16, 9, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}},
                                {{3, 8, 8, 9}, {3, 8, 4, 4}, {1, 2, 3}, {1, 2, 2}, {0, 0, 0}},
                                {{1, 6, 5}, {1, 3, 3}, {2, 3}, {2, 1}, {0, 0}},
                                {{2, 2, 5, 6, 4}, {2, 2, 2, 3, 3}, {1, 3, 2, 2}, {1, 2, 2, 1}, {0, 0, 0, 0}}};
  for (const Case& c : cases)
    for (PoolKind kind : {PoolKind::max, PoolKind::average})
      for (bool count_pad : {false, true})
        for (bool channels_last : {false, true}) {
          if (count_pad && kind == PoolKind::max) continue;
          const bool max = kind == PoolKind::max;
          const auto pool = [&](PoolRole role) { return Pool{kind, role, c.window, c.stride, c.pad, count_pad}; };
          all.push_back(headed("pool", pool(PoolRole::output), dtype, {c.x}, c.y, channels_last));
          all.push_back(headed("pool_input_grad", pool(PoolRole::input_grad), dtype,
                               max ? std::vector<Shape>{c.y, c.y} : std::vector<Shape>{c.y}, c.x, channels_last,
                               false));
          if (!max) continue;
          all.push_back(headed("pool_index", pool(PoolRole::index), dtype, {c.x}, c.y, channels_last, false));
          all.push_back(headed("pool_gather", pool(PoolRole::gather), dtype, {c.x, c.y}, c.y, channels_last, false));
        }
  for (Dtype type : {dtype, Dtype::i64, Dtype::boolean}) {
    all.push_back(headed("gather", Gather{0}, type, {{7, 5}, {4, 3}}, {4, 3, 5}, false, false));
    all.push_back(headed("gather", Gather{1}, type, {{3, 7, 5}, {6}}, {3, 6, 5}, false, false));
    all.push_back(headed("scatter", Scatter{0}, type, {{4, 3, 5}, {4, 3}}, {7, 5}, false, false));
    all.push_back(headed("scatter", Scatter{1}, type, {{3, 6, 5}, {6}}, {3, 7, 5}, false, false));
  }
  return all;
}

}  // namespace nixie::cuda_plans
