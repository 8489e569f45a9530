// Readers of initialisers, layers, models, losses, metrics, update rules, schedules and datasets.
//
// All are `{name: {fields}}`, or the name alone. A layer may have a second key, the name of its parameters:
// `{conv2d: {out: 64}, name: conv1}`, and a third, the names of the layers that it reads: `input: [left, right]`. A
// model is one of models/registry.h, or a list of layers.
#pragma once

#include "nixie/configs/parse/places.h"
#include "nixie/configs/parse/reader.h"
#include "nixie/data/registry.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/registry.h"

namespace nixie {

/// Options with a batch size whose `open` returns the data.
template <class T>
concept DataSource = Options<T> && requires(const T& source) {
  { source.open() } -> std::convertible_to<Splits>;
  { source.batch } -> std::convertible_to<std::int64_t>;
};

/// Any dataset's options, as a value; by default the generated digits.
class AnyDataset {
 public:
  AnyDataset();
  AnyDataset(const AnyDataset&) = default;  // no move, so that an AnyDataset always is one
  AnyDataset& operator=(const AnyDataset&) = default;
  template <DataSource T>
  AnyDataset(const T& source, Place place = {})
      : kind_(T::name), text_(fields_text(source)), batch_(source.batch), place_(std::move(place)), open_([source] {
          check_fields(source);
          return source.open();
        }) {}

  /// `mnist`
  const std::string& kind() const { return kind_; }
  /// `mnist: {path: "mnist", ...}`
  std::string text() const { return kind_ + ": " + text_; }
  std::int64_t batch() const { return batch_; }
  /// Throws Fault::data if there is nothing to read, or the halves do not go together.
  Splits open() const;

 private:
  std::string kind_, text_;
  std::int64_t batch_;
  Place place_;  // in the configuration
  std::function<Splits()> open_;
};
std::string field_text(const AnyDataset& dataset);

void read_value(const Tree& tree, Init& init, Problems& problems);
void read_value(const Tree& tree, NamedLayer& layer, Problems& problems);
void read_value(const Tree& tree, Sequential& layers, Problems& problems);
void read_value(const Tree& tree, AnyModel& model, Problems& problems);
void read_value(const Tree& tree, AnyLoss& loss, Problems& problems);
void read_value(const Tree& tree, AnyMetric& metric, Problems& problems);
void read_value(const Tree& tree, AnyOptimizer& rule, Problems& problems);
void read_value(const Tree& tree, AnySchedule& schedule, Problems& problems);
void read_value(const Tree& tree, AnyDataset& dataset, Problems& problems);

}  // namespace nixie
