// What a peer is asked: a net as data, so that its programs hold no list of nets (apps/peers/peer.py).
#pragma once

#include <nlohmann/json.hpp>

#include "nixie/apps/benchmark/subjects/nets.h"

namespace nixie::benchmark {

/// A list of layers as JSON: every field of every layer, in the names of a configuration.
nlohmann::json layers_json(const AnyModel& model);

/// A request for the net in this precision; what is timed and how often, the caller adds.
nlohmann::json peer_request(const Net& net, const std::string& precision, int batch);

}  // namespace nixie::benchmark
