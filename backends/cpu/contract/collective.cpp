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

/// Halves travel as halves, and are added in float.
template <class To, class From>
void move(const From* from, std::int64_t count, To* to, ThreadPool& pool) {
  if constexpr (std::is_same_v<To, From>) {
    std::copy_n(from, count, to);
  } else {
    constexpr std::int64_t kPiece = 16384;
    pool.parallel_for(ceil_div(count, kPiece), [&](std::int64_t piece) {
      for (std::int64_t i = piece * kPiece; i < std::min(count, (piece + 1) * kPiece); ++i)
        to[i] = convert<To>(from[i]);
    });
  }
}

/// A rank's sums of values of T, which travel as Wire.
template <class T, class Wire>
class Exchange {
 public:
  /// `part`: the elements of each rank.
  Exchange(Communicator& ranks, std::int64_t part, ThreadPool& pool)
      : ranks_(ranks), pool_(pool), part_(std::min(kMost, part)), sums_(ranks.size() * part_) {}

  // Each rank adds up its piece of what all ranks have and sends the sum to the others.
  void all_reduce(T* values, std::int64_t count) {
    const std::int64_t size = ranks_.size();
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min(part_, ceil_div(count - done, size)),
                         taken = std::min(count - done, size * part);
      move(values + done, taken, mine_.data(), pool_);
      std::fill(mine_.data() + taken, mine_.data() + size * part, Wire{});
      add(part);
      move(sums_.data(), part, theirs_.data(), pool_);
      ranks_.all_gather(theirs_.data(), mine_.data(), bytes_of(part));
      move(mine_.data(), taken, values + done, pool_);
      done += taken;
    }
  }

  void reduce_scatter(const T* values, std::int64_t part, T* sum) {
    for (std::int64_t done = 0; done < part; done += part_) {
      const std::int64_t taken = std::min(part_, part - done);
      for (std::int64_t rank = 0; rank < ranks_.size(); ++rank)
        move(values + rank * part + done, taken, mine_.data() + rank * taken, pool_);
      add(taken);
      std::copy_n(sums_.data(), taken, sum + done);
    }
  }

 private:
  static constexpr std::int64_t kMost = kPartBytes / static_cast<std::int64_t>(sizeof(T));
  static std::int64_t bytes_of(std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(Wire)); }

  /// The sum of the parts that all ranks have for this one: the first `part` of sums_.
  void add(std::int64_t part) {
    ranks_.all_to_all(mine_.data(), theirs_.data(), bytes_of(part));
    move(theirs_.data(), ranks_.size() * part, sums_.data(), pool_);
    add_parts(sums_.data(), part, ranks_.size(), pool_);
  }

  Communicator& ranks_;
  ThreadPool& pool_;
  std::int64_t part_;
  Scratch<T> sums_;
  Scratch<Wire> mine_{ranks_.size() * part_}, theirs_{ranks_.size() * part_};
};

template <class T, class Wire>
void run_as(const Collective& op, const BoundOperand& operand, const Shape& domain, const HeadSink& sink,
            ThreadPool& pool) {
  Communicator& ranks = *op.communicator;
  T* const result = reinterpret_cast<T*>(sink.result);
  const std::int64_t own = operand.shape.size(), size = ranks.size();
  const auto take = [&](T* to) {
    convert_operand(operand, compute_type_of<T>(), reinterpret_cast<std::byte*>(to), pool);
  };
  const auto bytes_of = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(Wire)); };
  switch (op.kind) {
    case CollectiveKind::all_reduce:
      take(result);
      Exchange<T, Wire>(ranks, ceil_div(own, size), pool).all_reduce(result, own);
      break;
    case CollectiveKind::all_gather: {
      const Scratch<T> values(own);
      const Scratch<Wire> mine(own), all(size * own);
      take(values.data());
      move(values.data(), own, mine.data(), pool);
      ranks.all_gather(mine.data(), all.data(), bytes_of(own));
      move(all.data(), size * own, result, pool);
      break;
    }
    case CollectiveKind::reduce_scatter: {
      const Scratch<T> values(own);
      take(values.data());
      Exchange<T, Wire>(ranks, domain.size(), pool).reduce_scatter(values.data(), domain.size(), result);
      break;
    }
    case CollectiveKind::broadcast: {
      const Scratch<Wire> values(own);
      take(result);
      move(result, own, values.data(), pool);
      ranks.broadcast(values.data(), bytes_of(own), op.root);
      move(values.data(), own, result, pool);
      break;
    }
  }
  finish_all(sink, domain.size(), pool);
}

}  // namespace

template <class T>
void run_collective(const Collective& op, std::span<const BoundOperand> operands, const Shape& domain,
                    const HeadSink& sink, ThreadPool& pool) {
  const BoundOperand& operand = operands[0];
  if constexpr (std::is_same_v<T, float>) {
    if (operand.dtype == Dtype::f16) return run_as<T, Half>(op, operand, domain, sink, pool);
    if (operand.dtype == Dtype::bf16) return run_as<T, Bfloat16>(op, operand, domain, sink, pool);
  }
  run_as<T, T>(op, operand, domain, sink, pool);
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
