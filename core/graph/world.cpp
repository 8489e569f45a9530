// What the ranks of a World agree on, on the host.
#include "nixie/core/graph/world.h"

#include <algorithm>

namespace nixie {

int World::rank_on_host() const {
  if (is_alone()) return 0;
  const auto own = communicator_->hosts().begin() + rank();
  return static_cast<int>(std::count(communicator_->hosts().begin(), own, *own));
}

int World::ranks_on_host() const {
  if (is_alone()) return 1;
  return static_cast<int>(
      std::ranges::count(communicator_->hosts(), communicator_->hosts()[static_cast<std::size_t>(rank())]));
}

std::string World::text() const {
  const std::string host = communicator_ ? communicator_->hosts()[static_cast<std::size_t>(rank())] : "this machine";
  return fmt::format("rank {} of {} on {}", rank(), size(), host);
}

std::int64_t World::share_of(std::int64_t count, const std::string& what) const {
  const std::int64_t ranks = size(), below = count / ranks * ranks;
  check(count % ranks == 0, what, " is ", count, ", which ", ranks, " ranks cannot share equally; take ",
        below > 0 ? std::to_string(below) + " or " : "", below + ranks, ", or another number of ranks");
  return count / ranks;
}

unsigned World::any(unsigned bits) const {
  if (is_alone()) return bits;
  std::vector<unsigned> all(static_cast<std::size_t>(size()));
  communicator_->all_gather(&bits, all.data(), sizeof bits);
  for (const unsigned others : all) bits |= others;
  return bits;
}

std::string World::from_first(std::string text) const {
  auto size = static_cast<std::int64_t>(text.size());
  copy_from_first(&size, sizeof size);
  text.resize(static_cast<std::size_t>(size));
  copy_from_first(text.data(), size);
  return text;
}

}  // namespace nixie
