// Assembles elements byte by byte, so that neither alignment nor the byte order of the machine matters.
#include "nixie/core/files/number_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "nixie/core/base/dtype.h"

namespace nixie {
namespace {

/// The bits of each element.
std::vector<std::uint64_t> words_of(const NumberArray& array) {
  const std::size_t size = array.element_bytes();
  std::vector<std::uint64_t> words(array.bytes.size() / size);
  for (std::size_t i = 0; i < words.size(); ++i)
    for (std::size_t k = size; k-- > 0;) words[i] = words[i] << 8 | array.bytes[i * size + k];
  return words;
}

}  // namespace

std::optional<std::vector<std::int64_t>> integers_of(const NumberArray& array) {
  if (!array.is_whole()) return {};
  const int bits = 8 * static_cast<int>(array.element_bytes());
  std::vector<std::int64_t> values;
  for (const std::uint64_t word : words_of(array)) {
    const bool is_signed = array.type[0] == 'i', is_negative = is_signed && bits < 64 && (word >> (bits - 1)) != 0;
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (is_negative)
      values.push_back(static_cast<std::int64_t>(word | ~std::uint64_t{0} << bits));
    else
      values.push_back(static_cast<std::int64_t>(is_signed ? word : std::min(word, kLargest)));
  }
  return values;
}

std::vector<float> floats_of(const NumberArray& array) {
  std::vector<float> values;
  if (array.type == "u8") {
    for (const std::uint64_t word : words_of(array)) values.push_back(static_cast<float>(word));
    return values;
  }
  if (const auto whole = integers_of(array)) return {whole->begin(), whole->end()};
  for (const std::uint64_t word : words_of(array)) {
    if (array.type == "f8")
      values.push_back(static_cast<float>(std::bit_cast<double>(word)));
    else if (array.type == "f4")
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
    else
      values.push_back(convert<float>(std::bit_cast<Half>(static_cast<std::uint16_t>(word))));
  }
  return values;
}

std::string element_text(const NumberArray& array, std::size_t index) {
  const auto size = static_cast<std::ptrdiff_t>(array.element_bytes()),
             begin = static_cast<std::ptrdiff_t>(index) * size;
  NumberArray one{.type = array.type, .shape = {1}};
  one.bytes.assign(array.bytes.begin() + begin, array.bytes.begin() + begin + size);
  if (array.type == "u8") return fmt::format("{}", words_of(one)[0]);
  if (array.type == "f8") return fmt::format("{}", std::bit_cast<double>(words_of(one)[0]));
  if (const auto whole = integers_of(one)) return fmt::format("{}", (*whole)[0]);
  return fmt::format("{}", floats_of(one)[0]);
}

}  // namespace nixie
