// Reports as a browser shows them, skipped without one: nothing overlaps, no chart is empty, no picture is broken.
#include <png.h>

#include <nlohmann/json.hpp>

#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/arrays.h"

namespace nixie {
namespace {

/// The command that starts one; "" where there is none.
std::string browser() {
  std::string found =
      run_shell("command -v chromium || command -v chromium-browser || command -v google-chrome").output;
  found.erase(found.find_last_not_of('\n') + 1);
  return found;
}

// Looks at the page as laid out, and leaves a list of what is wrong with it.
constexpr const char* kInspection = R"(<script>
addEventListener("load", () => {
  const wrong = [], page = document.documentElement;
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  if (page.scrollWidth > page.clientWidth) wrong.push("the page is wider than the window");
  for (const image of document.images)
    if (image.naturalWidth == 0) wrong.push("a picture is broken: " + image.alt);
  for (const svg of document.querySelectorAll("svg")) {
    const whole = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map(text => text.getBoundingClientRect());
    boxes.forEach((a, i) => {
      const text = texts[i].textContent;
      if (a.left < whole.left - 1 || a.right > whole.right + 1 || a.bottom > whole.bottom + 2)
        wrong.push("cut off: " + text);
      boxes.forEach((b, k) => {
        if (i < k && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
          wrong.push("overlap: " + text + " and " + texts[k].textContent);
      });
    });
    if (!svg.querySelector("path.line, .bars rect, .box")) wrong.push("an empty chart");
  }
  for (const node of document.querySelectorAll("b, td, text, p, .key"))
    if (/\d{9,}|\.\d{9,}|nan|inf\b|undefined/.test(node.textContent)) wrong.push("unreadable: " + node.textContent);
  for (const svg of document.querySelectorAll("figure > svg"))
    for (const mark of svg.querySelectorAll("circle"))
      if (!svg.getBoundingClientRect().width || !mark.getBoundingClientRect().width) wrong.push("nothing is drawn");
  const found = document.createElement("pre");
  found.id = "found";
  found.textContent = JSON.stringify({wrong: wrong, charts: document.querySelectorAll("figure > svg").length,
                                      pictures: document.images.length});
  document.body.append(found);
});
</script>)";

/// The inspection's lines about a page in a window of this width.
nlohmann::json inspected(const fs::path& page, const fs::path& folder, int width) {
  std::ofstream(folder / "inspected.html") << text_of(page) << kInspection;
  const std::string dom =
      run_shell(
          fmt::format(
              "(timeout 120 {} --headless=new --no-sandbox --disable-gpu --user-data-dir={} --window-size={},2000 "
              "--virtual-time-budget=5000 --dump-dom file://{} 2>/dev/null)",
              browser(), (folder / "profile").string(), width, (folder / "inspected.html").string()))
          .output;
  const std::size_t at = dom.find("<pre id=\"found\">");
  EXPECT_NE(at, std::string::npos) << dom.substr(0, 400);
  if (at == std::string::npos) return {};
  const std::size_t begin = dom.find('>', at) + 1;
  return nlohmann::json::parse(dom.substr(begin, dom.find("</pre>", begin) - begin));
}

/// The colours of a screenshot.
std::set<std::uint32_t> colours_of(const fs::path& page, const fs::path& folder) {
  const std::string file = (folder / "shot.png").string();
  run_shell(fmt::format(
      "(timeout 120 {} --headless=new --no-sandbox --disable-gpu --user-data-dir={} --window-size=1200,2000 "
      "--force-device-scale-factor=1 --screenshot={} file://{} 2>/dev/null)",
      browser(), (folder / "profile").string(), file, page.string()));
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  if (!png_image_begin_read_from_file(&png, file.c_str())) return {};
  png.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  EXPECT_TRUE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) << png.message;
  std::set<std::uint32_t> colours;
  for (std::size_t i = 0; i + 2 < pixels.size(); i += 3)
    colours.insert(std::uint32_t{pixels[i]} << 16 | std::uint32_t{pixels[i + 1]} << 8 | pixels[i + 2]);
  return colours;
}

struct Case {
  const char* what;
  std::string images, targets;  // .npy files' bytes
  std::string text;             // of the configuration, but for its data
  int charts, least_pictures;
};

std::string text_of_bytes(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

/// 60 pictures of 16 x 12 whose brightness follows from their number, with every kind of target.
std::vector<Case> cases() {
  Bytes pixels, classes, masks, many;
  std::vector<float> numbers;
  for (int i = 0; i < 60; ++i) {
    classes.push_back(static_cast<std::uint8_t>(i % 3));
    numbers.push_back(static_cast<float>(i % 7) * 1234.5678f);
    numbers.push_back(static_cast<float>(i % 5));
    const std::int16_t of_many = static_cast<std::int16_t>(i % 2 ? 999 : i);
    many.push_back(static_cast<std::uint8_t>(of_many & 255)), many.push_back(static_cast<std::uint8_t>(of_many >> 8));
    for (int p = 0; p < 16 * 12; ++p) {
      masks.push_back(static_cast<std::uint8_t>(p % 16 > i % 16));
      for (int c = 0; c < 3; ++c) pixels.push_back(static_cast<std::uint8_t>((p * (c + 1) + i * 37) % 256));
    }
  }
  const std::string images = text_of_bytes(npy("|u1", "(60, 12, 16, 3)", pixels));
  const auto named = [](const char* type, const char* shape, const Bytes& bytes) {
    return text_of_bytes(npy(type, shape, bytes));
  };
  const std::string conv = "[{conv2d: {out: 4, kernel: 3, pad: 1}}, relu, ", flat = "flatten, {linear: {out: ";
  return {{"classes", images, named("|u1", "(60,)", classes), "model: " + conv + flat + "3}}]\nreport_detail: true\n",
           4, 5},
          {"a thousand classes", images, named("<i2", "(60,)", many), "model: " + conv + flat + "1000}}]\n", 4, 5},
          {"numbers", images, named("<f4", "(60, 2)", bytes_of_numbers(numbers)),
           "model: " + conv + flat + "2}}]\nloss: mean_squared\nmetrics: [mean_error]\n", 4, 16},
          {"masks", images, named("|u1", "(60, 12, 16)", masks),
           "model: " + conv + "{conv2d: {out: 2, kernel: 1}}]\nmetrics: [iou]\n", 5, 40},
          {"the input itself", images, named("|u1", "(60,)", classes),
           "model: [flatten, {linear: {out: 8}}, {linear: {out: 576}}]\nloss: mean_squared\ntarget: input\n", 3, 24}};
}

TEST(Browser, ShowsReportsOfEveryKind) {
  if (browser().empty()) GTEST_SKIP() << "no chromium, chromium-browser or google-chrome";
  for (const Case& c : cases()) {
    const TempFolder folder;
    for (const auto& [name, bytes] : {std::pair("images.npy", c.images), std::pair("labels.npy", c.targets)})
      write_file(folder / "data" / name, {bytes.begin(), bytes.end()});
    const std::string text = "data: {arrays: {path: \"" + (folder / "data").string() +
                             "\", batch: 8, holdout: 0.3}}\noptimizer: adam\nschedule: {cosine: {rate: 0.01}}\n"
                             "epochs: 3\nlog_every: 2\nbackend: cpu\nthreads: 1\n" +
                             c.text;
    fs::create_directories(folder / "run");
    Trainer trainer(config_in(text), {.run = folder / "run"});
    EXPECT_TRUE(trainer.train()) << c.what;
    for (const int width : {1200, 420}) {
      const nlohmann::json found = inspected(folder / "run/report.html", folder.path(), width);
      EXPECT_EQ(found.value("wrong", nlohmann::json("none")), nlohmann::json::array()) << c.what << ", width " << width;
      EXPECT_GE(found.value("charts", 0), c.charts) << c.what;
      EXPECT_GE(found.value("pictures", 0), c.least_pictures) << c.what;
    }
    // The style sheet's colours of lines, ground and text were drawn.
    const std::set<std::uint32_t> colours = colours_of(folder / "run/report.html", folder.path());
    for (const std::uint32_t colour : {0x0969dau, 0xbc4c00u, 0xffffffu, 0x1f2328u})
      EXPECT_TRUE(colours.contains(colour)) << c.what << fmt::format(": no #{:06x} of {}", colour, colours.size());
  }
}

TEST(Browser, ShowsTheChartOfASweepOverRates) {
  if (browser().empty()) GTEST_SKIP() << "no chromium, chromium-browser or google-chrome";
  const Workplace folder;
  folder.write("c.yaml",
               "model: {mlp: {classes: 10}}\ndata: {glyphs: {train: 2000, test: 64, batch: 32}}\n"
               "epochs: 2\nbackend: cpu\n");
  const Ran ran = folder.trainer("find-rate --config c.yaml --html rates.html");
  ASSERT_EQ(ran.code, 0) << ran.output;
  for (const int width : {1200, 420}) {
    const nlohmann::json found = inspected(folder / "rates.html", folder.path(), width);
    EXPECT_EQ(found.value("wrong", nlohmann::json("none")), nlohmann::json::array()) << "width " << width;
    EXPECT_EQ(found.value("charts", 0), 1);
  }
}

}  // namespace
}  // namespace nixie
