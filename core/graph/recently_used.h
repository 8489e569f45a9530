// RecentlyUsed: values by key, of which the last used are kept.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace nixie {

template <class Value>
class RecentlyUsed {
 public:
  /// Keeps at most this many, and always the one used last.
  explicit RecentlyUsed(std::size_t most) : most_(most) {}
  RecentlyUsed(RecentlyUsed&&) noexcept = default;

  /// The value under a key, which is the last used from now on; null where it is not kept.
  Value* find(std::string_view key) {
    const auto found = at_.find(key);
    if (found == at_.end()) return nullptr;
    values_.splice(values_.begin(), values_, found->second);
    return &values_.front().second;
  }
  /// Keeps a value under a key that has none, as the last used. The place of a value stays while it is kept.
  Value& add(std::string key, Value value) {
    values_.emplace_front(std::move(key), std::move(value));
    at_.emplace(values_.front().first, values_.begin());
    keep_at_most(most_);
    return values_.front().second;
  }
  /// Changes how many are kept, and forgets those beyond, the least recently used first.
  void keep_at_most(std::size_t most) {
    most_ = most;
    while (values_.size() > 1 && values_.size() > most_) {
      at_.erase(values_.back().first);
      values_.pop_back();
    }
  }
  void clear() {
    at_.clear();
    values_.clear();
  }
  std::size_t size() const { return values_.size(); }

 private:
  using Values = std::list<std::pair<std::string, Value>>;
  std::size_t most_;
  Values values_;  // the last used first
  std::unordered_map<std::string_view, typename Values::iterator> at_;
};

}  // namespace nixie
