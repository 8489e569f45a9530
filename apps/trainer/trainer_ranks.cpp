// The ranks of a run agree on two things besides the training step: the state that they begin with, and when they stop.
#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

std::string text_of(const Checkpoint::Values& values) {
  nlohmann::json json;
  for (const auto& [name, value] : values) std::visit([&](const auto& held) { json[name] = held; }, value);
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(json);  // which infinity and NaN pass
  return {bytes.begin(), bytes.end()};
}

Checkpoint::Values values_in(const std::string& text) {
  Checkpoint::Values values;
  const nlohmann::json json = nlohmann::json::from_cbor(text);
  for (const auto& [name, value] : json.items())
    if (value.is_string())
      values[name] = value.get<std::string>();
    else if (value.is_number_float())
      values[name] = value.get<double>();
    else
      values[name] = value.get<std::int64_t>();
  return values;
}

void copy_from_first(const World& world, const Parameters& parameters) {
  for (const Variable& value : parameters.all()) {
    Array array = value.array();
    world.copy_from_first(array.bytes(), array.size_bytes());
    if (!world.is_first()) value.set(array);
  }
}

}  // namespace

std::int64_t Trainer::share() const { return options_.world.share_of(config_.data.batch(), "batch"); }

Trainer::Requests Trainer::requests(const std::function<bool()>& save_now) const {
  constexpr unsigned kStop = 1, kSave = 2;
  const bool stops = session_->is_stopped || (session_->stop && session_->stop()), saves = save_now && save_now();
  const unsigned any = options_.world.any((stops ? kStop : 0) | (saves ? kSave : 0));
  return {.stop = (any & kStop) != 0, .save = (any & kSave) != 0};
}

void Trainer::take_state_of_first() {
  const World& world = options_.world;
  if (world.is_alone()) return;
  copy_from_first(world, model_.parameters());
  copy_from_first(world, optimizer_.state());
  if (averages_) copy_from_first(world, averages_->model().parameters());
  const std::string state = world.from_first(text_of(values_of(state_)));
  const unsigned origin = world.any((files_.origin().is_resumed ? 1u : 0u) | (files_.origin().lacks_best ? 2u : 0u));
  files_.origin().is_resumed = (origin & 1) != 0;
  files_.origin().lacks_best = (origin & 2) != 0;
  if (world.is_first()) return;
  state_ = run_state_of(values_in(state));
  train_step_.set(state_);
  evaluation_.reset();
}

std::string Trainer::ranks_text() const {
  const World& world = options_.world;
  if (world.is_alone()) return {};
  std::string hosts;
  for (const std::string& host : world.communicator()->hosts())
    if (hosts.find(host) == std::string::npos) hosts += (hosts.empty() ? "" : ", ") + host;
  return fmt::format(
      "{} ranks on {}: a step trains on a batch of {}, {} samples on each rank; rates are those of the whole batch\n",
      world.size(), hosts, config_.data.batch() * config_.accumulate, share() * config_.accumulate);
}

}  // namespace nixie
