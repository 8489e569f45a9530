// Stores that are called disjoint have no element in common, shown by listing what they touch; phases of a gradient and
// parts of a concatenation are disjoint.
#include "nixie/core/passes/disjoint_stores.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

std::set<std::int64_t> touched(const Kernel& kernel) {
  const Access& access = kernel.stores[0];
  std::set<std::int64_t> all{access.offset};
  for (int axis = 0; axis < kernel.domain.rank(); ++axis) {
    std::set<std::int64_t> next;
    const auto inside =
        access.inside.empty() ? std::pair(std::int64_t{0}, kernel.domain[axis]) : access.inside[at(axis)];
    for (std::int64_t i = inside.first; i < inside.second; ++i)
      for (std::int64_t address : all) next.insert(address + i * access.strides[at(axis)]);
    all = std::move(next);
  }
  return all;
}

Kernel storing(const Shape& domain, std::int64_t offset, const Strides& strides) {
  Kernel kernel{.domain = domain};
  kernel.stores = {{.slot = 0, .offset = offset, .strides = strides}};
  return kernel;
}

Plan with_slot(const Shape& shape, const Strides& strides) {
  Plan plan;
  plan.slots = {{.name = "y", .shape = shape, .strides = strides}};
  return plan;
}

using Members = std::vector<const Kernel*>;

bool are_disjoint(const Plan& plan, const Members& a, const Members& b) {
  return DisjointStores(plan, {a, b})(0, 0, 1);
}

bool meet(const Kernel& a, const Kernel& b) {
  const std::set<std::int64_t> x = touched(a), y = touched(b);
  return std::any_of(x.begin(), x.end(), [&](std::int64_t address) { return y.contains(address); });
}

TEST(DisjointStores, ArePhasesAndParts) {
  const Shape shape{2, 6, 7, 8};
  for (const Strides& slot : {shape.channels_last(), shape.row_major()}) {
    const Plan plan = with_slot(shape, slot);
    std::vector<Kernel> phases, parts;
    for (const std::int64_t h : {0, 1, 2})
      for (const std::int64_t w : {0, 1})
        phases.push_back(storing({2, 6, (7 - h + 2) / 3, (8 - w + 1) / 2}, h * slot[2] + w * slot[3],
                                 {slot[0], slot[1], 3 * slot[2], 2 * slot[3]}));
    for (const std::int64_t c : {0, 2, 4}) parts.push_back(storing({2, 2, 7, 8}, c * slot[1], slot));
    const Kernel whole = storing(shape, 0, slot), none{.domain = shape};
    for (const auto& kernels : {phases, parts})
      for (std::size_t i = 0; i < kernels.size(); ++i)
        for (std::size_t j = 0; j < kernels.size(); ++j) {
          EXPECT_EQ(are_disjoint(plan, {&kernels[i]}, {&kernels[j]}), i != j) << i << " " << j;
          EXPECT_FALSE(are_disjoint(plan, {&kernels[i], &whole}, {&kernels[j]}));
          EXPECT_FALSE(are_disjoint(plan, {&kernels[i]}, {&none}));
        }
  }
}

// Two groups that each store all phases of half of the channels: a phase meets none but its own of the other group.
TEST(DisjointStores, ComparesAStoreWithThoseOfItsPhase) {
  constexpr int kPeriod = 32;
  const Shape shape{2, 6, 4 * kPeriod, 4 * kPeriod};
  const Strides slot = shape.channels_last();
  const Plan plan = with_slot(shape, slot);
  std::vector<Kernel> halves;
  for (const std::int64_t channel : {0, 3}) {
    Kernel& half = halves.emplace_back(Kernel{.domain = {2, 3, 4, 4}});
    for (int h = 0; h < kPeriod; ++h)
      for (int w = 0; w < kPeriod; ++w)
        half.stores.push_back({.slot = 0,
                               .offset = channel * slot[1] + h * slot[2] + w * slot[3],
                               .strides = {slot[0], slot[1], kPeriod * slot[2], kPeriod * slot[3]}});
  }
  DisjointStores are_disjoint(plan, {{&halves[0]}, {&halves[1]}});
  EXPECT_TRUE(are_disjoint(0, 0, 1));
  EXPECT_EQ(are_disjoint.compared(), kPeriod * kPeriod);
  EXPECT_FALSE(are_disjoint(0, 1, 1));
}

TEST(DisjointStores, HaveNoElementInCommon) {
  std::mt19937 random(3);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Shape shape{draw(1, 3), draw(1, 4), draw(1, 5), draw(1, 5)};
    const Strides strides = draw(0, 1) ? shape.channels_last() : shape.row_major();
    const Plan plan = with_slot(shape, strides);
    const auto kernel = [&] {
      std::vector<std::int64_t> domain;
      Strides steps;
      std::int64_t offset = 0;
      Access access;
      for (int axis = 0; axis < 4; ++axis) {
        const std::int64_t first = draw(0, static_cast<int>(shape[axis]) - 1), step = draw(1, 3),
                           count = (shape[axis] - first - 1) / step + draw(0, 9) / 9;  // past the axis now and then
        domain.push_back(std::max<std::int64_t>(count, 1)), steps.push_back(step * strides[at(axis)]);
        offset += first * strides[at(axis)];
      }
      Kernel made = storing(Shape(domain), offset, steps);
      if (draw(0, 2) == 0)
        for (std::int64_t size : domain) {
          const std::int64_t low = draw(0, static_cast<int>(size) - 1);
          made.stores[0].inside.emplace_back(low, draw(static_cast<int>(low) + 1, static_cast<int>(size)));
        }
      return made;
    };
    const Kernel a = kernel(), b = kernel();
    if (!are_disjoint(plan, {&a}, {&b})) continue;
    ++apart;
    ASSERT_FALSE(meet(a, b)) << i;
  }
  EXPECT_GT(apart, 2000);
}

}  // namespace
}  // namespace nixie
