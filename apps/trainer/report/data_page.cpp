// Pixels are those that a batch holds, without their normalisation; masks are drawn over them in the report's colours.
#include "nixie/apps/trainer/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/picture.h"

namespace nixie {
namespace {

constexpr std::int64_t kSide = 96, kLooks = 4096;  // samples whose label is read where labels are not known
constexpr std::size_t kMostClasses = 40, kOfEachClass = 6, kWithoutClass = 24, kAugmented = 4;
constexpr std::int64_t kAugmentations = 8;

/// The target of a sample for its caption, as `cat` or `0.5, 2`; "" for masks.
std::string target_text(const Dataset& data, std::int64_t index) {
  const SampleTarget form = data.target();
  if (form.dtype != Dtype::f32) return {};
  Array target(form.dtype, form.shape);
  data.load_target(index, {}, {target.bytes(), static_cast<std::size_t>(target.size_bytes())});
  return numbers_text(target.data<float>());
}

/// A sample as it is in a batch, its mask over it.
std::string image(const Dataset& data, std::int64_t index, const AugmentKey& key, const std::string& title) {
  PagePicture picture = picture_of(data, index, kSide, key);
  if (const SampleTarget form = data.target(); form.is_dense()) {
    Array mask(form.dtype, form.shape);
    data.load_target(index, key, {mask.bytes(), static_cast<std::size_t>(mask.size_bytes())});
    picture = overlaid(picture, mask.data<std::int32_t>(), form.shape);
  }
  return image_html(picture, title);
}

std::string title_of(const std::string& name, const std::string& more) {
  return fmt::format("{} <span class=\"soft\">{}</span>", html_text(name), html_text(more));
}

/// The first samples of each class, and how many there are; of labels that are not known, among the first samples.
struct OfClass {
  std::int64_t count = 0;
  std::vector<std::int64_t> first = {};
};
std::map<std::int32_t, OfClass> classes_of(const Dataset& data) {
  std::vector<std::int32_t> labels = data.labels();
  if (labels.empty()) {
    std::vector<float> pixels(static_cast<std::size_t>(data.sample_shape().size()));
    for (std::int64_t i = 0; i < std::min(data.size(), kLooks); ++i) labels.push_back(data.load(i, {}, pixels));
  }
  std::map<std::int32_t, OfClass> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    OfClass& each = classes[labels[i]];
    ++each.count;
    if (each.first.size() < kOfEachClass) each.first.push_back(static_cast<std::int64_t>(i));
  }
  return classes;
}

std::string in_a_row(const std::string& images) { return "<div class=\"examples\">" + images + "</div>"; }

std::string samples(const Dataset& data) {
  std::vector<Captioned> figures;
  if (!data.target().is_class()) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(data.size(), kWithoutClass); ++i)
      figures.push_back({title_of(target_text(data, i), fmt::format("sample {}", i)), image(data, i, {}, "sample")});
    return strip_html("examples", figures);
  }
  const auto classes = classes_of(data);
  for (const auto& [label, of_class] : classes) {
    if (figures.size() == kMostClasses) break;
    std::string images;
    for (const std::int64_t index : of_class.first) images += image(data, index, {}, fmt::format("sample {}", index));
    figures.push_back(
        {title_of(data.class_names().at(static_cast<std::size_t>(label)), fmt::format("{} samples", of_class.count)),
         in_a_row(images)});
  }
  const std::string others = classes.size() > kMostClasses
                                 ? fmt::format("<p>... and {} more classes.</p>\n", classes.size() - kMostClasses)
                                 : "";
  return strip_html("charts", figures) + others;
}

/// Each of some samples as evaluation sees it, then as training does in its first epochs.
std::string augmented(const DataFacts& facts) {
  const Dataset& data = *facts.data.train;
  std::vector<Captioned> figures;
  const auto count = std::min<std::int64_t>(data.size(), kAugmented);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * data.size() / count;
    std::string images = image(data, index, {}, "evaluation");
    for (std::int64_t epoch = 0; epoch < kAugmentations; ++epoch)
      images +=
          image(data, index, {.seed = facts.seed, .epoch = epoch, .training = true}, fmt::format("epoch {}", epoch));
    figures.push_back({title_of(fmt::format("sample {}", index), "in evaluation, then in eight epochs of training"),
                       in_a_row(images)});
  }
  return strip_html("charts one", figures);
}

}  // namespace

std::string data_page_html(const DataFacts& facts) {
  const std::shared_ptr<const Dataset>&train = facts.data.train, &test = facts.data.test;
  std::string head =
      fmt::format("<p>{}: {} training and {} test samples, each {}; the target is {}.</p>\n", facts.kind, train->size(),
                  test ? test->size() : 0, train->sample_shape(), to_string(train->target()));
  for (const std::string& note : facts.data.notes) head += "<p>" + html_text(note) + "</p>\n";
  return html_page(facts.source,
                   head +
                       "<p>Pixels are those that the net gets, before they are normalised; numbers that are no bytes "
                       "are stretched from the lowest to the highest.</p>\n" +
                       section("Training samples", samples(*train)) + section("Augmentation", augmented(facts)) +
                       section("Test samples", test ? samples(*test) : ""));
}

}  // namespace nixie
