// Refusals by decoders of pictures: damage, and sizes that would take too much memory or time.
#pragma once

#include <filesystem>
#include <string_view>

#include "nixie/data/files/image.h"

namespace nixie {

/// Throws Fault::data: `a.jpg: damaged JPEG: Premature end of JPEG file; replace or remove the file`.
[[noreturn]] void refuse_picture(const std::filesystem::path& file, std::string_view kind, std::string_view reason);

/// Throws what a decoder says of a file: Fault::data, or Fault::memory where it found none, as the file may be good.
[[noreturn]] void refuse_decoding(const std::filesystem::path& file, std::string_view format, std::string_view reason);

/// Throws unless a picture of this size may be decoded, which takes `pixel_bytes` of memory for each pixel.
void check_size(std::int64_t width, std::int64_t height, std::int64_t pixel_bytes, const Decoding& decoding,
                const std::filesystem::path& file, std::string_view format);

}  // namespace nixie
