// Several threads and several backends on the values of one model.
#include <latch>

#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/state/variable_memory.h"
#include "nixie/tests/core/support.h"

namespace nixie::testing {
namespace {

Tensor numbers(const std::vector<float>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}

/// Its runs wait in the middle until they are let go on.
class Pausing final : public ForwardingBackend {
 public:
  Pausing() : ForwardingBackend(make_cpu_backend(1)) {}
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    return std::make_unique<Run>(*this, inner()->compile(plan));
  }
  std::latch runs{1}, goes_on{1};

 private:
  class Run final : public Executable {
   public:
    Run(Pausing& owner, std::unique_ptr<Executable> inner) : owner_(owner), inner_(std::move(inner)) {}
    void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
      owner_.runs.count_down();
      owner_.goes_on.wait();
      inner_->run(externals, scalars);
    }

   private:
    Pausing& owner_;
    std::unique_ptr<Executable> inner_;
  };
};

/// What `body` throws while another thread is in the middle of a run of `step`.
std::string error_during(Pausing& backend, Step& step, const std::function<void()>& body) {
  std::thread other([&] { step({}); });
  backend.runs.wait();
  const std::string error = error_of(body);
  backend.goes_on.count_down();
  other.join();
  return error;
}

/// A small network with a half shadow under fp16, so that all that Variables share is used.
Outputs forward(const Variable& weight, const Variable& bias, const Inputs& in) {
  return {{"y", sum(matmul(in["x"], weight) + bias, {1}, false)}};
}

class OneModelSeveralThreads : public ::testing::TestWithParam<PrecisionPolicy> {};

TEST_P(OneModelSeveralThreads, EachWithABackend) {
  constexpr int kThreads = 4, kRuns = 50;
  const auto state =
      std::make_shared<VariableState>(VariableState{.name = "weight", .shape = {8, 4}, .init = [] {
                                                      return random_array({8, 4}, -1, 1, 1).to(Dtype::f32);
                                                    }});
  const Variable weight(state), bias("bias", numbers({1, 2, 3, 4}).array());
  const Tensor constant = numbers({1, 1, 1, 1, 1, 1, 1, 1}) * 0.5, halves = numbers({1, 1, 1, 1}) * 0.5;
  std::vector<std::vector<std::vector<float>>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const std::shared_ptr<Backend> backend = make_test_backend(test_backend_name());
      Step step(
          *backend, [&](const Inputs& in) { return forward(weight, bias, in); }, GetParam());
      for (int run = 0; run < kRuns; ++run) {
        const Tensor x = broadcast_to(constant + run, {2, 8});
        results[static_cast<std::size_t>(t)].push_back(step({{"x", x}}).at("y").to_vector<float>());
        static_cast<void>(bias.array());
        static_cast<void>(evaluate(weight * halves + bias, *backend).array());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(results[static_cast<std::size_t>(t)], results[0]);
}

TEST_P(OneModelSeveralThreads, AllOnOneBackend) {
  constexpr int kThreads = 4, kRuns = 50;
  const Variable weight("weight", random_array({8, 4}, -1, 1, 1).to(Dtype::f32)), bias("bias", Array(Dtype::f32, {4}));
  std::vector<float> sums(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Step step(
          cpu(), [&](const Inputs& in) { return forward(weight, bias, in); }, GetParam());
      for (int run = 0; run < kRuns; ++run) {
        const Array x = random_array({2, 8}, 0, 1, static_cast<unsigned>(run)).to(Dtype::f32);
        sums[static_cast<std::size_t>(t)] += step({{"x", x}}).at("y").to_vector<float>()[0];
        sums[static_cast<std::size_t>(t)] += evaluate(sum(Tensor(x)), cpu()).to_vector<float>()[0];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const float sum : sums) EXPECT_EQ(sum, sums[0]);
}

INSTANTIATE_TEST_SUITE_P(Precisions, OneModelSeveralThreads,
                         ::testing::Values(PrecisionPolicy::fp32, PrecisionPolicy::fp16));

TEST(SeveralBackends, ThoseOfTheHostShareWeights) {
  const Variable v("v", numbers({1, 2}).array());
  const auto a = make_cpu_backend(1), b = make_cpu_backend(2);
  const auto storage = v.state()->stored();
  const auto memory = memory_of(*v.state(), *storage, *a);
  EXPECT_EQ(memory_of(*v.state(), *storage, *b), memory);
  EXPECT_EQ(memory_of(*v.state(), *storage, *a), memory);
}

TEST(SeveralBackends, SharedWeightsOutliveThem) {
  const Variable v("v", numbers({1, 2}).array());
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(evaluate(v + 1, *make_cpu_backend(1)).to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{1, 2}));
  v.set(numbers({3, 4}));
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{3, 4}));
}

// Memory of their own is lost with them.
TEST(SeveralBackends, OthersTakeTheirCopiesAlong) {
  const Variable v("v", numbers({1, 2}).array());
  evaluate(v + 1, *std::make_unique<CountingBackend>());
  EXPECT_THAT(error_of([&] { v.array(); }), HasSubstr("v f32 [2] is read after the backend that held it"));
}

TEST(SeveralBackends, WeightsAreSentOnceToEach) {
  const Variable v("v", numbers({1, 2}).array());
  CountingBackend a, b;
  Step on_a(a, [&](const Inputs&) { return Outputs{{"y", v * 2}}; });
  Step on_b(b, [&](const Inputs&) { return Outputs{{"y", v * 2}}; });
  const auto both = [&] {
    const auto y = on_a({}).at("y").to_vector<float>();
    EXPECT_EQ(on_b({}).at("y").to_vector<float>(), y);
    return y;
  };
  for (int round = 0; round < 3; ++round) EXPECT_EQ(both(), (std::vector<float>{2, 4}));
  EXPECT_EQ(a.uploads, 1);
  EXPECT_EQ(b.uploads, 1);
  v.set(numbers({3, 4}));
  for (int round = 0; round < 3; ++round) EXPECT_EQ(both(), (std::vector<float>{6, 8}));
  EXPECT_EQ(a.uploads, 2);
  EXPECT_EQ(b.uploads, 2);
}

TEST(SeveralBackends, AChangeOnOneIsSeenByTheOthers) {
  const Variable v("v", numbers({1, 2}).array());
  CountingBackend a, b;
  const auto c = make_cpu_backend(1);
  Step train(a, [&](const Inputs&) {
    v.set(v * 2);
    return Outputs{};
  });
  Step on_b(b, [&](const Inputs&) { return Outputs{{"y", v + 0}}; });
  Step on_c(*c, [&](const Inputs&) { return Outputs{{"y", v + 0}}; });
  for (const float expected : {2.f, 4.f, 8.f}) {
    train({});
    EXPECT_EQ(on_b({}).at("y").to_vector<float>()[0], expected);
    EXPECT_EQ(on_c({}).at("y").to_vector<float>()[0], expected);
    EXPECT_EQ(v.array().to_vector<float>()[0], expected);
  }
}

TEST(UnsafeThreads, TwoInOneStep) {
  Pausing backend;
  Step step(backend, [](const Inputs&) { return Outputs{{"y", Tensor(1) + 1}}; });
  EXPECT_THAT(error_during(backend, step, [&] { step({}); }),
              HasSubstr("two threads use a step at a time; give each thread a step of its own"));
}

TEST(UnsafeThreads, OneChangesWhatAnotherReads) {
  const Variable v("v", numbers({1, 2}).array());
  const auto cpu = make_cpu_backend(1);
  Step trains(*cpu, [&](const Inputs&) {
    v.set(v * 2);
    return Outputs{};
  });
  const std::function<void()> changes[] = {[&] { v.set(5); }, [&] { trains({}); }};
  for (const auto& change : changes) {
    Pausing backend;
    Step reads(backend, [&](const Inputs&) { return Outputs{{"y", v + 1}}; });
    EXPECT_THAT(error_during(backend, reads, change), HasSubstr("v f32 [2] is changed while another thread reads it"));
  }
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{1, 2}));
  trains({});  // as before
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST(UnsafeThreads, OneReadsWhatAnotherChanges) {
  const Variable v("v", numbers({1, 2}).array());
  const auto cpu = make_cpu_backend(1);
  Step reads(*cpu, [&](const Inputs&) { return Outputs{{"y", v + 1}}; });
  const std::function<void()> uses[] = {[&] { v.array(); }, [&] { reads({}); }, [&] { evaluate(v * 2, *cpu); }};
  for (const auto& use : uses) {
    Pausing backend;
    Step changes(backend, [&](const Inputs&) {
      v.set(v + 1);
      return Outputs{};
    });
    EXPECT_THAT(error_during(backend, changes, use), HasSubstr("v f32 [2] is read while another thread changes it"));
  }
  EXPECT_EQ(v.array().to_vector<float>(), (std::vector<float>{4, 5}));
}

}  // namespace
}  // namespace nixie::testing
