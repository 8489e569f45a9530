// Random graphs against plain loops: shapes, types, views and fusion in any combination. Values are small integers, so
// that every type holds every result exactly and results must be equal.
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/core/plain.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

constexpr double kBound = 15;  // of every value: products of two and sums are cut back to it

struct Value {
  Tensor tensor;
  Plain plain;
};

Value bounded(const Tensor& tensor, Plain plain) {
  for (double& value : plain.values) value = std::clamp(value, -kBound, kBound);
  return {clip(tensor, -kBound, kBound), std::move(plain)};
}

constexpr unsigned kLeftOut = 1000;
constexpr unsigned kWithNothing = 1'000'000;  // from this seed on, arrays are small and some have no element

/// One node of a random graph. Its inputs are earlier values, its numbers are taken modulo what is possible, so that
/// any numbers make a graph.
struct Node {
  unsigned kind = 0, a = 0, b = 0;
  std::uint32_t number = 0;
};
using Program = std::vector<Node>;

/// The formula of an elementwise node, twice.
struct Binary {
  Tensor (*tensor)(const Tensor&, const Tensor&);
  double (*plain)(double, double);
};
const Binary kBinary[] = {
    {[](const Tensor& a, const Tensor& b) { return a + b; }, [](double a, double b) { return a + b; }},
    {[](const Tensor& a, const Tensor& b) { return a - b; }, [](double a, double b) { return a - b; }},
    {[](const Tensor& a, const Tensor& b) { return a * b; }, [](double a, double b) { return a * b; }},
    {[](const Tensor& a, const Tensor& b) { return maximum(a, b); }, [](double a, double b) { return std::max(a, b); }},
    {[](const Tensor& a, const Tensor& b) { return minimum(a, b); }, [](double a, double b) { return std::min(a, b); }},
    {[](const Tensor& a, const Tensor& b) { return where(a < b, a, b * 2); },
     [](double a, double b) { return a < b ? a : b * 2; }},
    {[](const Tensor& a, const Tensor& b) { return where(a == b, 3, a - b); },
     [](double a, double b) { return a == b ? 3 : a - b; }},
};
struct Unary {
  Tensor (*tensor)(const Tensor&);
  double (*plain)(double);
};
const Unary kUnary[] = {
    {[](const Tensor& x) { return -x; }, [](double x) { return -x; }},
    {[](const Tensor& x) { return abs(x); }, [](double x) { return std::abs(x); }},
    {[](const Tensor& x) { return sign(x); }, [](double x) { return x > 0   ? 1.0
                                                                    : x < 0 ? -1.0
                                                                            : 0.0; }},
    {[](const Tensor& x) { return square(x); }, [](double x) { return x * x; }},
    {[](const Tensor& x) { return relu(x); }, [](double x) { return x > 0 ? x : 0; }},
};

bool do_broadcast(const Plain& a, const Plain& b) {
  for (std::size_t i = 1; i <= std::min(a.sizes.size(), b.sizes.size()); ++i) {
    const std::int64_t x = a.sizes[a.sizes.size() - i], y = b.sizes[b.sizes.size() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

std::vector<std::int64_t> broadcast_sizes(const Plain& a, const Plain& b) {
  std::vector<std::int64_t> sizes = a.sizes.size() >= b.sizes.size() ? a.sizes : b.sizes;
  const Plain& shorter = a.sizes.size() >= b.sizes.size() ? b : a;
  for (std::size_t i = 1; i <= shorter.sizes.size(); ++i) {
    std::int64_t& size = sizes[sizes.size() - i];
    if (size == 1) size = shorter.sizes[shorter.sizes.size() - i];
  }
  return sizes;
}

Value elementwise(const Value& x, const Value& other, std::uint32_t number) {
  if (number % 3 == 0 || !do_broadcast(x.plain, other.plain)) {
    const Unary& op = kUnary[number / 3 % std::size(kUnary)];
    return bounded(op.tensor(x.tensor),
                   filled(x.plain.sizes, [&](const Place& place) { return op.plain(at(x.plain, place)); }));
  }
  const Binary& op = kBinary[number / 3 % std::size(kBinary)];
  return bounded(op.tensor(x.tensor, other.tensor),
                 filled(broadcast_sizes(x.plain, other.plain),
                        [&](const Place& place) { return op.plain(at(x.plain, place), at(other.plain, place)); }));
}

Value reduced(const Value& x, std::uint32_t number) {
  Axes axes;
  std::vector<std::int64_t> kept = x.plain.sizes, dropped;
  for (std::size_t axis = 0; axis < kept.size(); ++axis) {
    if (number >> axis & 1)
      axes.push_back(static_cast<int>(axis)), kept[axis] = 1;
    else
      dropped.push_back(kept[axis]);
  }
  if (axes.empty()) return x;
  const bool keepdims = number >> 8 & 1;
  const unsigned kind = x.plain.size() == 0 ? 0 : number >> 9;  // of integers, nothing has a sum alone
  Plain result = filled(kept, [&](const Place& place) {
    double total = kind % 3 == 0 ? 0 : kind % 3 == 1 ? -1e9 : 1e9;
    each_place(x.plain.sizes, [&](const Place& from) {
      for (std::size_t axis = 0; axis < from.size(); ++axis)
        if (kept[axis] != 1 && from[axis] != place[axis]) return;
      for (std::size_t axis = 0; axis < from.size(); ++axis)
        if (!(number >> axis & 1) && from[axis] != place[axis]) return;
      const double value = at(x.plain, from);
      total = kind % 3 == 0 ? total + value : kind % 3 == 1 ? std::max(total, value) : std::min(total, value);
    });
    return total;
  });
  if (!keepdims) result.sizes = dropped;
  const Tensor tensor = kind % 3 == 0   ? sum(x.tensor, axes, keepdims)
                        : kind % 3 == 1 ? max(x.tensor, axes, keepdims)
                                        : min(x.tensor, axes, keepdims);
  return bounded(tensor, std::move(result));
}

Value permuted(const Value& x, std::uint32_t number) {
  std::vector<int> order(x.plain.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(number));
  std::vector<std::int64_t> sizes;
  for (const int axis : order) sizes.push_back(x.plain.sizes[static_cast<std::size_t>(axis)]);
  Axes axes;
  for (const int axis : order) axes.push_back(axis);
  return {permute(x.tensor, axes), filled(sizes, [&](const Place& place) {
            Place from(place.size());
            for (std::size_t i = 0; i < order.size(); ++i) from[static_cast<std::size_t>(order[i])] = place[i];
            return at(x.plain, from);
          })};
}

/// To two axes, or to one, or with an axis of size 1 in front.
Value reshaped(const Value& x, std::uint32_t number) {
  const std::int64_t size = x.plain.size();
  std::vector<std::int64_t> sizes = {size};
  if (number % 3 == 1 && size > 0) {
    std::int64_t divisor = 1 + static_cast<std::int64_t>(number / 3 % 8);
    while (size % divisor) --divisor;
    sizes = {divisor, size / divisor};
  } else if (number % 3 == 2 && x.plain.sizes.size() < 4) {
    sizes = x.plain.sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(number / 3 % (sizes.size() + 1)), 1);
  }
  return {reshape(x.tensor, sizes), {sizes, x.plain.values}};
}

/// A range with a step, forwards or backwards, of one axis.
Value sliced(const Value& x, std::uint32_t number) {
  if (x.plain.sizes.empty()) return x;
  const std::size_t axis = number % x.plain.sizes.size();
  const std::int64_t size = x.plain.sizes[axis], step = 1 + static_cast<std::int64_t>(number >> 4 & 1);
  if (size < 2) return x;
  const bool backwards = number >> 5 & 1;
  const std::int64_t first = static_cast<std::int64_t>(number >> 6) % (size - 1);
  std::vector<Index> indices(axis, Index::all());
  indices.push_back(backwards ? Index::range(size - 1, first, -step) : Index::range(first, size, step));
  std::vector<std::int64_t> sizes = x.plain.sizes;
  sizes[axis] = backwards ? (size - 1 - first + step - 1) / step : (size - first + step - 1) / step;
  return {slice(x.tensor, indices), filled(sizes, [&](Place place) {
            place[axis] = backwards ? size - 1 - step * place[axis] : first + step * place[axis];
            return at(x.plain, place);
          })};
}

Value padded(const Value& x, std::uint32_t number) {
  if (x.plain.sizes.empty() || x.plain.size() > 2000) return x;
  const std::size_t rank = x.plain.sizes.size(), axis = number % rank;
  std::vector<std::int64_t> low(rank, 0), high(rank, 0), sizes = x.plain.sizes;
  low[axis] = static_cast<std::int64_t>(number >> 4 & 3), high[axis] = static_cast<std::int64_t>(number >> 6 & 3);
  sizes[axis] += low[axis] + high[axis];
  return {pad(x.tensor, low, high, -2), filled(sizes, [&](Place place) {
            place[axis] -= low[axis];
            const bool inside = place[axis] >= 0 && place[axis] < x.plain.sizes[axis];
            return inside ? at(x.plain, place) : -2;
          })};
}

/// Behind itself along an axis, so that shapes always fit.
Value joined(const Value& x, const Value& other, std::uint32_t number) {
  if (x.plain.sizes.empty() || x.plain.size() > 2000) return x;
  const std::size_t axis = number % x.plain.sizes.size();
  const bool same = other.plain.sizes == x.plain.sizes;
  const Value& second = same ? other : x;
  std::vector<std::int64_t> sizes = x.plain.sizes;
  sizes[axis] *= 2;
  return {concat({x.tensor, second.tensor}, static_cast<int>(axis)), filled(sizes, [&](Place place) {
            const bool is_first = place[axis] < x.plain.sizes[axis];
            if (!is_first) place[axis] -= x.plain.sizes[axis];
            return at(is_first ? x.plain : second.plain, place);
          })};
}

/// x times its transpose: [..., m, k] x [..., k, m].
Value multiplied(const Value& x) {
  const std::size_t rank = x.plain.sizes.size();
  if (rank < 2 || x.plain.size() > 2000) return x;
  std::vector<std::int64_t> sizes = x.plain.sizes;
  sizes[rank - 1] = sizes[rank - 2];
  return bounded(matmul(x.tensor, x.tensor, {.trans_b = true}), filled(sizes, [&](const Place& place) {
                   double total = 0;
                   Place a = place, b = place;
                   b[rank - 2] = place[rank - 1];
                   for (std::int64_t k = 0; k < x.plain.sizes[rank - 1]; ++k) {
                     a[rank - 1] = b[rank - 1] = k;
                     total += at(x.plain, a) * at(x.plain, b);
                   }
                   return total;
                 }));
}

Value converted(const Value& x, std::uint32_t number) {
  constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::i16};
  return {cast(x.tensor, kTypes[number % std::size(kTypes)]), x.plain};
}

/// Stored arrays of several ranks, one of them a scalar.
std::vector<Value> leaves(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Value> values;
  using Shapes = std::vector<std::vector<std::int64_t>>;
  const Shapes shapes = seed < kWithNothing ? Shapes{{}, {5}, {3, 1}, {4, 5}, {2, 3, 4}, {1, 7, 2}}
                                            : Shapes{{}, {1}, {1, 2}, {0, 2}, {2, 0}, {2, 1}};
  constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f32, Dtype::i32, Dtype::f32, Dtype::f16, Dtype::f64};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Plain plain =
        filled(shapes[i], [&](const Place&) { return std::uniform_int_distribution<int>(-4, 4)(random); });
    values.push_back({Tensor(Array::from(plain.values, Shape(shapes[i])).to(kTypes[i])), plain});
  }
  return values;
}

/// All values of a program.
std::vector<Value> built(const Program& program, unsigned seed) {
  std::vector<Value> values = leaves(seed);
  for (const Node& node : program) {
    const Value &x = values[node.a % values.size()], &y = values[node.b % values.size()];
    if (node.kind == kLeftOut) {  // a leaf takes its place
      values.push_back(values[0]);
      continue;
    }
    switch (node.kind % 10) {
      case 0:
        values.push_back(reduced(x, node.number));
        break;
      case 1:
        values.push_back(permuted(x, node.number));
        break;
      case 2:
        values.push_back(reshaped(x, node.number));
        break;
      case 3:
        values.push_back(sliced(x, node.number));
        break;
      case 4:
        values.push_back(padded(x, node.number));
        break;
      case 5:
        values.push_back(joined(x, y, node.number));
        break;
      case 6:
        values.push_back(multiplied(x));
        break;
      case 7:
        values.push_back(converted(x, node.number));
        break;
      default:
        values.push_back(elementwise(x, y, node.number));
    }
  }
  return values;
}

/// The fault in the last values of a program; "" without one.
std::string difference(const Program& program, unsigned seed, Backend& backend) try {
  const std::vector<Value> values = built(program, seed);
  std::vector<Tensor> outputs;
  std::vector<const Plain*> expected;
  for (std::size_t i = values.size(); i-- > 0 && outputs.size() < 3;) {
    outputs.push_back(values[i].tensor + 0);  // computed, even where it is a leaf
    expected.push_back(&values[i].plain);
  }
  const std::vector<Tensor> results = evaluate(outputs, backend);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].shape() != Shape(expected[i]->sizes)) return "a shape differs";
    const std::vector<double> found = results[i].to_vector<double>();
    for (std::size_t k = 0; k < found.size(); ++k)
      if (found[k] != expected[i]->values[k])
        return fmt::format("output {} at {}: {}, expected {}", i, k, found[k], expected[i]->values[k]);
  }
  return {};
} catch (const Error& error) {
  return error.what();
}

/// Leaves out nodes as long as the program stays wrong.
Program shrunk(Program program, unsigned seed, Backend& backend) {
  const auto try_change = [&](const auto& change) {
    Program other = program;
    change(other);
    if (!difference(other, seed, backend).empty()) program = other;
  };
  while (program.size() > 1) {  // the outputs are the last values
    const std::size_t before = program.size();
    try_change([](Program& other) { other.pop_back(); });
    if (program.size() == before) break;
  }
  for (std::size_t i = program.size(); i-- > 0;) try_change([&](Program& other) { other[i].kind = kLeftOut; });
  return program;
}

/// The nodes that are left, as their shapes and inputs.
std::string text_of(const Program& program, unsigned seed) {
  const char* const kNames[] = {"reduce", "permute", "reshape", "slice",       "pad",
                                "concat", "matmul",  "cast",    "elementwise", "elementwise"};
  const std::vector<Value> values = built(program, seed);
  const std::size_t first = values.size() - program.size();
  std::string text;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Node& node = program[i];
    const std::size_t at = first + i;
    if (node.kind != kLeftOut)
      text += fmt::format("\n  v{} {} {} = {}(v{}, v{}, number {})", at, to_string(values[at].tensor.dtype()),
                          values[at].tensor.shape(), kNames[node.kind % 10], node.a % at, node.b % at, node.number);
  }
  return text;
}

void run_graphs(unsigned first, unsigned count) {
  std::shared_ptr<Backend> backend;
  for (unsigned seed = first; seed < first + count; ++seed) {
    if (!backend || seed % 200 == 0) backend = new_test_backend();  // it keeps what it compiled
    std::mt19937 random(seed);
    Program program(1 + random() % 14);
    for (Node& node : program)
      node = {static_cast<unsigned>(random() % 20), static_cast<unsigned>(random()), static_cast<unsigned>(random()),
              static_cast<std::uint32_t>(random() & 0xffff)};
    if (difference(program, seed, *backend).empty()) continue;
    const Program least = shrunk(program, seed, *backend);
    FAIL() << "seed " << seed << ": " << difference(least, seed, *backend) << text_of(least, seed);
  }
}

TEST(RandomGraphs, EqualPlainLoops) { run_graphs(0, count_of_random(400, 20)); }
TEST(RandomGraphs, WithAnEmptyArrayEqualPlainLoops) { run_graphs(kWithNothing, count_of_random(400, 20)); }
TEST(RandomGraphs, ThatWereWrongBefore) {
  run_graphs(4932, 1);  // pad(slice(pad(x))): the bounds of the slice reached beyond it
}

// Blocks of 125, so that cores can share the 10,000.
class ManyRandomGraphs : public testing::TestWithParam<unsigned> {};
TEST_P(ManyRandomGraphs, EqualPlainLoopsLong) { run_graphs(1000 + 125 * GetParam(), 125); }
INSTANTIATE_TEST_SUITE_P(Every, ManyRandomGraphs, testing::Range(0u, 80u));

}  // namespace
}  // namespace nixie
