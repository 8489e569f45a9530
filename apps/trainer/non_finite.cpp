// The search for where non-finite values begin. The device detects them (train_step.cpp), the host reads the flag in
// Trainer::read_sums; trainer_return.cpp says what a run does then.
#include "nixie/apps/trainer/non_finite.h"

#include <algorithm>
#include <map>

#include "nixie/core/ops/ops.h"

namespace nixie {

Tensor finite_samples(const Tensor& values) {
  const Tensor finite = cast(is_finite(values), Dtype::u8);
  Axes others;
  for (int axis = 1; axis < values.rank(); ++axis) others.push_back(axis);
  return others.empty() ? finite : min(finite, others, false);
}

NonFinite first_non_finite(Backend& backend, PrecisionPolicy precision, const Batch& batch, const std::string& part,
                           const std::map<std::string, Tensor>& inputs, const WatchedForward& forward) try {
  constexpr const char* kMend = "mend the dataset, or take that sample out";
  if (const auto pixel = batch.non_finite_pixel(); pixel && part.empty())
    return {"the sample itself, which has " + pixel->second, kMend};
  else if (pixel)
    return {fmt::format("the images of {}: sample {} has {}", part, batch.indices[pixel->first], pixel->second), kMend};
  const auto samples = static_cast<std::int64_t>(batch.indices.size());
  std::vector<std::string> names;
  Step watched(
      backend,
      [&](const Inputs& in) {
        Outputs finite;
        const auto watch = [&](const std::string& name, const Tensor& value) {
          if (!is_floating(value.dtype())) return;
          const bool is_of_samples = value.rank() > 0 && value.shape()[0] == samples;
          finite[std::to_string(names.size())] =
              is_of_samples ? finite_samples(value) : min(cast(is_finite(value), Dtype::u8));
          names.push_back(name);
        };
        names.clear();
        const auto layer = [&](const Tensor& result) {
          const std::string place = Scope::prefix();  // `2.conv (conv2d): `
          watch("the output of " + place.substr(0, place.rfind(": ")), result);
        };
        watch(NonFinite::kLoss, forward(in, layer));
        return finite;
      },
      precision);
  const Outputs finite = watched(inputs);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto flags = finite.at(std::to_string(i)).to_vector<std::uint8_t>();
    const auto bad = std::ranges::find(flags, 0);
    if (bad == flags.end()) continue;
    NonFinite found{.where = names[i]};
    if (names[i].ends_with("(embedding)"))
      found.remedy = "its input names a row that is not there: rows are whole numbers from 0 to count - 1";
    const bool is_known = std::ssize(flags) == samples,
               tells = !found.remedy.empty() || std::ranges::count(flags, 0) < samples;
    if (!part.empty() && is_known && tells)
      found.where +=
          fmt::format(" for sample {} of {}", batch.indices[static_cast<std::size_t>(bad - flags.begin())], part);
    return found;
  }
  return {};
} catch (const Error& error) {  // the search is worth less than the message that it is for
  return {.failure = error.what()};
}

}  // namespace nixie
