// Formulas of own ops: `where` and every elementwise function of ops.h, with the values they have on Tensors.
#include <regex>

#include "nixie/core/ops/elementwise.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

struct Row {
  std::string name;
  std::function<Elementwise(const ElementwiseTraits&)> formula;
  std::function<Tensor(const std::vector<Tensor>&)> function;
  bool of_integers = false;
};

#define UNARY(name)                                                                            \
  Row {                                                                                        \
#name,                                                                                       \
        [](const ElementwiseTraits& traits) {                                                    \
          return Elementwise("formula_" #name, [](auto x) { return name(x); }, NoGradient{}, traits); \
        },                                                                                       \
        [](const std::vector<Tensor>& v) { return name(v[0]); } \
  }
#define BINARY(name)                                                                           \
  Row {                                                                                        \
#name,                                                                                       \
        [](const ElementwiseTraits& traits) {                                                    \
          return Elementwise("formula_" #name, [](auto x, auto y) { return name(x, y); }, NoGradient{}, traits); \
        },                                                                                       \
        [](const std::vector<Tensor>& v) { return name(v[0], v[1]); } \
  }
#define TERNARY(name)                                                                          \
  Row {                                                                                        \
#name,                                                                                       \
        [](const ElementwiseTraits& traits) {                                                    \
          return Elementwise("formula_" #name, [](auto x, auto y, auto z) { return name(x, y, z); }, NoGradient{}, \
                             traits);                                                            \
        },                                                                                       \
        [](const std::vector<Tensor>& v) { return name(v[0], v[1], v[2]); } \
  }
#define OPERATOR(op)                                                                                \
  Row {                                                                                             \
    "operator" #op,                                                                                 \
        [](const ElementwiseTraits& traits) {                                                       \
          return Elementwise(                                                                       \
              "formula_operator" #op, [](auto x, auto y) { return x op y; }, NoGradient{}, traits); \
        },                                                                                          \
        [](const std::vector<Tensor>& v) { return v[0] op v[1]; }                                   \
  }
#define PREFIX(op)                                                                      \
  Row {                                                                                 \
    "operator" #op,                                                                     \
        [](const ElementwiseTraits& traits) {                                           \
          return Elementwise(                                                           \
              "formula_prefix" #op, [](auto x) { return op x; }, NoGradient{}, traits); \
        },                                                                              \
        [](const std::vector<Tensor>& v) { return op v[0]; }                            \
  }

std::vector<Row> rows() {
  std::vector<Row> all{
      OPERATOR(+),          OPERATOR(-),        OPERATOR(*),          OPERATOR(/),     OPERATOR(%),
      OPERATOR(==),         OPERATOR(!=),       OPERATOR(<),          OPERATOR(<=),    OPERATOR(>),
      OPERATOR(>=),         OPERATOR(&&),       OPERATOR(||),         PREFIX(-),       PREFIX(!),
      UNARY(logical_not),   UNARY(abs),         UNARY(sign),          UNARY(sqrt),     UNARY(rsqrt),
      UNARY(square),        UNARY(reciprocal),  UNARY(exp),           UNARY(exp2),     UNARY(expm1),
      UNARY(log),           UNARY(log2),        UNARY(log1p),         UNARY(safe_log), UNARY(sin),
      UNARY(cos),           UNARY(tan),         UNARY(asin),          UNARY(acos),     UNARY(atan),
      UNARY(sinh),          UNARY(cosh),        UNARY(tanh),          UNARY(tanh2),    UNARY(sigmoid),
      UNARY(sigmoid2),      UNARY(erf),         UNARY(erfc),          UNARY(floor),    UNARY(ceil),
      UNARY(round),         UNARY(trunc),       UNARY(is_finite),     UNARY(binade),   BINARY(trunc_divide),
      UNARY(is_inf),        UNARY(is_nan),      UNARY(binarize),      UNARY(relu),     UNARY(elu),
      UNARY(gelu),          UNARY(softplus),    UNARY(stop_gradient), BINARY(relu),    BINARY(elu),
      BINARY(logical_and),  BINARY(logical_or), BINARY(pow),          BINARY(fmod),    BINARY(remainder),
      BINARY(floor_divide), BINARY(atan2),      BINARY(maximum),      BINARY(minimum), TERNARY(where),
      TERNARY(clip)};
  const std::size_t floats = all.size();
  for (Row& row : std::vector<Row>{OPERATOR(&), OPERATOR(|), OPERATOR(^), OPERATOR(<<), OPERATOR(>>), PREFIX(~)})
    all.push_back(row);
  for (std::size_t i = floats; i < all.size(); ++i) all[i].of_integers = true;
  return all;
}

TEST(Formulas, FunctionsHaveTheValuesOfThoseOnTensors) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    const Elementwise op =
        row.formula({.result = row.of_integers ? ResultType::integer : ResultType::floating, .domain = {}});
    for (const Dtype type : row.of_integers ? std::vector{Dtype::i32} : std::vector{Dtype::f64, Dtype::f32}) {
      std::vector<Tensor> in;
      for (unsigned k = 0; k < 3; ++k) in.push_back(random_array({97}, row.of_integers ? 0 : -2, 9, k + 1).to(type));
      std::vector<Tensor> read(in.begin(), in.begin() + op.info().formula.arity);
      EXPECT_EQ(fmt::format("{}", fmt::join(values_of(op.call(read)), " ")),
                fmt::format("{}", fmt::join(values_of(row.function(in)), " ")));
    }
  }
}

// Formulas have all elementwise functions of ops.h but those that choose a type.
TEST(Formulas, HaveEveryElementwiseFunction) {
  std::ifstream file(NIXIE_SOURCE_DIR "/core/ops/ops.h");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find("// ---- elementwise"), end = text.find("// ---- leaves");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = text.substr(begin, end - begin);
  std::set<std::string> declared, tested{"cast", "floating", "retype", "widened", "wrapped"};
  const std::regex declaration(R"(\nTensor (operator[^(]+|\w+)\()");
  for (std::sregex_iterator it(section.begin(), section.end(), declaration); it != std::sregex_iterator(); ++it)
    declared.insert((*it)[1]);
  for (const Row& row : rows()) tested.insert(row.name);
  EXPECT_EQ(declared, tested);
}

TEST(Formulas, AnOpOfTheLibraryAmongNumbersStaysATensor) {
  const Tensor one = sigmoid(0.0) + 0.5, two = maximum(1.0, 2.0);
  EXPECT_EQ(evaluate(one, cpu()).item(), 1);
  EXPECT_EQ(evaluate(two, cpu()).item(), 2);
}

TEST(Formulas, AGradientHasOneEntryForEachInput) {
  using T = const Tensor&;
  const auto product = [](auto a, auto b) { return a * b; };
  const Elementwise few{"product_with_one", product, [](T g, T, T, T b) { return Gradients{g * b}; }};
  const Elementwise many{"product_with_three", product, [](T g, T, T a, T b) { return Gradients{g * b, g * a, g}; }};
  const Tensor x = random_array({3}, 1, 2, 5), y = random_array({3}, 1, 2, 6);
  EXPECT_FAULT(usage,
               "gradients: the gradient of op product_with_one gives 1 Gradients, expected 2, one for each input",
               gradients(sum(few(x, y)), {x, y}));
  EXPECT_FAULT(usage,
               "gradients: the gradient of op product_with_three gives 3 Gradients, expected 2, one for each input",
               gradients(sum(many(x, y)), {x, y}));
}

}  // namespace
}  // namespace nixie
