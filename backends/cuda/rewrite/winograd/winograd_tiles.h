// Winograd's transforms as instructions, accesses to tiles of images, and the epilogue of tiles.
#pragma once

#include <array>
#include <vector>

#include "nixie/core/graph/instruction_builder.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// A row of registers, and rows of them.
using Line = std::vector<int>;
using Grid = std::vector<Line>;
/// The rows of a matrix that multiplies a line from the left.
using Matrix = std::vector<std::vector<double>>;

/// The transforms by which a line of four numbers of a window and three of a filter give two results in four
/// multiplications: y = result [(filter g) * (images d)], where * is element by element.
struct LineMatrices {
  Matrix images;  ///< B^T
  Matrix filter;  ///< G
  Matrix result;  ///< A^T
};
const LineMatrices& line_matrices();
/// The transposed matrix.
Matrix transposed(const Matrix& matrix);

/// T grid T^T.
Grid both_ways(InstructionBuilder& code, const Grid& grid, const Matrix& matrix);

/// An access to a 4-D `shape` at row first[0] + `step` * t and column first[1] + `step` * u for positions
/// [image, channel, t, u] of `domain`; bounded if some of these are outside the shape.
Access in_tiles(const Access& whole, const Shape& shape, std::array<std::int64_t, 2> first, std::int64_t step,
                const Shape& domain);
/// The access for images from `image` on.
Access from_image(Access access, std::int64_t image);

/// Whether a kernel's epilogue can process `results` results at a time: it does not depend on positions, and it fits
/// into registers.
bool may_follow(const Kernel& kernel, int results);
/// Appends the epilogue of `kernel` to `made`, whose loads and code so far are given. The epilogue is applied to n x n
/// results: results[i][j] is the head at row n * t + i and column n * u + j, of images from `image` on.
void follow(Kernel& made, InstructionBuilder code, const Kernel& kernel, const Grid& results, std::int64_t image);

}  // namespace nixie::cuda
