// The rows of an array along one axis: where a row begins in the operand and in the result.
//
// Body: kRank, kAxis; size(axis), operand0_stride(axis), result_stride(axis), in elements; kLength, elements of a row
// of the operand.
#pragma once

#include "math.cuh"

template <class Body>
struct Row {
  i64 from = 0, to = 0;
  // The row of this number, counted row-major over the other axes.
  __device__ explicit Row(i64 number) {
#pragma unroll
    for (int axis = Body::kRank - 1; axis >= 0; --axis) {
      if (axis == Body::kAxis) continue;
      const i64 at = number % Body::size(axis);
      number /= Body::size(axis);
      from += at * Body::operand0_stride(axis);
      to += at * Body::result_stride(axis);
    }
  }
  __device__ auto element(const Body& body, i64 at) const {
    return body.operand0[from + at * Body::operand0_stride(Body::kAxis)];
  }
  template <class T>
  __device__ void store(const Body& body, i64 at, T value) const {
    body.result[to + at * Body::result_stride(Body::kAxis)] = convert<typename Body::Result>(value);
  }
};
