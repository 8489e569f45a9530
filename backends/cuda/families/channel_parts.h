// Per-channel reductions of a convolution's output, accumulated in its epilogue: blocks store partial results, which
// the group that needs the reductions merges.
#pragma once

#include "nixie/backends/cuda/families/family.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// Moves the first reductions of another group's kernel into the epilogue of `choice`: returns the choice, whose
/// program now also stores parts of them, and the other group's choice, which merges the parts. Possible if they reduce
/// the values that the choice stores, perhaps with other values that are ready by then, over all axes but the channels,
/// take at most three words per channel, and the other kernel reads the same values again. `count`: number of parts; by
/// default the number of blocks that share the channels of the widest tile.
std::optional<Absorption> with_channel_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                             std::optional<int> count = {});

/// Words that a thread accumulates per channel, without the count, which its channels share.
int accumulated_words(const Choice& choice);

/// Whether an access is the same for all pixels.
bool is_number_of_channel(const Kernel& kernel, const Access& access);
/// Words that a kernel loads for 8 channels: per-channel numbers, which are the same for all pixels, and values of each
/// pixel.
struct LoadedWords {
  int of_channels = 0, of_pixels = 0;
};
LoadedWords loaded_words(const Plan& plan, const Kernel& kernel);

/// Whether storing parts pays off: the time it adds to the program is less than that of the pass over memory it saves,
/// which reads the stored values and other images. `clocks_of` estimates a program's time without that of memory.
bool parts_pay(const Grouping& grouping, const Choice& without, const Choice& with,
               double (*clocks_of)(const Plan&, const Choice&, const Chip&));

/// The number of blocks that compute `tiles` tiles. If they store parts, each stays in one of `columns` columns of
/// tiles.
std::int64_t blocks_for(const Choice& choice, std::int64_t tiles, std::int64_t columns, const Chip& chip);

/// `#define CONV_PARTS` and the pointer member, if the program stores parts.
std::string parts_defines(const Choice& choice);
std::vector<Pointer> parts_pointer(const Choice& choice);

}  // namespace nixie::cuda
