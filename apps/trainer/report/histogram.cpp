// Bars are as high as the square root of their share, so that tails show beside a peak.
#include "nixie/apps/trainer/report/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nixie/apps/trainer/report/page.h"

namespace nixie {

Histogram histogram_of(const std::string& name, std::span<const float> values, int bins) {
  Histogram result{
      .name = name, .low = std::numeric_limits<double>::infinity(), .high = -std::numeric_limits<double>::infinity()};
  double sum = 0, count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++result.not_finite;
      continue;
    }
    result.low = std::min<double>(result.low, value);
    result.high = std::max<double>(result.high, value);
    sum += value, ++count;
  }
  if (count == 0) return {.name = name, .not_finite = result.not_finite};
  result.mean = sum / count;
  result.counts.resize(static_cast<std::size_t>(bins));
  const double range = result.high - result.low, per_bin = range > 0 ? bins / range : 0;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    squares += (value - result.mean) * (value - result.mean);
    const auto bin = static_cast<std::size_t>((value - result.low) * per_bin);
    ++result.counts[std::min(bin, result.counts.size() - 1)];
  }
  result.deviation = std::sqrt(squares / count);
  return result;
}

std::string histogram_html(const Histogram& histogram) {
  constexpr double kWidth = 240, kHeight = 70;
  const std::int64_t most =
      histogram.counts.empty() ? 1 : *std::max_element(histogram.counts.begin(), histogram.counts.end());
  std::string bars;
  const double width = kWidth / static_cast<double>(std::max<std::size_t>(histogram.counts.size(), 1));
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double height = kHeight * std::sqrt(static_cast<double>(histogram.counts[i]) / static_cast<double>(most));
    if (height > 0)
      bars += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                          width * static_cast<double>(i), kHeight - height, width - 0.5, height);
  }
  const std::string others = histogram.not_finite > 0 ? fmt::format(", {} not finite", histogram.not_finite) : "";
  return fmt::format(
      "<figure><figcaption>{}</figcaption><span class=\"soft\">mean {:.3g}, deviation {:.3g}{}</span>"
      "<svg viewBox=\"0 0 240 84\" class=\"bars line-0\" role=\"img\" aria-label=\"{}\">{}<text "
      "x=\"0\" y=\"82\">{:.3g}</text>"
      "<text x=\"240\" y=\"82\" class=\"end\">{:.3g}</text></svg></figure>\n",
      html_text(histogram.name), histogram.mean, histogram.deviation, others, html_text(histogram.name), bars,
      histogram.low, histogram.high);
}

GradientProbe::GradientProbe(Backend& backend, const TrainConfig& config, const Model& model,
                             const Optimizer& optimizer, std::shared_ptr<const Dataset> dataset,
                             const LoaderOptions& options)
    : model_(model),
      optimizer_(optimizer),
      objective_(config, dataset->target()),
      seed_(config.seed),
      loader_(std::move(dataset), {.batch = options.batch, .threads = 1, .prefetch = 1}, 0, false),
      step_(
          backend, [this](const Inputs& in) { return body(in); }, config.policy()) {}

Outputs GradientProbe::body(const Inputs& in) const {
  Trace dropped;
  Pass pass{.training = true, .seed = seed_};
  const Tensor pixels = loader_.dataset().pixels(in["images"]);
  const auto loss_of = [&](const AnyLoss& loss, const Tensor& output) {
    return loss(output, objective_.target(output, pixels, in["labels"]), in["weights"]);
  };
  Tensor others = 0;
  pass.auxiliary = [&](const Tensor& output, const AuxiliaryLoss& of) {
    others += of.weight * loss_of(of.loss.value_or(objective_.loss()), output);
  };
  const Tensor output = model_(pixels, pass);
  const Tensor loss = loss_of(objective_.loss(), output) + others;
  Outputs outputs;
  for (const Gradient& gradient : gradients(loss, optimizer_.parameters()))
    outputs.emplace(gradient.parameter.name(), cast(gradient.value, Dtype::f32));
  return outputs;
}

std::vector<Histogram> GradientProbe::operator()(std::size_t most) {
  loader_.start({});
  const Batch& batch = *loader_.next();
  const Outputs outputs = step_({{"images", batch.images}, {"labels", batch.labels}, {"weights", batch.weights}});
  std::vector<Histogram> histograms;
  for (const Variable& variable : largest(optimizer_.parameters(), most))
    histograms.push_back(histogram_of(variable.name(), outputs.at(variable.name()).to_vector<float>()));
  return histograms;
}

std::vector<Variable> largest(const std::vector<Variable>& variables, std::size_t most) {
  std::vector<std::int64_t> sizes;
  for (const Variable& variable : variables) sizes.push_back(-variable.shape().size());
  if (sizes.size() <= most) return variables;
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(most), sizes.end());
  const std::int64_t limit = -sizes[most];
  std::vector<Variable> kept;
  for (const Variable& variable : variables)
    if (variable.shape().size() > limit || (variable.shape().size() == limit && kept.size() < most))
      kept.push_back(variable);
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(std::min(kept.size(), most)), kept.end());
  return kept;
}

}  // namespace nixie
