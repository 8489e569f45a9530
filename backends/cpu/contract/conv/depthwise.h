// Depthwise convolutions over small images: the channels are the lanes.
#pragma once

#include "nixie/backends/cpu/contract/conv/conv.h"

namespace nixie::cpu {

/// Whether each channel is a group of its own, and images are so small that rows would leave many lanes empty.
template <class T>
bool channels_as_lanes(const Conv& conv, const ConvShape& shape);

/// The role output (operands x, w) or input_grad (dy, w).
template <class T>
void run_depthwise(const Conv& conv, const ConvShape& shape, const Strided<T>& source, const Strided<T>& weight,
                   const HeadSink& sink, ThreadPool& pool);
/// filter_grad; operands dy, x.
template <class T>
void run_depthwise_filter(const ConvShape& shape, const Strided<T>& dy, const Strided<T>& x, const HeadSink& sink,
                          ThreadPool& pool);

}  // namespace nixie::cpu
