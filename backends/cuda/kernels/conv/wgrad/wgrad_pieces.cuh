// Where the threads of a filter gradient keep a tile's sums, and by how much phases of pixels shift these. Used by the
// kernels and by their test.
#pragma once

namespace nixie::cuda {

/// The sums of a tile: a consumer, 128 threads, has 64 * mma_m rows and n columns; `lines` consumers have the same
/// rows. A thread has pieces of four neighbouring channels of the layer: of a warp's 16 rows x 32 columns each lane has
/// four pieces. Eight lanes share a row of 32 columns, so that whole lines of memory are read and written; turned, four
/// lanes share a column of 16 rows.
struct WgradPieces {
  int mma_m = 1, n = 64, lines = 1;
  bool turned = false;

  constexpr int first_row(int m, int thread) const {
    return (thread / (128 * lines) * mma_m + m) * 64 + thread % 128 / 32 * 16;
  }
  constexpr int row(int piece, int thread) const {
    return first_row(piece / (n / 8), thread) + (turned ? thread % 4 * 4 : piece % 4 * 4 + thread % 32 / 8);
  }
  constexpr int column(int piece, int thread) const {
    return piece % (n / 8) / 4 * 32 + (turned ? piece % 4 * 8 + thread % 32 / 4 : thread % 8 * 4);
  }
  /// The piece and the thread of a row and a column, of one line that is not turned.
  constexpr int piece_at(int row, int column) const {
    return row / 64 % mma_m * (n / 8) + column / 32 * 4 + row % 16 / 4;
  }
  constexpr int thread_at(int row, int column) const {
    return row / 64 / mma_m * 128 + row % 64 / 16 * 32 + row % 4 * 8 + column % 32 / 4;
  }
};

/// Pixels of `size` numbers, of which a row has several: where TMA's box for one of them begins, a multiple of 16
/// bytes, and how many numbers later the pixel does.
struct WgradPhase {
  static constexpr int kPiece = 8;  // numbers in 16 bytes
  static constexpr int box(int phase, int size) { return phase * size / kPiece * kPiece; }
  static constexpr int shift(int phase, int size) { return phase * size % kPiece; }
  /// The largest shift of so many phases.
  static constexpr int most_shift(int phases, int size) {
    int most = 0;
    for (int phase = 1; phase < phases; ++phase) most = shift(phase, size) > most ? shift(phase, size) : most;
    return most;
  }
};

}  // namespace nixie::cuda
