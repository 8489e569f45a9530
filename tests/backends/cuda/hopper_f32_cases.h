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
  add_float("forward_one_pixel", forward, {1, 128, 1, 1, 256, 1, 1}, Forward::plain);
  add_float("forward_c4", forward, {1, 4, 5, 7, 4, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_tiny", forward, {1, 8, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_c24", forward, {2, 24, 13, 6, 24, 3, 2, {1, 1}, {1, 0}}, Forward::bias_relu);
  add_float("forward_c36", forward, {2, 36, 13, 6, 100, 3, 2, {1, 1}, {0, 1}}, Forward::two_stores);
  add_float("forward_c40", forward, {3, 40, 14, 14, 48, 3, 3, {1, 1}, {1, 1}}, Forward::plain);
  add_float("forward_k96_5x5", forward, {2, 96, 12, 12, 96, 5, 5, {1, 1}, {2, 2}}, Forward::residual);
  add_float("forward_k264", forward, {2, 96, 12, 10, 264, 5, 5}, Forward::bias_relu);
  add_float("forward_stride_2", forward, {4, 72, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Forward::residual);
  add_float("forward_stride_2x1", forward, {5, 16, 9, 9, 32, 1, 1, {2, 1}}, Forward::plain);
  add_float("forward_dilated", forward, {2, 64, 20, 22, 192, 3, 3, {1, 1}, {2, 2}, {2, 2}}, Forward::two_stores);
  add_float("forward_7x7", forward, {2, 32, 30, 30, 128, 7, 7, {4, 3}, {3, 2}}, Forward::bias_relu);
  add_float("forward_13x13", forward, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
  add_float("forward_many_tiles", forward, {40, 32, 33, 31, 128, 3, 4, {1, 1}, {1, 2}}, Forward::bias_relu);
  add_float("forward_packed", forward, {3, 64, 9, 11, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32, true},
            Forward::bias_relu);
  add_float("forward_rows_3x3", forward, {32, 3, 64, 64, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
  add_float("forward_rows_7x7", forward, {4, 3, 112, 114, 64, 7, 7, {2, 2}, {3, 3}}, Forward::bias_relu);
  add_float("forward_rows_11x11", forward, {3, 3, 131, 127, 96, 11, 11, {4, 4}, {2, 2}, {1, 1}, Dtype::f32, true},
            Forward::bias_relu);
  add_float("forward_rows_small_fall_back", forward, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu, 0);
  add_float("forward_falls_back_c1", forward, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Forward::bias_relu, 0);
  add_float("input_grad_tiny", input_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, true);
  add_float("input_grad_c12", input_grad, {2, 12, 9, 9, 20, 3, 2, {1, 1}, {1, 0}}, false);
  add_float("input_grad_c64", input_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, true);
  add_float("input_grad_c96", input_grad, {2, 96, 12, 12, 256, 5, 5}, true);
  add_float("input_grad_unpadded", input_grad, {2, 64, 9, 8, 136, 3, 5, {1, 1}, {2, 0}}, true);
  add_float("input_grad_c200", input_grad, {3, 200, 13, 6, 128, 3, 2, {1, 1}, {1, 0}}, false);
  add_float("input_grad_c256", input_grad, {5, 256, 13, 13, 384, 3, 4, {1, 1}, {1, 1}}, true);
  add_float("input_grad_dilated", input_grad, {4, 192, 14, 15, 64, 3, 3, {1, 1}, {2, 1}, {2, 1}}, true);
  add_float("input_grad_phases", input_grad, {24, 64, 57, 56, 72, 3, 3, {2, 2}, {1, 1}}, true, 4);
  add_float("input_grad_phases_7x7", input_grad, {3, 64, 57, 40, 64, 7, 7, {2, 2}, {3, 2}}, false);
  add_float("input_grad_stride_2_falls_back", input_grad, {2, 32, 9, 9, 32, 3, 3, {2, 2}, {1, 1}}, true, 0);
  add_float("filter_grad_tiny", filter_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c4", filter_grad, {3, 4, 9, 9, 4, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c20", filter_grad, {3, 20, 19, 19, 36, 3, 5, {1, 1}, {0, 2}}, Gradient::updated);
  add_float("filter_grad_c100", filter_grad, {2, 100, 9, 12, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_c96", filter_grad, {5, 96, 13, 6, 200, 3, 2, {1, 1}, {1, 0}}, Gradient::stored);
  add_float("filter_grad_stride_2", filter_grad, {4, 64, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Gradient::updated);
  add_float("filter_grad_5x5", filter_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, Gradient::updated);
  add_float("filter_grad_13x13", filter_grad, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Gradient::stored);
  add_float("filter_grad_1x1", filter_grad, {1, 32, 6, 6, 1024, 1, 1}, Gradient::updated);

  add_float("filter_grad_rows_few_fall_back", filter_grad, {32, 3, 64, 64, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::updated,
            0);
  add_float("filter_grad_rows_7x7", filter_grad, {16, 3, 112, 114, 64, 7, 7, {2, 2}, {3, 3}}, Gradient::stored);
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
    add32("forward_tiny", 1, forward, {1, 8, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu);
    add32("forward_k96_5x5", 1, forward, {2, 96, 12, 12, 96, 5, 5, {1, 1}, {2, 2}}, Forward::residual);
    add32("forward_k264", 1, forward, {2, 96, 12, 10, 264, 5, 5}, Forward::bias_relu);
    add32("forward_stride_2", 1, forward, {4, 72, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Forward::residual);
    add32("forward_k64", 1, forward, {6, 128, 30, 30, 64, 3, 3, {1, 1}, {1, 1}}, Forward::two_stores);
    add32("forward_13x13", 1, forward, {9, 128, 13, 13, 256, 3, 3, {1, 1}, {1, 1}}, Forward::row_major_store);
    add32("forward_packed", 1, forward, {3, 64, 9, 11, 64, 3, 3, {1, 1}, {1, 1}, {1, 1}, Dtype::f32, true},
          Forward::bias_relu);
    add32("forward_unfolded_c12", 1, forward, {2, 12, 9, 9, 32, 3, 3}, Forward::bias_relu, 4);
    add32("forward_rows_c1", 1, forward, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Forward::bias_relu, 5);
    add32("forward_rows_7x7", 1, forward, {2, 3, 31, 29, 64, 7, 7, {2, 2}, {3, 3}}, Forward::bias_relu, 5);
    if (math == Math::tf32) {
      add32("norm_k72", 1, with_norm, {3, 64, 17, 13, 72, 3, 3, {1, 1}, {1, 1}}, Norm::forward);
      add32("norm_k256_1x1", 1, with_norm, {5, 64, 28, 28, 256, 1, 1}, Norm::forward);
      add32("norm_grad_c128", 1, with_norm, {16, 128, 56, 56, 512, 1, 1}, Norm::backward);
      add32("figures_k72", 1, with_figures, {3, 64, 17, 13, 72, 3, 3, {1, 1}, {1, 1}}, Figures::sum);
      add32("figures_k256_1x1", 1, with_figures, {5, 64, 28, 28, 256, 1, 1}, Figures::moments);
    }
    Layer grouped{4, 96, 14, 15, 192, 3, 3, {1, 1}, {1, 1}};
    grouped.groups = 3;
    add32("forward_groups", 1, forward, grouped, Forward::residual);
    add32("input_grad_groups", 1, input_grad, grouped, true);
    add32("filter_grad_groups", 1, filter_grad, grouped, Gradient::updated, 3);
    add32("input_grad_tiny", 1, input_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, true);
    add32("input_grad_c96", 1, input_grad, {2, 96, 12, 12, 256, 5, 5, {1, 1}, {0, 0}}, true);
    add32("input_grad_c256", 1, input_grad, {5, 256, 13, 13, 384, 3, 3, {1, 1}, {1, 1}}, false);
    add32("input_grad_phases", 4, input_grad, {2, 32, 9, 9, 32, 3, 3, {2, 2}, {1, 1}}, true, 8);  // their filters each
    // The index is made with the output (one kernel less), and dy is made in halves (no filling).
    add32("pooled_2x2", 3, pooled_gradient, {3, 24, 14, 16, 64, 3, 3, {1, 1}, {1, 1}}, std::vector{2, 2}, 1);
    add32("pooled_3x3", 3, pooled_gradient, {2, 64, 27, 27, 64, 3, 3, {1, 1}, {1, 1}}, std::vector{3, 3}, 1);
    add32("filter_grad_tiny", 1, filter_grad, {1, 64, 5, 7, 8, 3, 3, {1, 1}, {1, 1}}, Gradient::with_bias);
    add32("filter_grad_c96", 1, filter_grad, {5, 96, 13, 6, 200, 3, 2, {1, 1}, {1, 0}}, Gradient::stored);
    add32("filter_grad_stride_2", 1, filter_grad, {4, 64, 15, 15, 136, 3, 3, {2, 2}, {1, 1}}, Gradient::updated);
    add32("filter_grad_5x5", 1, filter_grad, {2, 64, 27, 27, 192, 5, 5, {1, 1}, {2, 2}}, Gradient::updated);
    add32("filter_grad_unfolded_c1", 1, filter_grad, {3, 1, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Gradient::updated, 3);
    add32("filter_grad_rows_c2", 1, filter_grad, {3, 2, 28, 28, 32, 5, 5, {1, 1}, {2, 2}}, Gradient::updated, 4);
    add32("filter_grad_rows_7x7", 1, filter_grad, {2, 3, 31, 29, 64, 7, 7, {2, 2}, {3, 3}}, Gradient::stored, 4);
    const bool rows =
        math == Math::fp32;  // tf32 takes the kernels for first layers, whose gradient is a kernel of its own
    add32("forward_stride_4", 1, forward, {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, Forward::bias_relu, rows ? 5 : 2);
    add32("filter_grad_stride_4", 1, filter_grad, {2, 3, 47, 47, 64, 11, 11, {4, 4}, {2, 2}}, Gradient::updated,
          rows ? 4 : 3);
    add32("forward_3x3", 1, forward, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Forward::bias_relu, rows ? 5 : 2);
    add32("filter_grad_3x3", 1, filter_grad, {2, 3, 32, 32, 64, 3, 3, {1, 1}, {1, 1}}, Gradient::with_bias,
          rows ? 4 : 3);
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
