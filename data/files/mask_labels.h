// MaskLabels: which labels of masks are classes. One rule for PNG files and arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace nixie {

/// Of the pixels of all masks. 255 is no class (PASCAL VOC, Cityscapes) unless there are larger labels, and -100 is
/// none (PyTorch's default of ignore_index).
class MaskLabels {
 public:
  static constexpr std::int32_t kNoClass = 255, kIgnored = -100;

  template <class T>
  void add(std::span<const T> labels) {
    for (const T label : labels) add(static_cast<std::int32_t>(label));
  }
  void add(std::int32_t label) {
    if (label == kNoClass)
      has_no_class_ = true;
    else if (label == kIgnored)
      has_ignored_ = true;
    else
      largest_ = std::max(largest_, label);
  }
  void add(const MaskLabels& other) {
    largest_ = std::max(largest_, other.largest_);
    has_no_class_ |= other.has_no_class_;
    has_ignored_ |= other.has_ignored_;
  }
  std::int32_t classes() const { return largest_ + 1; }
  /// Those that are no class, which a loss must ignore.
  std::vector<std::int32_t> without_class() const {
    std::vector<std::int32_t> labels;
    if (has_no_class_ && largest_ < kNoClass) labels.push_back(kNoClass);
    if (has_ignored_) labels.push_back(kIgnored);
    return labels;
  }

 private:
  std::int32_t largest_ = 0;
  bool has_no_class_ = false, has_ignored_ = false;
};

}  // namespace nixie
