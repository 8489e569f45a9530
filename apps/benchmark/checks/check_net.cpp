// The probe's contractions are held against double; the timed graph, whose kernels are fused otherwise, against the
// probe, for parameters that make the net well-conditioned.
#include "nixie/apps/benchmark/checks/check_net.h"

#include <cmath>

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;
// Other kernels round other intermediate values; through a net that adds up, and a maximum may be won by another.
constexpr double kDistancePerElementBound = 20;
// Both are as far from the second opinion, in directions of their own.
constexpr double kDistancePerNoise = 3;

RoleError& of_role(NetCheck& check, Role role) {
  return role == Role::fprop ? check.fprop : role == Role::input_grad ? check.input_grad : check.filter_grad;
}

/// Throws unless rounding explains the deviation; keeps it where it is the largest of its role.
void judge(const Deviation& deviation, const std::string& layer, const char* what, Role role,
           const PrecisionTraits& precision, NetCheck& check) {
  const std::string name = layer.empty() ? "a product" : layer;
  if (!deviation.is_finite) fail(Fault::non_finite, name, ": ", what, " is not finite");
  if (!(deviation.share() <= 1))
    fail(Fault::non_finite, name, ": ", what, " is wrong: max|diff| / mean|ref| is ", deviation.error(), ", ",
         deviation.share(), " times what rounding explains in ", precision.name);
  RoleError& worst = of_role(check, role);
  worst.share = std::max(worst.share, deviation.share());
  if (deviation.error() < worst.error) return;
  worst.error = deviation.error();
  worst.layer = name;
}

void check_contraction(const NetWork::Probed& probed, const PrecisionTraits& precision, NetCheck& check) {
  const auto& [node, layer, role] = probed.contraction;
  judge(compare_with_reference(node, probed.a, probed.b, probed.result, precision, kSamples), layer,
        to_string(role).data(), role, precision, check);
  ++of_role(check, role).contractions;
  if (probed.bias_grad.size() > 0)
    judge(compare_bias_grad(node, probed.a, probed.bias_grad, precision, kSamples), layer, "bias update", role,
          precision, check);
}

/// The results of `total` in another precision, computed when they are first asked for.
class SecondOpinion {
 public:
  SecondOpinion(const NetWork& work, const PrecisionTraits& precision)
      : work_(work), precision_(precision_named("fp32")), is_finer_(precision.data != Dtype::f32) {}
  /// Whether it rounds less than what is judged. An f32 run of the same kernels would excuse whatever they do wrong.
  bool is_finer() const { return is_finer_; }
  const Tensor& of(const std::string& name) {
    if (results_.empty()) {
      const std::unique_ptr<NetWork> other = work_.in(precision_);
      other->while_well_conditioned([&] {
        other->total();
        results_ = other->results();
      });
    }
    return results_.at(name);
  }

 private:
  const NetWork& work_;
  PrecisionTraits precision_;
  bool is_finer_;
  Outputs results_;
};

void compare_results(const Outputs& timed, const Outputs& probed, SecondOpinion& other, NetCheck& check) {
  for (const auto& [name, value] : timed) {
    const Array right = probed.at(name).array();
    const double distance = relative_distance(value.array(), right);
    // A gradient that is zero but for rounding, of a bias in front of batch norm, is as far from itself in any
    // precision.
    double allowed = check.distance_bound;
    if (!(distance <= allowed) && std::isfinite(distance) && other.is_finer())
      allowed = std::max(allowed, kDistancePerNoise * relative_distance(other.of(name).array(), right));
    if (!(distance <= allowed))
      fail(Fault::non_finite, "the timed result ", name, " is wrong: it is ", distance,
           " of its length away from the checked one, at most ", allowed, " is right");
    check.excused += distance > check.distance_bound ? 1 : 0;
    ++check.results;
    if (distance > check.distance_bound || distance < check.distance) continue;
    check.distance = distance;
    check.result = name;
  }
}

}  // namespace

NetCheck check_net(NetWork& work, const PrecisionTraits& precision) {
  NetCheck check{.distance_bound = kDistancePerElementBound * precision.element_bound};
  work.while_well_conditioned([&] {
    const Outputs fprop = work.fprop();
    work.total();
    const Outputs total = work.results();
    const Outputs probed =
        work.probe([&](const NetWork::Probed& contraction) { check_contraction(contraction, precision, check); });
    SecondOpinion other(work, precision);
    compare_results(fprop, probed, other, check);
    compare_results(total, probed, other, check);
  });
  return check;
}

}  // namespace nixie::benchmark
