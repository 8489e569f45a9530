// Collectives in host memory: sums by a tree over the ranks, whose order depends on their number alone.
#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/core/graph/world.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kPartBytes = 1 << 20;  // of a rank in one exchange, which has to fit its memory several times

// parts[0] += parts[1], parts[2] += parts[3], ...; then parts[0] += parts[2], ...: the sum is in the first part.
template <class T>
void add_parts(T* parts, std::int64_t size, std::int64_t count, ThreadPool& pool) {
  constexpr std::int64_t kPiece = 16384;
  pool.parallel_for(ceil_div(size, kPiece), [&](std::int64_t piece) {
    const std::int64_t first = piece * kPiece, last = std::min(size, first + kPiece);
    for (std::int64_t step = 1; step < count; step *= 2)
      for (std::int64_t part = 0; part + step < count; part += 2 * step) {
        T* const to = parts + part * size;
        const T* const from = to + step * size;
        for (std::int64_t i = first; i < last; ++i) to[i] += from[i];
      }
  });
}

// Each rank adds up its piece of what all ranks have and sends the sum to the others.
template <class T>
void all_reduce(Communicator& ranks, T* values, std::int64_t count, ThreadPool& pool) {
  const std::int64_t most = kPartBytes / static_cast<std::int64_t>(sizeof(T)), size = ranks.size();
  const std::int64_t largest = std::min(most, ceil_div(count, size));
  const Scratch<T> mine(size * largest), theirs(size * largest);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t part = std::min(most, ceil_div(count - done, size)), taken = std::min(count - done, size * part);
    const std::int64_t bytes = part * static_cast<std::int64_t>(sizeof(T));
    std::copy_n(values + done, taken, mine.data());
    std::fill(mine.data() + taken, mine.data() + size * part, T{});
    ranks.all_to_all(mine.data(), theirs.data(), bytes);
    add_parts(theirs.data(), part, size, pool);
    ranks.all_gather(theirs.data(), mine.data(), bytes);
    std::copy_n(mine.data(), taken, values + done);
    done += taken;
  }
}

// As many elements of each rank's part at a time as fit an exchange.
template <class T>
void reduce_scatter(Communicator& ranks, const T* values, std::int64_t part, T* sum, ThreadPool& pool) {
  const std::int64_t most = kPartBytes / static_cast<std::int64_t>(sizeof(T)), size = ranks.size();
  const Scratch<T> mine(size * std::min(most, part)), theirs(size * std::min(most, part));
  for (std::int64_t done = 0; done < part; done += most) {
    const std::int64_t taken = std::min(most, part - done);
    for (std::int64_t rank = 0; rank < size; ++rank)
      std::copy_n(values + rank * part + done, taken, mine.data() + rank * taken);
    ranks.all_to_all(mine.data(), theirs.data(), taken * static_cast<std::int64_t>(sizeof(T)));
    add_parts(theirs.data(), taken, size, pool);
    std::copy_n(theirs.data(), taken, sum + done);
  }
}

}  // namespace

template <class T>
void run_collective(const Collective& op, std::span<const BoundOperand> operands, const Shape& domain,
                    const HeadSink& sink, ThreadPool& pool) {
  Communicator& ranks = *op.communicator;
  T* const result = reinterpret_cast<T*>(sink.result);
  const std::int64_t own = operands[0].shape.size();
  const auto take = [&](T* to) {
    convert_operand(operands[0], compute_type_of<T>(), reinterpret_cast<std::byte*>(to), pool);
  };
  const auto bytes_of = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); };
  switch (op.kind) {
    case CollectiveKind::all_reduce:
      take(result);
      all_reduce(ranks, result, own, pool);
      break;
    case CollectiveKind::all_gather: {
      const Scratch<T> mine(own);
      take(mine.data());
      ranks.all_gather(mine.data(), result, bytes_of(own));
      break;
    }
    case CollectiveKind::reduce_scatter: {
      const Scratch<T> mine(own);
      take(mine.data());
      reduce_scatter(ranks, mine.data(), domain.size(), result, pool);
      break;
    }
    case CollectiveKind::broadcast:
      take(result);
      ranks.broadcast(result, bytes_of(own), op.root);
      break;
  }
  finish_all(sink, domain.size(), pool);
}

template void run_collective<float>(const Collective&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                    ThreadPool&);
template void run_collective<double>(const Collective&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                     ThreadPool&);
template void run_collective<Bits>(const Collective&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                   ThreadPool&);
template void run_collective<WideBits>(const Collective&, std::span<const BoundOperand>, const Shape&, const HeadSink&,
                                       ThreadPool&);

}  // namespace nixie::cpu
