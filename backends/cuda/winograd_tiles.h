// Tiles of images in kernels that lowering writes: Winograd's transforms, where tiles lie, and what follows them.
#pragma once

#include <array>
#include <vector>

#include "backends/cuda/straight_code.h"
#include "core/plan.h"

namespace nixie::cuda {

/// Registers in a row, and rows of them.
using Line = std::vector<int>;
using Grid = std::vector<Line>;
/// Code that transforms a line.
using Transform = Line (*)(StraightCode&, const Line&);

// The matrices of F(2, 3) times a line. F(2, 5) is F(2, 3) of the first taps and F(2, 2) of the others, one after the
// other in each line: 7 elements.
Line images_line(StraightCode& code, const Line& d);           ///< B^T: 4 to 4, or 6 to 7
Line filter_line(StraightCode& code, const Line& g);           ///< G: 3 to 4, or 5 to 7
Line result_line(StraightCode& code, const Line& m);           ///< A^T: 4 or 7 to 2
Line gradient_line_of_3(StraightCode& code, const Line& y);    ///< A: 2 to 4
Line gradient_line_of_5(StraightCode& code, const Line& y);    ///< A: 2 to 7
Line filter_gradient_line(StraightCode& code, const Line& m);  ///< G^T: 4 to 3, or 7 to 5

/// T grid T^T.
Grid both_ways(StraightCode& code, const Grid& grid, Transform transform);

/// What an access to a 4-D `shape` is at row first[0] + `step` * t and column first[1] + `step` * u for positions
/// [image, channel, t, u] of `domain`; bounded where that lies outside the shape.
Access in_tiles(const Access& whole, const Shape& shape, std::array<std::int64_t, 2> first, std::int64_t step,
                const Shape& domain);
/// The access for images from `image` on.
Access from_image(Access access, std::int64_t image);

/// Whether what follows a kernel's head may follow several `results` in one kernel: it depends on no position, and fits
/// the registers.
bool may_follow(const Kernel& kernel, int results);
/// Makes `made`, whose loads and code so far are given, do with results what `kernel` does with its head: results[i][j]
/// is the head at row n * t + i and column n * u + j, for n x n results, of images from `image` on.
void follow(Kernel& made, StraightCode code, const Kernel& kernel, const Grid& results, std::int64_t image);

}  // namespace nixie::cuda
