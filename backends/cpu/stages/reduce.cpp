// Folding lanes: vector partial results inside a tile, doubles across tiles.
#include "nixie/backends/cpu/stages/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "nixie/backends/cpu/lanes/lane_loop.h"

namespace nixie::cpu {
namespace {

// The type of a cell for lanes of T: double, but i64 for i64, which a double would round.
template <class T>
using CellValue = std::conditional_t<std::is_same_v<T, std::int64_t>, std::int64_t, double>;
template <class T>
double cell(T x) {
  return std::bit_cast<double>(static_cast<CellValue<T>>(x));
}
template <class V>
V cell_value(double cell) {
  return std::bit_cast<V>(cell);
}
template <class T>
void fill_cells(const T* __restrict from, std::int64_t count, double* __restrict cells) {
  for (std::int64_t k = 0; k < count; ++k) cells[k] = cell(from[k]);
}

// The binary operation of a fold, on scalars and on Eigen blocks.
template <class T>
struct Sum {
  static T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else
      return a + b;
  }
  template <class B>
  static void apply(Block<T>& a, const B& b) {
    a += b;
  }
};
template <class T>
struct Prod {
  static T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
    else
      return a * b;
  }
  template <class B>
  static void apply(Block<T>& a, const B& b) {
    a *= b;
  }
};
template <Primitive kPrimitive, class T>
void apply_extreme(T* a, const T* b) {
  for (std::int64_t lane = 0; lane < kLaneBlock; lane += kLanes<T>)
    store(a + lane, extreme<kPrimitive>(load(a + lane), load(b + lane)));
}
template <class T>
struct Max {
  static T scalar(T a, T b) { return extreme<Primitive::max>(a, b); }
  template <class B>
  static void apply(Block<T>& a, const B& b) {
    apply_extreme<Primitive::max, T>(a.data(), b.data());
  }
};
template <class T>
struct Min {
  static T scalar(T a, T b) { return extreme<Primitive::min>(a, b); }
  template <class B>
  static void apply(Block<T>& a, const B& b) {
    apply_extreme<Primitive::min, T>(a.data(), b.data());
  }
};

// Two blocks in flight hide the latency of an operation.
template <class T, class Op>
T fold_row(const T* x, std::int64_t n) {
  std::int64_t i = 0;
  T result;
  if (n >= 2 * kLaneBlock) {
    Block<T> a = block(x), b = block(x + kLaneBlock);
    for (i = 2 * kLaneBlock; i + 2 * kLaneBlock <= n; i += 2 * kLaneBlock) {
      Op::apply(a, block(x + i));
      Op::apply(b, block(x + i + kLaneBlock));
    }
    Op::apply(a, b);
    for (std::int64_t half = kLaneBlock / 2; half > 0; half /= 2)
      for (std::int64_t lane = 0; lane < half; ++lane) a[lane] = Op::scalar(a[lane], a[lane + half]);
    result = a[0];
  } else {
    result = x[i++];
  }
  for (; i < n; ++i) result = Op::scalar(result, x[i]);
  return result;
}

template <class T, class Op>
void fold_columns(const T* __restrict x, const TileShape& shape, T* __restrict result) {
  std::copy_n(x, shape.kept, result);
  for (std::int64_t row = 1; row < shape.reduced; ++row) {
    const T* __restrict lanes = x + row * shape.kept;
    for (std::int64_t k = 0; k < shape.kept; ++k) result[k] = Op::scalar(result[k], lanes[k]);
  }
}

template <class T, class Op>
void fold_values(const T* x, const TileShape& shape, Cells cells) {
  if (shape.columns) {
    T result[kTileLanes];
    fold_columns<T, Op>(x, shape, result);
    fill_cells(result, shape.kept, cells[0]);
  } else {
    for (std::int64_t k = 0; k < shape.kept; ++k)
      cells[0][k] = cell(fold_row<T, Op>(x + k * shape.reduced, shape.reduced));
  }
}

// From here on a tile's mean may be so far from equal values, by its rounding, that squares of that are beyond T.
template <class T>
constexpr T kLargeMean = std::is_same_v<T, float> ? T(1e15) : T(1e145);

// Moments in doubles, around the first value, which is exact where all are equal.
template <class T>
void fold_large_moments(const T* x, std::int64_t count, std::int64_t stride, double& mean, double& squares) {
  const auto total = static_cast<double>(count), first = static_cast<double>(x[0]);
  double beyond = 0;
  for (std::int64_t i = 0; i < count; ++i) beyond += static_cast<double>(x[i * stride]) / total - first / total;
  if (!std::isfinite(beyond)) return;  // of an infinity or NaN
  mean = first + beyond;
  squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(x[i * stride]) - mean;
    squares += distance * distance;
  }
}

// Squares around the tile's own mean: exact enough in T, since the tile is short.
template <class T>
void fold_moments(const T* __restrict x, const TileShape& shape, Cells cells) {
  fold_values<T, Sum<T>>(x, shape, cells);
  T mean[kTileLanes], squares[kTileLanes];
  for (std::int64_t k = 0; k < shape.kept; ++k) {
    cells[0][k] /= static_cast<double>(shape.reduced);
    mean[k] = static_cast<T>(cells[0][k]);
    squares[k] = 0;
  }
  if (shape.columns) {
    for (std::int64_t row = 0; row < shape.reduced; ++row)
      for (std::int64_t k = 0; k < shape.kept; ++k) {
        const T distance = x[row * shape.kept + k] - mean[k];
        squares[k] += distance * distance;
      }
  } else {
    for (std::int64_t k = 0; k < shape.kept; ++k) {
      const T* row = x + k * shape.reduced;
      Block<T> sum = Block<T>::Zero();
      std::int64_t i = 0;
      for (; i + kLaneBlock <= shape.reduced; i += kLaneBlock) sum += (block(row + i) - mean[k]).square();
      for (std::int64_t half = kLaneBlock / 2; half > 0; half /= 2)
        for (std::int64_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
      squares[k] = sum[0];
      for (; i < shape.reduced; ++i) squares[k] += (row[i] - mean[k]) * (row[i] - mean[k]);
    }
  }
  std::copy_n(squares, shape.kept, cells[1]);
  const auto is_large = [](T x) { return !(std::abs(x) < kLargeMean<T>); };  // or no number
  int large = 0;
  for (std::int64_t k = 0; k < shape.kept; ++k) large |= is_large(mean[k]);
  if (large == 0) return;
  const std::int64_t next = shape.columns ? 1 : shape.reduced, stride = shape.columns ? shape.kept : 1;
  for (std::int64_t k = 0; k < shape.kept; ++k)
    if (is_large(mean[k])) fold_large_moments(x + k * next, shape.reduced, stride, cells[0][k], cells[1][k]);
}

// The first lane that holds the extreme (which is NaN when there is one).
template <class T, class Op>
void fold_arg(const T* __restrict x, const TileShape& shape, const std::int32_t* __restrict positions, Cells cells) {
  if (shape.columns) {
    T best[kTileLanes];
    std::int32_t where[kTileLanes];
    std::copy_n(x, shape.kept, best);
    std::fill_n(where, shape.kept, positions[0]);
    for (std::int64_t row = 1; row < shape.reduced; ++row) {
      const T* __restrict lanes = x + row * shape.kept;
      for (std::int64_t k = 0; k < shape.kept; ++k) {
        const T old = best[k], now = Op::scalar(old, lanes[k]);
        const bool changed = (now != old) & (old == old);
        where[k] = changed ? positions[row] : where[k];
        best[k] = now;
      }
    }
    fill_cells(best, shape.kept, cells[0]);
    std::copy_n(where, shape.kept, cells[1]);
    return;
  }
  for (std::int64_t k = 0; k < shape.kept; ++k) {
    const T* row = x + k * shape.reduced;
    const T best = fold_row<T, Op>(row, shape.reduced);
    std::int64_t first = 0;
    while (row[first] != best && row[first] == row[first]) ++first;
    cells[0][k] = cell(best);
    cells[1][k] = positions[first];
  }
}

template <class T>
void fold_typed(Fold fold, const T* x, const TileShape& shape, const std::int32_t* positions, Cells cells) {
  switch (fold) {
    case Fold::sum:
      return fold_values<T, Sum<T>>(x, shape, cells);
    case Fold::prod:
      return fold_values<T, Prod<T>>(x, shape, cells);
    case Fold::max:
      return fold_values<T, Max<T>>(x, shape, cells);
    case Fold::min:
      return fold_values<T, Min<T>>(x, shape, cells);
    case Fold::argmax:
      return fold_arg<T, Max<T>>(x, shape, positions, cells);
    case Fold::argmin:
      return fold_arg<T, Min<T>>(x, shape, positions, cells);
    case Fold::moments:  // of floating lanes only, which Program checks
      if constexpr (std::is_floating_point_v<T>) return fold_moments<T>(x, shape, cells);
  }
}

template <template <class> class Op, class V>
void join_values(std::int64_t kept, double* __restrict a, const double* __restrict b) {
  for (std::int64_t k = 0; k < kept; ++k) a[k] = cell(Op<V>::scalar(cell_value<V>(a[k]), cell_value<V>(b[k])));
}

std::int32_t wrapped(double x) { return static_cast<std::int32_t>(static_cast<std::int64_t>(x)); }

// Products of integers wrap at each join, so that they stay whole numbers a double holds.
void join_integer_products(std::int64_t kept, double* a, const double* b) {
  for (std::int64_t k = 0; k < kept; ++k) a[k] = Prod<std::int32_t>::scalar(wrapped(a[k]), wrapped(b[k]));
}

template <class V>
void join_args(bool max, std::int64_t kept, Cells cells, Cells other) {
  for (std::int64_t k = 0; k < kept; ++k) {
    const V a = cell_value<V>(cells[0][k]), b = cell_value<V>(other[0][k]);
    const bool nan_a = a != a, nan_b = b != b;
    const bool same = a == b || (nan_a && nan_b), better = nan_b ? !nan_a : !nan_a && (max ? b > a : b < a);
    const bool earlier = same && other[1][k] >= 0 && (cells[1][k] < 0 || other[1][k] < cells[1][k]);
    if (better || earlier || cells[1][k] < 0) {
      cells[0][k] = other[0][k];
      cells[1][k] = other[1][k];
    }
  }
}

// Chan, Golub and LeVeque's pairwise update.
void join_moments(std::int64_t kept, Cells cells, double count, Cells other, double other_count) {
  double* __restrict mean = cells[0];
  double* __restrict squares = cells[1];
  const double* __restrict other_mean = other[0], * __restrict other_squares = other[1];
  const double share = other_count / (count + other_count), weight = count * share;
  for (std::int64_t k = 0; k < kept; ++k) {
    const double distance = other_mean[k] - mean[k], next = mean[k] + distance * share;
    mean[k] = std::isfinite(next) ? next : mean[k] * (1 - share) + other_mean[k] * share;  // infinities stay
    squares[k] += other_squares[k] + distance * (distance * weight);  // 0 where the first side is empty
  }
}

}  // namespace

int cells_of(Fold fold) { return fold >= Fold::argmax ? 2 : 1; }

void start_fold(Fold fold, Dtype type, std::int64_t kept, Cells cells) {
  const bool max = fold == Fold::max || fold == Fold::argmax, min = fold == Fold::min || fold == Fold::argmin;
  const double first = visit_compute_dtype(type, [&]<class T>(T) {
    using Limits = std::numeric_limits<T>;
    if (max) return cell(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
    if (min) return cell(Limits::has_infinity ? Limits::infinity() : Limits::max());
    return cell(fold == Fold::prod ? T{1} : T{0});
  });
  std::fill_n(cells[0], kept, first);
  if (cells_of(fold) == 2) std::fill_n(cells[1], kept, fold == Fold::moments ? 0.0 : -1.0);
}

void fold_tile(Fold fold, Dtype type, const void* lanes, const TileShape& shape, const std::int32_t* positions,
               Cells cells) {
  visit_compute_dtype(type,
                      [&]<class T>(T) { fold_typed(fold, static_cast<const T*>(lanes), shape, positions, cells); });
}

namespace {

template <class V>
void join(Fold fold, Dtype type, std::int64_t kept, Cells cells, std::int64_t count, Cells other,
          std::int64_t other_count) {
  switch (fold) {
    case Fold::sum:
      return join_values<Sum, V>(kept, cells[0], other[0]);
    case Fold::prod:
      if (type == Dtype::i32) return join_integer_products(kept, cells[0], other[0]);
      return join_values<Prod, V>(kept, cells[0], other[0]);
    case Fold::max:
      return join_values<Max, V>(kept, cells[0], other[0]);
    case Fold::min:
      return join_values<Min, V>(kept, cells[0], other[0]);
    case Fold::argmax:
    case Fold::argmin:
      return join_args<V>(fold == Fold::argmax, kept, cells, other);
    case Fold::moments:
      return join_moments(kept, cells, static_cast<double>(count), other, static_cast<double>(other_count));
  }
}

}  // namespace

void join_folds(Fold fold, Dtype type, std::int64_t kept, Cells cells, std::int64_t count, Cells other,
                std::int64_t other_count) {
  if (other_count == 0) return;
  if (type == Dtype::i64)
    join<std::int64_t>(fold, type, kept, cells, count, other, other_count);
  else
    join<double>(fold, type, kept, cells, count, other, other_count);
}

void finish_fold(Fold fold, ReduceKind kind, Cells cells, std::int64_t count, std::int64_t kept, void* lanes,
                 Dtype type) {
  const bool second = gives_position(kind) || kind == ReduceKind::m2;
  const double* from = cells[second ? 1 : 0];
  const double total = static_cast<double>(count);
  // A mean without its m2 was folded as a sum. The mean of nothing is NaN, its argmax position 0.
  const bool divides = kind == ReduceKind::mean && (fold == Fold::sum || count == 0);
  if (type == Dtype::i64) {
    for (std::int64_t k = 0; k < kept; ++k) static_cast<std::int64_t*>(lanes)[k] = cell_value<std::int64_t>(from[k]);
    return;
  }
  for (std::int64_t k = 0; k < kept; ++k) {
    const double value = divides                                        ? from[k] / total
                         : fold == Fold::argmax || fold == Fold::argmin ? std::max(from[k], 0.0)
                                                                        : from[k];
    if (type == Dtype::f32)
      static_cast<float*>(lanes)[k] = static_cast<float>(value);
    else if (type == Dtype::f64)
      static_cast<double*>(lanes)[k] = value;
    else
      static_cast<std::int32_t*>(lanes)[k] = wrapped(value);
  }
}

}  // namespace nixie::cpu
