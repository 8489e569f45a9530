// The Problems of convolutions in each of their three roles (operands.cuh).
#pragma once

#include "operands.cuh"

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
  // The step between neighbouring pixels of y, whose images follow each other without gaps; 0 where it differs.
  static constexpr Index y_step() {
    Index next = Body::y_stride(1 + spatial);
    for (int i = spatial - 1; i >= 0; --i) {
      next *= Body::y_size(i);
      if (i > 0 ? Body::y_stride(1 + i) != next : Body::kImages > 1 && Body::y_stride(0) != next) return 0;
    }
    return Body::y_stride(1 + spatial);
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
  // The same of k = first + offset; a step within one window position finds it once for all offsets.
  static void split(Index first, int offset, int& channel, int& place) {
    constexpr bool stays = Body::kChannelsInner && Body::kPitch % Body::kTileK == 0;
    split(stays ? first : first + offset, channel, place);
    if (stays) channel += offset;
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
    int start[spatial];  // below all images for rows past the last
  };
  struct Column {
    Index filter;
    bool inside;
  };
  struct TermA {
    int channel, shift[spatial];
    Index offset;
  };
  struct TermB {
    int channel;
    Index offset;
  };

  Row row(int group, Index m) const {
    const auto p = Base::pixel(m, false);
    Row row{p.image * Body::x_stride(0) + static_cast<Index>(group) * Body::kChannels * Body::x_stride(1), {}};
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      row.start[i] = p.at[i] * Body::stride(i) - Body::pad(i);
      row.base += row.start[i] * Body::x_stride(2 + i);
    }
    if (!Base::template is_line<Body::kTileM>(m, kM)) row.start[0] = Body::x_size(0);
    return row;
  }
  Column column(int group, Index n) const {
    return {static_cast<Index>(group) * Body::kFilters + n, Base::template is_line<Body::kTileN>(n, kN)};
  }
  static TermA term_a(Index first, int offset) {
    TermA term;
    int place;
    Base::split(first, offset, term.channel, place);
    const auto t = Base::tap(place);
    term.offset = term.channel * Body::x_stride(1);
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      term.shift[i] = t.at[i] * Body::dilation(i);
      term.offset += term.shift[i] * Body::x_stride(2 + i);
    }
    return term;
  }
  static TermB term_b(Index first, int offset) {
    int channel, place;
    Base::split(first, offset, channel, place);
    return {channel, Base::filter_index(0, channel, Base::tap(place))};
  }
  static bool find_a(const Row& row, const TermA& term, Index& index, Span& span) {
    index = row.base + term.offset;
    span.high = run - term.channel;
    bool inside = true;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = row.start[i] + term.shift[i];
      if (i < Base::tapped)
        inside &= static_cast<u32>(h) < static_cast<u32>(Body::x_size(i));
      else
        Base::cut(span, h, term.channel);
    }
    return inside && span.any();
  }
  static bool find_b(const Column& column, const TermB& term, Index& index, Span& span) {
    index = column.filter * Body::w_stride(0) + term.offset;
    span.high = run - term.channel;
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
    int start[spatial];  // above all images for rows past the last
  };
  struct Column {
    Index base;
    int channel;
    bool inside;
  };
  struct TermA {
    int filter, shift[spatial];
    Index offset;
  };
  struct TermB {
    Index offset;
    bool inside;
  };

  Row row(int group, Index m) const {
    const auto p = Base::pixel(m, true);
    Row row{p.image * Body::y_stride(0) + static_cast<Index>(group) * Body::kFilters * Body::y_stride(1), {}};
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      row.start[i] = p.at[i] + Body::pad(i);
      if (Body::stride(i) == 1) row.base += row.start[i] * Body::y_stride(2 + i);
    }
    if (!Base::template is_line<Body::kTileM>(m, kM)) row.start[0] = -1;
    return row;
  }
  Column column(int group, Index n) const {
    return {static_cast<Index>(group) * Body::kFilters * Body::w_stride(0) + n * Body::w_stride(1), static_cast<int>(n),
            Base::template is_line<Body::kTileN>(n, kN)};
  }
  static TermA term_a(Index first, int offset) {
    TermA term;
    int place;
    Base::split(first, offset, term.filter, place);
    const auto t = Base::tap(place);
    term.offset = term.filter * Body::y_stride(1);
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      term.shift[i] = t.at[i] * Body::dilation(i);
      if (Body::stride(i) == 1) term.offset -= term.shift[i] * Body::y_stride(2 + i);
    }
    return term;
  }
  static TermB term_b(Index first, int offset) {
    int filter, place;
    Base::split(first, offset, filter, place);
    return {Base::filter_index(filter, 0, Base::tap(place)), filter < Body::kFilters};
  }
  static bool find_a(const Row& row, const TermA& term, Index& index, Span& span) {
    index = row.base + term.offset;
    span.high = Body::kFilters - term.filter;
    bool inside = true;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = row.start[i] - term.shift[i];  // = stride * the pixel of y that reads this one
      if (Body::stride(i) == 1) {
        inside &= static_cast<u32>(h) < static_cast<u32>(Body::y_size(i));
      } else {
        const int p = h / Body::stride(i);
        inside &= h >= 0 && p < Body::y_size(i) && p * Body::stride(i) == h;
        index += p * Body::y_stride(2 + i);
      }
    }
    return inside && span.any();
  }
  static bool find_b(const Column& column, const TermB& term, Index& index, Span& span) {
    index = column.base + term.offset;
    span.high = Body::kChannels - column.channel;
    return column.inside && term.inside;
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
  struct TermB {
    Index offset;
    int shift[spatial];
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
    for (int i = 0; i < spatial; ++i) {
      column.start[i] = t.at[i] * Body::dilation(i) - Body::pad(i);
      column.base += column.start[i] * Body::x_stride(2 + i);
    }
    return column;
  }
  static Index term_a(Index first, int offset) {
    if (Base::y_step() != 0) return (first + offset) * Base::y_step();
    const auto p = Base::pixel(first + offset, false);
    Index index = p.image * Body::y_stride(0);
#pragma unroll
    for (int i = 0; i < spatial; ++i) index += p.at[i] * Body::y_stride(2 + i);
    return index;
  }
  static TermB term_b(Index first, int offset) {
    const auto p = Base::pixel(first + offset, false);
    TermB term{p.image * Body::x_stride(0), {}};
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      term.shift[i] = p.at[i] * Body::stride(i);
      term.offset += term.shift[i] * Body::x_stride(2 + i);
    }
    return term;
  }
  static bool find_a(const Row& row, Index term, Index& index, Span& span) {
    index = row.base + term;
    span.high = static_cast<int>(row.left);
    return row.left > 0;
  }
  static bool find_b(const Column& column, const TermB& term, Index& index, Span& span) {
    index = column.base + term.offset;
    bool inside = column.inside;
    span.high = run - column.element;
#pragma unroll
    for (int i = 0; i < spatial; ++i) {
      const int h = column.start[i] + term.shift[i];
      if (i < Base::tapped)
        inside &= static_cast<u32>(h) < static_cast<u32>(Body::x_size(i));
      else
        Base::cut(span, h, column.element);
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
