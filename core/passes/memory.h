// Memory: the last pass. Places slots in one arena by their lifetimes and finds what each group must wait for.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Gives each kernel a group. Slots that no group touches take no bytes; those used at different times share them. Then
/// fills every group's waits_for from the byte ranges it reads and writes.
/// If the target runs groups side by side, slots share bytes only if no group must then wait longer; if that rule costs
/// over 64 MiB, they share anyway. If the target replays members, what they read and write counts as touched, too.
/// Scratch memory of kernels comes on top: each backend reserves its own. So do Variables and inputs, which are external.
void plan_memory(Plan& plan, const Target& target = {});

}  // namespace nixie
