// Fingerprint: what a dataset holds, in one number, so that a resumed run can tell whether it is still the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nixie {

/// XXH3 of everything added, in order; what was added before is the seed of what comes next.
class Fingerprint {
 public:
  /// Never 0, which stands for a dataset that tells none.
  std::uint64_t value() const { return value_ == 0 ? 1 : value_; }

  void add(const void* bytes, std::size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(std::int64_t number) { add(&number, sizeof number); }
  template <class T>
  void add(const std::vector<T>& numbers) {
    add(numbers.data(), numbers.size() * sizeof(T));
  }
  void add(const std::vector<std::string>& texts) {
    add(static_cast<std::int64_t>(texts.size()));
    for (const std::string& text : texts) add(std::string_view(text));
  }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace nixie
