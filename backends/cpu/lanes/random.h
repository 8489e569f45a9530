// Random numbers on lanes.
#pragma once

#include <cstdint>

namespace nixie::cpu {

/// The numbers of elements first, first + 1, ... of a stream at a step (core/base/random.h): uniform or normal.
void random_lanes(bool normal, std::uint64_t stream, std::uint32_t step, std::int64_t first, std::int64_t count,
                  float* out);

}  // namespace nixie::cpu
