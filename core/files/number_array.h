// NumberArray: an array of numbers as a file stores it, whatever their type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nixie {

struct NumberArray {
  std::string type = {};  ///< numpy's kind and bytes: u1, i8, f4
  std::vector<std::int64_t> shape = {};
  std::vector<std::uint8_t> bytes = {};  ///< little-endian, the last axis fastest

  bool is_whole() const { return type[0] == 'u' || type[0] == 'i' || type[0] == 'b'; }
  std::size_t element_bytes() const { return static_cast<std::size_t>(type[1] - '0'); }
};

/// Whole numbers as 64 bits; nothing where the array holds others.
std::optional<std::vector<std::int64_t>> integers_of(const NumberArray& array);
/// Any numbers as floats.
std::vector<float> floats_of(const NumberArray& array);

}  // namespace nixie
