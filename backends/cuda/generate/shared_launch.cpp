// Finds the numbers in the sources of programs and moves those that differ into the launch's argument.
#include "nixie/backends/cuda/generate/shared_launch.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <map>
#include <string_view>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kArgumentBytes = 4096;  // of a launch, that every driver takes
constexpr std::string_view kConstant = "  static constexpr Index ";

// A number in the text of a Body that may as well be a member of it.
struct Number {
  std::size_t begin = 0, end = 0;
  const char* type = "int";
  std::size_t constant = std::string::npos;  // where its declaration begins, if it is one of Body's constants
};

// The type of a literal of the kinds that `literal` and BodyWriter print; null for others.
const char* type_of(std::string_view token) {
  if (token.starts_with("0x")) return token.ends_with("ULL") ? "u64" : nullptr;
  if (token.ends_with('f')) return "f32";
  if (token.find_first_of(".e") != std::string_view::npos) return "f64";
  return token.find_first_not_of("0123456789") == std::string_view::npos ? "int" : nullptr;
}

std::uint64_t word_of(const std::string& token, const std::string_view type) {
  if (type == "u64") return std::strtoull(token.c_str(), nullptr, 16);
  if (type == "f64") return std::bit_cast<std::uint64_t>(std::strtod(token.c_str(), nullptr));
  if (type == "f32") return std::bit_cast<std::uint32_t>(std::strtof(token.c_str(), nullptr));
  return std::strtoull(token.c_str(), nullptr, 10);
}

bool in_names(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The end of a name or a literal.
std::size_t end_of_token(const std::string& text, std::size_t begin) {
  const bool literal = std::isdigit(static_cast<unsigned char>(text[begin]));
  const bool decimal = literal && text.compare(begin, 2, "0x") != 0;
  std::size_t end = begin + 1;
  const auto belongs = [&](char c) {
    return in_names(c) || (literal && c == '.') || (decimal && (c == '-' || c == '+') && text[end - 1] == 'e');
  };
  while (end < text.size() && belongs(text[end])) ++end;
  return end;
}

// All numbers in places where a program may compute them: not template arguments, sizes of arrays, or statics.
std::vector<Number> numbers_of(const std::string& text) {
  std::vector<Number> numbers;
  for (std::size_t line = 0, next; line < text.size(); line = next) {
    next = std::min(text.find('\n', line), text.size() - 1) + 1;
    const bool constant = text.compare(line, kConstant.size(), kConstant) == 0;
    if (!constant && text.find("static ", line) < next) continue;
    for (std::size_t i = line, end; i < next; i = end) {
      end = in_names(text[i]) ? end_of_token(text, i) : i + 1;
      if (!std::isdigit(static_cast<unsigned char>(text[i])) || text[end] == '>' || text[end] == ']') continue;
      if (const char* type = type_of(std::string_view(text).substr(i, end - i)))
        numbers.push_back({i, end, type, constant ? line : std::string::npos});
    }
  }
  return numbers;
}

// Words of a row: the number of its first block, one for each number that may be data, the pointers.
std::size_t rows_that_fit(std::size_t numbers, std::size_t pointers) {
  return (kArgumentBytes / sizeof(std::uint64_t) - 1) / (1 + numbers + pointers);
}

// A text for all of some Bodies, and the words of each that it lacks, in the order of its members.
struct Shared {
  std::string body;
  std::vector<std::vector<std::uint64_t>> constants, numbers;  // before and after the pointers
  std::size_t words() const { return constants[0].size() + numbers[0].size(); }
};

Shared shared_body(const std::vector<OneLaunch>& launches) {
  Shared shared;
  shared.constants.resize(launches.size()), shared.numbers.resize(launches.size());
  std::vector<std::vector<Number>> numbers;
  for (const OneLaunch& launch : launches) numbers.push_back(numbers_of(launch.body));
  const std::string& text = launches[0].body;
  std::string members;
  std::map<std::vector<std::string>, std::string> known;  // what a number is in each Body -> its name
  std::size_t done = 0;
  for (std::size_t n = 0; n < numbers[0].size(); ++n) {
    const Number& number = numbers[0][n];
    std::vector<std::string> tokens{number.type};
    for (std::size_t i = 0; i < launches.size(); ++i)
      tokens.push_back(launches[i].body.substr(numbers[i][n].begin, numbers[i][n].end - numbers[i][n].begin));
    if (std::equal(tokens.begin() + 2, tokens.end(), tokens.begin() + 1)) continue;
    auto* words = &shared.constants;
    if (number.constant != std::string::npos) {
      const std::size_t declared = number.constant + kConstant.size();
      shared.body += text.substr(done, number.constant - done) + "  alignas(8) Index " +
                     text.substr(declared, text.find(' ', declared) - declared);
    } else {
      const auto [name, added] = known.emplace(tokens, fmt::format("n{}", known.size()));
      shared.body += text.substr(done, number.begin - done) + name->second;
      if (added) members += fmt::format("  alignas(8) {} {};\n", number.type, name->second);
      words = added ? &shared.numbers : nullptr;
    }
    for (std::size_t i = 0; words && i < launches.size(); ++i)
      (*words)[i].push_back(word_of(tokens[i + 1], number.type));
    done = number.end;
  }
  const std::size_t end = text.rfind("};");
  shared.body += text.substr(done, end - done) + members + text.substr(end);
  return shared;
}

}  // namespace

KernelCode code_of(const OneLaunch& launch) {
  KernelCode code;
  code.source =
      launch.includes + "\n" + launch.body + entry_point("kernel0", launch.bounds, launch.call + "(body, blockIdx.x)");
  code.arguments = launch.arguments;
  code.scratch_bytes = launch.scratch_bytes;
  code.variant = launch.variant;
  if (launch.blocks > 0) code.launches.push_back({"kernel0", launch.blocks, launch.threads});
  return code;
}

std::string pattern_of(const OneLaunch& launch) {
  std::string pattern = fmt::format("{}\n{}\n{}\n", launch.includes, launch.call, launch.bounds);
  std::size_t done = 0;
  for (const Number& number : numbers_of(launch.body)) {
    pattern += launch.body.substr(done, number.begin - done) + "#" + number.type;
    done = number.end;
  }
  return pattern + launch.body.substr(done);
}

std::size_t most_in_one_launch(const std::vector<OneLaunch>& launches) {
  return rows_that_fit(shared_body(launches).words(), launches.at(0).arguments.size());
}

KernelCode share_launch(const std::vector<OneLaunch>& launches) {
  const OneLaunch& first = launches.at(0);
  const Shared shared = shared_body(launches);
  const std::size_t capacity = rows_that_fit(shared.words(), first.arguments.size());
  check(launches.size() <= capacity, "cuda: ", launches.size(), " programs share a launch that has room for ",
        capacity);

  KernelCode code;
  const auto add = [&](std::uint64_t number) {
    code.arguments.push_back({Argument::kNumber, static_cast<std::int64_t>(number)});
  };
  std::int64_t blocks = 0;
  add(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    add(static_cast<std::uint64_t>(blocks));
    for (std::uint64_t word : shared.constants[i]) add(word);
    for (Argument argument : launches[i].arguments) {
      if (argument.slot == Argument::kScratch) argument.offset_bytes += code.scratch_bytes;
      code.arguments.push_back(argument);
    }
    for (std::uint64_t word : shared.numbers[i]) add(word);
    blocks += launches[i].blocks;
    code.scratch_bytes += round_up(launches[i].scratch_bytes, 256);
  }
  const std::size_t words = 1 + capacity * (1 + shared.words() + first.arguments.size());
  while (code.arguments.size() < words) add(0);

  code.source = first.includes + "#include \"table.cuh\"\n\n" + shared.body +
                fmt::format(
                    "\nextern \"C\" __global__ void __launch_bounds__({}) kernel0("
                    "const __grid_constant__ Table<Body, {}> table) {{\n"
                    "  const Row<Body>& row = table.row_of(blockIdx.x);\n"
                    "  {}(row.body, blockIdx.x - static_cast<u32>(row.first_block));\n}}\n",
                    first.bounds, capacity, first.call);
  code.variant = fmt::format("{} x {}", first.variant, launches.size());
  if (blocks > 0) code.launches.push_back({"kernel0", blocks, first.threads});
  return code;
}

}  // namespace nixie::cuda
