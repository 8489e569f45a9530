// MaskLabels: which labels of masks are classes. One rule for PNG files and arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nixie {

/// `a.npz: labels[7] and 2 more are of class 65535, the next below is 2` where the largest label is far above the
/// others, as one by mistake is; else "". `place` is of the first of `count`; the next is -1 where there is none.
std::string apart_text(const std::string& place, std::int64_t count, std::int64_t largest, std::int64_t next);

/// The labels in the pixels of all masks. 255 is no class (PASCAL VOC, Cityscapes) unless there are larger labels, and
/// -100 is none (PyTorch's default of ignore_index).
class MaskLabels {
 public:
  static constexpr std::int32_t kNoClass = 255, kIgnored = -100;

  /// The labels of a mask, row by row; `place` gives where it is, for messages.
  template <class T>
  void add(std::span<const T> labels, std::int64_t width, const auto& place) {
    const std::int32_t before = largest_;
    std::size_t first = 0;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (add(static_cast<std::int32_t>(labels[i]))) first = i;
    const auto at = static_cast<std::int64_t>(first);
    if (largest_ > before) set_place(place(), at / width, at % width);
  }
  void add(const MaskLabels& other);
  std::int32_t classes() const { return std::max(largest_, 0) + 1; }
  /// apart_text of the largest label.
  std::string apart() const;
  /// Those that are no class, which a loss must ignore.
  std::vector<std::int32_t> without_class() const;

 private:
  void set_place(const std::string& file, std::int64_t row, std::int64_t column);
  /// Whether it is the first that is larger than all before.
  bool add(std::int32_t label) {
    if (label == kNoClass) {
      has_no_class_ = true;
    } else if (label == kIgnored) {
      has_ignored_ = true;
    } else if (label > largest_) {
      next_ = largest_, largest_ = label, count_ = 1;
      return true;
    } else if (label == largest_) {
      ++count_;
    } else {
      next_ = std::max(next_, label);
    }
    return false;
  }

  std::int32_t largest_ = -1, next_ = -1;  // -1: none
  std::int64_t count_ = 0;                 // of pixels of the largest
  std::string place_ = {};                 // of the first of them
  bool has_no_class_ = false, has_ignored_ = false;
};

}  // namespace nixie
