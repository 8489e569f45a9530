// Words messages about the labels of masks, and adds up the labels of several masks.
#include "nixie/data/files/mask_labels.h"

#include <fmt/format.h>

namespace nixie {

std::string apart_text(const std::string& place, std::int64_t count, std::int64_t largest, std::int64_t next) {
  if (place.empty() || next < 0 || largest - next < 2) return "";
  const std::string of_others = count == 1 ? " is" : fmt::format(" and {} more are", count - 1);
  return fmt::format("{}{} of class {}, the next below is {}", place, of_others, largest, next);
}

void MaskLabels::add(const MaskLabels& other) {
  next_ = std::max(next_, other.next_);
  if (largest_ != other.largest_) next_ = std::max(next_, std::min(largest_, other.largest_));
  if (largest_ == other.largest_)
    count_ += other.count_;
  else if (other.largest_ > largest_)
    largest_ = other.largest_, count_ = other.count_, place_ = other.place_;
  has_no_class_ |= other.has_no_class_;
  has_ignored_ |= other.has_ignored_;
}

std::string MaskLabels::apart() const {
  const bool has_255 = has_no_class_ && largest_ > kNoClass;
  return apart_text(place_, count_, largest_, has_255 ? std::max(next_, kNoClass) : next_);
}

std::vector<std::int32_t> MaskLabels::without_class() const {
  std::vector<std::int32_t> labels;
  if (has_no_class_ && largest_ < kNoClass) labels.push_back(kNoClass);
  if (has_ignored_) labels.push_back(kIgnored);
  return labels;
}

void MaskLabels::set_place(const std::string& file, std::int64_t row, std::int64_t column) {
  place_ = fmt::format("{}: the pixel in row {}, column {}", file, row, column);
}

}  // namespace nixie
