// Packs arrays side by side, each from a multiple of a group on, so that all but an array's last group is a vector.
#include "nixie/backends/cuda/families/rank_sum.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kGroup = 8;              // as in rank_sum.cuh
constexpr std::int64_t kMostBytes = 256 << 20;  // of an exchange, per rank: each waits for a busy device three times
constexpr std::int64_t kFewBytes = 64 << 10;    // are sooner gathered than shared out
constexpr std::size_t kFirstArray = 5;          // among a kernel's arguments
constexpr std::size_t kMostPieces = 100;        // a kernel's arguments take 4 KB at most
constexpr std::int64_t kThreads = 256, kMostBlocks = 264;

struct Piece {
  int from = 0, to = 0;                         // slots
  std::int64_t from_offset = 0, to_offset = 0;  // in bytes
  std::int64_t place = 0, count = 0;            // in the packed memory, in elements
};
using Pieces = std::vector<Piece>;

/// The pieces of each exchange.
std::vector<Pieces> cut(std::span<const CollectiveCall> calls, std::int64_t element, std::int64_t most) {
  std::vector<Pieces> exchanges(1);
  std::int64_t place = 0;
  for (const CollectiveCall& call : calls)
    for (std::int64_t done = 0; done < call.count;) {
      if (place >= most || exchanges.back().size() == kMostPieces) exchanges.emplace_back(), place = 0;
      const std::int64_t count = std::min(call.count - done, most - place);
      exchanges.back().push_back(
          {call.from, call.to, call.from_offset + done * element, call.to_offset + done * element, place, count});
      place += round_up(count, kGroup);
      done += count;
    }
  return exchanges;
}

std::int64_t size_of(const Pieces& pieces) {
  return pieces.empty() ? 0 : pieces.back().place + round_up(pieces.back().count, kGroup);
}

std::string source_of(Dtype dtype, int ranks) {
  std::string source = defines({{"RANKS", ranks}});
  source += fmt::format("#define ELEMENT {}\n#include \"types.cuh\"\n", to_string(dtype));
  source += fmt::format(
      "struct Body {{\n  const i32* table;\n  ELEMENT *packed, *received;\n  i64 part, rank;\n  ELEMENT* "
      "arrays[{}];\n}};\n",
      kMostPieces);
  source += "#include \"rank_sum.cuh\"\n";
  for (const char* name : {"pack", "unpack", "add", "add_and_unpack"})
    source += entry_point(fmt::format("ranks_{}", name), std::to_string(kThreads), fmt::format("{}(body)", name));
  return source;
}

}  // namespace

RankSum rank_sum(std::span<const CollectiveCall> calls, int rank, int ranks) {
  RankSum sum;
  sum.dtype = calls[0].dtype;
  const std::int64_t element = nixie::size_of(sum.dtype);
  std::int64_t bytes = 0, largest = 0;
  for (const CollectiveCall& call : calls) bytes += call.count * element;
  sum.gathers = ranks == 2 || bytes <= kFewBytes;
  const std::vector<Pieces> exchanges = cut(calls, element, kMostBytes / element);
  for (const Pieces& pieces : exchanges) largest = std::max(largest, size_of(pieces));
  const std::int64_t part = sum.gathers ? largest : round_up(ceil_div(largest, ranks), kGroup),
                     all_bytes = round_up(part * ranks * element, 256);
  sum.received = all_bytes;
  sum.scratch_bytes = sum.gathers ? all_bytes : 2 * all_bytes;
  const std::string source = source_of(sum.dtype, ranks);
  for (const Pieces& pieces : exchanges) {
    std::int64_t longest = 0;
    for (const Piece& piece : pieces) longest = std::max(longest, piece.count);
    const auto blocks_for = [](std::int64_t count) {
      return std::clamp<std::int64_t>(ceil_div(count, kGroup * kThreads), 1, kMostBlocks);
    };
    const auto code = [&](const char* entry, bool reads, std::int64_t packed) {
      KernelCode made;
      made.source = source;
      made.variant = entry;
      made.arguments = {{Argument::kTable, 0},
                        {Argument::kScratch, packed},
                        {Argument::kScratch, sum.received},
                        {Argument::kNumber, part},
                        {Argument::kNumber, rank}};
      for (const Piece& piece : pieces) {
        made.arguments.push_back({reads ? piece.from : piece.to, reads ? piece.from_offset : piece.to_offset});
        made.table.push_back(static_cast<std::int32_t>(piece.place));
        made.table.push_back(static_cast<std::int32_t>(piece.count));
      }
      made.arguments.resize(kFirstArray + kMostPieces, {Argument::kNumber, 0});
      made.launches.push_back({.entry = entry,
                               .blocks = blocks_for(longest),
                               .threads = static_cast<int>(kThreads),
                               .blocks_y = std::ssize(pieces)});
      return made;
    };
    RankSum::Exchange exchange;
    exchange.part = part;
    exchange.pack = code("ranks_pack", true, sum.gathers ? rank * part * element : 0);
    exchange.add = code(sum.gathers ? "ranks_add_and_unpack" : "ranks_add", false, 0);
    if (!sum.gathers) {
      exchange.add.launches[0].blocks = blocks_for(part), exchange.add.launches[0].blocks_y = 1;
      exchange.unpack = code("ranks_unpack", false, 0);
    }
    sum.exchanges.push_back(std::move(exchange));
  }
  return sum;
}

}  // namespace nixie::cuda
