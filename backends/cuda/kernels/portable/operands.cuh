// The Problems of gemm.cuh and gemm_sm80.cuh: they map a batched matrix product here, and a convolution in each of its
// roles (conv_operands.cuh) to matrix products (implicit GEMM). Body gives the geometry as constants, per axis of the
// kernel's domain. row(group, m) and column(group, n) hold what does not depend on k, term_a(first, offset) and
// term_b(first, offset) what depends on k = first + offset alone, where `first` begins a step of kTileK. find_a(row,
// term, index, span) and find_b(column, term, index, span) return whether a piece is inside operand0 or operand1, its
// index there, and, for a ragged piece, the span of its elements that belong to the operand. place(group, m, n)
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
  static constexpr int kWarpsN = Body::kWarpsN, kStages = Body::kStages;                                 // of gemm_sm80
  static constexpr bool kInParts = Body::kInParts;                                                       // of gemm_sm80
  static constexpr int kSplits = Body::kSplits, kSplitGroup = Body::kSplitGroup;
  static constexpr int kSumsEvery = Body::kSumsEvery;  // terms after which sums are rounded; 0: never
  static constexpr Index kShare = Body::kShare;        // terms of a part of rounded sums
  static constexpr bool kAlongKA = Body::kAlongKA, kAlongKB = Body::kAlongKB;
  static constexpr int kVectorA = Body::kVectorA, kVectorB = Body::kVectorB;
  static constexpr bool kRaggedA = Body::kRaggedA, kRaggedB = Body::kRaggedB;
  using A = typename Body::A;
  using B = typename Body::B;
  static __device__ float merged(float sum, float group) { return Body::merged(sum, group); }
  const Body& body;
  explicit ProblemBase(const Body& b) : body(b) {}
  // Whether a line of a tile is one of `count`; known to the compiler where tiles leave no rest.
  template <int tile>
  static bool is_line(Index line, Index count) {
    return count % tile == 0 || line < count;
  }
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
    return {base, ProblemBase<Body>::template is_line<Body::kTileM>(m, kM)};
  }
  Line column(int batch, Index n) const {
    Index base = n * Body::b_stride(axes + 1);
#pragma unroll
    for (int axis = axes - 1; axis >= 0; --axis, batch /= Body::batch_size(axis + 1))
      base += batch % Body::batch_size(axis) * Body::b_stride(axis);
    return {base, ProblemBase<Body>::template is_line<Body::kTileN>(n, kN)};
  }
  static Index term_a(Index first, int offset) { return (first + offset) * Body::a_stride(axes + 1); }
  static Index term_b(Index first, int offset) { return (first + offset) * Body::b_stride(axes); }
  static bool find_a(const Line& row, Index term, Index& index, Span&) {
    index = row.base + term;
    return row.inside;
  }
  static bool find_b(const Line& column, Index term, Index& index, Span&) {
    index = column.base + term;
    return column.inside;
  }
  static Place<Index> place(int batch, Index m, Index n) {
    return {static_cast<Index>(batch) * kM + m, n, m < kM && n < kN};
  }
};
