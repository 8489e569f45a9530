// Reduces the lanes of tiles to one value per kept position.
#pragma once

#include <cstdint>

#include "nixie/core/graph/op.h"

namespace nixie::cpu {

/// How a tile's lanes belong to kept positions: rows of `reduced` lanes for each kept position, or columns, where each
/// of `reduced` rows has one lane per kept position.
struct TileShape {
  std::int64_t kept = 1, reduced = 1;
  bool columns = false;
};

enum class Fold : std::uint8_t { sum, prod, max, min, argmax, argmin, moments };

/// Partial results: `cells_of(fold)` doubles per kept position, those of one kind side by side (`stride` apart from the
/// next kind): the value; for argmax and argmin also its position; for moments the mean and the squared distances.
/// Doubles keep sums of many tiles exact enough that tiles themselves may be added up in float. A cell of i64
/// holds its bits.
struct Cells {
  double* data = nullptr;
  std::int64_t stride = 0;
  double* operator[](int kind) const { return data + kind * stride; }
};
int cells_of(Fold fold);

/// The cells of nothing.
void start_fold(Fold fold, Dtype type, std::int64_t kept, Cells cells);
/// The cells of one tile. `positions`: for argmax and argmin, of each reduced position of the tile.
void fold_tile(Fold fold, Dtype type, const void* lanes, const TileShape& shape, const std::int32_t* positions,
               Cells cells);
/// Joins the cells of `count` and of `other_count` reduced positions.
void join_folds(Fold fold, Dtype type, std::int64_t kept, Cells cells, std::int64_t count, Cells other,
                std::int64_t other_count);
/// The reduction's values, as lanes of `type`.
void finish_fold(Fold fold, ReduceKind kind, Cells cells, std::int64_t count, std::int64_t kept, void* lanes,
                 Dtype type);

}  // namespace nixie::cpu
