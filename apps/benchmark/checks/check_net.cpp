// The probe's contractions are held against double; the timed graph, whose kernels are fused otherwise, against the
// probe, for parameters that make the net well-conditioned.
#include "nixie/apps/benchmark/checks/check_net.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;
// Other kernels round other intermediate values; through a net that adds up, and a maximum may be won by another.
constexpr double kDistancePerElementBound = 20;

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

void compare_results(const Outputs& timed, const Outputs& probed, NetCheck& check) {
  for (const auto& [name, value] : timed) {
    const double distance = relative_distance(value.array(), probed.at(name).array());
    if (!(distance <= check.distance_bound))
      fail(Fault::non_finite, "the timed result ", name, " is wrong: it is ", distance,
           " of its length away from the checked one, at most ", check.distance_bound, " is right");
    if (distance < check.distance) continue;
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
    compare_results(fprop, probed, check);
    compare_results(total, probed, check);
  });
  return check;
}

}  // namespace nixie::benchmark
