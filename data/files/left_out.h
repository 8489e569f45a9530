// LeftOut: counts of what a dataset does not take, by kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace nixie {

class LeftOut {
 public:
  /// `kind` in the plural: `.gif files`. `entry` names one where the kind does not tell which.
  void add(const std::string& kind, std::int64_t count = 1, const std::string& entry = {});
  void add(const LeftOut& other);
  bool empty() const { return kinds_.empty(); }
  /// `left out 3 .gif files, 2 links to nothing (the first: cat/1.jpg)`, or "". The first is the first by name.
  std::string text() const;

 private:
  struct Kind {
    std::int64_t count = 0;
    std::string first = {};
  };
  std::map<std::string, Kind> kinds_;
};

}  // namespace nixie
