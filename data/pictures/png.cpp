// PNG: libpng's progressive reader, which stops decompressing after the last row; others swallow what follows it, and
// a megabyte of zeros is a gigabyte of them.
#include "nixie/data/pictures/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>

#include "nixie/data/pictures/refusal.h"

namespace nixie {
namespace {

/// The state that libpng's callbacks see.
struct State {
  std::jmp_buf back;
  char message[256];
  std::uint8_t* pixels;  ///< of the picture that is filled
  std::size_t row_bytes;
  png_uint_32 rows;
  std::size_t unread;  ///< bytes left where it paused
  int last_pass;
  bool has_header, has_last_row, has_end;
};

State& state_of(png_structp png) { return *static_cast<State*>(png_get_progressive_ptr(png)); }

void stop(png_structp png, png_const_charp message) {
  auto& state = *static_cast<State*>(png_get_error_ptr(png));
  std::snprintf(state.message, sizeof state.message, "%s", message);
  std::longjmp(state.back, 1);
}

void pass_over(png_structp, png_const_charp) {}

/// The header is read: what follows waits until the picture has its memory.
void pause_after_header(png_structp png, png_infop) {
  state_of(png).has_header = true;
  state_of(png).unread = png_process_data_pause(png, 0);
}

void take_row(png_structp png, png_bytep row, png_uint_32 index, int pass) {
  State& state = state_of(png);
  if (row) png_progressive_combine_row(png, state.pixels + index * state.row_bytes, row);
  state.has_last_row |= pass == state.last_pass && index == state.rows - 1;
}

void note_end(png_structp png, png_infop) { state_of(png).has_end = true; }

/// False if libpng stopped. `step` must hold nothing that has to be destroyed.
template <class Step>
[[gnu::noinline]] bool runs(State& state, const Step& step) {
  if (setjmp(state.back) != 0) return false;
  step();
  return true;
}

class Decoder {
 public:
  /// Reads the header.
  Decoder(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) : file_(file), rest_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state_, stop, pass_over);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    try {
      if (!info_) refuse_decoding(file_, "PNG", "no memory for a decoder");
      run([&] {
        png_set_progressive_read_fn(png_, &state_, pause_after_header, take_row, note_end);
        // Only chunks that say how values are stored count: a gamma or a profile changes none of them.
        png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
        png_set_benign_errors(png_, 1);
      });
      feed();
      if (!state_.has_header) refuse_decoding(file_, "PNG", "it ends before its pixels");
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::int64_t height() const { return png_get_image_height(png_, info_); }
  int bits() const { return png_get_bit_depth(png_, info_); }
  int colour_type() const { return png_get_color_type(png_, info_); }
  bool has_transparent_colours() const { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }

  /// Sets how rows are changed, on the way to RGB or to what masks hold.
  template <class Step>
  void change_rows(const Step& step) {
    run([&] { step(png_); });
  }

  /// Decodes to `channels` bytes for each pixel.
  void read(std::vector<std::uint8_t>& pixels, std::int64_t channels) {
    const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    std::size_t row_bytes = 0;
    run([&] {
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      row_bytes = png_get_rowbytes(png_, info_);
    });
    if (row_bytes != static_cast<std::size_t>(width() * channels))
      refuse_decoding(file_, "PNG", "rows of another size than its header says");
    pixels.resize(row_bytes * static_cast<std::size_t>(height()));
    state_.pixels = pixels.data();
    state_.row_bytes = row_bytes;
    state_.rows = png_get_image_height(png_, info_);
    state_.last_pass = is_interlaced ? PNG_INTERLACE_ADAM7_PASSES - 1 : 0;
    feed();
    // libpng lets the end come where the compressed pixels are whole. A file that lacks that chunk alone has them.
    static constexpr std::uint8_t kEnd[] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    if (!state_.has_end) {
      rest_ = kEnd;
      feed();
    }
    const bool may_lack_pass = is_interlaced && std::min(width(), height()) < 5;  // the last one may be empty
    if (!state_.has_end || !(state_.has_last_row || may_lack_pass))
      refuse_decoding(file_, "PNG", "it ends before its last row");
  }

 private:
  template <class Step>
  void run(const Step& step) {
    if (!runs(state_, step)) refuse_decoding(file_, "PNG", state_.message);
  }
  /// Gives libpng the bytes that it has not seen.
  void feed() {
    state_.unread = 0;
    run([&] { png_process_data(png_, info_, const_cast<png_bytep>(rest_.data()), rest_.size()); });
    rest_ = rest_.last(state_.unread);
  }

  const std::filesystem::path& file_;
  std::span<const std::uint8_t> rest_;
  State state_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

constexpr std::int64_t kPixelBytes = 3;

}  // namespace

void decode_png(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                Image& image) {
  Decoder decoder(bytes, file);
  image.width = decoder.width();
  image.height = decoder.height();
  check_size(image.width, image.height, kPixelBytes, decoding, file, "PNG");
  const bool has_alpha = (decoder.colour_type() & PNG_COLOR_MASK_ALPHA) != 0 || decoder.has_transparent_colours(),
             is_grey = (decoder.colour_type() & PNG_COLOR_MASK_COLOR) == 0, is_deep = decoder.bits() == 16;
  decoder.change_rows([&](png_structp png) {
    png_set_expand(png);
    if (is_grey) png_set_gray_to_rgb(png);
    // Values are sRGB's, which matters where they are blended with white alone.
    png_set_alpha_mode_fixed(png, PNG_ALPHA_PNG, PNG_DEFAULT_sRGB);
    if (is_deep) png_set_scale_16(png);
    const png_color_16 white{0, 255, 255, 255, 255};
    if (has_alpha) png_set_background_fixed(png, &white, PNG_BACKGROUND_GAMMA_SCREEN, 0, 0);
  });
  decoder.read(image.rgb, kPixelBytes);
}

Mask decode_png_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding) {
  Decoder decoder(bytes, file);
  const bool has_levels = decoder.colour_type() == PNG_COLOR_TYPE_GRAY && !decoder.has_transparent_colours(),
             has_palette = decoder.colour_type() == PNG_COLOR_TYPE_PALETTE;
  if (decoder.bits() == 16 || !(has_levels || has_palette))
    refuse_picture(file, "mask", "true colours, transparency or 16 bits, expected grey levels or a palette");
  check_size(decoder.width(), decoder.height(), 1, decoding, file, "PNG");
  decoder.change_rows([](png_structp png) { png_set_packing(png); });
  Mask mask{decoder.width(), decoder.height()};
  decoder.read(mask.classes, 1);
  return mask;
}

std::array<std::int64_t, 2> png_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  const Decoder decoder(bytes, file);
  return {decoder.width(), decoder.height()};
}

}  // namespace nixie
