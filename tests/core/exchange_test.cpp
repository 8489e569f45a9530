// Memory of other programs as Tensors and back: no copies, released once, and nothing odd is taken.
#include "nixie/core/graph/exchange.h"

#include "nixie/backends/registry.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// As another program's library would make one; counts how often it is released.
struct Foreign {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  int released = 0;
  dlpack::Managed managed{
      .version = {1, 0},
      .context = this,
      .release = [](dlpack::Managed* self) { ++static_cast<Foreign*>(self->context)->released; },
      .flags = 0,
      .array = {values.data(), {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 32, 1}, shape.data(), strides.data(), 0}};
};

TEST(Exchange, WrappedMemoryIsReadWhereItLies) {
  if (cpu().name() != "cpu") GTEST_SKIP() << "host memory is no device's";
  std::vector<float> mine{1, -2, 3, -4};
  int released = 0;
  {
    const Tensor x = wrap(mine.data(), {2, 2}, Dtype::f32, cpu(), nullptr, [&] { ++released; });
    expect_values(relu(x) * 2 + 1, {3, 1, 7, 1}, 0);
    dlpack::Managed* out = to_dlpack(x, cpu());
    EXPECT_EQ(out->array.data, mine.data());
    out->release(out);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(mine, (std::vector<float>{1, -2, 3, -4}));
  EXPECT_FAULT(usage, "wrap: the address is no multiple of 4 bytes",
               wrap(reinterpret_cast<char*>(mine.data()) + 1, {1}, Dtype::f32, cpu()));
}

TEST(Exchange, WrappedMemoryAfterItsBackend) {
  if (cpu().name() != "cpu") GTEST_SKIP() << "host memory is no device's";
  std::vector<float> mine{1, 2};
  int released = 0;
  {
    Tensor x;
    {
      const std::shared_ptr<Backend> gone = make_backend("cpu");
      x = wrap(mine.data(), {2}, Dtype::f32, *gone, nullptr, [&] { ++released; });
    }
    EXPECT_EQ(x.array().to_vector<float>(), (std::vector<float>{1, 2}));
    expect_values(x + 1, {2, 3}, 0);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(Exchange, ForeignArraysAreStepInputs) {
  if (cpu().name() != "cpu") GTEST_SKIP() << "host memory is no device's";
  Step step(cpu(), [](const Inputs& in) { return Outputs{{"y", sum(in["x"], {0})}}; });
  Foreign a;
  expect_values(step({{"x", from_dlpack(&a.managed, cpu())}}).at("y"), {5, 7, 9}, 0);
  EXPECT_EQ(a.released, 1);
  Foreign b;  // one row, after an offset
  b.shape = {1, 3};
  b.managed.array.byte_offset = 12;
  b.managed.array.strides = nullptr;
  expect_values(from_dlpack(&b.managed, cpu()) * 1, {4, 5, 6}, 0);
  EXPECT_EQ(b.released, 1);
}

TEST(Exchange, RefusesWhatItCannotReadAndLeavesItToTheCaller) {
  if (cpu().name() != "cpu") GTEST_SKIP() << "host memory is no device's";
  const auto refused = [](const std::function<void(Foreign&)>& change, const std::string& text) {
    Foreign a;
    change(a);
    EXPECT_FAULT(usage, text, from_dlpack(&a.managed, cpu()));
    EXPECT_EQ(a.released, 0);
  };
  refused([](Foreign& a) { a.strides = {1, 2}; }, "of shape [2, 3] with gaps or permuted axes; make it contiguous");
  refused([](Foreign& a) { a.managed.array.device = {dlpack::kCuda, 0}; }, "on device 2:0, the backend cpu is on 1:0");
  refused([](Foreign& a) { a.managed.array.type = {5, 64, 1}; }, "type code 5, 64 bits, 1 lanes");
  refused([](Foreign& a) { a.managed.array.type.lanes = 4; }, "4 lanes");
  refused([](Foreign& a) { a.managed.version = {2, 0}; }, "an array of version 2.0, expected 1.x");
  refused([](Foreign& a) { a.managed.array.byte_offset = 2; }, "no multiple of 4 bytes");
  refused([](Foreign& a) { a.managed.array.byte_offset = 1ull << 63; },
          "offset of 9223372036854775808 leads out of memory");
  refused([](Foreign& a) { a.managed.array.byte_offset = ~0ull - 3; }, "leads out of memory");
  refused([](Foreign& a) { a.shape = {-1, 3}; }, "-1");
  EXPECT_FAULT(usage, "to_dlpack: the value is not computed; evaluate it first",
               to_dlpack(Tensor(Array::from(std::vector<float>{1}, {1})) + 1, cpu()));
}

// Two backends act as two libraries: on a GPU each has its own stream.
TEST(Exchange, TwoLibrariesWorkOnTheSameMemory) {
  const std::shared_ptr<Backend> other = make_backend(cpu().name());
  const int n = 1 << 18;
  dlpack::Managed* handed = to_dlpack(evaluate(cast(arange(n), Dtype::f32) * 2, *other), *other);
  void* address = handed->array.data;
  EXPECT_EQ(handed->flags, dlpack::kReadOnly);
  EXPECT_EQ(handed->array.device.type, other->memory_place().device_type);
  const Tensor x = from_dlpack(handed, cpu());
  const Tensor y = evaluate(x + 1, cpu());
  dlpack::Managed* back = to_dlpack(x, cpu());
  EXPECT_EQ(back->array.data, address);
  back->release(back);
  const std::vector<float> values = y.to_vector<float>();
  for (int i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], 2.0f * static_cast<float>(i) + 1);
}

TEST(Exchange, EveryTypeAndRankComesBack) {
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 1, 3}, Shape{0, 4}}) {
      const auto dtype = static_cast<Dtype>(i);
      const double value = dtype == Dtype::boolean ? 1 : 5;
      const Tensor x = evaluate(cast(full(shape, value), dtype), cpu());
      const Tensor y = from_dlpack(to_dlpack(x, cpu()), cpu());
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.shape(), shape);
      expect_values(y, std::vector<double>(static_cast<std::size_t>(shape.size()), value), 0);
    }
  if (cpu().name() != "cpu") return;
  Foreign flags;
  flags.managed.array.type = {dlpack::kBool, 8, 1};
  EXPECT_EQ(from_dlpack(&flags.managed, cpu()).dtype(), Dtype::boolean);
}

TEST(Exchange, StepsLeaveAVariablesMemoryToThoseWhoGotIt) {
  const Variable v("v", Array::from(std::vector<float>{1, 2}, {2}));
  Step step(cpu(), [&](const Inputs&) {
    v.set(v + 1);
    return Outputs{};
  });
  step({});
  const Tensor seen = from_dlpack(to_dlpack(v, cpu()), cpu());
  step({});
  expect_values(seen, {2, 3}, 0);
  expect_values(v, {3, 4}, 0);
}

}  // namespace
}  // namespace nixie
