// WebP: decoding by libwebp.
#pragma once

#include "nixie/data/files/image.h"

namespace nixie {

/// As decode_image, as it is stored. Refuses animations.
void decode_webp(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                 Image& image);
std::array<std::int64_t, 2> webp_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

}  // namespace nixie
