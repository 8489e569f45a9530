// Heads that gather: pooling, gather and scatter. Each result gathers its inputs in a fixed order, without atomics.
#pragma once

#include "accumulators.cuh"
#include "math.cuh"

// A position along an axis. Strides, pads and dilations of dilated windows may be all that an int holds.
template <bool dilated>
struct PlaceOf {
  using Type = int;
};
template <>
struct PlaceOf<true> {
  using Type = long long;
};

// Pooling windows over all axes of x but the first. Body: kAxes, the number of these axes; x_size(i), y_size(i),
// window(i), stride(i), pad(i), dilation(i) for each of them; operand0_stride(axis), operand1_stride(axis) for all
// axes.
template <class Body>
struct Windows {
  using Index = typename Body::Index;
  static constexpr int axes = Body::kAxes;
  static constexpr int positions() {
    int total = 1;
    for (int i = 0; i < axes; ++i) total *= Body::window(i);
    return total;
  }
  // Calls visit(place in the window, index in x) for each place inside x of the window that y's `position` pools.
  template <class Visit>
  static void over_window(const Index (&position)[axes + 1], Visit visit) {
#pragma unroll(positions() <= 16 ? positions() : 1)
    for (int place = 0; place < positions(); ++place) {
      Index index = position[0] * Body::operand0_stride(0);
      bool inside = true;
      int rest = place;
#pragma unroll
      for (int i = axes - 1; i >= 0; --i) {
        const int h = static_cast<int>(position[i + 1]) * Body::stride(i) - Body::pad(i) +
                      rest % Body::window(i) * Body::dilation(i);
        rest /= Body::window(i);
        inside &= h >= 0 && h < Body::x_size(i);
        index += h * Body::operand0_stride(i + 1);
      }
      if (inside) visit(place, index);
    }
  }
  // The most windows that contain one position, along an axis and in all: of dilated ones, each place of one.
  static constexpr int most(int i) {
    return Body::dilation(i) > 1 ? Body::window(i) : 1 + (Body::window(i) - 1) / Body::stride(i);
  }
  static constexpr int most_holders() {
    int total = 1;
    for (int i = 0; i < axes; ++i) total *= most(i);
    return total;
  }
  // Calls visit(place in the window, position in y) for each window that contains x's `position`.
  template <class Visit>
  static void over_holders(const Index (&position)[axes + 1], Visit visit) {
#pragma unroll(most_holders() <= 16 ? most_holders() : 1)
    for (int holder = 0; holder < most_holders(); ++holder) {
      Index y[axes + 1];
      y[0] = position[0];
      bool holds = true;
      int rest = holder, place = 0, size = 1;
#pragma unroll
      for (int i = axes - 1; i >= 0; --i) {
        const int left = most(i) - 1 - rest % most(i);  // windows in rising order
        rest /= most(i);
        int p, inside;
        if (Body::dilation(i) > 1) {
          inside = left;
          const long long start = static_cast<long long>(position[i + 1]) + Body::pad(i) -
                                  static_cast<long long>(inside) * Body::dilation(i);
          holds &= start >= 0 && start % Body::stride(i) == 0 && start / Body::stride(i) < Body::y_size(i);
          p = static_cast<int>(start / Body::stride(i));
        } else {  // those that end with the last one that begins at or before h
          const int h = static_cast<int>(position[i + 1]) + Body::pad(i);
          p = h / Body::stride(i) - left;
          inside = h - p * Body::stride(i);
          holds &= p >= 0 && p < Body::y_size(i) && inside < Body::window(i);
        }
        y[i + 1] = p;
        place += inside * size;
        size *= Body::window(i);
      }
      if (holds) visit(place, y);
    }
  }
  static constexpr bool is_dilated() {
    for (int i = 0; i < axes; ++i)
      if (Body::dilation(i) > 1) return true;
    return false;
  }
  // The number of places inside x of the window that y pools, or 1 if there are none.
  static int inside_count(const Index (&y)[axes + 1]) {
    int total = 1;
#pragma unroll
    for (int i = 0; i < axes; ++i) {
      using Place = typename PlaceOf<is_dilated()>::Type;
      const Place start = static_cast<Place>(y[i + 1]) * Body::stride(i) - Body::pad(i), step = Body::dilation(i);
      // The first place inside, and the first behind the end.
      const Place low = start < 0 ? (-start + step - 1) / step : 0, high = (Body::x_size(i) - start + step - 1) / step;
      const int count = static_cast<int>((high < Body::window(i) ? high : Place(Body::window(i))) - low);
      total *= count > 0 ? count : 0;
    }
    return total > 0 ? total : 1;
  }
};

template <class Body, class Index, int rank>
__device__ Index operand0_index(const Index (&position)[rank]) {
  Index index = 0;
#pragma unroll
  for (int axis = 0; axis < rank; ++axis) index += position[axis] * Body::operand0_stride(axis);
  return index;
}
template <class Body, class Index, int rank>
__device__ Index operand1_index(const Index (&position)[rank]) {
  Index index = 0;
#pragma unroll
  for (int axis = 0; axis < rank; ++axis) index += position[axis] * Body::operand1_stride(axis);
  return index;
}

// The largest element of a window and its place. Ties go to the first, and NaN wins.
template <class T>
struct Largest {
  T value = kSame<T, i32> ? T(-2147483647 - 1) : T(-__int_as_float(0x7f800000));
  int place = -1;
  void add(T x, int where) {
    if (place < 0 || (value == value && (x > value || x != x))) {
      value = x;
      place = where;
    }
  }
};

template <class T, class Body, class Position>
__device__ Largest<T> largest(const Body& body, const Position& position) {
  Largest<T> best;
  Windows<Body>::over_window(position, [&](int place, auto x) { best.add(convert<T>(body.operand0[x]), place); });
  return best;
}

template <class T, class Body, class Position>
__device__ T max_pool_output(const Body& body, const Position& position) {
  return largest<T>(body, position).value;
}
template <class T, class Body, class Position>
__device__ T max_pool_index(const Body& body, const Position& position) {
  const int place = largest<typename Body::Compute>(body, position).place;
  return static_cast<T>(place < 0 ? 0 : place);
}
template <class T, class Body, class Position>
__device__ T max_pool_input_grad(const Body& body, const Position& position) {
  T sum = 0;
  Windows<Body>::over_holders(position, [&](int place, const auto& y) {
    if (static_cast<int>(body.operand1[operand1_index<Body>(y)]) == place)
      sum += convert<T>(body.operand0[operand0_index<Body>(y)]);
  });
  return sum;
}
template <class T, class Body, class Position>
__device__ T max_pool_gather(const Body& body, const Position& position) {
  const int wanted = static_cast<int>(body.operand1[operand1_index<Body>(position)]);
  T value = 0;
  Windows<Body>::over_window(position, [&](int place, auto x) {
    if (place == wanted) value = convert<T>(body.operand0[x]);
  });
  return value;
}
template <class T, class Body, class Position>
__device__ T average_pool_output(const Body& body, const Position& position) {
  T sum = 0;
  Windows<Body>::over_window(position, [&](int, auto x) { sum += convert<T>(body.operand0[x]); });
  return sum / static_cast<T>(Body::kCountPad ? Windows<Body>::positions() : Windows<Body>::inside_count(position));
}
template <class T, class Body, class Position>
__device__ T average_pool_input_grad(const Body& body, const Position& position) {
  T sum = 0;
  Windows<Body>::over_holders(position, [&](int, const auto& y) {
    const int count = Body::kCountPad ? Windows<Body>::positions() : Windows<Body>::inside_count(y);
    sum += convert<T>(body.operand0[operand0_index<Body>(y)]) / static_cast<T>(count);
  });
  return sum;
}

// The result of an index out of range: NaN, or the largest integer.
template <class T>
__device__ inline T no_number() {
  if constexpr (kSame<T, i32>)
    return 2147483647;
  else if constexpr (kSame<T, i64>)
    return 9223372036854775807LL;
  else
    return static_cast<T>(__int_as_float(0x7fc00000));
}

// Gather along kAxis. In the domain, the kIndexAxes axes of the indices replace this axis of x.
template <class T, class Body, class Index, int rank>
__device__ T gather(const Body& body, const Index (&position)[rank]) {
  Index where = 0, index = 0;
#pragma unroll
  for (int i = 0; i < Body::kIndexAxes; ++i) where += position[Body::kAxis + i] * Body::operand1_stride(i);
  i32 wanted = convert<i32>(body.operand1[where]);
  if (wanted < 0) wanted += Body::kAxisSize;
#pragma unroll
  for (int axis = 0; axis < rank; ++axis) {
    if (axis < Body::kAxis) index += position[axis] * Body::operand0_stride(axis);
    if (axis >= Body::kAxis + Body::kIndexAxes)
      index += position[axis] * Body::operand0_stride(axis - Body::kIndexAxes + 1);
  }
  if (wanted < 0 || wanted >= Body::kAxisSize) return no_number<T>();
  return convert<T>(body.operand0[index + wanted * Body::operand0_stride(Body::kAxis)]);
}

// The transpose of gather: a position folds all updates whose index is this position, in row-major order. They are
// neighbours in operand 2, the positions of the indices in the order of their targets.
template <class T, class Body, class Index, int rank>
__device__ T scatter(const Body& body, const Index (&position)[rank]) {
  Index base = 0;
#pragma unroll
  for (int axis = 0; axis < rank; ++axis) {
    if (axis < Body::kAxis) base += position[axis] * Body::operand0_stride(axis);
    if (axis > Body::kAxis) base += position[axis] * Body::operand0_stride(axis + Body::kIndexAxes - 1);
  }
  // The target of the i-th index in order, and where its update is.
  const auto look = [&](Index i, Index& update) {
    Index rest = static_cast<Index>(body.operand2[i * Body::operand2_stride(0)]), where = 0;
    update = base;
#pragma unroll
    for (int axis = Body::kIndexAxes - 1; axis >= 0; --axis) {
      const Index at = rest % Body::index_size(axis);
      rest /= Body::index_size(axis);
      where += at * Body::operand1_stride(axis);
      update += at * Body::operand0_stride(Body::kAxis + axis);
    }
    const i32 target = convert<i32>(body.operand1[where]);
    return target < 0 ? target + Body::kAxisSize : target;
  };
  typename Body::Fold fold;
  if constexpr (Body::kIndices > 0) {
    Index update;
    if (look(0, update) < 0 || look(Body::kIndices - 1, update) >= Body::kAxisSize) return no_number<T>();
    const i32 wanted = static_cast<i32>(position[Body::kAxis]);
    Index first = 0, behind = Body::kIndices;
    while (first < behind) {
      const Index half = (first + behind) / 2;
      if (look(half, update) < wanted)
        first = half + 1;
      else
        behind = half;
    }
    for (; first < Body::kIndices && look(first, update) == wanted; ++first)
      fold.add(convert<T>(body.operand0[update]));
  }
  return fold.value;
}
