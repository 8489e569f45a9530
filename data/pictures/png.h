// PNG: decoding by libpng.
#pragma once

#include "nixie/data/files/image.h"

namespace nixie {

/// As decode_image, as it is stored. Reads no more of the compressed pixels than the picture has.
void decode_png(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                Image& image);
Mask decode_png_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding);
std::array<std::int64_t, 2> png_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

}  // namespace nixie
