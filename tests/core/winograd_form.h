// Winograd's F(2x2, 3x3) as an expression: a convolution of stride 1 by transforms around 16 products.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/core/ops/ops.h"

namespace nixie::testing {

using Terms = std::vector<Tensor>;
using Matrix = std::vector<std::vector<double>>;  // rows

inline const Matrix kImages{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
inline const Matrix kFilters{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
inline const Matrix kResults{{1, 1, 1, 0}, {0, 1, -1, -1}};

/// The matrix times a column of terms, without products by 0 and 1.
inline Terms transformed(const Matrix& matrix, const Terms& column) {
  Terms result;
  for (const std::vector<double>& row : matrix) {
    Tensor sum;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i] == 0) continue;
      const Tensor term = std::abs(row[i]) == 1 ? column[i] : column[i] * std::abs(row[i]);
      sum = !sum.id() ? (row[i] < 0 ? -term : term) : row[i] < 0 ? sum - term : sum + term;
    }
    result.push_back(sum);
  }
  return result;
}

/// matrix * tile * transposed matrix, of a square tile in rows.
inline Terms transformed_tile(const Matrix& matrix, const Terms& tile) {
  const std::size_t from = matrix[0].size(), to = matrix.size();
  std::vector<Terms> columns;
  for (std::size_t j = 0; j < from; ++j) {
    Terms column;
    for (std::size_t i = 0; i < from; ++i) column.push_back(tile[i * from + j]);
    columns.push_back(transformed(matrix, column));
  }
  Terms result;
  for (std::size_t i = 0; i < to; ++i) {
    Terms row;
    for (const Terms& column : columns) row.push_back(column[i]);
    for (const Tensor& term : transformed(matrix, row)) result.push_back(term);
  }
  return result;
}

/// The convolution of x [N, C, H, W] with w [K, C, 3, 3].
inline Tensor winograd(const Tensor& x, const Tensor& w, std::int64_t padding) {
  const std::int64_t n = x.shape()[0], c = x.shape()[1], k = w.shape()[0], p = x.shape()[2] + 2 * padding - 2,
                     q = x.shape()[3] + 2 * padding - 2, rows = (p + 1) / 2, columns = (q + 1) / 2;
  const Tensor padded = pad(permute(x, {1, 0, 2, 3}), {0, 0, padding, padding},
                            {0, 0, 2 * rows - p + padding, 2 * columns - q + padding});
  Terms pixels, taps;  // of all tiles, of all filters
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      pixels.push_back(slice(padded, {Index::all(), Index::all(), Index::range(i, i + 2 * rows - 1, 2),
                                      Index::range(j, j + 2 * columns - 1, 2)}));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) taps.push_back(slice(w, {Index::all(), Index::all(), i, j}));
  const Tensor images = reshape(stack(transformed_tile(kImages, pixels)), {16, c, n * rows * columns});
  const Tensor products = matmul(stack(transformed_tile(kFilters, taps)), images);
  Terms sums;
  for (int i = 0; i < 16; ++i) sums.push_back(reshape(slice(products, {i}), {k, n, rows, columns}));
  const Terms y = transformed_tile(kResults, sums);
  const Tensor whole = stack({stack({y[0], y[1]}, 4), stack({y[2], y[3]}, 4)}, 3);
  return slice(permute(reshape(whole, {k, n, 2 * rows, 2 * columns}), {1, 0, 2, 3}),
               {Index::all(), Index::all(), Index::range(0, p), Index::range(0, q)});
}

}  // namespace nixie::testing
