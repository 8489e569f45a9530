// The fuzz targets without a fuzzer: every committed input, and mutants of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "nixie/tests/fuzz/targets.h"

namespace nixie::fuzz {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Configurations are inputs of the YAML reader, too.
std::vector<Bytes> corpus(const std::string& target) {
  std::vector<std::filesystem::path> files;
  for (const std::string& folder : {"tests/fuzz/corpus/" + target, std::string(target == "yaml" ? "configs" : "")})
    if (!folder.empty())
      for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(NIXIE_SOURCE_DIR) / folder))
        if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> inputs;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return inputs;
}

Bytes mutant(Bytes bytes, const std::vector<Bytes>& inputs, std::mt19937& random) {
  for (auto changes = random() % 4 + 1; changes > 0 && !bytes.empty(); --changes) {
    const auto at = static_cast<std::ptrdiff_t>(random() % bytes.size());
    switch (random() % 6) {
      case 0:
        bytes[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(random());
        break;
      case 2:
        bytes.resize(static_cast<std::size_t>(at));
        break;
      case 3:
        bytes.insert(bytes.begin() + at, static_cast<std::uint8_t>(random()));
        break;
      case 4:
        bytes.erase(bytes.begin() + at);
        break;
      default:  // the tail of another input
        const Bytes& other = inputs[random() % inputs.size()];
        bytes.resize(static_cast<std::size_t>(at));
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(std::min(other.size(), bytes.size())),
                     other.end());
    }
  }
  return bytes;
}

class FuzzCorpus : public testing::TestWithParam<const Target*> {
 protected:
  void read_mutants(int count) const {
    const std::vector<Bytes> inputs = corpus(GetParam()->name);
    ASSERT_GE(inputs.size(), 2u) << "no inputs are committed";
    std::mt19937 random(9);
    for (const Bytes& input : inputs) GetParam()->read(input);
    for (int i = 0; i < count; ++i) GetParam()->read(mutant(inputs[random() % inputs.size()], inputs, random));
  }
};

TEST_P(FuzzCorpus, IsReadOrRefused) { read_mutants(300); }
TEST_P(FuzzCorpus, MutantsAreReadOrRefusedLong) { read_mutants(10'000); }

std::vector<const Target*> all_targets() {
  std::vector<const Target*> all;
  for (const Target& target : targets()) all.push_back(&target);
  return all;
}

INSTANTIATE_TEST_SUITE_P(, FuzzCorpus, testing::ValuesIn(all_targets()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace nixie::fuzz
