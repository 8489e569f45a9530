// JPEG: decoding by libjpeg.
#pragma once

#include "nixie/data/files/image.h"

namespace nixie {

/// As decode_image, as it is stored. Damage is what costs pixels; what else libjpeg warns of is passed over.
void decode_jpeg(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                 Image& image);
std::array<std::int64_t, 2> jpeg_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

}  // namespace nixie
