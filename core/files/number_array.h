// NumberArray: an array of numbers of any type, as a file stores it.
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

/// Integers as 64 bits, those from 2^63 on as the largest; nothing if the array holds other numbers.
std::optional<std::vector<std::int64_t>> integers_of(const NumberArray& array);
/// One element as a message gives it, of any type.
std::string element_text(const NumberArray& array, std::size_t index);
/// Numbers of any type as floats.
std::vector<float> floats_of(const NumberArray& array);

}  // namespace nixie
