// The reference interpreter.
#include "nixie/tests/backends/reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "nixie/core/base/random.h"

namespace nixie::testing {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

double wrap32(double x) {
  return std::abs(x) < 0x1p62 ? static_cast<double>(static_cast<std::int32_t>(static_cast<std::int64_t>(x))) : 0;
}

double to_integer(double x) {
  if (x != x) return 0;
  return std::trunc(std::min(std::max(x, -2147483648.0), 2147483647.0));
}

double integer_power(double base, double exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (std::fmod(exponent, 2) != 0 ? -1 : 1) : 0;
  std::uint32_t product = 1;
  for (int i = 0; i < exponent; ++i) product *= static_cast<std::uint32_t>(static_cast<std::int32_t>(base));
  return static_cast<std::int32_t>(product);
}

// Those of one number in libm.
const std::map<Primitive, double (*)(double)> kFunctions{
    {Primitive::sqrt, std::sqrt},      {Primitive::exp, std::exp},   {Primitive::exp2, std::exp2},
    {Primitive::expm1, std::expm1},    {Primitive::log, std::log},   {Primitive::log2, std::log2},
    {Primitive::log1p, std::log1p},    {Primitive::sin, std::sin},   {Primitive::cos, std::cos},
    {Primitive::tan, std::tan},        {Primitive::asin, std::asin}, {Primitive::acos, std::acos},
    {Primitive::atan, std::atan},      {Primitive::sinh, std::sinh}, {Primitive::cosh, std::cosh},
    {Primitive::tanh, std::tanh},      {Primitive::erf, std::erf},   {Primitive::erfc, std::erfc},
    {Primitive::floor, std::floor},    {Primitive::ceil, std::ceil}, {Primitive::trunc, std::trunc},
    {Primitive::round, std::nearbyint}};

double compute(const Instruction& code, double a, double b, double c) {
  const bool integer = code.type == Dtype::i32;
  const auto ia = [&] { return static_cast<std::int64_t>(a); };
  const auto ib = [&] { return static_cast<std::int64_t>(b); };
  if (const auto found = kFunctions.find(code.primitive); found != kFunctions.end()) return found->second(a);
  switch (code.primitive) {
    case Primitive::cast:
      return integer ? to_integer(a) : a;
    case Primitive::neg:
      return integer ? wrap32(-a) : -a;
    case Primitive::abs:
      return integer ? wrap32(std::abs(a)) : std::abs(a);
    case Primitive::add:
      return integer ? wrap32(a + b) : a + b;
    case Primitive::sub:
      return integer ? wrap32(a - b) : a - b;
    case Primitive::mul:
      return integer ? static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(ia()) *
                                                                     static_cast<std::uint32_t>(ib())))
                     : a * b;
    case Primitive::div:
      return integer ? (b == 0 ? 0 : wrap32(std::trunc(a / b))) : a / b;
    case Primitive::mod:
      return integer ? (b == 0 ? 0 : static_cast<double>(ia() % ib())) : std::fmod(a, b);
    case Primitive::pow:
      return integer ? integer_power(a, b) : std::pow(a, b);
    case Primitive::min:
      return a != a || b != b ? std::numeric_limits<double>::quiet_NaN() : std::min(a, b);
    case Primitive::max:
      return a != a || b != b ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
    case Primitive::equal:
      return a == b;
    case Primitive::not_equal:
      return a != b;
    case Primitive::less:
      return a < b;
    case Primitive::less_equal:
      return a <= b;
    case Primitive::logical_and:
      return a != 0 && b != 0;
    case Primitive::logical_or:
      return a != 0 || b != 0;
    case Primitive::logical_not:
      return a == 0;
    case Primitive::select:
      return a != 0 ? b : c;
    case Primitive::is_finite:
      return std::isfinite(a);
    case Primitive::is_nan:
      return std::isnan(a);
    case Primitive::rsqrt:
      return 1 / std::sqrt(a);
    case Primitive::atan2:
      return std::atan2(a, b);
    case Primitive::binade:
      return a == 0 ? 0 : std::isfinite(a) ? std::ldexp(1.0, std::ilogb(a)) : std::numeric_limits<double>::infinity();
    case Primitive::copysign:
      return std::copysign(a, b);
    case Primitive::bit_and:
      return static_cast<double>(ia() & ib());
    case Primitive::bit_or:
      return static_cast<double>(ia() | ib());
    case Primitive::bit_xor:
      return static_cast<double>(ia() ^ ib());
    case Primitive::bit_not:
      return static_cast<double>(~ia());
    case Primitive::shift_left:
      return b < 0 || b > 31 ? 0
                             : static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(ia()) << ib()));
    case Primitive::shift_right:
      return static_cast<double>(ia() >> (b < 0 || b > 31 ? 31 : ib()));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

using Position = std::vector<std::int64_t>;

// Row-major positions over some axes of a domain, the others staying.
bool next(Position& position, const Shape& domain, const Axes& axes) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    if (++position[at(*axis)] < domain[*axis]) return true;
    position[at(*axis)] = 0;
  }
  return false;
}

bool any(const Shape& domain, const Axes& axes) {
  for (int axis : axes)
    if (domain[axis] == 0) return false;
  return true;
}

class KernelRun {
 public:
  KernelRun(const Plan& plan, const Kernel& kernel, std::vector<std::vector<std::byte>>& slots)
      : plan_(plan), kernel_(kernel), slots_(slots) {
    for (int axis = 0; axis < kernel.domain.rank(); ++axis) {
      bool reduced = false;
      for (int r : kernel.reduced) reduced |= r == axis;
      if (!reduced) kept_.push_back(axis);
    }
  }

  // One kept position after another, each stage over its reduced positions.
  void run() {
    if (!any(kernel_.domain, kept_)) return;
    Position position(at(kernel_.domain.rank()));
    do {
      std::vector<double> carried(kernel_.carried.size());
      for (const Stage& stage : kernel_.stages) run(stage, position, carried);
    } while (next(position, kernel_.domain, kept_));
  }

 private:
  void run(const Stage& stage, Position position, std::vector<double>& carried) {
    if (!stage.full) {
      finish(stage, execute(stage, position, carried), position, carried);
      return;
    }
    std::vector<std::vector<double>> columns(stage.reductions.size());
    if (any(kernel_.domain, kernel_.reduced)) do {
        const std::vector<double> registers = execute(stage, position, carried);
        for (std::size_t i = 0; i < stage.reductions.size(); ++i)
          columns[i].push_back(registers[at(stage.reductions[i].value)]);
        finish(stage, registers, position, carried);
      } while (next(position, kernel_.domain, kernel_.reduced));
    for (std::size_t i = 0; i < stage.reductions.size(); ++i) {
      const bool integer = stage.body[at(stage.reductions[i].value)].type == Dtype::i32;
      carried[at(stage.reductions[i].carried)] = reduce(stage.reductions[i].kind, columns[i], integer);
    }
  }

  static double reduce(ReduceKind kind, const std::vector<double>& x, bool integer) {
    const double infinity = std::numeric_limits<double>::infinity(), n = static_cast<double>(x.size());
    double sum = 0, prod = 1, squares = 0;
    for (double v : x)
      sum += v, prod = integer ? compute({.primitive = Primitive::mul, .type = Dtype::i32}, prod, v, 0) : prod * v;
    for (double v : x) squares += (v - sum / n) * (v - sum / n);
    const bool max = kind == ReduceKind::max || kind == ReduceKind::argmax;
    std::size_t best = 0;
    for (std::size_t i = 1; i < x.size(); ++i)
      if (!std::isnan(x[best]) && (std::isnan(x[i]) || (max ? x[i] > x[best] : x[i] < x[best]))) best = i;
    const double lowest = integer ? -2147483648.0 : -infinity, highest = integer ? 2147483647.0 : infinity;
    switch (kind) {
      case ReduceKind::sum:
        return integer ? wrap32(sum) : sum;
      case ReduceKind::prod:
        return prod;
      case ReduceKind::mean:
        return sum / n;
      case ReduceKind::m2:
        return squares;
      case ReduceKind::argmax:
      case ReduceKind::argmin:
        return static_cast<double>(best);
      default:
        return x.empty() ? (max ? lowest : highest) : x[best];
    }
  }

  std::vector<double> execute(const Stage& stage, const Position& position, const std::vector<double>& carried) {
    std::vector<double> r;
    for (const Instruction& code : stage.body) {
      const auto arg = [&](int i) { return code.args[at(i)] < 0 ? 0.0 : r[at(code.args[at(i)])]; };
      switch (code.primitive) {
        case Primitive::constant:
          r.push_back(code.value);
          break;
        case Primitive::scalar:
          r.push_back(plan_.scalars[at(code.index)]);
          break;
        case Primitive::load:
          r.push_back(load(kernel_.loads[at(code.index)], position, code.type));
          break;
        case Primitive::carried:
          r.push_back(carried[at(code.index)]);
          break;
        case Primitive::coordinate:
          r.push_back(static_cast<double>(position[at(code.index)]));
          break;
        case Primitive::uniform:
        case Primitive::normal:
          r.push_back(draw(code, position, arg(0)));
          break;
        default:
          r.push_back(compute(code, arg(0), arg(1), arg(2)));
      }
    }
    return r;
  }

  double draw(const Instruction& code, const Position& position, double step) {
    const Strides strides = kernel_.domain.row_major();
    std::uint64_t e = 0;
    for (std::size_t axis = 0; axis < position.size(); ++axis)
      e += static_cast<std::uint64_t>(position[axis] * strides[axis]);
    const auto words = philox({static_cast<std::uint32_t>(e / 4), static_cast<std::uint32_t>(e / 4 >> 32),
                               static_cast<std::uint32_t>(static_cast<std::int32_t>(step)), 0},
                              code.stream);
    if (code.primitive == Primitive::uniform) return uniform_from(words[e % 4]);
    return normals_from(words[e % 4 / 2 * 2], words[e % 4 / 2 * 2 + 1])[e % 2];
  }

  std::int64_t index(const Access& access, const Position& position) {
    std::int64_t i = access.offset;
    for (std::size_t axis = 0; axis < position.size(); ++axis) i += position[axis] * access.strides[axis];
    return i;
  }

  bool is_inside(const Access& access, const Position& position) {
    for (std::size_t axis = 0; axis < access.inside.size(); ++axis)
      if (position[axis] < access.inside[axis].first || position[axis] >= access.inside[axis].second) return false;
    return true;
  }

  double load(const Access& access, const Position& position, Dtype type) {
    const Dtype stored = plan_.slots[at(access.slot)].dtype;
    const double value =
        is_inside(access, position)
            ? element(slots_[at(access.slot)], stored, index(access, position))
            : visit_dtype(stored, [&](auto type) { return convert<double>(convert<decltype(type)>(access.fill)); });
    return type == Dtype::i32 ? convert<std::int32_t>(value) : value;
  }

  void finish(const Stage& stage, const std::vector<double>& registers, const Position& position,
              std::vector<double>& carried) {
    for (const Store& store : stage.stores) {
      const Access& access = kernel_.stores[at(store.access)];
      if (!is_inside(access, position)) continue;
      set_element(slots_[at(access.slot)], plan_.slots[at(access.slot)].dtype, index(access, position),
                  registers[at(store.value)]);
    }
    for (const Carry& carry : stage.carries) carried[at(carry.carried)] = registers[at(carry.value)];
  }

  const Plan& plan_;
  const Kernel& kernel_;
  std::vector<std::vector<std::byte>>& slots_;
  Axes kept_;
};

}  // namespace

double element(const std::vector<std::byte>& bytes, Dtype dtype, std::int64_t index) {
  return visit_dtype(dtype, [&](auto type) {
    decltype(type) value;
    std::memcpy(&value, bytes.data() + index * size_of(dtype), sizeof(value));
    return convert<double>(value);
  });
}

void set_element(std::vector<std::byte>& bytes, Dtype dtype, std::int64_t index, double value) {
  visit_dtype(dtype, [&](auto type) {
    const auto stored = convert<decltype(type)>(value);
    std::memcpy(bytes.data() + index * size_of(dtype), &stored, sizeof(stored));
  });
}

void run_reference(const Plan& plan, std::vector<std::vector<std::byte>>& slots) {
  for (const Kernel& kernel : plan.kernels) KernelRun(plan, kernel, slots).run();
}

}  // namespace nixie::testing
