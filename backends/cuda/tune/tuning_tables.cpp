// Reads the tables of measured algorithms and looks up the algorithm of a group.
#include "nixie/backends/cuda/tune/tuning_tables.h"

#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/settings/environment.h"

namespace nixie::cuda {
std::filesystem::path user_table() {
  const std::filesystem::path& folder = cubin_cache().folder();
  return folder.empty() ? folder : folder / "tuning.tsv";
}

namespace {

TuningDatabase read_tables() {
  TuningDatabase known;
  for (const EmbeddedFile& table : embedded_tuning()) known.read(table.text, table.name, true);
  if (cubin_cache().enabled()) known.read_file(user_table());
  return known;
}

}  // namespace

Tuning tuning() {
  const std::string word = tuning_word();
  return word == "off"       ? Tuning::off
         : word == "measure" ? Tuning::measure
         : word == "again"   ? Tuning::again
                             : Tuning::known;
}

TuningDatabase& known_tuning() {
  static TuningDatabase known = read_tables();
  return known;
}

KernelCode generate_known(const Plan& plan, const Group& group, const Chip& chip, const std::string& device,
                          const TuningDatabase& known) {
  KernelCode code = generate(plan, group, chip);
  const Tuned* line = code.algorithms.empty() ? nullptr : known.find(device, code.operation);
  if (!line) return code;
  if (!has_algorithm(code, line->algorithm)) {
    if (line->is_shipped) return code;  // nobody can remove the line: the estimate serves until it is measured again
    std::string names;
    for (const Algorithm& algorithm : code.algorithms) names += (names.empty() ? "" : ", ") + algorithm.name;
    fail(Fault::usage, line->place, ": ", line->operation, " cannot be computed by ", line->algorithm, ", only by ",
         names, "; remove the line, or measure again with NIXIE_TUNING=again");
  }
  return generate(plan, group, chip, line->algorithm);
}

}  // namespace nixie::cuda
