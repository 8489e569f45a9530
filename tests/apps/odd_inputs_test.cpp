// Files from people's folders: odd pictures, odd names, odd tables; each trains, or the error gives advice.
#include <sys/resource.h>

#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/data/arrays.h"
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/data/files/table_file.h"
#include "nixie/data/files/tar_file.h"
#include "nixie/tests/apps/expect_ran.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

const std::string kNet = R"(
model: [{{conv2d: {{out: 4, kernel: 3, pad: 1}}}}, relu, global_avg_pool, flatten, {{linear: {{out: 2}}}}]
data: {{image_folder: {{path: {}, crop: 8, resize: 8, batch: 4, holdout: 0.25}}}}
schedule: {{constant: {{rate: 0.05}}}}
epochs: 2
backend: cpu
threads: 1
)";

/// Grey or dark pictures of one colour in a format of libpng's.
Bytes plain_png(std::int64_t side, png_uint_32 format, std::uint8_t value) {
  const auto channels = static_cast<std::size_t>(PNG_IMAGE_SAMPLE_CHANNELS(format));
  const std::size_t bytes =
      channels * static_cast<std::size_t>(side * side) * (format & PNG_FORMAT_FLAG_LINEAR ? 2 : 1);
  return png(Bytes(bytes, value), side, side, format);
}

/// 2 x 2 pixels of a palette of 3 colours, the third transparent.
Bytes palette_png() {
  const Bytes colours = {255, 0, 0, 255, 0, 0, 255, 255, 9, 9, 9, 0}, pixels = {0, 1, 2, 0};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = 2;
  image.format = PNG_FORMAT_RGBA_COLORMAP;
  image.colormap_entries = 3;
  png_alloc_size_t size = 0;
  Bytes bytes;
  for (int pass = 0; pass < 2; ++pass) {
    bytes.resize(size);
    EXPECT_TRUE(png_image_write_to_memory(&image, size > 0 ? bytes.data() : nullptr, &size, 0, pixels.data(), 0,
                                          colours.data()))
        << image.message;
  }
  bytes.resize(size);
  return bytes;
}

Bytes grey_jpeg() {
  const Image image = picture(20, 30);
  Bytes grey;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) grey.push_back(image.rgb[i]);
  return encode(grey.data(), image, TJPF_GRAY, TJSAMP_GRAY, 0);
}

struct Case {
  const char* what;
  Bytes file;
  const char* suffix;
};
std::vector<Case> odd_pictures() {
  return {{"16 bits", plain_png(5, PNG_FORMAT_LINEAR_RGB, 99), ".png"},
          {"16 bits of grey", plain_png(9, PNG_FORMAT_LINEAR_Y, 99), ".png"},
          {"grey with alpha", plain_png(7, PNG_FORMAT_GA, 99), ".png"},
          {"a palette with alpha", palette_png(), ".PNG"},
          {"a single pixel", plain_png(1, PNG_FORMAT_RGB, 77), ".png"},
          {"a line", png(Bytes(3 * 40, 50), 40, 1), ".png"},
          {"CMYK", cmyk_jpeg(picture(24, 16)), ".jpg"},
          {"grey", grey_jpeg(), ".JPEG"},
          {"progressive", jpeg(picture(33, 17), TJSAMP_420, TJFLAG_PROGRESSIVE), ".jpe"},
          {"a PNG named JPEG", png(picture(12, 12)), ".jpg"}};
}

/// Trains a net on the pictures of a folder.
Ran trained_on(const Workplace& folder, const std::string& data, const std::string& more = "") {
  folder.write("net.yaml", fmt::format(fmt::runtime(kNet), data));
  return folder.trainer("--config net.yaml --run run" + more);
}

TEST(OddInputs, PicturesOfEveryKindTrainAndArePredicted) {
  const Workplace folder;
  const char* classes[] = {"Ñandú & co", "猫 (cat) 'quoted'"};
  for (int c = 0; c < 2; ++c)
    for (const Case& each : odd_pictures())
      write_file(folder / fmt::format("photos/{}/{} {}{}", classes[c], each.what, c, each.suffix), each.file);
  expect_ran(trained_on(folder, "photos"), 0, "of 2 classes");
  expect_ran(folder.trainer("data verify photos"), 0, "20 samples can be read, 0 cannot");
  const Ran predicted = expect_ran(folder.trainer("predict photos --csv --topk 1 --run run"), 0);
  EXPECT_EQ(std::count(predicted.output.begin(), predicted.output.end(), '\n'), 21) << predicted.output;
  EXPECT_THAT(predicted.output, testing::AnyOf(HasSubstr(",1,Ñandú & co,"), HasSubstr(",1,猫 (cat) 'quoted',")));
  const std::string page = text_of(folder / "run/report.html");
  EXPECT_THAT(page, HasSubstr("<th>Ñandú &amp; co</th>"));
}

TEST(OddInputs, SixteenBitsAndPalettesKeepTheirColours) {
  const auto pixels = [](const Bytes& file) { return decode_image(file, "x.png").rgb; };
  EXPECT_EQ(pixels(palette_png()), (Bytes{255, 0, 0, 0, 0, 255, 255, 255, 255, 255, 0, 0}));  // transparent is white
  const Bytes grey = pixels(grey_jpeg());
  for (std::size_t i = 0; i < grey.size(); i += 3) ASSERT_TRUE(grey[i] == grey[i + 1] && grey[i] == grey[i + 2]);
}

TEST(OddInputs, DataSmallerThanABatchNamesTheSetting) {
  const Workplace folder;
  for (const char* file : {"few/a/1.png", "few/b/1.png", "few/a/2.png"})
    write_file(folder / file, plain_png(4, PNG_FORMAT_RGB, 9));
  expect_ran(trained_on(folder, "few"), 5, "2 samples, too few for a batch of 4; set a smaller batch");
  expect_ran(trained_on(folder, "few", " --set data.image_folder.batch=2"), 0);
}

// Such a run reaches an accuracy of 1 whatever the net is.
TEST(OddInputs, TrainingDataOfOneClassAreTold) {
  const Workplace folder;
  for (const char* file : {"x/a/1.png", "x/b/1.png", "x/a/2.png", "x/b/2.png"})
    write_file(folder / file, plain_png(4, PNG_FORMAT_RGB, 9));
  ASSERT_EQ(folder.trainer("data pack x packed").code, 0);
  const auto table = [&](const char* name, const char* text) {
    folder.write(name, text);
    return fmt::format("arrays: {{path: {}, batch: 1, holdout: 0.3}}", name);
  };
  const std::string folders = "image_folder: {crop: 4, batch: 1, path: x";
  const struct {
    std::string data;
    std::string warning;  ///< "": none
  } kCases[] = {
      {folders + "}", ""},
      {folders + ", limit: 1}", "warning: all 1 training samples are of one class, \"a\""},
      {"packed: {batch: 1, path: packed}", ""},
      {"packed: {batch: 1, path: packed, limit: 1}", "warning: all 1 training samples are of one class, \"a\""},
      {table("two.csv", "1,2,0\n2,1,1\n3,1,0\n4,1,1\n5,1,0\n6,2,1\n"), ""},
      {table("one.csv", "1,2,1\n2,1,1\n3,1,1\n4,1,1\n5,1,1\n6,2,1\n"), "training samples are of one class, \"1\""},
      {table("numbers.csv", "1,2,0.5\n2,1,0.5\n3,1,0.5\n4,1,0.5\n5,1,0.5\n6,2,0.5\n"), ""},
      {"glyphs: {batch: 1}", ""},
  };
  for (const auto& [data, warning] : kCases) {
    const bool has_numbers = data.find("numbers") != std::string::npos;
    std::ofstream(folder / "net.yaml") << "model: [flatten, {linear: {out: " << (has_numbers ? 1 : 10) << "}}]\ndata: {"
                                       << data << "}\nepochs: 1\nbackend: cpu\n"
                                       << (has_numbers ? "loss: mean_squared\n" : "");
    const Ran ran = expect_ran(folder.trainer("--dry-run --config net.yaml"), 0, warning);
    EXPECT_EQ(ran.output.find("one class") != std::string::npos, !warning.empty()) << data << ": " << ran.output;
  }
}

TEST(OddInputs, TablesOfEverySpelling) {
  struct Table {
    const char *what, *text;
  };
  for (const Table& table :
       {Table{"plain", "p0.png,cat\np1.png,dog\np2.png,cat\np3.png,dog\n"},
        {"CRLF and a header", "picture,class\r\np0.png,cat\r\np1.png,dog\r\np2.png,cat\r\np3.png,dog\r\n"},
        {"Excel's first bytes", "\xef\xbb\xbfp0.png,cat\np1.png,dog\np2.png,cat\np3.png,dog\n"},
        {"quotes", "\"p0.png\",\"cat\"\n\"p1.png\",\"dog\"\np2.png,cat\np3.png,dog"},
        {"spaces", "p0.png, cat\np1.png ,dog\n p2.png,cat \np3.png, dog\n\n"}}) {
    const Workplace folder;
    for (int i = 0; i < 4; ++i)
      write_file(folder / fmt::format("data/p{}.png", i),
                 plain_png(4, PNG_FORMAT_RGB, static_cast<std::uint8_t>(60 * i)));
    folder.write("data/train.csv", table.text);
    SCOPED_TRACE(table.what);
    expect_ran(folder.trainer("data inspect data"), 0, "of 2 classes", ContainsRegex("\ncat  +1 +1\ndog  +1 +1\n"));
  }
}

// A name that leads nowhere is a mistake of its kind; what the system does not let be read may be whole.
TEST(OddInputs, FilesThatTheSystemRefusesAreFaultsOfTheSystem) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  using Path = fs::path;
  const struct {
    const char* name;
    Fault of_kind;
    std::function<void(const Path&)> read;
  } kCases[] = {
      {"net.yaml", Fault::usage, [](const Path& file) { load_yaml(file); }},
      {"w.safetensors", Fault::checkpoint, [](const Path& file) { first_weights(file); }},
      {"last.h5", Fault::checkpoint, [](const Path& file) { load_checkpoint(file); }},
      {"w.h5", Fault::checkpoint, [](const Path& file) { first_weights(file); }},
      {"a.h5", Fault::data, [](const Path& file) { Arrays{.path = file}.open(); }},
      {"a.npz", Fault::data, [](const Path& file) { Arrays{.path = file}.open(); }},
      {"t.csv", Fault::data, [](const Path& file) { read_table(file); }},
      {"s.tar", Fault::data, [](const Path& file) { read_tar(file); }},
      {"train.packed", Fault::data, [](const Path& file) { PackedFile{file}; }},
      {"p.png", Fault::data, [](const Path& file) { read_file(file, 1000); }},
  };
  for (const auto& c : kCases) {
    const Path file = folder / c.name;
    EXPECT_THAT(error_of(c.of_kind, [&] { c.read(file); }), HasSubstr("No such file or directory; ")) << c.name;
    write_file(file, {1, 2, 3});
    fs::permissions(file, fs::perms::none);
    const Unprivileged user;
    EXPECT_FAULT(storage, "Permission denied; check the ", c.read(file)) << c.name;
  }
  write_file(folder / "some.h5", {1, 2, 3});
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const std::string line = error_of(Fault::storage, [&] { first_weights(folder / "some.h5"); });
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_THAT(line, HasSubstr("Too many open files; close other files, or raise `ulimit -n`"));
}

}  // namespace
}  // namespace nixie
