// Fingerprint: what a dataset holds, in one number, so that a resumed run can tell whether it is still the same; and
// FirstRead, by which a run itself can.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nixie {

/// XXH3 of everything added, in order; what was added before is the seed of what comes next.
class Fingerprint {
 public:
  /// Never 0, the fingerprint of a dataset that has none.
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

inline std::uint64_t fingerprint_of(std::span<const std::byte> bytes) {
  Fingerprint print;
  print.add(bytes.data(), bytes.size());
  return print.value();
}

/// `file`, or another name for where it is, has changed while it was in use. Throws Fault::data.
[[noreturn]] void fail_changed(const std::string& file);

/// Notices a file that changes while a run reads it: each sample's bytes must be those of its first read. By bytes, not
/// by times of change, which some file systems do not keep. Any thread may ask.
class FirstRead {
 public:
  explicit FirstRead(std::int64_t samples) : prints_(static_cast<std::size_t>(samples)) {}
  /// False if the bytes are not those of the first call for this sample.
  bool holds(std::int64_t sample, std::span<const std::byte> bytes) const;

 private:
  mutable std::vector<std::atomic<std::uint64_t>> prints_;  // 0: not read yet
};

}  // namespace nixie
