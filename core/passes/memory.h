// Memory: the last pass. Places slots in one arena by their lifetimes and finds the groups each group must wait for.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Gives each kernel a group. Slots that no group uses take no bytes; slots used at different times share bytes. Then
/// fills every group's waits_for from the byte ranges it reads and writes.
/// If the target runs groups in parallel, slots share bytes only if that makes no group wait longer; if this rule costs
/// over 64 MiB, they share anyway. If the target replays members, the slots that these use count, too.
/// Scratch memory of kernels comes on top: each backend reserves its own. Variables and inputs are outside the arena.
void plan_memory(Plan& plan, const Target& target = {});

}  // namespace nixie
