// EXIF blocks, put into files.
#pragma once

#include "nixie/tests/data/pictures.h"

namespace nixie::test {

/// A TIFF structure with one directory of one tag.
inline Bytes exif(int orientation, bool is_little_endian = false) {
  const auto value = static_cast<std::uint8_t>(orientation);
  if (is_little_endian)
    return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0};
  return {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, value, 0, 0, 0, 0, 0, 0};
}

inline Bytes inserted(const Bytes& file, std::size_t at, const Bytes& part) {
  Bytes result(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(at));
  result = result + part;
  result.insert(result.end(), file.begin() + static_cast<std::ptrdiff_t>(at), file.end());
  return result;
}

/// In an APP1 segment behind another one, as of XMP.
inline Bytes with_exif_in_jpeg(const Bytes& file, const Bytes& block) {
  const auto length = static_cast<std::uint8_t>(2 + 6 + block.size());
  return inserted(file, 2,
                  Bytes{0xff, 0xe1, 0, 6, 'h', 't', 't', 'p', 0xff, 0xe1, 0, length, 'E', 'x', 'i', 'f', 0, 0} + block);
}

inline Bytes with_exif_in_png(const Bytes& file, const Bytes& block) {
  return inserted(file, 33, png_chunk("eXIf", block));
}
inline Bytes with_exif_behind_pixels(const Bytes& file, const Bytes& block) {
  return inserted(file, file.size() - 12, png_chunk("eXIf", block));
}

}  // namespace nixie::test
