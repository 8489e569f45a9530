// A dataset around another: bytes get another Normalization, numbers are taken back to what they were first.
#include "nixie/apps/trainer/commands/as_trained.h"

#include <algorithm>

#include "nixie/core/base/fields.h"

namespace nixie {
namespace {

using Places = std::vector<std::int32_t>;  // of the data's classes among the model's; empty: the same

template <class Base>
class Seen : public Base {
 public:
  template <class... Args>
  Seen(std::shared_ptr<const Dataset> data, const Preparation& preparation, std::vector<std::string> names,
       Places places, Args&&... args)
      : Base(std::forward<Args>(args)...),
        data_(std::move(data)),
        preparation_(data_->preparation()),
        names_(std::move(names)),
        places_(std::move(places)) {
    preparation_.mean = preparation.mean;
    preparation_.deviation = preparation.deviation;
  }

  std::int64_t size() const override { return data_->size(); }
  Shape sample_shape() const override { return data_->sample_shape(); }
  SampleTarget target() const override { return data_->target(); }
  const std::vector<std::string>& class_names() const override { return names_; }
  void load_target(std::int64_t index, const AugmentKey& key, std::span<std::byte> target) const override {
    data_->load_target(index, key, target);
  }
  std::vector<std::int32_t> labels() const override {
    std::vector<std::int32_t> labels = data_->labels();
    for (std::int32_t& label : labels) label = place_of(label);
    return labels;
  }
  std::vector<std::int32_t> labels_without_class() const override { return data_->labels_without_class(); }
  std::string target_place(std::int64_t index) const override { return data_->target_place(index); }
  std::string sample_place(std::int64_t index) const override { return data_->sample_place(index); }
  Preparation preparation() const override { return preparation_; }

 protected:
  const Dataset& data() const { return *data_; }
  std::int32_t place_of(std::int32_t label) const {
    if (places_.empty()) return label;
    return label >= 0 && label < std::ssize(places_) ? places_[static_cast<std::size_t>(label)] : -1;
  }

 private:
  std::shared_ptr<const Dataset> data_;
  Preparation preparation_;
  std::vector<std::string> names_;
  Places places_;
};

class SeenBytes : public Seen<ByteDataset> {
 public:
  using Seen::Seen;
  std::int32_t load_bytes(std::int64_t index, const AugmentKey& key, std::span<std::uint8_t> bytes) const override {
    return place_of(data().bytes()->load_bytes(index, key, bytes));
  }
};

class SeenNumbers : public Seen<Dataset> {
 public:
  using Seen::Seen;
  std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const override {
    const std::int32_t label = data().load(index, key, pixels);
    const Preparation from = data().preparation(), to = preparation();
    if (from.mean == to.mean && from.deviation == to.deviation) return place_of(label);
    const std::size_t plane = pixels.size() / to.mean.size();
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::size_t c = i / plane;
      pixels[i] = static_cast<float>((pixels[i] * from.deviation[c] + from.mean[c] - to.mean[c]) / to.deviation[c]);
    }
    return place_of(label);
  }
};

Places places_in(const std::vector<std::string>& classes, const Dataset& data) {
  const std::vector<std::string>& found = data.class_names();
  if (classes.empty() || found == classes) return {};
  Places places;
  for (const std::string& name : found) {
    const auto at = std::ranges::find(classes, name);
    if (at == classes.end())
      fail(Fault::data, "class ", field_text(name), " of the data is none of those that the model was trained with (",
           found.size(), " and ", classes.size(), " classes); give it data with the same classes");
    places.push_back(static_cast<std::int32_t>(at - classes.begin()));
  }
  return places;
}

}  // namespace

std::shared_ptr<const Dataset> as_trained(std::shared_ptr<const Dataset> data, const Preparation& preparation,
                                          const std::vector<std::string>& classes) {
  const Places places = places_in(classes, *data);
  const Preparation own = data->preparation();
  Preparation seen = own;
  const bool is_known = !own.mean.empty() && own.mean.size() == preparation.mean.size() &&
                        own.deviation.size() == preparation.deviation.size();
  if (is_known) seen.mean = preparation.mean, seen.deviation = preparation.deviation;
  if (places.empty() && seen.mean == own.mean && seen.deviation == own.deviation) return data;
  const std::vector<std::string>& names = classes.empty() ? data->class_names() : classes;
  if (!data->bytes()) return std::make_shared<SeenNumbers>(data, seen, names, places);
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  const Normalization normalization(data->sample_shape()[0], floats(seen.mean), floats(seen.deviation));
  return std::make_shared<SeenBytes>(data, seen, names, places, normalization);
}

}  // namespace nixie
