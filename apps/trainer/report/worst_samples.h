// The samples that a model without single classes is worst at: pictures beside masks, numbers or their reconstruction.
#pragma once

#include <string>

#include "nixie/apps/trainer/report/report.h"

namespace nixie {

/// Nothing where samples have a single class.
std::string worst_samples_html(const ReportFacts& facts);

}  // namespace nixie
