// uninterrupted: a system call that a signal cut short is made again.
#pragma once

#include <cerrno>

namespace nixie {

/// The call's result, which is negative where it failed with another errno than EINTR.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;)
    if (const auto result = call(); result >= 0 || errno != EINTR) return result;
}

}  // namespace nixie
