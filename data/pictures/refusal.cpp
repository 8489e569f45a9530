// Refusals name the file, what was found, and the way out.
#include "nixie/data/pictures/refusal.h"

#include <fmt/format.h>

#include "nixie/core/base/error.h"
#include "nixie/core/base/free_memory.h"

namespace nixie {

void refuse_picture(const std::filesystem::path& file, std::string_view kind, std::string_view reason) {
  fail(Fault::data, file.string(), ": ", kind, ": ", reason, "; replace or remove the file");
}

void refuse_decoding(const std::filesystem::path& file, std::string_view format, std::string_view reason) {
  // Only the decoders' words tell: "Insufficient memory", "Memory allocation failure", "out of memory".
  if (reason.find("emory") != std::string_view::npos)
    fail(Fault::memory, file.string(), ": out of memory while the ", format, " is decoded: ", reason);
  refuse_picture(file, fmt::format("damaged {}", format), reason);
}

void check_size(std::int64_t width, std::int64_t height, std::int64_t pixel_bytes, const Decoding& decoding,
                const std::filesystem::path& file, std::string_view format) {
  constexpr double kMillion = 1e6, kSmallBytes = 64e6;  // for less the system is not asked
  const double pixels = static_cast<double>(width) * static_cast<double>(height),
               bytes = pixels * static_cast<double>(pixel_bytes);
  if (width < 1 || height < 1) refuse_picture(file, format, fmt::format("{} x {} pixels", width, height));
  if (pixels > decoding.megapixels * kMillion)
    fail(Fault::data, file.string(), ": ", format, ": ", width, " x ", height, " pixels, at most ", decoding.megapixels,
         " million are read; scale the picture down, or raise data.image_folder.megapixels");
  if (bytes <= kSmallBytes) return;
  if (const auto free = static_cast<double>(free_memory_bytes()); bytes > free / 2)
    fail(Fault::memory, file.string(), ": ", format, ": ", width, " x ", height, " pixels take ",
         fmt::format("{:.0f} MB of memory, {:.0f} MB", bytes / kMillion, free / kMillion),
         " are free and half of them are used at most; end other programs, or scale the picture down");
}

}  // namespace nixie
