// JPEG: libjpeg leaves its functions by longjmp where a file is damaged.
#include "nixie/data/pictures/jpeg.h"

#include <csetjmp>
#include <cstdio>
// libjpeg's header needs cstdio
#include <jpeglib.h>
// and its codes of messages need jpeglib.h
#include <jerror.h>

#include <algorithm>

#include "nixie/data/pictures/refusal.h"

namespace nixie {
namespace {

/// Whether pixels are missing or wrong after this warning. Others complain of a header: of its version (JFIF), of a
/// transform that Adobe did not define, of a scan's Se that a sequential file does not need, of a colour profile.
bool costs_pixels(const jpeg_error_mgr& warning) {
  constexpr int kFirstRestart = 0xd0, kLastRestart = 0xd7;
  switch (warning.msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
      return true;
    case JWRN_EXTRANEOUS_DATA: {  // between segments it is padding, before a restart the decoder has lost its place
      const int marker = warning.msg_parm.i[1];
      return marker >= kFirstRestart && marker <= kLastRestart;
    }
    default:
      return false;
  }
}

struct Errors : jpeg_error_mgr {
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

void stop(j_common_ptr jpeg) {
  auto& errors = *static_cast<Errors*>(jpeg->err);
  errors.format_message(jpeg, errors.message);
  std::longjmp(errors.back, 1);
}

void weigh_message(j_common_ptr jpeg, int level) {
  if (level < 0 && costs_pixels(*jpeg->err)) stop(jpeg);
}

/// A small file of very many scans would take minutes.
void limit_scans(j_common_ptr jpeg) {
  constexpr int kMostScans = 500;
  if (!jpeg->is_decompressor || reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  auto& errors = *static_cast<Errors*>(jpeg->err);
  std::snprintf(errors.message, sizeof errors.message, "more than %d scans", kMostScans);
  std::longjmp(errors.back, 1);
}

/// False if libjpeg stopped. `step` must hold nothing that has to be destroyed.
template <class Step>
[[gnu::noinline]] bool runs(Errors& errors, const Step& step) {
  if (setjmp(errors.back) != 0) return false;
  step();
  return true;
}

class Decoder {
 public:
  /// Reads the header.
  Decoder(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = stop;
    errors_.emit_message = weigh_message;
    progress_.progress_monitor = limit_scans;
    try {
      bool has_picture = false;
      run([&] {
        jpeg_create_decompress(&jpeg_);
        jpeg_.progress = &progress_;
        jpeg_mem_src(&jpeg_, bytes.data(), bytes.size());
        has_picture = jpeg_read_header(&jpeg_, FALSE) == JPEG_HEADER_OK;
      });
      if (!has_picture) refuse_picture(file_, "damaged JPEG", "no image in it");
    } catch (...) {
      jpeg_destroy_decompress(&jpeg_);
      throw;
    }
  }
  ~Decoder() { jpeg_destroy_decompress(&jpeg_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  jpeg_decompress_struct& jpeg() { return jpeg_; }
  template <class Step>
  void run(const Step& step) {
    if (!runs(errors_, step)) refuse_decoding(file_, "JPEG", errors_.message);
  }

 private:
  const std::filesystem::path& file_;
  Errors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

/// CMYK as Adobe writes it, to RGB.
void remove_black(std::vector<std::uint8_t>& pixels) {
  for (std::size_t from = 0, to = 0; from < pixels.size(); from += 4)
    for (std::size_t c = 0; c < 3; ++c)
      pixels[to++] = static_cast<std::uint8_t>((pixels[from + c] * pixels[from + 3] + 127) / 255);
  pixels.resize(pixels.size() / 4 * 3);
}

}  // namespace

void decode_jpeg(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                 Image& image) {
  Decoder decoder(bytes, file);
  jpeg_decompress_struct& jpeg = decoder.jpeg();
  const bool is_cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  const std::int64_t channels = is_cmyk ? 4 : 3;
  const bool keeps_coefficients = jpeg_has_multiple_scans(&jpeg) != 0;
  check_size(jpeg.image_width, jpeg.image_height, channels + (keeps_coefficients ? 2 * jpeg.num_components : 0),
             decoding, file, "JPEG");
  for (const unsigned denominator : {2u, 4u, 8u})
    if (std::min(jpeg.image_width, jpeg.image_height) / denominator >= decoding.least_side)
      jpeg.scale_denom = denominator;
  jpeg.scale_num = 1;
  jpeg.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  decoder.run([&] { jpeg_calc_output_dimensions(&jpeg); });
  image.width = jpeg.output_width;
  image.height = jpeg.output_height;
  image.rgb.resize(static_cast<std::size_t>(image.width * image.height * channels));
  std::uint8_t* const pixels = image.rgb.data();
  decoder.run([&] {
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW line = pixels + static_cast<std::int64_t>(jpeg.output_scanline) * image.width * channels;
      jpeg_read_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_decompress(&jpeg);
  });
  if (is_cmyk) remove_black(image.rgb);
}

std::array<std::int64_t, 2> jpeg_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  Decoder decoder(bytes, file);
  return {decoder.jpeg().image_width, decoder.jpeg().image_height};
}

}  // namespace nixie
