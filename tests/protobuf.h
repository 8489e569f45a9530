// Reads protobuf's encoding by its definition, for tests of files that are written in it.
#pragma once

#include "nixie/tests/test.h"

namespace nixie::test {

/// The fields of a message in order: numbers, and values: varints in decimal, all else as its bytes. Throws
/// std::out_of_range where it is cut off.
inline std::vector<std::pair<int, std::string>> fields_of(const std::string& message) {
  std::vector<std::pair<int, std::string>> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t tag = varint();
    const int field = static_cast<int>(tag >> 3);
    if (tag % 8 == 0) {
      fields.emplace_back(field, std::to_string(varint()));
      continue;
    }
    const std::size_t size = tag % 8 == 1 ? 8 : tag % 8 == 5 ? 4 : varint();
    fields.emplace_back(field, message.substr(at, size));
    at += size;
    if (at > message.size()) static_cast<void>(message.at(at));
  }
  return fields;
}

}  // namespace nixie::test
