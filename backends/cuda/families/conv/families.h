// The convolution families, each in the file of its name.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& conv_fprop();  ///< forward passes, input gradients and large matrix products in tiles
const Family& conv_halo();   ///< forward passes and input gradients whose taps share a patch of pixels
const Family& conv_rows();   ///< input gradients of few channels, a row of taps at a time
const Family& conv_wgrad();  ///< filter gradients
const Family& conv_s2d();    ///< first layers of stride 4
const Family& conv_c3();     ///< first layers of 3x3
const Family& conv_ffma();   ///< f32 by multiply-adds, all roles
const Family& depthwise();   ///< one filter or a few for each channel, all roles

}  // namespace nixie::cuda
