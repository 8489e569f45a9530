// Loads and stores of tiles: contiguous, broadcast, strided or bounded.
#include "nixie/backends/cpu/stages/access.h"

#include <algorithm>
#include <cstring>

namespace nixie::cpu {
namespace {

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

template <class From, class To>
void gather(const std::byte* memory, std::int64_t start, std::int64_t stride, std::int64_t count, To* to) {
  const From* from = reinterpret_cast<const From*>(memory) + start;
  if constexpr (std::is_same_v<From, To>) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i * stride]);
  }
}

template <class From, class To>
void load_row(const std::byte* memory, std::int64_t start, std::int64_t stride, std::int64_t count, To* to) {
  const From* from = reinterpret_cast<const From*>(memory) + start;
  if constexpr (std::is_same_v<From, To>)
    if (stride == 1) return static_cast<void>(std::copy_n(from, count, to));
  if (stride == 1)
    to_lanes(from, dtype_of<From>(), to, count);
  else if (stride == 0)
    std::fill_n(to, count, convert<To>(*from));
  else
    gather<From, To>(memory, start, stride, count, to);
}

template <class From, class To>
void store_row(const From* from, std::byte* memory, std::int64_t start, std::int64_t stride, std::int64_t count) {
  To* to = reinterpret_cast<To*>(memory) + start;
  if (stride == 1) {
    from_lanes(from, to, dtype_of<To>(), count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = convert<To>(from[i]);
  }
}

// The two innermost axes of a box where memory runs along the second one: whole runs are read, lanes written apart.
struct Square {
  std::int64_t rows, columns, row_stride, column_stride;
};

bool is_transposed(const Walk& walk, const Box& box, Square& square) {
  if (box.rank < 2) return false;
  const std::size_t inner = at(box.rank - 1), second = inner - 1;
  square = {box.extent[second], box.extent[inner], walk.strides[second], walk.strides[inner]};
  return square.row_stride == 1 && square.rows > 1 && square.columns > 1 && square.column_stride != 0 &&
         square.rows * square.columns == box.lanes();
}

template <class From, class To>
void load_transposed(const From* from, const Square& square, To* to) {
  for (std::int64_t column = 0; column < square.columns; ++column)
    for (std::int64_t row = 0; row < square.rows; ++row)
      to[row * square.columns + column] = convert<To>(from[column * square.column_stride + row]);
}

// One axis at a time: outside it everything is `fill`, inside it the next axis decides.
template <class From, class To>
void load_bounded(const std::byte* memory, const Walk& walk, To fill, const Box& box, int axis, std::int64_t element,
                  std::int64_t lanes, To* to) {
  if (axis == box.rank) {
    *to = convert<To>(reinterpret_cast<const From*>(memory)[element]);
    return;
  }
  const std::int64_t origin = box.origin[at(axis)], extent = box.extent[at(axis)], stride = walk.strides[at(axis)];
  const std::int64_t low = std::clamp<std::int64_t>(walk.inside[at(axis)].first - origin, 0, extent);
  const std::int64_t high = std::clamp<std::int64_t>(walk.inside[at(axis)].second - origin, low, extent);
  const std::int64_t each = lanes / extent;
  std::fill_n(to, low * each, fill);
  if (axis == box.rank - 1) {
    if (high > low) load_row<From, To>(memory, element + (origin + low) * stride, stride, high - low, to + low);
  } else {
    for (std::int64_t i = low; i < high; ++i)
      load_bounded<From, To>(memory, walk, fill, box, axis + 1, element + (origin + i) * stride, each, to + i * each);
  }
  std::fill_n(to + high * each, (extent - high) * each, fill);
}

// The same the other way: lanes outside go nowhere.
template <class From, class To>
void store_bounded(const From* from, std::byte* memory, const Walk& walk, const Box& box, int axis,
                   std::int64_t element, std::int64_t lanes) {
  if (axis == box.rank) {
    reinterpret_cast<To*>(memory)[element] = convert<To>(*from);
    return;
  }
  const std::int64_t origin = box.origin[at(axis)], extent = box.extent[at(axis)], stride = walk.strides[at(axis)];
  const std::int64_t low = std::clamp<std::int64_t>(walk.inside[at(axis)].first - origin, 0, extent);
  const std::int64_t high = std::clamp<std::int64_t>(walk.inside[at(axis)].second - origin, low, extent);
  const std::int64_t each = lanes / extent;
  if (axis == box.rank - 1) {
    if (high > low) store_row<From, To>(from + low, memory, element + (origin + low) * stride, stride, high - low);
  } else {
    for (std::int64_t i = low; i < high; ++i)
      store_bounded<From, To>(from + i * each, memory, walk, box, axis + 1, element + (origin + i) * stride, each);
  }
}

}  // namespace

std::int64_t start_of(const Walk& walk, const Box& box) {
  std::int64_t element = walk.offset;
  for (int axis = 0; axis < box.rank; ++axis) element += box.origin[at(axis)] * walk.strides[at(axis)];
  return element;
}

std::int64_t contiguous_start(const Walk& walk, const Box& box) {
  std::int64_t run = 1;
  for (int axis = box.rank - 1; axis >= 0; --axis) {
    if (box.extent[at(axis)] == 1) continue;
    if (walk.strides[at(axis)] != run) return -1;
    run *= box.extent[at(axis)];
  }
  for (int axis = 0; walk.bounded && axis < box.rank; ++axis) {
    const auto [low, high] = walk.inside[at(axis)];
    if (box.origin[at(axis)] < low || box.origin[at(axis)] + box.extent[at(axis)] > high) return -1;
  }
  return start_of(walk, box);
}

bool repeats_one_element(const Walk& walk, const Box& box) {
  if (walk.bounded) return false;
  for (int axis = 0; axis < box.rank; ++axis)
    if (box.extent[at(axis)] > 1 && walk.strides[at(axis)] != 0) return false;
  return true;
}

void load_lanes(const std::byte* memory, Dtype type, const Walk& walk, double fill, const Box& box, void* to) {
  visit_dtype(type, [&]<class From>(From) {
    using To = Lane<From>;
    To* lanes = static_cast<To*>(to);
    Square square;
    if (walk.bounded) {
      const From stored = convert<From>(fill);  // as an element of the array would be
      load_bounded<From, To>(memory, walk, convert<To>(stored), box, 0, walk.offset, box.lanes(), lanes);
    } else if (is_transposed(walk, box, square)) {
      load_transposed(reinterpret_cast<const From*>(memory) + start_of(walk, box), square, lanes);
    } else {
      for_each_row(walk, box, [&](std::int64_t lane, std::int64_t start, std::int64_t stride, std::int64_t count) {
        load_row<From, To>(memory, start, stride, count, lanes + lane);
      });
    }
  });
}

void store_lanes(const void* from, const Walk& walk, const Box& box, std::byte* memory, Dtype type) {
  visit_dtype(type, [&]<class To>(To) {
    using From = Lane<To>;
    const From* lanes = static_cast<const From*>(from);
    if (walk.bounded) return store_bounded<From, To>(lanes, memory, walk, box, 0, walk.offset, box.lanes());
    for_each_row(walk, box, [&](std::int64_t lane, std::int64_t start, std::int64_t stride, std::int64_t count) {
      store_row<From, To>(lanes + lane, memory, start, stride, count);
    });
  });
}

}  // namespace nixie::cpu
