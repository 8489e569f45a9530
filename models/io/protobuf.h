// Protobuf: writes messages of the wire format, field by field; enough for files that other programs read.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace nixie {

class Protobuf {
 public:
  Protobuf& number(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Protobuf& real(int field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int i = 0; i < 4; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  Protobuf& text(int field, std::string_view text) {
    tag(field, 2);
    varint(text.size());
    bytes_ += text;
    return *this;
  }
  Protobuf& message(int field, const Protobuf& inner) { return text(field, inner.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int type) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace nixie
