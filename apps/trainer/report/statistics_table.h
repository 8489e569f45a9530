// Statistics on a page: a table with a row for each layer and role, and a strip of each one's exponents.
#pragma once

#include "nixie/models/statistics.h"

namespace nixie {

/// HTML; nothing where there are no rows. `shadow` names the formats; their errors are coloured as a heat map.
std::string statistics_html(const std::vector<TensorStatistics>& rows, const std::vector<std::string>& shadow);

/// `5.6e-04`
std::string error_text(double error);
/// A cell of a heat map: the error, and under the pointer what saturated and what was lost.
std::string error_cell(const FormatError& error);

}  // namespace nixie
