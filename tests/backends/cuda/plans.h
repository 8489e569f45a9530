// Hand-made plans of elementwise stages and reductions that cover what the CUDA code generator distinguishes.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/base/integer_math.h"
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
    const Slot& s = plan.slots[at(slot)];
    Strides strides = s.strides;
    for (int axis = 0; axis < s.shape.rank(); ++axis)
      if (s.shape[axis] == 1) strides[at(axis)] = 0;
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
  k.stages = {{.body = {load(0), number(2), apply(Primitive::mul, {0, 1}), load(1), apply(Primitive::add, {2, 3}),
                        number(0), apply(Primitive::max, {4, 5})},
               .stores = {{6, 0}}}};
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
  k.stages = {
      {.body = {load(0, compute_dtype(from)), apply(Primitive::cast, {0}, compute_dtype(to))}, .stores = {{1, 0}}}};
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
      d.plan.slots[at(s)].strides = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
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
  k.stages = {{.body = {number(3, Dtype::i32), uniform, normal}, .stores = {{1, 0}, {2, 1}}}};
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
  k.stages = {{.body = {load(0), load(1), load(2), number(0.9), apply(Primitive::mul, {1, 3}),
                        apply(Primitive::add, {4, 2}), Instruction{.primitive = Primitive::scalar},
                        apply(Primitive::mul, {6, 5}), apply(Primitive::sub, {0, 7})},
               .stores = {{8, 0}, {5, 1}}}};
  d.plan.kernels = {k};
  return d;
}

/// All of the above over sizes that divide by the vector width and sizes that do not.
inline std::vector<Draft> elementwise_and_reductions() {
  std::vector<Draft> all;
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64})
    if (dtype != Dtype::f64) all.push_back(bias_relu(dtype, {96, 64})), all.push_back(bias_relu(dtype, {7, 5}));
  for (int i = 0; i < kDtypeCount; ++i)
    if (const auto dtype = static_cast<Dtype>(i); plan_dtype(dtype) == dtype)
      all.push_back(shifted_transpose(dtype, dtype));
  for (Dtype dtype : {Dtype::f64, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::i16, Dtype::u16, Dtype::u32}) {
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
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i64, Dtype::i32, Dtype::i8, Dtype::u32})
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

}  // namespace nixie::cuda_plans
