// Requests to peers: nets as data, so that the peers' programs need no list of nets (apps/peers/peer.py).
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/subjects/nets.h"

namespace nixie::benchmark {

/// A list of layers as JSON: every field of every layer, with the configuration's names.
nlohmann::json layers_json(const AnyModel& model);

/// A request for the net in this precision; the caller adds the work and the number of runs.
nlohmann::json peer_request(const Net& net, const std::string& precision, int batch);

}  // namespace nixie::benchmark
