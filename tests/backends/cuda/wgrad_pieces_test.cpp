// The places of a filter gradient's sums: every row and column once, and phases of pixels, shifted as their boxes are,
// in the parts of a schedule that add up to the gradient.
#include "nixie/backends/cuda/kernels/conv/wgrad/wgrad_pieces.cuh"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"

namespace nixie::cuda {
namespace {

struct TileShape {
  int consumers, mma_m, n;
  WgradPieces pieces() const { return {.mma_m = mma_m, .n = n}; }
  int rows() const { return 64 * consumers * mma_m; }
  int threads() const { return 128 * consumers; }
  int count() const { return mma_m * n / 8; }  // pieces of a thread
};

constexpr TileShape kTiles[] = {{1, 1, 64}, {2, 1, 64}, {2, 1, 160}, {3, 1, 128}, {2, 2, 128}, {1, 1, 256}};

TEST(CudaWgradPieces, HaveEveryFourColumnsOfARowOnce) {
  for (const TileShape& tile : kTiles) {
    const WgradPieces pieces = tile.pieces();
    std::set<std::pair<int, int>> seen;
    for (int piece = 0; piece < tile.count(); ++piece)
      for (int thread = 0; thread < tile.threads(); ++thread) {
        const int row = pieces.row(piece, thread), column = pieces.column(piece, thread);
        EXPECT_TRUE(seen.emplace(row, column).second);
        EXPECT_LT(row, tile.rows());
        EXPECT_LT(column, tile.n);
        EXPECT_EQ(column % 4, 0);
        ASSERT_EQ(pieces.piece_at(row, column), piece);
        ASSERT_EQ(pieces.thread_at(row, column), thread);
      }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(tile.rows() * tile.n / 4));
  }
}

using Matrix = std::vector<std::vector<int>>;

Matrix matrix(int rows, int columns) {
  return Matrix(static_cast<std::size_t>(rows), std::vector<int>(static_cast<std::size_t>(columns)));
}

int& in(Matrix& m, int row, int column) {
  return m.at(static_cast<std::size_t>(row)).at(static_cast<std::size_t>(column));
}

// A number of a pixel's row as a box has it: those past the row are zero.
int boxed(Matrix& pixels, int phases, int row, int first, int i) {
  const int size = static_cast<int>(pixels[0].size()), at = first + i, pixel = row * phases + at / size;
  return at < phases * size && pixel < static_cast<int>(pixels.size()) ? in(pixels, pixel, at % size) : 0;
}

struct Case {
  TileShape tile;
  int channels, filters, phases, rows;  // rows of pixels, of `phases` each
};

// Steps as conv_wgrad takes them: an item's sums of boxes, its part by pieces, and the sums of all parts where phases
// put them.
TEST(CudaWgradPieces, PartsOfPhasesAddUpToTheGradient) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> draw(-9, 9);
  for (const Case& c : {Case{{2, 1, 128}, 120, 20, 2, 150},
                        {{1, 1, 64}, 40, 60, 2, 300},
                        {{2, 1, 64}, 36, 100, 2, 77},
                        {{1, 1, 64}, 44, 33, 8, 130},
                        {{2, 1, 160}, 132, 70, 4, 64},
                        {{1, 1, 64}, 64, 2, 4, 65}}) {
    Matrix x = matrix(c.rows * c.phases, c.channels), dy = matrix(c.rows * c.phases, c.filters),
           expected = matrix(c.filters, c.channels);
    for (Matrix* m : {&x, &dy})
      for (auto& pixel : *m)
        for (int& number : pixel) number = draw(random);
    for (std::size_t pixel = 0; pixel < x.size(); ++pixel)
      for (int k = 0; k < c.filters; ++k)
        for (int i = 0; i < c.channels; ++i)
          in(expected, k, i) += dy[pixel][static_cast<std::size_t>(k)] * x[pixel][static_cast<std::size_t>(i)];

    ASSERT_LE(c.filters + WgradPhase::most_shift(c.phases, c.filters), c.tile.rows());
    ASSERT_LE(c.channels + WgradPhase::most_shift(c.phases, c.channels), c.tile.n);
    const WgradSchedule schedule = schedule_phases(c.phases, (c.rows + 63) / 64, 13, 512);
    const WgradPieces pieces = c.tile.pieces();
    std::vector<Matrix> parts(static_cast<std::size_t>(schedule.slots));
    for (const WgradItem& item : schedule.items) {
      const int phase = item.tile >> 16, filter = WgradPhase::box(phase, c.filters),
                channel = WgradPhase::box(phase, c.channels);
      EXPECT_EQ(filter % 8 + channel % 8, 0);
      Matrix& sums = parts.at(static_cast<std::size_t>(item.slot)) = matrix(c.tile.rows(), c.tile.n);
      for (int row = item.first * 64; row < (item.first + item.count) * 64; ++row)
        for (int m = 0; m < c.tile.rows(); ++m)
          if (const int a = boxed(dy, c.phases, row, filter, m))
            for (int n = 0; n < c.tile.n; ++n) in(sums, m, n) += a * boxed(x, c.phases, row, channel, n);
    }
    for (int piece = 0; piece < c.tile.count(); ++piece)
      for (int thread = 0; thread < c.tile.threads(); ++thread) {
        const int k = pieces.row(piece, thread), first = pieces.column(piece, thread);
        if (k >= c.filters || first >= c.channels) continue;
        for (int lane = 0; lane < 4; ++lane) {
          int sum = 0;
          for (int i = 0; i < schedule.slots; ++i) {
            const int phase = i / (schedule.slots / c.phases), row = k + WgradPhase::shift(phase, c.filters),
                      column = first + WgradPhase::shift(phase, c.channels), at = pieces.piece_at(row, column),
                      by = pieces.thread_at(row, column);
            sum += in(parts[static_cast<std::size_t>(i)], pieces.row(at, by), pieces.column(at, by) + lane);
          }
          ASSERT_EQ(sum, in(expected, k, first + lane)) << k << ' ' << first + lane;
        }
      }
  }
}

}  // namespace
}  // namespace nixie::cuda
