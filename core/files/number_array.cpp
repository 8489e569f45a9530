// Assembles elements byte by byte, so that neither alignment nor the byte order of the machine matters.
#include "nixie/core/files/number_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "nixie/core/base/dtype.h"

namespace nixie {
namespace {

/// The bits of an element of `size` bytes.
std::uint64_t word_at(const NumberArray& array, std::size_t index, std::size_t size) {
  std::uint64_t word = 0;
  for (std::size_t k = size; k-- > 0;) word = word << 8 | array.bytes[index * size + k];
  return word;
}

/// The results of `map` for the bits of each element.
template <class Map>
auto mapped(const NumberArray& array, const Map& map) {
  const std::size_t size = array.element_bytes();
  std::vector<decltype(map(std::uint64_t{}))> values(array.bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = map(word_at(array, i, size));
  return values;
}

/// The integer of an element's bits.
struct ToInteger {
  explicit ToInteger(const NumberArray& array)
      : bits(8 * static_cast<int>(array.element_bytes())), is_signed(array.type[0] == 'i') {}
  std::int64_t operator()(std::uint64_t word) const {
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (is_signed && bits < 64 && (word >> (bits - 1)) != 0)
      return static_cast<std::int64_t>(word | ~std::uint64_t{0} << bits);
    return static_cast<std::int64_t>(is_signed ? word : std::min(word, kLargest));
  }
  int bits;
  bool is_signed;
};

}  // namespace

std::optional<std::vector<std::int64_t>> integers_of(const NumberArray& array) {
  if (!array.is_whole()) return {};
  return mapped(array, ToInteger(array));
}

std::vector<float> floats_of(const NumberArray& array) {
  if (array.type == "u8") return mapped(array, [](std::uint64_t word) { return static_cast<float>(word); });
  if (array.is_whole())
    return mapped(array,
                  [to_integer = ToInteger(array)](std::uint64_t word) { return static_cast<float>(to_integer(word)); });
  if (array.type == "f8")
    return mapped(array, [](std::uint64_t word) { return static_cast<float>(std::bit_cast<double>(word)); });
  if (array.type == "f4")
    return mapped(array, [](std::uint64_t word) { return std::bit_cast<float>(static_cast<std::uint32_t>(word)); });
  return mapped(
      array, [](std::uint64_t word) { return convert<float>(std::bit_cast<Half>(static_cast<std::uint16_t>(word))); });
}

std::string element_text(const NumberArray& array, std::size_t index) {
  const auto size = static_cast<std::ptrdiff_t>(array.element_bytes()),
             begin = static_cast<std::ptrdiff_t>(index) * size;
  NumberArray one{.type = array.type, .shape = {1}};
  one.bytes.assign(array.bytes.begin() + begin, array.bytes.begin() + begin + size);
  if (array.type == "u8") return fmt::format("{}", word_at(one, 0, one.element_bytes()));
  if (array.type == "f8") return fmt::format("{}", std::bit_cast<double>(word_at(one, 0, one.element_bytes())));
  if (const auto whole = integers_of(one)) return fmt::format("{}", (*whole)[0]);
  return fmt::format("{}", floats_of(one)[0]);
}

}  // namespace nixie
