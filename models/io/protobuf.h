// Protobuf: writes messages in the wire format, field by field.
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
    little_endian(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  Protobuf& real64(int field, double value) {
    tag(field, 1);
    little_endian(std::bit_cast<std::uint64_t>(value), 8);
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
  void little_endian(std::uint64_t bits, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
  }
  std::string bytes_;
};

}  // namespace nixie
