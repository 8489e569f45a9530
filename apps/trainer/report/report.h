// The report of a run, and the page of `trainer data show`: samples of each class, and some in several augmentations,
// as the net sees them. Each is one self-contained HTML page, that of a run under a megabyte.
#pragma once

#include <cstdint>
#include <string>

#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/configs/parse/config.h"
#include "nixie/data/dataset.h"
#include "nixie/models/statistics.h"

namespace nixie {

struct ReportFacts {
  const Folder& run;  ///< its metrics.csv and timing.csv become curves
  const TrainConfig& config;
  const Model& model;
  const Dataset& test;
  const Evaluation& evaluation;  ///< the last one, over `test`; of no samples where there are no evaluations
  std::string summary = {};      ///< lines about machine, model and data
  std::int64_t step = 0, total_steps = 0;
  std::string layer_times = {};                   ///< a table of the time of each layer; empty: not asked for
  std::vector<TensorStatistics> statistics = {};  ///< of the last row of training; none: not asked for
  std::vector<Histogram> gradients = {};          ///< of one batch; none: not asked for
  bool is_done = false;                           ///< false: the page loads itself again every half minute
};

std::string report_html(const ReportFacts& facts);

struct DataFacts {
  std::string source = {}, kind = {};  ///< where the data are, and of which dataset
  const Splits& data;
  std::uint64_t seed = 0;  ///< of the run's augmentation
};

/// One self-contained HTML page. Throws Fault::data for a sample that cannot be read.
std::string data_page_html(const DataFacts& facts);

}  // namespace nixie
