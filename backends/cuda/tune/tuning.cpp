// Looks choices up, and has them measured where that is asked for.
#include "nixie/backends/cuda/tune/tuning.h"

#include <cstdlib>
#include <mutex>
#include <set>

#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/compile/kernels.h"
#include "nixie/backends/cuda/tune/tuner.h"

namespace nixie::cuda {
namespace {

std::filesystem::path user_file() {
  const std::filesystem::path& folder = cubin_cache().folder();
  return folder.empty() ? folder : folder / "tuning.tsv";
}

TuningDatabase read_tables() {
  TuningDatabase known;
  for (const EmbeddedFile& table : embedded_tuning()) known.read(table.text, table.name);
  if (cubin_cache().enabled()) known.read_file(user_file());
  return known;
}

// The kernels whose operation is to be measured, one of each.
std::vector<std::size_t> unmeasured(const Device& device, const Plan& plan, std::span<const std::size_t> kernels,
                                    bool again) {
  static std::set<std::pair<std::string, std::string>> measured;  // by this process
  std::vector<std::size_t> found;
  for (std::size_t k : kernels) {
    const KernelCode code = generate(plan, plan.kernels[k], device.is_hopper());
    if (worth_timing(code.ways).size() < 2) continue;
    if (!again && known_tuning().find(device.name(), code.operation)) continue;
    if (measured.emplace(device.name(), code.operation).second) found.push_back(k);
  }
  return found;
}

void measure(Device& device, const Plan& plan, std::span<const std::size_t> kernels) {
  if (kernels.empty()) return;
  if (!cubin_cache().enabled())
    fail(Fault::storage,
         "there is no folder to keep what is measured in: set NIXIE_CACHE to one of your own, mode 0700");
  TuningDatabase& known = known_tuning();  // refuses a damaged table before anything is measured in vain
  const std::vector<Tuned> lines = time_ways(device, plan, kernels);
  for (const Tuned& line : lines) known.keep(line);
  add_to_file(user_file(), lines);
  fmt::print(stderr, "tuned: {} more lines in {}\n", lines.size(), user_file().string());
}

}  // namespace

Tuning tuning() {
  const char* value = std::getenv("NIXIE_TUNING");
  const std::string word = value ? value : "";
  if (word.empty() || word == "known") return Tuning::known;
  if (word == "off") return Tuning::off;
  if (word == "measure") return Tuning::measure;
  check(word == "again", "NIXIE_TUNING is ", word, ", expected off, known, measure or again");
  return Tuning::again;
}

TuningDatabase& known_tuning() {
  static TuningDatabase known = read_tables();
  return known;
}

KernelCode generate_known(const Plan& plan, const Kernel& kernel, bool hopper, const std::string& device,
                          const TuningDatabase& known) {
  KernelCode code = generate(plan, kernel, hopper);
  const Tuned* line = code.ways.empty() ? nullptr : known.find(device, code.operation);
  if (!line) return code;
  if (!has_way(code, line->way)) {
    std::string ways;
    for (const Way& way : code.ways) ways += (ways.empty() ? "" : ", ") + way.name;
    fail(Fault::usage, line->place, ": ", line->operation, " cannot be computed by ", line->way, ", only by ", ways,
         "; remove the line, or measure again with NIXIE_TUNING=again");
  }
  return generate(plan, kernel, hopper, line->way);
}

std::vector<KernelCode> generate_tuned(Device& device, const Plan& plan, std::span<const std::size_t> kernels) {
  const Tuning mode = tuning();
  static std::mutex mutex;  // tables, and nothing else on the device while something is timed
  const std::lock_guard lock(mutex);
  if (mode == Tuning::measure || mode == Tuning::again)
    measure(device, plan, unmeasured(device, plan, kernels, mode == Tuning::again));
  std::vector<KernelCode> codes;
  for (std::size_t k : kernels)
    codes.push_back(mode == Tuning::off
                        ? generate(plan, plan.kernels[k], device.is_hopper())
                        : generate_known(plan, plan.kernels[k], device.is_hopper(), device.name(), known_tuning()));
  return codes;
}

}  // namespace nixie::cuda
