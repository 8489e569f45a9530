// Compares the probe's contractions with double, and the timed graph, whose kernels are fused differently, with the
// probe, for parameters that make the net well-conditioned.
#include "nixie/apps/benchmark/subjects/net_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;
// Other kernels round other intermediate values; through a net that adds up, and a maximum may be won by another.
constexpr double kDistancePerElementBound = 20;
// Fused kernels round less often than unfused ones, but elsewhere.
constexpr double kDistancePerRounding = 2;
// Parameters that differ by so much move f32 results a few times as far as rounding does: what one unlucky ReLU of a
// small net did to the result in hand, one of some other runs shows, too.
constexpr double kJitter = 0x1p-16;
constexpr std::uint32_t kJitteredRuns = 8;

RoleError& of_role(NetCheck& check, Role role) {
  return role == Role::fprop ? check.fprop : role == Role::input_grad ? check.input_grad : check.filter_grad;
}

/// Throws unless rounding explains the deviation; keeps it where it is the largest of its role.
void judge(const Deviation& deviation, const std::string& layer, const char* what, Role role,
           const PrecisionTraits& precision, NetCheck& check) {
  const std::string name = layer.empty() ? "a product" : layer;
  if (!deviation.is_finite) fail(Fault::non_finite, name, ": ", what, " is not finite");
  check_rounding(deviation, fmt::format("{}: {}", name, what), precision);
  RoleError& worst = of_role(check, role);
  worst.share = std::max(worst.share, deviation.share());
  if (deviation.error() < worst.error) return;
  worst.error = deviation.error();
  worst.layer = name;
}

void check_contraction(const NetWork::Probed& probed, const PrecisionTraits& precision, NetCheck& check) {
  const auto& [node, layer, role, output_grad] = probed.contraction;
  judge(compare_with_reference(node, probed.a, probed.b, probed.result, precision, kSamples), layer,
        to_string(role).data(), role, precision, check);
  ++of_role(check, role).contractions;
  if (probed.bias_grad.size() > 0)
    judge(compare_bias_grad(output_grad == 0 ? probed.a : probed.b, std::holds_alternative<Conv>(node.node().op),
                            probed.bias_grad, precision, kSamples),
          layer, "bias update", role, precision, check);
}

/// How far rounding takes a result. Runs that are compared with are made when first asked for.
class Yardstick {
 public:
  Yardstick(const NetWork& work, const PrecisionTraits& precision) : work_(work), precision_(precision) {}
  /// Whether f32 rounds less than what is judged. An f32 run of the same kernels would excuse whatever they do wrong.
  bool is_finer() const { return precision_.data != Dtype::f32 || precision_.policy == PrecisionPolicy::tf32; }
  double distance_from_floats(const std::string& name, const Array& value) {
    if (floats_.empty()) floats_ = in(precision_named("fp32"), Fusion::full, 0).front();
    return relative_distance(value, floats_.at(name).array());
  }
  /// The distance from f32 of a run that stores the result of every op.
  double distance_unfused(const std::string& name) {
    if (unfused_.empty()) unfused_ = in(precision_, Fusion::none, 0);
    return distance_from_floats(name, unfused_.front().at(name).array());
  }
  /// The largest distance between a run that stores the result of every op and the same with jittered parameters: a
  /// ReLU whose input is zero up to rounding opens in one of two runs, and all layers before it tell.
  double distance_jittered(const std::string& name) {
    if (unfused_.empty()) unfused_ = in(precision_, Fusion::none, kJitteredRuns);
    double largest = 0;
    for (std::uint32_t i = 1; i <= kJitteredRuns; ++i)
      largest = std::max(largest, relative_distance(unfused_[i].at(name).array(), unfused_.front().at(name).array()));
    return largest;
  }

 private:
  /// The results of `total`, and those of `jittered` further runs.
  std::vector<Outputs> in(const PrecisionTraits& precision, Fusion fusion, std::uint32_t jittered) const {
    const std::unique_ptr<NetWork> other = work_.in(precision, fusion);
    std::vector<Outputs> runs;
    const auto run = [&] {
      other->total();
      Outputs& results = runs.emplace_back();
      for (const auto& [name, value] : other->results()) results.emplace(name, value.array().clone());
    };
    other->while_well_conditioned([&] {
      run();
      for (std::uint32_t seed = 1; seed <= jittered; ++seed) other->while_jittered(kJitter, seed, run);
    });
    return runs;
  }

  const NetWork& work_;
  PrecisionTraits precision_;
  Outputs floats_;
  std::vector<Outputs> unfused_;
};

/// Throws unless rounding explains a distance beyond the bound.
void excuse(const std::string& name, const Array& timed, const Array& probed, double distance, Yardstick& yardstick,
            double bound) {
  if (!is_finite(timed) || !is_finite(probed)) fail(Fault::non_finite, "the timed result ", name, " is not finite");
  // A gradient that is zero but for rounding, as those of a bias in front of batch norm, is noise in any run.
  // Two runs show how far rounding takes one: the probe, whose products are checked, and one without fusion.
  if (yardstick.is_finer()) {
    const double from_floats = yardstick.distance_from_floats(name, timed),
                 probe = yardstick.distance_from_floats(name, probed), unfused = yardstick.distance_unfused(name);
    if (!(from_floats <= std::max(bound, kDistancePerRounding * std::max(probe, unfused))))
      fail(Fault::non_finite, "the timed result ", name, " is wrong: it is ", from_floats,
           " of its norm away from that in f32, the checked one is ", probe, " and one without fusion ", unfused);
  } else if (const double jittered = yardstick.distance_jittered(name);
             !(distance <= kDistancePerRounding * jittered)) {
    fail(Fault::non_finite, "the timed result ", name, " is wrong: it is ", distance,
         " of its norm away from the checked one, at most ", bound, " is right, and rounding explains ", jittered);
  }
}

void compare_results(const Outputs& timed, const Outputs& probed, Yardstick& yardstick, NetCheck& check) {
  for (const auto& [name, value] : timed) {
    const Array result = value.array(), checked = probed.at(name).array();
    const double distance = relative_distance(result, checked);
    ++check.results;
    if (distance <= check.distance_bound) {
      if (distance < check.distance) continue;
      check.distance = distance;
      check.result = name;
    } else {
      excuse(name, result, checked, distance, yardstick, check.distance_bound);
      ++check.excused;
    }
  }
}

}  // namespace

void keep_finite(NetWork& work) {
  constexpr double kLeast = 0x1p-16;
  const auto are_finite = [](const Outputs& results) {
    return std::ranges::all_of(results, [](const auto& each) { return is_finite(each.second.array()); });
  };
  work.while_well_conditioned([&] {
    for (work.total(); !are_finite(work.results()) && work.output_gradient() > kLeast; work.total())
      work.lower_output_gradient();
  });
}

NetCheck check_net(NetWork& work, const PrecisionTraits& precision) {
  NetCheck check{.distance_bound = kDistancePerElementBound * precision.element_bound};
  work.while_well_conditioned([&] {
    const Outputs fprop = work.fprop();
    work.total();
    const Outputs total = work.results();
    const Outputs probed =
        work.probe([&](const NetWork::Probed& contraction) { check_contraction(contraction, precision, check); });
    Yardstick yardstick(work, precision);
    compare_results(fprop, probed, yardstick, check);
    compare_results(total, probed, yardstick, check);
  });
  return check;
}

}  // namespace nixie::benchmark
