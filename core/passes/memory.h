// Memory: the last pass. Places slots in one arena by their lifetimes and finds what each kernel must wait for.
#pragma once

#include "nixie/core/graph/plan.h"

namespace nixie {

/// Slots whose kernels lie apart share bytes; slots no kernel touches, and those used only inside one Group, take none.
/// Then fills every kernel's waits_for from the byte ranges it reads and writes.
/// `overlaps`: the backend runs kernels side by side, so slots share bytes only where that makes nobody wait longer, as
/// far as a little more memory allows.
void plan_memory(Plan& plan, bool overlaps = false);

/// The slots a kernel reads (loads and operands), and those it stores.
std::vector<int> slots_read(const Kernel& kernel);
std::vector<int> slots_written(const Kernel& kernel);

}  // namespace nixie
