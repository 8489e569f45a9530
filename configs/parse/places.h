// The places of a configuration's values in its file, for rules that are found broken after it was read:
// those among several keys, and those between keys and the data, the model or the step.
#pragma once

#include <map>
#include <string>

#include "nixie/configs/parse/yaml.h"

namespace nixie {

class Places {
 public:
  Places() = default;  ///< of a configuration that comes from no file
  explicit Places(const Tree& tree);

  /// The place of the value that a message is about. Messages begin with its path (`schedule (multistep): ...`,
  /// `parameter_groups.1: ...`; the model's with a layer's, `1.conv (conv2d): ...`); others are about `key`. A value
  /// that the file does not hold has the place of the nearest one around it, at last of the file itself.
  Place of(const std::string& message, const std::string& key) const;

  /// The key whose value says how many outputs the model has: of a list of layers the last that has an `out`.
  const std::string& outputs_key() const { return outputs_; }

 private:
  std::string outputs_ = "model";
  std::map<std::string, Place> keys_, layers_;  // by path
};

/// The result of `work`. Its errors about the configuration, with the fault `about`, get the place, if there is one.
template <class Work>
auto at_place(const Place& place, Work&& work, Fault about = Fault::usage) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.fault() != about || !place.source) throw;
    throw Error(error.fault(), to_string(place) + ": " + error.what());
  }
}

/// The same with the place of what the message is about, a part of `key`'s value unless it says otherwise.
template <class Work>
auto at_key(const Places& places, const std::string& key, Work&& work, Fault about = Fault::usage) {
  try {
    return work();
  } catch (const Error& error) {
    return at_place(
        places.of(error.what(), key), [&]() -> decltype(work()) { throw; }, about);
  }
}

}  // namespace nixie
