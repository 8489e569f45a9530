// Errors are dropped.
#include "nixie/apps/trainer/profile/compile_ahead.h"

#include "nixie/apps/trainer/program/signals.h"
#include "nixie/core/base/threads.h"

namespace nixie {

void compile_ahead(const Backend& backend, std::int64_t count, const std::function<void(std::int64_t)>& compile) {
  if (backend.name() == "cpu") return;
  share_out("compile", count, [&](std::int64_t i) {
    if (stop_is_requested()) return;
    try {
      compile(i);
    } catch (const std::exception&) {
    }
  });
}

}  // namespace nixie
