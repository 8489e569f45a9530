// JPEG: which of libjpeg's warnings cost pixels.
#include "nixie/data/pictures/jpeg.h"

#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

/// The position of a segment's marker.
std::size_t find_marker(const Bytes& file, std::uint8_t marker) {
  for (std::size_t i = 0; i + 1 < file.size(); ++i)
    if (file[i] == 0xff && file[i + 1] == marker) return i;
  ADD_FAILURE() << "no marker " << int{marker};
  return 0;
}

Bytes with(const Bytes& file, std::size_t at, const Bytes& inserted, std::size_t removed = 0) {
  Bytes result(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(at));
  result = result + inserted;
  result.insert(result.end(), file.begin() + static_cast<std::ptrdiff_t>(at + removed), file.end());
  return result;
}

constexpr std::uint8_t kFrame = 0xc0, kRestart = 0xd0, kEnd = 0xd9, kScan = 0xda, kJfif = 0xe0;
constexpr std::size_t kJfifBytes = 18;

/// With a major version of JFIF.
Bytes with_jfif(Bytes file, std::uint8_t major) {
  file[find_marker(file, kJfif) + 9] = major;
  return file;
}

/// As Samsung's cameras write it: the scan ends with coefficient 0.
Bytes with_last_coefficient(Bytes file, std::uint8_t last) {
  const std::size_t scan = find_marker(file, kScan);
  file[scan + file[scan + 3] + 2 - 2] = last;  // length, components and their tables, then Ss, Se, Ah and Al
  return file;
}

Bytes with_adobe(const Bytes& file, std::uint8_t transform) {
  return with(file, 2, Bytes{0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, transform}, kJfifBytes);
}

/// By turbojpeg, whose pixels are those of earlier runs.
Bytes by_turbojpeg(const Bytes& file, int denominator) {
  const tjhandle jpeg = tjInitDecompress();
  int width = 0, height = 0, subsampling = 0, colours = 0;
  EXPECT_EQ(tjDecompressHeader3(jpeg, file.data(), file.size(), &width, &height, &subsampling, &colours), 0);
  const tjscalingfactor scale{1, denominator};
  width = TJSCALED(width, scale), height = TJSCALED(height, scale);
  Bytes rgb(static_cast<std::size_t>(3 * width * height));
  EXPECT_EQ(tjDecompress2(jpeg, file.data(), file.size(), rgb.data(), width, 0, height, TJPF_RGB, 0), 0);
  tjDestroy(jpeg);
  return rgb;
}

TEST(Jpeg, PixelsAreThoseOfTurbojpeg) {
  const Image image = picture(333, 219);
  for (const int subsampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_440, TJSAMP_411, TJSAMP_GRAY})
    for (const int flags : {0, TJFLAG_PROGRESSIVE})
      for (const int denominator : {1, 2, 4, 8}) {
        const Bytes file = jpeg(image, subsampling, flags);
        EXPECT_EQ(decode_image(file, "a.jpg", {.least_side = 219 / denominator}).rgb, by_turbojpeg(file, denominator))
            << subsampling << " " << flags << " 1/" << denominator;
      }
}

TEST(Jpeg, WarningsThatCostNoPixelAreNoDamage) {
  const Bytes file = jpeg(picture(50, 37), TJSAMP_420);
  const Bytes expected = decode_image(file, "a.jpg").rgb;
  const struct {
    const char* title;
    Bytes bytes;
  } cases[] = {{"Se of 0", with_last_coefficient(file, 0)},
               {"JFIF 0", with_jfif(file, 0)},
               {"JFIF 2", with_jfif(file, 2)},
               {"transform 3 of Adobe", with_adobe(file, 3)},
               {"bytes between segments", with(file, find_marker(file, kFrame), Bytes(7, 1))},
               {"bytes before the end", with(file, find_marker(file, kEnd), Bytes(7, 1))},
               {"all of it", with_jfif(with_last_coefficient(with(file, find_marker(file, kEnd), Bytes(7, 1)), 0), 2)}};
  for (const auto& each : cases) EXPECT_EQ(decode_image(each.bytes, "a.jpg").rgb, expected) << each.title;
}

TEST(Jpeg, WarningsThatCostPixelsAreDamage) {
  const Bytes file = jpeg(picture(50, 37)), progressive = jpeg(picture(50, 37), TJSAMP_444, TJFLAG_PROGRESSIVE);
  ::setenv("TJ_RESTART", "1", 1);
  const Bytes restarts = jpeg(picture(50, 37));
  ::unsetenv("TJ_RESTART");
  const auto cut = [](Bytes bytes) {
    bytes.resize(bytes.size() * 3 / 4);
    return bytes;
  };
  const std::size_t pixels = find_marker(file, kScan) + 20;
  Bytes wrong_restart = restarts;
  wrong_restart[find_marker(restarts, kRestart) + 1] = kRestart + 3;
  const struct {
    const char* title;
    Bytes bytes;
  } cases[] = {{"cut", cut(file)},
               {"progressive and cut", cut(progressive)},
               {"a harmless warning, then cut", cut(with_jfif(file, 2))},
               {"stray bytes, then cut", cut(with(file, find_marker(file, kFrame), Bytes(7, 1)))},
               {"pixels of ones", with(
                                      file, pixels,
                                      [] {
                                        Bytes ones;
                                        for (int i = 0; i < 200; ++i) ones = ones + Bytes{0xff, 0};
                                        return ones;
                                      }(),
                                      400)},
               {"another restart", wrong_restart},
               {"bytes before a restart", with(restarts, find_marker(restarts, kRestart), Bytes(9, 1))}};
  for (const auto& each : cases)
    EXPECT_FAULT(data, "a.jpg: damaged JPEG: ", decode_image(each.bytes, "a.jpg")) << each.title;
}

}  // namespace
}  // namespace nixie
