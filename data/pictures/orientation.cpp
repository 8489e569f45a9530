// Orientation: finds the EXIF block among a file's segments. Every size is compared with the bytes that are there.
#include "nixie/data/pictures/orientation.h"

#include <algorithm>
#include <string_view>

namespace nixie {
namespace {

using Bytes = std::span<const std::uint8_t>;

/// The part that is there; empty beyond the end.
Bytes part_of(Bytes bytes, std::size_t from, std::size_t count) {
  from = std::min(from, bytes.size());
  return bytes.subspan(from, std::min(count, bytes.size() - from));
}

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::equal(text.begin(), text.end(), bytes.begin(), [](char a, std::uint8_t b) {
           return static_cast<std::uint8_t>(a) == b;
         });
}

/// Integers of either order of bytes; 0 beyond the end.
struct Numbers {
  Bytes bytes;
  bool is_little_endian;

  std::size_t at(std::size_t offset, std::size_t size) const {
    const Bytes part = part_of(bytes, offset, size);
    if (part.size() < size) return 0;
    std::size_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | part[is_little_endian ? size - 1 - i : i];
    return value;
  }
};

constexpr std::string_view kExif{"Exif\0\0", 6};

/// The EXIF block of a JPEG: its first segment APP1 with that name.
Bytes block_of_jpeg(Bytes file) {
  const Numbers number{file, false};
  for (std::size_t at = 2; number.at(at, 1) == 0xff;) {
    const std::size_t marker = number.at(at + 1, 1);
    if (marker == 0xff) {  // a fill byte
      ++at;
      continue;
    }
    const std::size_t length = number.at(at + 2, 2);
    if (marker == 0xda || marker == 0xd9 || length < 2) break;  // pixels or the end
    const Bytes content = part_of(file, at + 4, length - 2);
    if (marker == 0xe1 && begins_with(content, kExif)) return content.subspan(kExif.size());
    at += 2 + length;
  }
  return {};
}

Bytes block_of_png(Bytes file) {
  const Numbers number{file, false};
  for (std::size_t at = 8; at < file.size();) {
    const std::size_t length = number.at(at, 4);
    if (begins_with(part_of(file, at + 4, 4), "eXIf")) return part_of(file, at + 8, length);
    at += 12 + length;
  }
  return {};
}

Bytes block_of_webp(Bytes file) {
  const Numbers number{file, true};
  for (std::size_t at = 12; at < file.size();) {
    const std::size_t length = number.at(at + 4, 4);
    if (begins_with(part_of(file, at, 4), "EXIF")) {
      const Bytes block = part_of(file, at + 8, length);
      return begins_with(block, kExif) ? block.subspan(kExif.size()) : block;  // some write the name of JPEG's
    }
    at += 8 + length + length % 2;
  }
  return {};
}

/// The tag in the first directory of the TIFF structure that an EXIF block is.
int orientation_in(Bytes block) {
  constexpr std::size_t kTag = 0x112, kShort = 3, kEntry = 12;
  const bool is_little_endian = begins_with(block, {"II*\0", 4});
  if (!is_little_endian && !begins_with(block, {"MM\0*", 4})) return 1;
  const Numbers number{block, is_little_endian};
  const std::size_t directory = number.at(4, 4), entries = number.at(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntry;
    if (entry >= block.size()) break;
    if (number.at(entry, 2) != kTag || number.at(entry + 2, 2) != kShort) continue;
    const std::size_t value = number.at(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int orientation_of(Bytes file) {
  if (begins_with(file, "\xff\xd8")) return orientation_in(block_of_jpeg(file));
  if (begins_with(file, "\x89PNG")) return orientation_in(block_of_png(file));
  if (begins_with(file, "RIFF")) return orientation_in(block_of_webp(file));
  return 1;
}

std::vector<std::uint8_t> turned(const std::vector<std::uint8_t>& pixels, std::int64_t width, std::int64_t height,
                                 std::int64_t channels, int orientation) {
  const bool swaps = swaps_sides(orientation);
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
             from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const std::int64_t right = from_right ? -1 : 1, down = from_below ? -width : width;  // in stored pixels
  const std::int64_t first = (from_right ? width - 1 : 0) + (from_below ? (height - 1) * width : 0),
                     across = swaps ? down : right, along = swaps ? right : down;
  const std::int64_t columns = swaps ? height : width, rows = swaps ? width : height;
  std::vector<std::uint8_t> result(pixels.size());
  constexpr std::int64_t kTile = 32;  // a column of stored pixels is read a cache line at a time
  for (std::int64_t top = 0; top < rows; top += kTile)
    for (std::int64_t left = 0; left < columns; left += kTile)
      for (std::int64_t y = top; y < std::min(top + kTile, rows); ++y) {
        const std::uint8_t* from = pixels.data() + (first + y * along + left * across) * channels;
        std::uint8_t* to = result.data() + (y * columns + left) * channels;
        for (std::int64_t x = left; x < std::min(left + kTile, columns); ++x, from += across * channels)
          for (std::int64_t c = 0; c < channels; ++c) *to++ = from[c];
      }
  return result;
}

}  // namespace nixie
