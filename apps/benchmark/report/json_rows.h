// Writes the rows of the tables to JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/commands/arrays_command.h"
#include "nixie/apps/benchmark/commands/data_command.h"
#include "nixie/apps/benchmark/commands/gemm_command.h"
#include "nixie/apps/benchmark/commands/layers_command.h"
#include "nixie/apps/benchmark/commands/nets_command.h"
#include "nixie/apps/benchmark/commands/numerics_command.h"

namespace nixie {

inline void to_json(nlohmann::json& json, const Timing& timing) {
  json = {{"mean", timing.mean},
          {"median", timing.median},
          {"min", timing.min},
          {"max", timing.max},
          {"runs", timing.runs}};
}

}  // namespace nixie

namespace nixie::benchmark {

inline void to_json(nlohmann::json& json, const PeerTiming& peer) {
  if (peer.time.runs == 0)
    json = {{"left_out", peer.left_out}};
  else
    json = {{"ms", peer.time}, {"error", peer.error}};
}

inline void to_json(nlohmann::json& json, const RoleError& error) {
  json = {{"error", error.error}, {"share", error.share}, {"layer", error.layer}, {"contractions", error.contractions}};
}

inline void to_json(nlohmann::json& json, const NumericsRow& row) {
  json = {{"precision", row.precision},
          {"distribution", row.distribution},
          {"largest", row.largest},
          {"where", row.where},
          {"median", row.median}};
}

inline void to_json(nlohmann::json& json, const NetCheck& check) {
  json = {{"fprop", check.fprop},       {"bprop", check.input_grad},   {"update", check.filter_grad},
          {"distance", check.distance}, {"distance_of", check.result}, {"distance_bound", check.distance_bound}};
}

inline void to_json(nlohmann::json& json, const NetRow& row) {
  json = {{"net", row.net},
          {"precision", row.precision},
          {"backend", row.backend},
          {"batch", row.batch},
          {"parameters", row.parameters},
          {"train_mb", static_cast<double>(row.train_bytes) / 1e6},
          {"fprop_ms", row.fprop},
          {"bprop_ms", row.bprop},
          {"total_ms", row.total},
          {"train_ms", row.train},
          {"images_per_second", row.batch / row.train.median * 1e3},
          {"fprop_gflop", row.flop.fprop / 1e9},
          {"counted_gflop", row.flop.counted() / 1e9},
          {"executed_gflop", row.flop.executed / 1e9},
          {"counted_tflops", row.counted_tflops()},
          {"executed_tflops", row.executed_tflops()},
          {"ceiling_tflops", row.ceiling_tflops},
          {"percent_of_ceiling", 100 * row.executed_tflops() / row.ceiling_tflops},
          {"check", row.check},
          {"first_loss", row.first_loss},
          {"lowest_loss", row.lowest_loss},
          {"last_loss", row.last_loss},
          {"timing_seconds", row.timing_seconds},
          {"check_seconds", row.check_seconds}};
  if (row.train_dynamic.runs > 0) json["train_dynamic_ms"] = row.train_dynamic;
}

inline void to_json(nlohmann::json& json, const ArrayRow& row) {
  json = {{"workload", row.workload},
          {"precision", row.precision},
          {"elements", row.elements},
          {"ms", row.time},
          {"gigabytes_per_second", row.gigabytes_per_second()},
          {"tflops", row.tflops()},
          {"error", row.error},
          {"bound", row.bound},
          {"cpu_ms", row.cpu_ms}};
}

inline void to_json(nlohmann::json& json, const GemmRow& row) {
  json = {{"precision", row.precision},
          {"layout", row.layout},
          {"m", row.m},
          {"n", row.n},
          {"k", row.k},
          {"alpha", row.alpha},
          {"beta", row.beta},
          {"ms", row.time},
          {"tflops", row.tflops()},
          {"roofline_ms", row.roofline_ms},
          {"error", row.error},
          {"share", row.share},
          {"peer", row.peer}};
}

inline void to_json(nlohmann::json& json, const LayerRow& row) {
  json = {{"net", row.net},
          {"precision", row.precision},
          {"layer", row.layer},
          {"role", row.role},
          {"shape", row.shape},
          {"ms", row.time},
          {"gflop", row.flop / 1e9},
          {"megabytes", row.bytes / 1e6},
          {"tflops", row.tflops()},
          {"gigabytes_per_second", row.gigabytes_per_second()},
          {"roofline_ms", row.roofline_ms},
          {"error", row.error},
          {"share", row.share},
          {"peer", row.peer}};
}

inline void to_json(nlohmann::json& json, const DataRow& row) {
  json = {{"data", row.data},
          {"sample", row.sample},
          {"threads", row.threads},
          {"batch", row.batch},
          {"images", row.images},
          {"seconds", row.seconds},
          {"images_per_second", row.images_per_second()}};
}

}  // namespace nixie::benchmark
