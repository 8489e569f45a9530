// The update rules against PyTorch's published formulas, written out for one number at a time: twenty steps in double,
// with the buffers and their names; and one kernel per parameter.
#include "nixie/optimizers/rules.h"

#include "nixie/core/step.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

// One parameter element as torch.optim sees it: value, buffers by name, number of steps.
struct Element {
  double w;
  std::map<std::string, double> buffers = {};
  int t = 0;
};

using TorchStep = std::function<void(Element& e, double g, double lr)>;

struct RuleCase {
  AnyOptimizer rule;
  std::vector<std::string> buffers;
  TorchStep torch;
};

TorchStep sgd(double momentum, double weight_decay, bool nesterov) {
  return [=](Element& e, double g, double lr) {
    g += weight_decay * e.w;
    if (momentum != 0) {
      double& buf = e.buffers["momentum_buffer"];
      buf = e.t == 0 ? g : momentum * buf + g;
      g = nesterov ? g + momentum * buf : buf;
    }
    ++e.t;
    e.w -= lr * g;
  };
}

TorchStep adam(double beta1, double beta2, double eps, double weight_decay, bool decoupled) {
  return [=](Element& e, double g, double lr) {
    ++e.t;
    if (decoupled)
      e.w *= 1 - lr * weight_decay;
    else
      g += weight_decay * e.w;
    double &m = e.buffers["exp_avg"], &v = e.buffers["exp_avg_sq"];
    m += (g - m) * (1 - beta1);
    v = v * beta2 + (1 - beta2) * g * g;
    const double step_size = lr / (1 - std::pow(beta1, e.t));
    e.w -= step_size * m / (std::sqrt(v) / std::sqrt(1 - std::pow(beta2, e.t)) + eps);
  };
}

TorchStep rmsprop(double alpha, double eps, double momentum, double weight_decay, bool centered) {
  return [=](Element& e, double g, double lr) {
    ++e.t;
    g += weight_decay * e.w;
    double& square_avg = e.buffers["square_avg"];
    square_avg = alpha * square_avg + (1 - alpha) * g * g;
    double avg = square_avg;
    if (centered) {
      double& grad_avg = e.buffers["grad_avg"];
      grad_avg += (g - grad_avg) * (1 - alpha);
      avg -= grad_avg * grad_avg;
    }
    avg = std::sqrt(avg) + eps;
    if (momentum > 0) {
      double& buf = e.buffers["momentum_buffer"];
      buf = momentum * buf + g / avg;
      e.w -= lr * buf;
    } else {
      e.w -= lr * g / avg;
    }
  };
}

TorchStep adagrad(double lr_decay, double initial, double eps, double weight_decay) {
  return [=](Element& e, double g, double lr) {
    double& sum = e.buffers.try_emplace("sum", initial).first->second;
    ++e.t;
    g += weight_decay * e.w;
    const double clr = lr / (1 + (e.t - 1) * lr_decay);
    sum += g * g;
    e.w -= clr * g / (std::sqrt(sum) + eps);
  };
}

TorchStep adadelta(double rho, double eps, double weight_decay) {
  return [=](Element& e, double g, double lr) {
    g += weight_decay * e.w;
    double &square_avg = e.buffers["square_avg"], &acc_delta = e.buffers["acc_delta"];
    square_avg = rho * square_avg + (1 - rho) * g * g;
    const double std = std::sqrt(square_avg + eps), delta = std::sqrt(acc_delta + eps) / std * g;
    acc_delta = rho * acc_delta + (1 - rho) * delta * delta;
    e.w -= lr * delta;
  };
}

std::vector<RuleCase> cases() {
  return {
      {Sgd{.momentum = 0}, {}, sgd(0, 0, false)},
      {Sgd{}, {"momentum_buffer"}, sgd(0.9, 0, false)},
      {Sgd{.momentum = 0.8, .weight_decay = 0.05}, {"momentum_buffer"}, sgd(0.8, 0.05, false)},
      {Sgd{.weight_decay = 0.01, .nesterov = true}, {"momentum_buffer"}, sgd(0.9, 0.01, true)},
      {Adam{}, {"exp_avg", "exp_avg_sq"}, adam(0.9, 0.999, 1e-8, 0, false)},
      {Adam{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1},
       {"exp_avg", "exp_avg_sq"},
       adam(0.8, 0.9, 1e-3, 0.1, false)},
      {AdamW{}, {"exp_avg", "exp_avg_sq"}, adam(0.9, 0.999, 1e-8, 0.01, true)},
      {AdamW{.weight_decay = 0}, {"exp_avg", "exp_avg_sq"}, adam(0.9, 0.999, 1e-8, 0, true)},
      {RmsProp{}, {"square_avg"}, rmsprop(0.99, 1e-8, 0, 0, false)},
      {RmsProp{.alpha = 0.9, .eps = 1e-3, .momentum = 0.7, .weight_decay = 0.1, .centered = true},
       {"square_avg", "grad_avg", "momentum_buffer"},
       rmsprop(0.9, 1e-3, 0.7, 0.1, true)},
      {Adagrad{}, {"sum"}, adagrad(0, 0, 1e-10, 0)},
      {Adagrad{.rate_decay = 0.1, .initial_sum = 0.5, .eps = 1e-3, .weight_decay = 0.1},
       {"sum"},
       adagrad(0.1, 0.5, 1e-3, 0.1)},
      {Adadelta{}, {"square_avg", "acc_delta"}, adadelta(0.9, 1e-6, 0)},
      {Adadelta{.rho = 0.8, .eps = 1e-3, .weight_decay = 0.1}, {"square_avg", "acc_delta"}, adadelta(0.8, 1e-3, 0.1)},
  };
}

/// A rule that updates one parameter, and PyTorch's formula beside it.
struct RuleRun {
  RuleRun(const RuleCase& of, const Parameters& parameters, Dtype dtype = Dtype::f32)
      : w(parameters.make("layer.w", {3, 5}, Init::normal(1), dtype)),
        buffers(state.scope(w.name())),
        step(test_backend(), [update = of.rule.build(w, buffers)](const Inputs& in) {
          update(in["grad"], {in["rate"], in["count"]});
          return Outputs{};
        }) {
    for (double value : w.array().to_vector<double>()) elements.push_back({value});
  }
  /// Numbers in [-0.4, 0.6) times `size`, one for each element.
  std::vector<double> draw(double size = 1) {
    std::vector<double> grad(elements.size());
    for (double& g : grad) g = size * (random() / 4294967296.0 - 0.4);
    return grad;
  }

  Variable w;
  Parameters state, buffers;
  Step step;
  std::vector<Element> elements;
  std::mt19937 random{1};
};

TEST(Rules, MatchPyTorchsFormulas) {
  for (const RuleCase& c : cases()) {
    SCOPED_TRACE(c.rule.text());
    RuleRun run(c, Parameters(), Dtype::f64);
    for (int t = 1; t <= 20; ++t) {
      const std::vector<double> grad = run.draw();
      const double lr = 0.1 / t;
      run.step({{"grad", Array::from(grad, run.w.shape())},
                {"rate", Array::from(std::vector<double>{lr}, {})},
                {"count", Array::from(std::vector<double>{double(t)}, {})}});
      for (std::size_t i = 0; i < grad.size(); ++i) c.torch(run.elements[i], grad[i], lr);
    }
    const std::vector<double> found = run.w.array().to_vector<double>();
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], run.elements[i].w, 1e-12 * (1 + std::abs(found[i])));
    ASSERT_EQ(run.state.all().size(), c.buffers.size());
    for (const std::string& name : c.buffers) {
      const auto buffer = run.state.find("layer.w." + name);
      ASSERT_TRUE(buffer) << name;
      EXPECT_FALSE(buffer->trainable());
      const std::vector<double> values = buffer->array().to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], run.elements[i].buffers.at(name), 1e-12 * (1 + std::abs(values[i]))) << name;
    }
  }
}

// Steps for a constant gradient, from the first on.
TEST(Rules, AStepOfAdamIsTheRateWhereAveragesAreSlow) {
  for (const double beta1 : {0.0, 0.9, 0.9999})
    for (const double beta2 : {0.0, 0.999, 0.9999, 0.99999, 0.999999}) {
      const RuleCase c{Adam{.beta1 = beta1, .beta2 = beta2}, {}, {}};
      SCOPED_TRACE(c.rule.text());
      RuleRun run(c, Parameters());
      std::vector<double> before = run.w.array().to_vector<double>();
      for (int t = 1; t <= 3; ++t) {
        run.step({{"grad", Array::from(std::vector<float>(before.size(), 0.25f), run.w.shape())},
                  {"rate", Array::from(std::vector<float>{0.5f}, {})},
                  {"count", Array::from(std::vector<float>{static_cast<float>(t)}, {})}});
        const std::vector<double> after = run.w.array().to_vector<double>();
        for (std::size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(before[i] - after[i], 0.5, 1e-6) << t;
        before = after;
      }
    }
}

// Where parameters are halves, squares of small gradients, sums of large ones and small eps are beyond what f16 holds.
TEST(Rules, StepAsFarWhereParametersAreHalves) {
  for (const RuleCase& c : cases())
    for (const double size : {1e-4, 1.0, 100.0}) {
      SCOPED_TRACE(c.rule.text() + fmt::format(", gradients of {}", size));
      RuleRun run(c, Parameters(0, Dtype::f16));
      const double rate = c.rule.kind() == Sgd::name ? 1e-2 / std::max(1.0, size) : 1e-2;
      for (int t = 1; t <= 20; ++t) {
        const Array halves = Array::from(run.draw(size), run.w.shape()).to(Dtype::f16);
        run.step({{"grad", halves},
                  {"rate", Array::from(std::vector<float>{static_cast<float>(rate)}, {})},
                  {"count", Array::from(std::vector<float>{static_cast<float>(t)}, {})}});
        const std::vector<double> given = halves.to_vector<double>();
        for (std::size_t i = 0; i < given.size(); ++i) c.torch(run.elements[i], given[i], rate);
      }
      const std::vector<double> found = run.w.array().to_vector<double>();
      for (std::size_t i = 0; i < found.size(); ++i)  // each step rounds to 11 bits
        EXPECT_NEAR(found[i], run.elements[i].w, 20 * 0x1p-11 * (1 + std::abs(run.elements[i].w)));
    }
}

// Their variance is 0, and rounding may make it less.
TEST(Rules, EqualGradientsStayFinite) {
  for (const double alpha : {0.5, 0.9, 0.99}) {
    RuleRun run({RmsProp{.alpha = alpha, .eps = 1e-2, .centered = true}, {}, {}}, Parameters());
    const std::vector<double> first = run.w.array().to_vector<double>();
    std::vector<float> grad;
    for (std::size_t i = 0; i < first.size(); ++i) grad.push_back(0.01f + 0.37f * static_cast<float>(i));
    for (int t = 1; t <= 300; ++t)
      run.step({{"grad", Array::from(grad, run.w.shape())},
                {"rate", Array::from(std::vector<float>{1e-6f}, {})},
                {"count", Array::from(std::vector<float>{static_cast<float>(t)}, {})}});
    const std::vector<double> last = run.w.array().to_vector<double>();
    for (std::size_t i = 0; i < last.size(); ++i) EXPECT_LT(last[i], first[i]) << alpha << ", " << grad[i];
  }
}

TEST(Rules, EveryRuleOfTheRegistryHasACase) {
  std::set<std::string> seen;
  for (const RuleCase& c : cases()) seen.insert(c.rule.kind());
  AllOptimizers::for_each([&]<class T>() { EXPECT_TRUE(seen.count(T::name)) << T::name; });
}

TEST(Rules, UpdateAParameterInOneKernel) {
  for (const RuleCase& c : cases()) {
    Parameters parameters, state;
    std::vector<Update> updates;
    for (const char* name : {"a", "b", "c"}) {
      Parameters buffers = state.scope(name);
      updates.push_back(c.rule.build(parameters.make(name, {64, 32}), buffers));
    }
    Step step(test_backend(), [&](const Inputs& in) {
      for (const Update& update : updates) update(in["grad"], {in["rate"], in["count"]});
      return Outputs{};
    });
    const Array scalar(Dtype::f32, {});
    const Plan& plan = step.plan({{"grad", Array(Dtype::f32, {64, 32})}, {"rate", scalar}, {"count", scalar}});
    int of_parameters = 0;
    for (const Kernel& kernel : plan.kernels) of_parameters += kernel.domain.size() > 1;
    EXPECT_LE(of_parameters, 3) << c.rule.text() << "\n" << to_string(plan);
    EXPECT_LE(plan.kernels.size(), 4u) << c.rule.text() << "\n" << to_string(plan);  // and one for the scalars
  }
}

TEST(Rules, OptionsOutOfRangeAreNamed) {
  Parameters parameters, state;
  const Variable w = parameters.make("w", {2});
  const auto build_error = [&](const AnyOptimizer& rule) { return error_of([&] { rule.build(w, state); }); };
  EXPECT_EQ(build_error(Sgd{.momentum = 1.5}), "momentum is 1.5, expected a number from 0 to 1");
  EXPECT_EQ(build_error(Adam{.eps = -1}), "eps is -1, expected a number from 0 up");
}

TEST(Rules, PrintAsAConfigurationWouldSay) {
  EXPECT_EQ(AnyOptimizer(Sgd{.weight_decay = 5e-4}).text(),
            "sgd: {momentum: 0.9, weight_decay: 0.0005, nesterov: false}");
  EXPECT_EQ(AnyOptimizer().kind(), "sgd");
}

}  // namespace
}  // namespace nixie
