// bearable_at_half: a run that goes back under `non_finite: roll_back`.
#pragma once

#include "nixie/tests/apps/support.h"

namespace nixie::test {

/// A rate of 200 ends in a loss that is not finite at step 7, one of 100 does not.
inline TrainConfig bearable_at_half(const std::string& more = "") {
  return config_in(R"(
model: [flatten, {linear: {out: 16}}, relu, {linear: {out: 16}}, relu, {linear: {out: 10}}]
data: {glyphs: {train: 205, test: 50, batch: 20}}
optimizer: {sgd: {momentum: 0}}
schedule: {constant: {rate: 200}}
epochs: 4
seed: 7
threads: 1
backend: cpu
log_every: 4
non_finite: roll_back
)" + more);
}

}  // namespace nixie::test
