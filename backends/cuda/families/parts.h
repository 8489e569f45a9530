// Reductions of what a program stores, accumulated in its epilogue: threads leave partial results (parts), which the
// group that needs the reductions merges.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// How many parts a program leaves, one for each block: of a channel, of all that it stores. 0: it cannot.
struct PartCounts {
  std::int64_t of_channel = 0, of_all = 0;
};
/// Those of persistent blocks, one on an SM, that compute tiles.
PartCounts parts_of_convolution(const Choice& choice, const Chip& chip);

/// Moves the first reductions of another group's kernel into the epilogue of `choice`: returns the choice, whose
/// program now also leaves parts of them, and the other group's choice, which merges the parts. Possible if they reduce
/// values that the choice stores, without their positions, and
/// - keep the channels alone, take at most three words per channel, perhaps need other values that are ready by then,
///   and the other kernel, or a later one with its results, reads the same values again; or
/// - keep nothing, take at most eight words, and need nothing else. If nothing else reads the values, the program does
///   not store them.
std::optional<Absorption> with_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                     const PartCounts& counts);

inline bool leaves_of_channels(const Choice& choice) { return choice.leaves && choice.leaves->of_channels; }
/// Words that a thread accumulates for each channel, without the count, which its channels share.
int accumulated_words(const Choice& choice);

/// Whether an access is the same for all pixels.
bool is_number_of_channel(const Kernel& kernel, const Access& access);
/// Words that a kernel loads for 8 channels: per-channel numbers, which are the same for all pixels, and values of each
/// pixel.
struct LoadedWords {
  int of_channels = 0, of_pixels = 0;
};
LoadedWords loaded_words(const Plan& plan, const Kernel& kernel);

/// Whether leaving parts of channels pays: the time it adds to the program is less than that of the pass over memory it
/// saves, which reads the stored values and other images. `clocks_of` estimates a program's time without that of
/// memory.
bool parts_pay(const Grouping& grouping, const Choice& without, const Choice& with,
               double (*clocks_of)(const Plan&, const Choice&, const Chip&));

/// The number of blocks that compute `tiles` tiles. If they leave parts of channels, each stays in one of `columns`
/// columns of tiles.
std::int64_t blocks_for(const Choice& choice, std::int64_t tiles, std::int64_t columns, const Chip& chip);

}  // namespace nixie::cuda
