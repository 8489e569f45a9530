// Winograd convolutions of 3x3 with stride 1: 16 products for four results in place of 36.
#pragma once

#include "nixie/backends/cpu/contract/conv/conv.h"

namespace nixie::cpu {

/// Whether a result may round as its neighbours in a tile do. f32 results under Math::ieee are sums of their own
/// products alone: a large neighbour would cost them their digits.
inline bool allows_winograd(const Conv& conv, Dtype operands) {
  return conv.math != Math::ieee || operands != Dtype::f32;
}

/// Whether tiles are faster for this role, output or input_grad; false where NIXIE_WINOGRAD=0 forbids them.
bool winograd_pays(const Conv& conv, const ConvShape& shape);

/// The role output (operands x, w) or input_grad (dy, w). F(2x2, 3x3) of Lavin and Gray, "Fast Algorithms for
/// Convolutional Neural Networks", 2016: its constants are powers of two, so small whole numbers stay exact.
void run_winograd(const Conv& conv, const ConvShape& shape, const Strided<float>& source, const Strided<float>& weight,
                  const HeadSink& sink, ThreadPool& pool);

/// The same for filter_grad.
bool winograd_filter_pays(const ConvShape& shape);

/// Which sums of a filter_grad: neighbouring filters (at most a tile's lanes) and channels, counted over all groups,
/// over images [image0, image1).
struct FilterPart {
  std::int64_t filter, filters, channel, channels, image0, image1;
};
/// sums: [channel][tap][filter], filters up to whole vectors.
void sum_winograd_filters(const ConvShape& shape, const ImageView<float>& dy, const ImageView<float>& x,
                          const FilterPart& part, float* sums);

}  // namespace nixie::cpu
