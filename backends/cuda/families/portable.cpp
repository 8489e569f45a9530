// The families that take any kernel on any chip: reductions, products and convolutions in tiles, scans and sorting row
// by row, and all else position by position. On chips without wgmma (sm_80) they run nearly all convolutions.
#include "nixie/backends/cuda/families/portable.h"

#include "nixie/backends/cuda/generate/portable.h"

namespace nixie::cuda {
namespace {

class Reduce final : public Family {
 public:
  std::string_view name() const override { return "reduce"; }
  Match match(const Plan&, const Kernel& kernel, const Chip&) const override {
    if (kernel.reduced.empty()) return Refusal{"no reduction"};
    return Choice{.kernel = kernel};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip, const std::string&) const override {
    return generate_reduce(plan, choice.kernel, chip, choice.merges);
  }
  std::optional<OneLaunch> one_launch(const Plan& plan, const Choice& choice) const override {
    return reduce_launch(plan, choice.kernel, choice.merges);
  }
};

class Gemm final : public Family {
 public:
  std::string_view name() const override { return "gemm"; }
  Match match(const Plan&, const Kernel& kernel, const Chip&) const override {
    if (!kernel.head || !is_product(*kernel.head)) return Refusal{"no product"};
    return Choice{.kernel = kernel};
  }
  std::vector<Algorithm> algorithms(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    return product_algorithms(plan, choice.kernel, chip);
  }
  Work work(const Plan& plan, const Choice& choice, const Chip& chip) const override {
    if (choice.kernel.domain.size() == 0) return {};
    return {.clocks = (product_estimate(plan, choice.kernel, chip).seconds - Chip::kLaunch) * chip.clock};
  }
  std::string operation(const Plan& plan, const Choice& choice) const override {
    return product_operation(plan, choice.kernel);
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip& chip,
                      const std::string& tile) const override {
    return generate_product(plan, choice.kernel, chip, tile);
  }
};

// Rows by `Op`, which lowering splits from their epilogues.
template <class Op, KernelCode (*program)(const Plan&, const Kernel&)>
class Rows final : public Family {
 public:
  explicit Rows(const char* name) : name_(name) {}
  std::string_view name() const override { return name_; }
  Match match(const Plan&, const Kernel& kernel, const Chip&) const override {
    if (!kernel.head || !std::holds_alternative<Op>(kernel.head->op)) return Refusal{"another head"};
    if (!only_stores_head(kernel)) return Refusal{"stages after the head"};
    return Choice{.kernel = kernel, .alone = true};
  }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    return program(plan, choice.kernel);
  }

 private:
  const char* name_;
};

class Map final : public Family {
 public:
  std::string_view name() const override { return "map"; }
  Match match(const Plan&, const Kernel& kernel, const Chip&) const override { return Choice{.kernel = kernel}; }
  KernelCode generate(const Plan& plan, const Choice& choice, const Chip&, const std::string&) const override {
    return generate_map(plan, choice.kernel);
  }
  std::optional<OneLaunch> one_launch(const Plan& plan, const Choice& choice) const override {
    return map_launch(plan, choice.kernel);
  }
};

}  // namespace

const Family& reduce() {
  static const Reduce family;
  return family;
}
const Family& gemm() {
  static const Gemm family;
  return family;
}
const Family& scan() {
  static const Rows<Scan, generate_scan> family("scan");
  return family;
}
const Family& argsort() {
  static const Rows<ArgSort, generate_argsort> family("argsort");
  return family;
}
const Family& map() {
  static const Map family;
  return family;
}

}  // namespace nixie::cuda
