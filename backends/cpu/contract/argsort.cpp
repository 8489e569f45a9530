// Sorts rows: their values as unsigned keys in the same order, by radix, digit by digit, from the last to the first,
// which keeps equal keys in their order; few of many, and short rows, by comparison.
#include <array>
#include <bit>
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/backends/cpu/contract/rows.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kPartElements = 16384;
constexpr std::int64_t kColumns = 16;  // rows whose elements share lines of memory
constexpr std::int64_t kShort = 192;   // below it comparisons are faster than counting digits

// A number as an unsigned one that is larger where the number is: NaN largest of all, -0 equal to 0.
inline std::uint32_t key_of(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x80000000u; }
inline std::uint64_t key_of(std::int64_t x) { return static_cast<std::uint64_t>(x) ^ 0x8000000000000000u; }
template <class Float>
requires std::is_floating_point_v<Float>
auto key_of(Float x) {
  using Key = std::conditional_t<sizeof(Float) == 4, std::uint32_t, std::uint64_t>;
  constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
  if (x != x) return ~Key{0};
  const Key bits = std::bit_cast<Key>(x + Float{0});  // -0 + 0 is 0
  return bits & sign ? ~bits : bits | sign;
}

template <class Key>
struct Entry {
  Key key;
  std::uint32_t position;
  bool operator<(const Entry& other) const { return key != other.key ? key < other.key : position < other.position; }
};

// Sorts entries, of which `spare` has as many, by digits of 8 bits; digits that all keys share take no pass.
template <class Key>
void sort_by_digits(std::vector<Entry<Key>>& entries, std::vector<Entry<Key>>& spare) {
  constexpr std::size_t kDigits = sizeof(Key), kValues = 256;
  std::array<std::array<std::uint32_t, kValues>, kDigits> counts{};
  for (const Entry<Key>& entry : entries)
    for (std::size_t digit = 0; digit < kDigits; ++digit) ++counts[digit][entry.key >> (8 * digit) & 255];
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    const auto value = [&](const Entry<Key>& entry) { return entry.key >> (8 * digit) & 255; };
    std::array<std::uint32_t, kValues>& next = counts[digit];
    if (next[value(entries[0])] == entries.size()) continue;
    std::uint32_t before = 0;
    for (std::uint32_t& count : next) before += std::exchange(count, before);
    for (const Entry<Key>& entry : entries) spare[next[value(entry)]++] = entry;
    entries.swap(spare);
  }
}

// Sorts the first `wanted` of the entries.
template <class Key>
void sort_first(std::vector<Entry<Key>>& entries, std::vector<Entry<Key>>& spare, std::int64_t wanted) {
  const auto size = static_cast<std::int64_t>(entries.size());
  if (wanted * 8 < size)
    std::partial_sort(entries.begin(), entries.begin() + wanted, entries.end());
  else if (size < kShort)
    std::sort(entries.begin(), entries.end());
  else
    sort_by_digits(entries, spare);
}

template <class Element>
void sort_rows(const ArgSort& op, const BoundOperand& operand, const Shape& domain, std::int32_t* out,
               ThreadPool& pool) {
  using Bound = std::conditional_t<std::is_same_v<Element, std::int32_t>, Bits,
                                   std::conditional_t<std::is_same_v<Element, std::int64_t>, WideBits, Element>>;
  using Key = decltype(key_of(Element{}));
  const Strided<Bound> x(operand, pool);
  const Strides dense = domain.row_major();
  const Rows rows(x.shape(), op.axis);
  const auto axis = static_cast<std::size_t>(op.axis);
  const std::int64_t size = x.size(op.axis), wanted = domain[op.axis], count = rows.count();
  // Rows whose elements are neighbours are read side by side, and their positions written so.
  const std::int64_t columns = x.strides()[axis] == 1 ? 1 : kColumns, groups = ceil_div(count, columns);
  const std::int64_t parts =
      std::clamp<std::int64_t>(x.shape().size() / kPartElements, 1, std::max<std::int64_t>(groups, 1));
  pool.parallel_for(parts, [&](std::int64_t part) {
    std::vector<std::vector<Entry<Key>>> lists(static_cast<std::size_t>(columns));
    for (auto& entries : lists) entries.resize(static_cast<std::size_t>(size));
    std::vector<Entry<Key>> spare(static_cast<std::size_t>(size));
    std::array<const Bound*, kColumns> from{};
    std::array<std::int32_t*, kColumns> to{};
    for (std::int64_t group = cut(groups, parts, part); group < cut(groups, parts, part + 1); ++group) {
      const auto taken = static_cast<std::size_t>(std::min(columns, count - group * columns));
      for (std::size_t c = 0; c < taken; ++c) {
        from[c] = x.data() + rows.offset(group * columns + static_cast<std::int64_t>(c), x.strides());
        to[c] = out + rows.offset(group * columns + static_cast<std::int64_t>(c), dense);
      }
      for (std::int64_t i = 0; i < size; ++i)
        for (std::size_t c = 0; c < taken; ++c) {
          const Key key = key_of(static_cast<Element>(from[c][i * x.strides()[axis]]));
          lists[c][static_cast<std::size_t>(i)] = {op.descending ? ~key : key, static_cast<std::uint32_t>(i)};
        }
      for (std::size_t c = 0; c < taken; ++c) sort_first(lists[c], spare, wanted);
      for (std::int64_t i = 0; i < wanted; ++i)
        for (std::size_t c = 0; c < taken; ++c)
          to[c][i * dense[axis]] = static_cast<std::int32_t>(lists[c][static_cast<std::size_t>(i)].position);
    }
  });
}

}  // namespace

void run_argsort(const ArgSort& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                 ThreadPool& pool) {
  visit_compute_dtype(operands[0].dtype, [&]<class Element>(Element) {
    sort_rows<Element>(op, operands[0], domain, reinterpret_cast<std::int32_t*>(sink.result), pool);
  });
  finish_all(sink, domain.size(), pool);
}

}  // namespace nixie::cpu
