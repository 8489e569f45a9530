// The independent reference: single elements of products and convolutions, recomputed in double on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nixie/apps/benchmark/checks/precision.h"
#include "nixie/core/graph/tensor.h"

namespace nixie::benchmark {

/// The elements of a floating array as doubles, converted one by one, as few are read. A matrix can be read transposed.
class Elements {
 public:
  explicit Elements(const Array& array, bool transposed = false)
      : array_(array),
        dtype_(array.dtype()),
        bytes_(array_.bytes()),
        rows_(transposed ? array.shape()[0] : 1),
        columns_(transposed ? array.shape()[1] : array.size()) {}
  double operator[](std::int64_t position) const {
    if (rows_ > 1) position = position % rows_ * columns_ + position / rows_;
    switch (dtype_) {
      case Dtype::f16:
        return static_cast<double>(static_cast<float>(reinterpret_cast<const Half*>(bytes_)[position]));
      case Dtype::bf16:
        return static_cast<double>(static_cast<float>(reinterpret_cast<const Bfloat16*>(bytes_)[position]));
      case Dtype::f8e4m3:
        return static_cast<double>(static_cast<float>(reinterpret_cast<const F8e4m3*>(bytes_)[position]));
      case Dtype::f8e5m2:
        return static_cast<double>(static_cast<float>(reinterpret_cast<const F8e5m2*>(bytes_)[position]));
      case Dtype::f32:
        return static_cast<double>(reinterpret_cast<const float*>(bytes_)[position]);
      default:
        fail(Fault::usage, "there is no reference in ", dtype_);
    }
  }
  std::int64_t size() const { return array_.size(); }

 private:
  Array array_;  // shares the elements
  Dtype dtype_;
  const std::byte* bytes_;
  std::int64_t rows_, columns_;  // as stored, for transposed reads
};

/// The element at a row-major position of a Conv (any role) or Matmul node, from its operands' elements.
ExactSum reference_element(const Tensor& node, const Elements& a, const Elements& b, std::int64_t position);

/// The bias gradient: the sum of a layer's output gradient over all axes but its channels: of a convolution [N, K,
/// spatial...], of a product [..., K, N]. Kernels may sum them before they are stored, which moves those that are
/// stored as subnormal halves by up to `smallest`.
ExactSum reference_bias_grad(const Shape& shape, const Elements& output_grad, bool is_conv, std::int64_t channel,
                             double smallest);

/// The deviation of a result from its reference.
struct Deviation {
  double max_difference = 0, sum_reference = 0;  ///< over the sampled elements, of absolute values
  double max_share = 0;                          ///< largest difference over the error bound of that element
  std::int64_t samples = 0;
  bool is_finite = true;  ///< of all elements, also unsampled ones
  void add(double found, double expected);
  void add(double found, const ExactSum& expected, const Rounding& rounding);  ///< also for the share
  /// The largest share of an error bound: at most 1 for a right result. Infinite if an element is not finite.
  double share() const;
  /// nervanagpu's measure, max|diff| / mean|ref|; infinite if an element is not finite.
  double error() const;
};

/// Throws Fault::non_finite if rounding does not explain the deviation of `what`; the line ends with `how` it was made.
void check_rounding(const Deviation& deviation, const std::string& what, const PrecisionTraits& precision,
                    const std::string& how = "");

/// An operand rounded to the type in which the backend multiplies.
Elements rounded(const Array& operand, Dtype dtype, bool transposed = false);

/// The reference at these positions.
std::vector<ExactSum> reference_elements(const Tensor& node, const Elements& a, const Elements& b,
                                         const std::vector<std::int64_t>& positions);

/// The deviation of a result from the expected values at these positions.
Deviation deviation_at(const Array& result, const std::vector<std::int64_t>& positions,
                       const std::vector<ExactSum>& expected, const Rounding& rounding);

/// Compares elements spread over the whole result (including the first and the last) with the reference, whose
/// operands are first rounded to the type in which the precision multiplies.
Deviation compare_with_reference(const Tensor& node, const Array& a, const Array& b, const Array& result,
                                 const PrecisionTraits& precision, std::int64_t samples);

/// The same for the bias gradient of a layer, from its output gradient.
Deviation compare_bias_grad(const Array& output_grad, bool is_conv, const Array& result,
                            const PrecisionTraits& precision, std::int64_t samples);

bool is_finite(const Array& array);

/// |a - b| / |b| over whole arrays of equal shape (Euclidean norms); infinite if an element is not finite, or b is zero
/// and a is not.
double relative_distance(const Array& a, const Array& b);

/// Positions spread over [0, size): 0, size - 1, and random ones; at most `size` of them.
std::vector<std::int64_t> sampled_positions(std::int64_t size, std::int64_t samples);

}  // namespace nixie::benchmark
