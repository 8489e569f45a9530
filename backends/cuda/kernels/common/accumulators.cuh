// The accumulators of reductions. A new one holds the identity; add() takes one value, and merge() takes the
// accumulator of the values that come after its own. All but Moments hold their result in `value`.
#pragma once

#include "math.cuh"

template <class T>
struct Limits;
template <>
struct Limits<f32> {
  static f32 lowest() { return __int_as_float(0xff800000); }
  static f32 highest() { return __int_as_float(0x7f800000); }
};
template <>
struct Limits<f64> {
  static f64 lowest() { return __longlong_as_double(0xfff0000000000000); }
  static f64 highest() { return __longlong_as_double(0x7ff0000000000000); }
};
template <>
struct Limits<i32> {
  static i32 lowest() { return -2147483647 - 1; }
  static i32 highest() { return 2147483647; }
};
template <>
struct Limits<i64> {
  static i64 lowest() { return -9223372036854775807LL - 1; }
  static i64 highest() { return 9223372036854775807LL; }
};

__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline double plus(double a, double b) { return a + b; }
__device__ inline int plus(int a, int b) { return op::add(a, b); }
__device__ inline i64 plus(i64 a, i64 b) { return op::add(a, b); }
__device__ inline float times(float a, float b) { return a * b; }
__device__ inline double times(double a, double b) { return a * b; }
__device__ inline int times(int a, int b) { return op::mul(a, b); }
__device__ inline i64 times(i64 a, i64 b) { return op::mul(a, b); }

template <class T>
struct Sum {
  T value = 0;
  void add(T x) { value = plus(value, x); }
  void merge(const Sum& next) { value = plus(value, next.value); }
};
template <class T>
struct Prod {
  T value = 1;
  void add(T x) { value = times(value, x); }
  void merge(const Prod& next) { value = times(value, next.value); }
};
template <class T>
struct Max {
  T value = Limits<T>::lowest();
  void add(T x) { value = op::max(value, x); }
  void merge(const Max& next) { add(next.value); }
};
template <class T>
struct Min {
  T value = Limits<T>::highest();
  void add(T x) { value = op::min(value, x); }
  void merge(const Min& next) { add(next.value); }
};
// The position of the best value. Ties go to the first position, and NaN wins.
template <class T, bool largest>
struct Best {
  T best = largest ? Limits<T>::lowest() : Limits<T>::highest();
  i32 value = -1;
  void add(T x, i32 position) {
    const bool same = x == best || (x != x && best != best);
    const bool better = best == best && (x != x || (largest ? x > best : x < best));
    if (value < 0 || better || (same && position < value)) {
      best = x;
      value = position;
    }
  }
  void merge(const Best& next) {
    if (next.value >= 0) add(next.best, next.value);
  }
};
template <class T>
using Argmax = Best<T, true>;
template <class T>
using Argmin = Best<T, false>;

__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }
__device__ inline float madd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double madd(double a, double b, double c) { return ::fma(a, b, c); }

// The mean and the sum of squared deviations from it (m2): Welford's update, Chan's merge. Without `squares` m2 is left
// out, and the mean of numbers with an infinity is infinite; with them it may be NaN, as m2 is.
template <class T, bool squares>
struct Moments {
  T count = 0, mean = 0, m2 = 0;
  void add(T x) { add(x, count + 1); }
  // `seen` is the count including x. Lanes with equal counts share one division.
  void add(T x, T seen) {
    count = seen;
    const T delta = x - mean, share = quotient(T(1), seen), next = madd(delta, share, mean);
    if constexpr (squares) m2 = madd(delta, x - next, m2);
    mean = squares ? next : moved(next, x, share);
  }
  // No branch for an empty side: its count, mean and m2 are 0.
  void merge(const Moments& next) {
    const T total = count + next.count, share = count > 0 ? quotient(next.count, total) : T(1);
    const T delta = next.mean - mean;
    mean = moved(madd(delta, share, mean), next.mean, share);
    m2 += madd(delta, delta * (count * share), next.m2);
    count = total;
  }
  // The mean of nothing is NaN.
  T mean_of_all() const { return count > 0 ? mean : T(__int_as_float(0x7fffffff)); }

 private:
  // `next`, or, where the difference of x and the mean is no finite number, the weighted mean of both.
  T moved(T next, T x, T share) const { return op::is_finite(next) ? next : madd(x, share, mean * (1 - share)); }
};

// ---- Merging across the threads of a warp ----
template <class T>
__device__ inline T shuffled(const T& value, int offset) {
  static_assert(sizeof(T) % 4 == 0);
  T other;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    reinterpret_cast<int*>(&other)[i] = __shfl_xor_sync(0xffffffffu, reinterpret_cast<const int*>(&value)[i], offset);
  return other;
}

// Selects word by word: selecting between whole structs selects an address, which forces both into local memory.
template <class T>
__device__ inline T chosen(bool first, const T& a, const T& b) {
  static_assert(sizeof(T) % 4 == 0);
  T result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    reinterpret_cast<int*>(&result)[i] =
        first ? reinterpret_cast<const int*>(&a)[i] : reinterpret_cast<const int*>(&b)[i];
  return result;
}
