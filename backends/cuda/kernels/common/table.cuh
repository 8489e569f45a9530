// The argument of a shared launch: a table of Bodies that differ only in numbers and pointers. A row's Body runs in the
// blocks from its `first_block` up to the next row's.
#pragma once

#include "types.cuh"

template <class Body>
struct Row {
  u64 first_block;
  Body body;
};

template <class Body, int capacity>
struct Table {
  u64 count;
  Row<Body> rows[capacity];

  __device__ const Row<Body>& row_of(u32 block) const {
    u32 row = 0, end = static_cast<u32>(count);
    while (end - row > 1) {
      const u32 middle = (row + end) / 2;
      (rows[middle].first_block <= block ? row : end) = middle;
    }
    return rows[row];
  }
};
