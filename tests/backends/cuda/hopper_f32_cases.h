// The f32 layers among the cases of hopper_cases.h: by multiply-adds, and in halves.
#pragma once

#include "nixie/tests/backends/cuda/norm_plans.h"

namespace nixie::hopper_plans {

/// f32 layers by multiply-adds.
inline void add_multiply_add_cases(std::vector<Case>& all) {
  const auto add_float = [&](const std::string& name, auto make, Layer layer, auto what, int kernels = 1) {
    const std::string full = name + "_ieee";
    layer.dtype = Dtype::f32;
    all.push_back({full, kernels, [=] { return make(full, layer, what); }, 0, Math::ieee, true});
  };
  add_float("forward_one_pixel", forward, "1x128x1x1 by 256x1x1", Forward::plain);
  add_float("forward_c4", forward, "1x4x5x7 by 4x3x3 pad 1", Forward::bias_relu);
  add_float("forward_tiny", forward, "1x8x5x7 by 8x3x3 pad 1", Forward::bias_relu);
  add_float("forward_c24", forward, "2x24x13x6 by 24x3x2 pad 1x0", Forward::bias_relu);
  add_float("forward_c36", forward, "2x36x13x6 by 100x3x2 pad 0x1", Forward::two_stores);
  add_float("forward_c40", forward, "3x40x14x14 by 48x3x3 pad 1", Forward::plain);
  add_float("forward_k96_5x5", forward, "2x96x12x12 by 96x5x5 pad 2", Forward::residual);
  add_float("forward_k264", forward, "2x96x12x10 by 264x5x5", Forward::bias_relu);
  add_float("forward_stride_2", forward, "4x72x15x15 by 136x3x3 stride 2 pad 1", Forward::residual);
  add_float("forward_stride_2x1", forward, "5x16x9x9 by 32x1x1 stride 2x1", Forward::plain);
  add_float("forward_dilated", forward, "2x64x20x22 by 192x3x3 pad 2 dilation 2", Forward::two_stores);
  add_float("forward_7x7", forward, "2x32x30x30 by 128x7x7 stride 4x3 pad 3x2", Forward::bias_relu);
  add_float("forward_13x13", forward, "9x128x13x13 by 256x3x3 pad 1", Forward::row_major_store);
  add_float("forward_many_tiles", forward, "40x32x33x31 by 128x3x4 pad 1x2", Forward::bias_relu);
  add_float("forward_packed", forward, "3x64x9x11 by 64x3x3 pad 1 f32 row_major", Forward::bias_relu);
  add_float("forward_rows_3x3", forward, "32x3x64x64 by 64x3x3 pad 1", Forward::bias_relu);
  add_float("forward_rows_7x7", forward, "4x3x112x114 by 64x7x7 stride 2 pad 3", Forward::bias_relu);
  add_float("forward_rows_11x11", forward, "3x3x131x127 by 96x11x11 stride 4 pad 2 f32 row_major", Forward::bias_relu);
  add_float("forward_rows_small_fall_back", forward, "2x3x32x32 by 64x3x3 pad 1", Forward::bias_relu, 0);
  add_float("forward_falls_back_c1", forward, "3x1x28x28 by 32x5x5 pad 2", Forward::bias_relu, 0);
  add_float("input_grad_tiny", input_grad, "1x64x5x7 by 8x3x3 pad 1", true);
  add_float("input_grad_c12", input_grad, "2x12x9x9 by 20x3x2 pad 1x0", false);
  add_float("input_grad_c64", input_grad, "2x64x27x27 by 192x5x5 pad 2", true);
  add_float("input_grad_c96", input_grad, "2x96x12x12 by 256x5x5", true);
  add_float("input_grad_unpadded", input_grad, "2x64x9x8 by 136x3x5 pad 2x0", true);
  add_float("input_grad_c200", input_grad, "3x200x13x6 by 128x3x2 pad 1x0", false);
  add_float("input_grad_c256", input_grad, "5x256x13x13 by 384x3x4 pad 1", true);
  add_float("input_grad_dilated", input_grad, "4x192x14x15 by 64x3x3 pad 2x1 dilation 2x1", true);
  add_float("input_grad_phases", input_grad, "24x64x57x56 by 72x3x3 stride 2 pad 1", true, 4);
  add_float("input_grad_phases_7x7", input_grad, "3x64x57x40 by 64x7x7 stride 2 pad 3x2", false);
  add_float("input_grad_stride_2_falls_back", input_grad, "2x32x9x9 by 32x3x3 stride 2 pad 1", true, 0);
  add_float("filter_grad_tiny", filter_grad, "1x64x5x7 by 8x3x3 pad 1", Gradient::stored);
  add_float("filter_grad_c4", filter_grad, "3x4x9x9 by 4x3x3 pad 1", Gradient::stored);
  add_float("filter_grad_c20", filter_grad, "3x20x19x19 by 36x3x5 pad 0x2", Gradient::updated);
  add_float("filter_grad_c100", filter_grad, "2x100x9x12 by 64x3x3 pad 1", Gradient::stored);
  add_float("filter_grad_c96", filter_grad, "5x96x13x6 by 200x3x2 pad 1x0", Gradient::stored);
  add_float("filter_grad_stride_2", filter_grad, "4x64x15x15 by 136x3x3 stride 2 pad 1", Gradient::updated);
  add_float("filter_grad_5x5", filter_grad, "2x64x27x27 by 192x5x5 pad 2", Gradient::updated);
  add_float("filter_grad_13x13", filter_grad, "9x128x13x13 by 256x3x3 pad 1", Gradient::stored);
  add_float("filter_grad_1x1", filter_grad, "1x32x6x6 by 1024x1x1", Gradient::updated);

  add_float("filter_grad_rows_few_fall_back", filter_grad, "32x3x64x64 by 64x3x3 pad 1", Gradient::updated, 0);
  add_float("filter_grad_rows_7x7", filter_grad, "16x3x112x114 by 64x7x7 stride 2 pad 3", Gradient::stored);
}

/// f32 layers in halves: a kernel for scales and halves of each operand; three of row-packed images, whose padding lies
/// between the two, and two of row-packed filters; in groups, a filter gradient's scales of channels are repeated for
/// each filter.
inline void add_half_plane_cases(std::vector<Case>& all) {
  for (Math math : {Math::tf32, Math::fp32}) {
    const auto add32 = [&](const std::string& name, int kernels, auto make, Layer layer, auto what, int added = 2) {
      const std::string full = name + (math == Math::tf32 ? "_tf32" : "_fp32");
      layer.dtype = Dtype::f32, layer.math = math;
      all.push_back({full, kernels, [=] { return make(full, layer, what); }, -added, math, true});
    };
    add32("forward_tiny", 1, forward, "1x8x5x7 by 8x3x3 pad 1", Forward::bias_relu);
    add32("forward_k96_5x5", 1, forward, "2x96x12x12 by 96x5x5 pad 2", Forward::residual);
    add32("forward_k264", 1, forward, "2x96x12x10 by 264x5x5", Forward::bias_relu);
    add32("forward_stride_2", 1, forward, "4x72x15x15 by 136x3x3 stride 2 pad 1", Forward::residual);
    add32("forward_k64", 1, forward, "6x128x30x30 by 64x3x3 pad 1", Forward::two_stores);
    add32("forward_13x13", 1, forward, "9x128x13x13 by 256x3x3 pad 1", Forward::row_major_store);
    add32("forward_packed", 1, forward, "3x64x9x11 by 64x3x3 pad 1 f32 row_major", Forward::bias_relu);
    add32("forward_unfolded_c12", 1, forward, "2x12x9x9 by 32x3x3", Forward::bias_relu, 4);
    add32("forward_rows_c1", 1, forward, "3x1x28x28 by 32x5x5 pad 2", Forward::bias_relu, 5);
    add32("forward_rows_7x7", 1, forward, "2x3x31x29 by 64x7x7 stride 2 pad 3", Forward::bias_relu, 5);
    if (math == Math::tf32) {
      add32("norm_k72", 1, with_norm, "3x64x17x13 by 72x3x3 pad 1", Norm::forward);
      add32("norm_k256_1x1", 1, with_norm, "5x64x28x28 by 256x1x1", Norm::forward);
      add32("norm_grad_c128", 1, with_norm, "16x128x56x56 by 512x1x1", Norm::backward);
      add32("figures_k72", 1, with_figures, "3x64x17x13 by 72x3x3 pad 1", Figures::sum);
      add32("figures_k256_1x1", 1, with_figures, "5x64x28x28 by 256x1x1", Figures::moments);
    }
    const char* grouped = "4x96x14x15 by 192x3x3 pad 1 groups 3";
    add32("forward_groups", 1, forward, grouped, Forward::residual);
    add32("input_grad_groups", 1, input_grad, grouped, true);
    add32("filter_grad_groups", 1, filter_grad, grouped, Gradient::updated, 3);
    add32("input_grad_tiny", 1, input_grad, "1x64x5x7 by 8x3x3 pad 1", true);
    add32("input_grad_c96", 1, input_grad, "2x96x12x12 by 256x5x5", true);
    add32("input_grad_c256", 1, input_grad, "5x256x13x13 by 384x3x3 pad 1", false);
    add32("input_grad_phases", 4, input_grad, "2x32x9x9 by 32x3x3 stride 2 pad 1", true, 8);  // their filters each
    // The index is made with the output (one kernel less), and dy is made in halves (no filling).
    add32("pooled_2x2", 3, pooled_gradient, "3x24x14x16 by 64x3x3 pad 1", std::vector{2, 2}, 1);
    add32("pooled_3x3", 3, pooled_gradient, "2x64x27x27 by 64x3x3 pad 1", std::vector{3, 3}, 1);
    add32("filter_grad_tiny", 1, filter_grad, "1x64x5x7 by 8x3x3 pad 1", Gradient::with_bias);
    add32("filter_grad_c96", 1, filter_grad, "5x96x13x6 by 200x3x2 pad 1x0", Gradient::stored);
    add32("filter_grad_stride_2", 1, filter_grad, "4x64x15x15 by 136x3x3 stride 2 pad 1", Gradient::updated);
    add32("filter_grad_5x5", 1, filter_grad, "2x64x27x27 by 192x5x5 pad 2", Gradient::updated);
    add32("filter_grad_unfolded_c1", 1, filter_grad, "3x1x28x28 by 32x5x5 pad 2", Gradient::updated, 3);
    add32("filter_grad_rows_c2", 1, filter_grad, "3x2x28x28 by 32x5x5 pad 2", Gradient::updated, 4);
    add32("filter_grad_rows_7x7", 1, filter_grad, "2x3x31x29 by 64x7x7 stride 2 pad 3", Gradient::stored, 4);
    const bool rows =
        math == Math::fp32;  // tf32 takes the kernels for first layers, whose gradient is a kernel of its own
    add32("forward_stride_4", 1, forward, "2x3x47x47 by 64x11x11 stride 4 pad 2", Forward::bias_relu, rows ? 5 : 2);
    add32("filter_grad_stride_4", 1, filter_grad, "2x3x47x47 by 64x11x11 stride 4 pad 2", Gradient::updated,
          rows ? 4 : 3);
    add32("forward_3x3", 1, forward, "2x3x32x32 by 64x3x3 pad 1", Forward::bias_relu, rows ? 5 : 2);
    add32("filter_grad_3x3", 1, filter_grad, "2x3x32x32 by 64x3x3 pad 1", Gradient::with_bias, rows ? 4 : 3);
  }

  // Matrices, where the library takes longer.
  const auto add_matrices = [&](const std::string& name, int kernels, auto make, Math math) {
    all.push_back({name, kernels, make, kernels > 0 ? -2 : -1, math, true});
  };
  for (const bool rows_of_b : {true, false}) {
    const std::string name = rows_of_b ? "matrix_product_fp32" : "matrix_product_columns_fp32";
    add_matrices(
        name, 1, [=] { return matrix_product(name, 1536, 1544, 1024, Dtype::f32, rows_of_b, Math::fp32); }, Math::fp32);
  }
  add_matrices(
      "matrix_product_tf32", 1,
      [] { return matrix_product("matrix_product_tf32", 4096, 2048, 2048, Dtype::f32, true, Math::tf32); }, Math::tf32);
  add_matrices(
      "matrix_product_few_terms_falls_back_fp32", 0,
      [] { return matrix_product("matrix_product", 1536, 1536, 64, Dtype::f32, true, Math::fp32); }, Math::fp32);
  add_matrices(
      "matrix_update_fp32", 1,
      [] { return matrix_update("matrix_update", 2000, 1040, 1032, Dtype::f32, true, Math::fp32); }, Math::fp32);
}

}  // namespace nixie::hopper_plans
