// Per-channel reductions of a convolution's output, accumulated in its epilogue: blocks store partial results, which
// the group that needs the reductions merges.
#pragma once

#include "nixie/backends/cuda/families/family.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// A choice whose program also leaves parts of the first reductions of another group's kernel, and that group's choice,
/// which merges them: reductions over all axes but the channels' of what the choice stores, perhaps together
/// with other values that are there by then, of three words a channel at most, in a kernel that reads the same values
/// once more. `count`: of the parts; by default as many as blocks share the channels of the widest tile.
std::optional<Absorption> with_channel_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                             std::optional<int> count = {});

/// Words that a thread accumulates for a channel, without the count that channels share.
int accumulated_words(const Choice& choice);

/// Whether an access is the same for all pixels.
bool is_number_of_channel(const Kernel& kernel, const Access& access);
/// Words that it loads for 8 channels: numbers of the channels, the same for all pixels, and of each pixel.
struct LoadedWords {
  int of_channels = 0, of_pixels = 0;
};
LoadedWords loaded_words(const Plan& plan, const Kernel& kernel);

/// Whether a program that leaves parts takes less longer than the pass over memory takes that it saves: sums of the
/// stored values with images beside them. `clocks_of`: estimates of both without what memory takes.
bool parts_pay(const Grouping& grouping, const Choice& without, const Choice& with,
               double (*clocks_of)(const Plan&, const Choice&, const Chip&));

/// The blocks that compute `tiles` tiles: where they leave parts, each keeps to one of `columns` columns of tiles.
std::int64_t blocks_for(const Choice& choice, std::int64_t tiles, std::int64_t columns, const Chip& chip);

/// `#define CONV_PARTS` and the pointer member, where parts are left.
std::string parts_defines(const Choice& choice);
std::vector<Pointer> parts_pointer(const Choice& choice);

}  // namespace nixie::cuda
