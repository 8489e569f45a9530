// Gives yaml-cpp's marks, whose columns count bytes, as places, whose columns count characters.
#pragma once

#include <yaml-cpp/mark.h>

#include <memory>
#include <string_view>
#include <vector>

#include "nixie/configs/parse/syntax/mistake.h"
#include "nixie/configs/parse/yaml.h"

namespace nixie {

class Marks {
 public:
  using Source = std::shared_ptr<const std::string>;

  /// `is_flag`: every place is the flag that `source` names.
  Marks(Source source, std::string_view text, bool is_flag);

  Place at(const YAML::Mark& mark) const;
  Place at(const Mistake& mistake) const { return is_flag_ ? start() : Place{source_, mistake.line, mistake.column}; }
  Place start() const { return is_flag_ ? Place{source_, 0, 0} : Place{source_, 1, 1}; }

  /// Whether it is behind the end of the text.
  bool is_behind(const YAML::Mark& mark) const { return static_cast<std::size_t>(mark.line) >= starts_.size(); }
  /// Where it is in the text; of one behind it, the text's end.
  std::size_t byte_of(const YAML::Mark& mark) const;
  YAML::Mark mark_of(std::size_t byte) const;

 private:
  Source source_;
  bool is_flag_;
  std::vector<std::size_t> starts_;  // of the lines
  std::vector<int> characters_;      // in front of each byte
};

}  // namespace nixie
