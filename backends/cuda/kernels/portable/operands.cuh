// The Problems of gemm.cuh and gemm_mma.cuh: they map a batched matrix product, and a convolution in each of its three
// roles, to matrix products (implicit GEMM). Body gives the geometry as constants, per axis of the kernel's domain.
// find_a(row, k, index, span) and find_b(column, k, index, span) return whether a piece is inside operand0 or operand1,
// its index there, and, for a ragged piece, the span of its elements that belong to the operand. place(group, m, n)
// identifies an element of the result: its channel (the column of a matrix), and its position along all other axes, in
// the domain's order.
#pragma once

#include "types.cuh"

template <class Index>
struct Place {
  Index position, channel;
  bool inside;
};

// Shared by all Problems: the constants and pointers of Body.
template <class Body>
struct ProblemBase {
  using Index = typename Body::Index;
  using Accumulate = typename Body::Accumulate;
  static constexpr int kLanes = Body::kLanes;             // neighbouring columns that Body takes at once
  static constexpr bool kRowsInside = Body::kRowsInside;  // neighbouring rows are neighbours in memory
  static constexpr int kTileM = Body::kTileM, kTileN = Body::kTileN, kTileK = Body::kTileK;
  static constexpr int kThreadM = Body::kThreadM, kThreadN = Body::kThreadN, kThreads = Body::kThreads;  // of gemm
  static constexpr int kWarpsN = Body::kWarpsN;                                                          // of gemm_mma
  static constexpr int kSplits = Body::kSplits, kSplitGroup = Body::kSplitGroup;
  static constexpr bool kAlongKA = Body::kAlongKA, kAlongKB = Body::kAlongKB;
  static constexpr int kVectorA = Body::kVectorA, kVectorB = Body::kVectorB;
  static constexpr bool kRaggedA = Body::kRaggedA, kRaggedB = Body::kRaggedB;
  using A = typename Body::A;
  using B = typename Body::B;
  const Body& body;
  explicit ProblemBase(const Body& b) : body(b) {}
  const A* first() const { return body.operand0; }
  const B* second() const { return body.operand1; }
  char* parts() const { return body.parts; }
  u32* arrived() const { return body.arrived; }
  // Runs the epilogue for kLanes neighbouring columns of a row.
  template <class T>
  void finish(const Place<Index>& place, const T (&values)[kLanes]) const {
    typename Body::Loads loads;
    body.load(place.position, place.channel, loads);
    body.run(place.position, place.channel, loads, values);
  }
};

// Body: kM, kN, kK, kBatchAxes, batch_size(axis), a_stride(axis), b_stride(axis) over the batch axes and the matrix.
template <class Body>
struct MatmulProblem : ProblemBase<Body> {
  using typename ProblemBase<Body>::Index;
  using ProblemBase<Body>::ProblemBase;
  static constexpr Index kM = Body::kM, kN = Body::kN, kK = Body::kK;
  static constexpr int axes = Body::kBatchAxes;
  struct Line {
    Index base;
    bool inside;
  };

  Line row(int batch, Index m) const {
    Index base = m * Body::a_stride(axes);
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis, batch /= Body::batch_size(axis + 1))
      base += batch % Body::batch_size(axis) * Body::a_stride(axis);
    return {base, m < kM};
  }
  Line column(int batch, Index n) const {
    Index base = n * Body::b_stride(axes + 1);
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis, batch /= Body::batch_size(axis + 1))
      base += batch % Body::batch_size(axis) * Body::b_stride(axis);
    return {base, n < kN};
  }
  static bool find_a(const Line& row, Index k, Index& index, Span&) {
    index = row.base + k * Body::a_stride(axes + 1);
    return row.inside;
  }
  static bool find_b(const Line& column, Index k, Index& index, Span&) {
    index = column.base + k * Body::b_stride(axes);
    return column.inside;
  }
  static Place<Index> place(int batch, Index m, Index n) {
    return {static_cast<Index>(batch) * kM + m, n, m < kM && n < kN};
  }
};

// Convolutions. Body: kSpatial, kImages, kChannels and kFilters (of one group), kGroups; x_size(i), y_size(i),
// window(i), stride(i), pad(i), dilation(i) per spatial axis; x_stride, w_stride, y_stride per axis of those arrays (0
// for the array that is the result); kChannelsInner: sums run over channels within each window position, not over
// window positions within each channel. Then elements that are contiguous in memory form a run: the channels of a pixel
// or, with kRowRuns, the channels of all pixels that a row of the window reads, which then counts as one position. A
// run takes kPitch values of k (in a filter gradient of n), the last of which may be empty.
template <class Body>
struct ConvBase : ProblemBase<Body> {
  using typename ProblemBase<Body>::Index;
  using ProblemBase<Body>::ProblemBase;
  static constexpr int spatial = Body::kSpatial;
  static constexpr int tapped = spatial - Body::kRowRuns;  // window axes that are not inside a run
  static constexpr int positions(int axes) {
    int total = 1;
    for (int i = 0; i < axes; ++i) total *= Body::window(i);
    return total;
  }
  static constexpr int window_size() { return positions(spatial); }
  static constexpr int in_row = Body::kRowRuns ? Body::window(spatial - 1) : 1;  // pixels per run
  static constexpr Index pixels(bool of_x) {
    Index total = 1;
    for (int i = 0; i < spatial; ++i) total *= of_x ? Body::x_size(i) : Body::y_size(i);
    return total;
  }
  // A window position as an offset along each axis; of a run, the position of its first pixel.
  struct Tap {
    int at[spatial];
  };
  static Tap tap(int linear) {
    Tap t;
    t.at[spatial - 1] = 0;
#pragma unroll
    for (int i = tapped - 1; i >= 0; --i) {
      t.at[i] = linear % Body::window(i);
      linear /= Body::window(i);
    }
    return t;
  }
  // An image and a pixel of it.
  struct Pixel {
    Index image;
    int at[spatial];
  };
  static Pixel pixel(Index linear, bool of_x) {
    Pixel p;
#pragma unroll
    for (int i = spatial - 1; i >= 0; --i) {
      const int size = of_x ? Body::x_size(i) : Body::y_size(i);
      const bool last = i == 0 && Body::kImages == 1;  // no division: lines past the end count as outside anyway
      p.at[i] = static_cast<int>(last ? linear : linear % size);
      linear = last ? 0 : linear / size;
    }
    p.image = linear;
    return p;
  }
  // Splits k (in a filter gradient n) into a channel, or an element of a run, and a window position.
  static void split(Index k, int& channel, int& place) {
    if constexpr (Body::kChannelsInner) {
      channel = static_cast<int>(k % Body::kPitch);
      place = static_cast<int>(k / Body::kPitch);
    } else {
      place = static_cast<int>(k % window_size());
      channel = static_cast<int>(k / window_size());
    }
  }
  // Cuts a span, which starts at `element` of a run, to the pixels inside an image's row. The run starts at pixel
  // `first`, which may be outside.
  static void cut(Span& span, int first, int element) {
    const int low = -first * Body::kChannels - element,
              high = (Body::x_size(spatial - 1) - first) * Body::kChannels - element;
    if (span.low < low) span.low = low;
    if (span.high > high) span.high = high;
  }
  static Index filter_index(Index filter, int channel, const Tap& t) {
    Index index = filter * Body::w_stride(0) + channel * Body::w_stride(1);
#pragma unroll
    for (int i = 0; i < spatial; ++i) index += t.at[i] * Body::w_stride(2 + i);
    return index;
  }
};

// y[image, filter, pixel]: rows are pixels of y, columns are filters, k counts channels and window positions.
template <class Body>
struct ConvOutput : ConvBase<Body> {
  using Base = ConvBase<Body>;
  using Base::Base;
  using typename Base::Index;
  static constexpr int spatial = Base::spatial;
  static constexpr Index kM = Body::kImages * Base::pixels(false), kN = Body::kFilters;
  static constexpr Index kK = static_cast<Index>(Body::kPitch) * Base::positions(Base::tapped);
  static constexpr int run = Body::kChannels * Base::in_row;
  struct Row {
    Index base;
    int start[spatial];
    bool inside;
  };
  struct Column {
    Index filter;
    bool inside;
  };

  Row row(int group, Index m) const {
    const auto p = Base::pixel(m, false);
    Row row{p.image * Body::x_stride(0) + static_cast<Index>(group) * Body::kChannels * Body::x_stride(1), {}, m < kM};
#pragma unroll
    for (int i = 0; i < spatial; ++i) row.start[i] = p.at[i] * Body::stride(i) - Body::pad(i);
    return row;
  }
  Column column(int group, Index n) const { return {static_cast<Index>(group) * Body::kFilters + n, n < kN}; }
  static bool find_a(const Row& row, Index k, Index& index, Span& span) {
    int channel, place;
    Base::split(k, channel, place);
    const auto t = Base::tap(place);
    index = row.base + channel * Body::x_stride(1);
    span.high = run - channel;
    bool inside = row.inside;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = row.start[i] + t.at[i] * Body::dilation(i);
      if (i < Base::tapped)
        inside &= h >= 0 && h < Body::x_size(i);
      else
        Base::cut(span, h, channel);
      index += h * Body::x_stride(2 + i);
    }
    return inside && span.any();
  }
  static bool find_b(const Column& column, Index k, Index& index, Span& span) {
    int channel, place;
    Base::split(k, channel, place);
    index = Base::filter_index(column.filter, channel, Base::tap(place));
    span.high = run - channel;
    return column.inside && span.any();
  }
  static Place<Index> place(int group, Index m, Index n) {
    return {m, static_cast<Index>(group) * Body::kFilters + n, m < kM && n < kN};
  }
};

// dx[image, channel, pixel]: rows are pixels of x, columns are channels, k counts filters and window positions.
template <class Body>
struct ConvInputGrad : ConvBase<Body> {
  using Base = ConvBase<Body>;
  using Base::Base;
  using typename Base::Index;
  static constexpr int spatial = Base::spatial;
  static constexpr Index kM = Body::kImages * Base::pixels(true), kN = Body::kChannels;
  static constexpr Index kK = static_cast<Index>(Body::kPitch) * Base::window_size();
  static_assert(!Body::kRowRuns);
  struct Row {
    Index base;
    int start[spatial];
    bool inside;
  };
  struct Column {
    int group, channel;
    bool inside;
  };

  Row row(int group, Index m) const {
    const auto p = Base::pixel(m, true);
    Row row{p.image * Body::y_stride(0) + static_cast<Index>(group) * Body::kFilters * Body::y_stride(1), {}, m < kM};
#pragma unroll
    for (int i = 0; i < spatial; ++i) row.start[i] = p.at[i] + Body::pad(i);
    return row;
  }
  Column column(int group, Index n) const { return {group, static_cast<int>(n), n < kN}; }
  static bool find_a(const Row& row, Index k, Index& index, Span& span) {
    int filter, place;
    Base::split(k, filter, place);
    const auto t = Base::tap(place);
    index = row.base + filter * Body::y_stride(1);
    span.high = Body::kFilters - filter;
    bool inside = row.inside;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = row.start[i] - t.at[i] * Body::dilation(i);  // = stride * the pixel of y that reads this one
      const int p = h / Body::stride(i);
      inside &= h >= 0 && p < Body::y_size(i) && p * Body::stride(i) == h;
      index += p * Body::y_stride(2 + i);
    }
    return inside && span.any();
  }
  static bool find_b(const Column& column, Index k, Index& index, Span& span) {
    int filter, place;
    Base::split(k, filter, place);
    index = Base::filter_index(static_cast<Index>(column.group) * Body::kFilters + filter, column.channel,
                               Base::tap(place));
    span.high = Body::kChannels - column.channel;
    return column.inside && filter < Body::kFilters;
  }
  static Place<Index> place(int group, Index m, Index n) {
    return {m, static_cast<Index>(group) * Body::kChannels + n, m < kM && n < kN};
  }
};

// dw[filter, channel, place]: rows are filters, columns are channels and window positions, k counts images and pixels
// of y.
template <class Body>
struct ConvFilterGrad : ConvBase<Body> {
  using Base = ConvBase<Body>;
  using Base::Base;
  using typename Base::Index;
  static constexpr int spatial = Base::spatial;
  static constexpr Index kM = Body::kFilters, kN = static_cast<Index>(Body::kPitch) * Base::positions(Base::tapped);
  static constexpr Index kK = Body::kImages * Base::pixels(false);
  static constexpr int run = Body::kChannels * Base::in_row;
  struct Row {
    Index base;
    Index left;  // number of filters from this one on
  };
  struct Column {
    Index base;
    int start[spatial];
    int element;  // index in its run
    bool inside;
  };

  Row row(int group, Index m) const {
    return {(static_cast<Index>(group) * Body::kFilters + m) * Body::y_stride(1), kM - m};
  }
  Column column(int group, Index n) const {
    int channel, place;
    Base::split(n, channel, place);
    const auto t = Base::tap(place);
    Column column{(static_cast<Index>(group) * Body::kChannels + channel) * Body::x_stride(1),
                  {},
                  channel,
                  n < kN && channel < run};
#pragma unroll
    for (int i = 0; i < spatial; ++i) column.start[i] = t.at[i] * Body::dilation(i) - Body::pad(i);
    return column;
  }
  static bool find_a(const Row& row, Index k, Index& index, Span& span) {
    const auto p = Base::pixel(k, false);
    index = row.base + p.image * Body::y_stride(0);
#pragma unroll
    for (int i = 0; i < spatial; ++i) index += p.at[i] * Body::y_stride(2 + i);
    span.high = static_cast<int>(row.left);
    return row.left > 0;
  }
  static bool find_b(const Column& column, Index k, Index& index, Span& span) {
    const auto p = Base::pixel(k, false);
    index = column.base + p.image * Body::x_stride(0);
    bool inside = column.inside;
    span.high = run - column.element;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = column.start[i] + p.at[i] * Body::stride(i);
      if (i < Base::tapped)
        inside &= h >= 0 && h < Body::x_size(i);
      else
        Base::cut(span, h, column.element);
      index += h * Body::x_stride(2 + i);
    }
    return inside && span.any();
  }
  static Place<Index> place(int group, Index m, Index n) {
    int element, place;
    Base::split(n, element, place);
    const int tap = place * Base::in_row + element / Body::kChannels;
    return {(static_cast<Index>(group) * Body::kFilters + m) * Base::window_size() + tap, element % Body::kChannels,
            m < kM && n < kN && element < run};
  }
};
