// Weights: the kind of a file from its first bytes, and matching by name and shape.
#include "nixie/models/io/weights.h"

#include <fmt/format.h>

#include <cerrno>

#include "nixie/core/files/hdf5_reader.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/models/io/array_values.h"
#include "nixie/models/io/safetensors.h"

namespace nixie {
namespace {

constexpr std::size_t kShown = 6;  // names in a line of the report

std::string first_bytes(const std::filesystem::path& file) {
  std::ifstream stream = open_to_read(file, Fault::checkpoint, "name a checkpoint or a safetensors file");
  std::string bytes(16, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (stream.bad()) fail_reading(file, errno, Fault::checkpoint, "name another file");
  if (stream.gcount() == 0) fail(Fault::checkpoint, file.string(), ": is empty; name another file");
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

/// Arrays by name at the root or in the group `model`, as h5py writes a state_dict.
NamedArrays read_plain_hdf5(const std::filesystem::path& file) {
  hdf5::Reader reader(file);
  const std::string group = reader.has("/model") ? "/model" : "";
  NamedArrays arrays;
  for (const std::string& name : reader.names(group.empty() ? "/" : group)) {
    if (reader.is_group(group + "/" + name))
      reader.refuse(group + "/" + name, "is a group, expected arrays by their PyTorch names (docs/exchange.md)");
    arrays[name] = reader.array(group + "/" + name);
  }
  if (arrays.empty()) reader.refuse("/", "holds no arrays");
  return arrays;
}

std::string listed(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::size_t count = std::min(names.size(), kShown);
  const auto last = names.begin() + static_cast<std::ptrdiff_t>(count);
  return fmt::format("\n  {} ({}): {}{}", title, names.size(), fmt::join(names.begin(), last, ", "),
                     count < names.size() ? ", ..." : "");
}

}  // namespace

NamedArrays read_weights(const std::filesystem::path& file,
                         const std::function<void(const Checkpoint& checkpoint)>& accept,
                         std::vector<std::string>* skipped) {
  const std::string magic = first_bytes(file);
  if (magic.starts_with("NIXIECK1")) {
    Checkpoint checkpoint = load_checkpoint(file);
    if (accept) accept(checkpoint);
    for (auto& [name, average] : checkpoint.ema) checkpoint.model[name] = std::move(average);
    return std::move(checkpoint.model);
  }
  // Before the others: the length of its header, which comes first, may begin as they do.
  if (magic.size() > 8 && magic[8] == '{') {
    Safetensors read = load_safetensors(file);
    if (skipped) *skipped = std::move(read.skipped);
    return std::move(read.arrays);
  }
  if (magic.starts_with("PK\x03\x04") || magic.starts_with('\x80'))
    fail(Fault::checkpoint, file.string(),
         ": a file of torch.save, which runs code when it is opened; convert it in Python: import torch, "
         "safetensors.torch as st; st.save_file({k: v.contiguous() for k, v in torch.load(\"",
         file.filename().string(), "\", map_location=\"cpu\", weights_only=True).items()}, \"", file.stem().string(),
         ".safetensors\")");
  if (magic.starts_with("\x89HDF")) return read_plain_hdf5(file);
  fail(Fault::checkpoint, file.string(), ": neither a nixie checkpoint nor a safetensors file; name one of these");
}

std::string to_string(const WeightReport& report) {
  const std::size_t all = report.taken.size() + report.reshaped.size() + report.missing.size();
  std::string converted;
  for (const auto& [dtype, count] : report.converted)
    converted += fmt::format(", {}{} from {}", count, converted.empty() ? " converted" : "", dtype);
  return fmt::format("{} of {} arrays taken", report.taken.size(), all) + converted +
         listed("of another shape, left as they were", report.reshaped) +
         listed("not in the file, left as they were", report.missing) + listed("in the file alone", report.unused) +
         listed("of a type that nixie has not, left out", report.skipped);
}

WeightReport set_weights(const Parameters& parameters, const NamedArrays& arrays, const std::filesystem::path& file) {
  const std::string place = file.empty() ? "" : file.string() + ": ";
  WeightReport report;
  std::vector<std::pair<Variable, Array>> fitting;
  for (const Variable& variable : parameters.all()) {
    const auto found = arrays.find(variable.name());
    const std::string described = fmt::format("{} {}", variable.name(), variable.shape());
    if (found == arrays.end()) {
      report.missing.push_back(described);
    } else if (found->second.shape() != variable.shape()) {
      report.reshaped.push_back(fmt::format("{} (the file has {})", described, found->second.shape()));
    } else {
      const Dtype given = found->second.dtype();
      if (is_floating(variable.dtype()) && !is_floating(given))
        fail(Fault::checkpoint, place, variable.name(), " is ", given,
             " in the file, expected floats; use another file");
      Array converted = found->second.to(variable.dtype());
      if (!is_finite(found->second) || !is_finite(converted))
        fail(Fault::checkpoint, place, variable.name(), " holds values that are not finite in ", variable.dtype(),
             "; use another file");
      if (const std::string fault = range_fault(variable, converted); !fault.empty())
        fail(Fault::checkpoint, place, variable.name(), " ", fault, "; use another file");
      fitting.emplace_back(variable, std::move(converted));
      report.taken.push_back(variable.name());
      if (given != variable.dtype()) ++report.converted[given];
    }
  }
  for (const auto& [name, array] : arrays)  // counters, such as those of PyTorch's batch norm, are no weights
    if (!parameters.find(name) && is_floating(array.dtype())) report.unused.push_back(name);
  for (const auto& [variable, array] : fitting) variable.set(array);
  return report;
}

}  // namespace nixie
