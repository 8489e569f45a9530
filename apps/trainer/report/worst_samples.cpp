// A figure for each sample of Evaluation::worst.
#include "nixie/apps/trainer/report/worst_samples.h"

#include <algorithm>

#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/picture.h"

namespace nixie {
namespace {

constexpr std::int64_t kSide = 96;

/// A sample of several rows and columns can be looked at.
bool is_picture(const Shape& sample) { return sample.rank() == 3 && sample[1] > 1 && sample[2] > 1; }

std::string numbers_text(std::span<const float> numbers) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), kMost); ++i)
    text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", numbers[i]);
  return text + (numbers.size() > kMost ? ", ..." : "");
}

/// The sample's class and the model's answer.
std::string figure_of(const Dataset& data, const Example& example, bool is_input) {
  const Shape sample = data.sample_shape();
  const SampleTarget target = data.target();
  const std::string own = is_picture(sample) ? image_html(picture_of(data, example.index, kSide), "sample") : "";
  if (is_input)
    return own + (own.empty() ? "" : image_html(picture_of(example.output.data<float>(), sample, kSide), "model"));
  Array truth(target.dtype, target.shape);
  data.load_target(example.index, {}, {truth.bytes(), static_cast<std::size_t>(truth.size_bytes())});
  if (target.is_dense())
    return own + image_html(picture_of(truth.data<std::int32_t>(), target.shape, kSide), "is") +
           image_html(picture_of(example.output.data<std::int32_t>(), target.shape, kSide), "model");
  return fmt::format("{}<div>is <b>{}</b><br>model <b>{}</b></div>", own, numbers_text(truth.data<float>()),
                     numbers_text(example.output.data<float>()));
}

}  // namespace

std::string worst_samples_html(const Dataset& data, const Evaluation& evaluation, bool is_input) {
  std::vector<Captioned> figures;
  for (const Example& example : evaluation.worst)
    figures.push_back({.images = figure_of(data, example, is_input),
                       .caption = fmt::format("<span class=\"soft\">{}: {:.4g}</span>",
                                              html_text(sample_name(data, example.index)), example.error)});
  if (figures.empty()) return {};
  const bool is_mask = !is_input && data.target().is_dense();
  const char* what = is_input  ? "The sample and what the model makes of it, with the mean error"
                     : is_mask ? "The sample, its mask and the model's mask, with the share of wrong pixels"
                               : "What the sample is and what the model says, with the mean error";
  return fmt::format("<p>{}; the worst of {}.</p>\n{}", what, evaluation.samples, strip_html("examples", figures));
}

}  // namespace nixie
