// The variables of the environment that backends heed: each is read here alone, and refused where it has no known
// value.
#pragma once

#include <string>

namespace nixie {

/// `NIXIE_WINOGRAD`, 0 or 1: whether convolutions may use Winograd's transforms; true where it is not set. All
/// functions here throw a usage Error for other values.
bool winograd_is_allowed();

/// `NIXIE_VALIDATE`, 0 or 1: whether every group of kernels is compared with the CPU.
bool is_validated();

/// `NIXIE_SYNC`, 0 or 1: whether a CUDA backend waits for every kernel.
bool waits_for_kernels();

enum class BackendTrace { families, source, time };
/// `NIXIE_TRACE`, names of traces, with commas between them: whether it has this one.
bool is_traced(BackendTrace trace);

/// `NIXIE_TUNING`: off, known, measure or again; "" where it is not set.
std::string tuning_word();

/// `NIXIE_SILENCE`: the seconds without a sign of life after which a rank is lost; 7 where it is not set.
int silence_seconds();

/// `NIXIE_CHIP`: the chip that kernels are chosen for; "" for the device's own.
std::string chosen_chip();

/// `NIXIE_CACHE`, else `nixie` in the user's cache folder; "" where there is none.
std::string cache_folder();

}  // namespace nixie
