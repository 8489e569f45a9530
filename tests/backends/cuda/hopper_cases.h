// The layers that Hopper's kernels are tested over: every role, strides, paddings, odd sizes, epilogues, fallbacks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nixie/tests/backends/cuda/hopper_f32_cases.h"

namespace nixie::hopper_plans {

inline int fewer_by(Forward) { return 0; }
inline int fewer_by(Norm) { return 0; }
inline int fewer_by(Figures) { return 0; }
inline int fewer_by(bool) { return 0; }
inline int fewer_by(Gradient what) { return what == Gradient::with_bias || what == Gradient::updated; }
inline int fewer_by(First what) { return what == First::forward ? 0 : what == First::trained ? 1 : 4; }

inline std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, int kernels, auto make, const Layer& layer, auto what) {
    all.push_back({name, kernels, [=] { return make(name, layer, what); }, fewer_by(what) + layer.bytes});
  };
  const Dtype bf16 = Dtype::bf16;
  add("forward_one_pixel", 1, forward, "1x128x1x1 by 256x1x1", Forward::plain);
  add("forward_tiny", 1, forward, "1x8x5x7 by 8x3x3 pad 1", Forward::bias_relu);
  add("forward_k24", 1, forward, "2x24x13x6 by 24x3x2 pad 1x0 bf16", Forward::bias_relu);
  add("forward_k96_5x5", 1, forward, "2x96x12x12 by 96x5x5 pad 2", Forward::residual);
  add("forward_k264", 1, forward, "2x96x12x10 by 264x5x5", Forward::bias_relu);
  add("forward_stride_2", 1, forward, "4x72x15x15 by 136x3x3 stride 2 pad 1", Forward::residual);
  add("forward_stride_2x1", 1, forward, "5x16x9x9 by 32x1x1 stride 2x1 bf16", Forward::plain);
  add("forward_dilated", 1, forward, "2x64x20x22 by 192x3x3 pad 2 dilation 2", Forward::two_stores);
  add("forward_7x7", 1, forward, "2x32x30x30 by 128x7x7 stride 4x3 pad 3x2", Forward::bias_relu);
  add("forward_13x13", 1, forward, "9x128x13x13 by 256x3x3 pad 1", Forward::row_major_store);
  add("forward_27x27", 1, forward, "3x64x27x27 by 192x5x5 pad 2 bf16", Forward::bias_relu);
  add("forward_k384", 1, forward, "7x64x13x13 by 384x3x3 pad 1", Forward::residual);
  add("forward_packed", 1, forward, "3x64x9x11 by 64x3x3 pad 1 row_major", Forward::bias_relu);
  add("forward_patches", 1, forward, "3x64x28x24 by 128x3x3 pad 1", Forward::residual);
  add("forward_patches_c128", 1, forward, "6x128x56x56 by 256x3x3 pad 1", Forward::bias_relu);
  add("forward_patches_of_pairs", 1, forward, "15x72x28x28 by 128x3x3 pad 1", Forward::two_stores);
  add("forward_patches_5x5", 1, forward, "2x96x28x28 by 256x5x5 bf16", Forward::bias_relu);
  add("forward_patches_k64", 1, forward, "1x80x28x23 by 64x3x3 pad 1 bf16", Forward::bias_relu);
  add("forward_patches_k192", 1, forward, "2x64x27x32 by 192x3x3 pad 1", Forward::row_major_store);
  // Few channels in slabs of 32 and 16, few filters; filters that stay in shared memory or do not.
  add("forward_patches_c32_k32", 1, forward, "3x32x32x33 by 32x3x3 pad 1", Forward::residual);
  add("forward_patches_c16_4x4", 1, forward, "3x16x31x27 by 64x4x4", Forward::bias_relu);
  add("forward_patches_c24_of_pairs", 1, forward, "5x24x16x12 by 72x3x3 pad 1 bf16", Forward::two_stores);
  add("forward_patches_c32_k256_5x5", 1, forward, "2x32x28x24 by 256x5x5 pad 2", Forward::bias_relu);
  add("forward_patches_c96_k32", 1, forward, "2x96x30x23 by 32x3x3 pad 1", Forward::residual);
  // Few tiles of many terms, which blocks share.
  add("forward_split", 1, forward, "1x512x7x9 by 96x3x3 pad 1", Forward::residual);
  add("forward_split_k1000_1x1", 1, forward, "2x2048x3x3 by 1000x1x1 bf16", Forward::bias_relu);
  // Pixels off sectors of 32 bytes, for which pairs of blocks share filters; the last block of a pair without a tile.
  add("forward_in_pairs", 1, forward, "3x200x19x19 by 136x1x1", Forward::residual);
  add("norm_in_pairs", 1, with_norm, "3x104x19x19 by 264x1x1", Norm::forward);
  add("input_grad_in_pairs", 1, input_grad, "3x136x19x19 by 200x1x1 bf16", true);
  // Filters that are no multiple of 8.
  add("forward_k188", 1, forward, "1x64x14x13 by 188x1x1", Forward::residual);
  add("forward_k37_row_major", 1, forward, "2x72x9x11 by 37x3x3 pad 1 bf16", Forward::row_major_store);
  add("forward_falls_back_c12", 0, forward, "2x12x9x9 by 32x3x3", Forward::bias_relu);

  add("norm_tiny", 1, with_norm, "1x8x5x7 by 8x3x3 pad 1", Norm::forward);
  add("norm_k72", 1, with_norm, "3x64x17x13 by 72x3x3 pad 1", Norm::forward);
  add("norm_k256_1x1", 1, with_norm, "5x64x28x28 by 256x1x1", Norm::forward);
  add("norm_c16_k96", 1, with_norm, "2x16x24x20 by 96x1x1", Norm::forward);
  add("norm_c144_k24", 1, with_norm, "3x144x17x13 by 24x1x1", Norm::forward);
  // Filters that stay in shared memory while a block goes through its tiles.
  add("norm_resident_k128", 1, with_norm, "9x64x64x64 by 256x1x1", Norm::forward);
  add("norm_resident_c144_k24", 1, with_norm, "9x144x64x60 by 24x1x1", Norm::forward);
  add("norm_k1160_stride_2", 1, with_norm, "3x32x17x17 by 1160x1x1 stride 2", Norm::forward);
  add("norm_patches_k64", 1, with_norm, "3x16x28x24 by 64x3x3 pad 1", Norm::forward);
  add("norm_patches_k128", 1, with_norm, "3x16x28x24 by 128x3x3 pad 1", Norm::forward);
  add("norm_patches_c32_k32", 1, with_norm, "3x32x32x32 by 32x3x3 pad 1", Norm::forward);
  add("figures_k72", 1, with_figures, "3x64x17x13 by 72x3x3 pad 1", Figures::sum);
  add("figures_k256_1x1", 1, with_figures, "5x64x28x28 by 256x1x1", Figures::moments);
  add("figures_resident", 1, with_figures, "9x64x64x64 by 256x1x1 bf16", Figures::sum);
  add("figures_patches_k64", 1, with_figures, "3x16x28x24 by 64x3x3 pad 1", Figures::sum);
  add("figures_patches_k128", 1, with_figures, "3x16x28x24 by 128x3x3 pad 1", Figures::moments);
  add("norm_beside_images", 1, with_norm, "9x64x64x64 by 64x1x1", Norm::beside_images);
  const char* parted = "4x96x14x15 by 192x3x3 pad 1 groups 3";
  add("norm_groups", 1, with_norm, parted, Norm::forward);
  add("figures_groups", 1, with_figures, parted, Figures::moments);
  add("norm_of_two", 2, with_norm, "3x48x14x14 by 200x1x1", Norm::two_layers);
  // Gradients whose sums move where that pays: of many pixels.
  add("norm_grad_c128", 1, with_norm, "16x128x56x56 by 512x1x1", Norm::backward);
  add("norm_grad_c64_gate", 1, with_norm, "32x64x56x56 by 512x1x1", Norm::backward_and_gate);
  // In bf16 few terms: gradients above 16 would be rounded where they are stored, and their sums differ from doubles'.
  add("norm_grad_c256_bf16", 1, with_norm, "20x256x28x28 by 32x1x1 bf16", Norm::backward);
  add("norm_grad_resident", 1, with_norm, "9x128x64x64 by 64x1x1", Norm::backward_and_gate);
  add("norm_grad_of_two_c200", 1, with_norm, "40x200x28x28 by 48x1x1", Norm::backward_of_two);
  add("norm_grad_of_two_bf16", 1, with_norm, "40x128x28x28 by 48x1x1 bf16", Norm::backward_of_two);
  add("norm_grad_patches_k16", 1, with_norm, "64x64x28x28 by 16x3x3 pad 1", Norm::backward);
  add("norm_grad_patches_of_pairs", 1, with_norm, "63x128x28x28 by 16x3x3 pad 1", Norm::backward_and_gate);
  add("norm_grad_patches_bf16", 1, with_norm, "40x64x32x32 by 16x3x1 pad 1x0 bf16", Norm::backward_of_two);
  add("norm_grad_stays", 1, with_norm, "3x72x17x13 by 64x3x3 pad 1", Norm::backward_and_gate);
  add("norm_grad_patches_c64", 1, with_norm, "3x64x28x24 by 16x3x3 pad 1", Norm::backward);

  add("input_grad_resident", 1, input_grad, "9x24x64x60 by 144x1x1", true);
  add("input_grad_split", 1, input_grad, "1x72x10x17 by 512x4x5 pad 1x2", true);
  add("input_grad_tiny", 1, input_grad, "1x64x5x7 by 8x3x3 pad 1", true);
  add("input_grad_c64", 1, input_grad, "2x64x27x27 by 192x5x5 pad 2", true);
  add("input_grad_c96", 1, input_grad, "2x96x12x12 by 256x5x5 bf16", true);
  add("input_grad_c64_3x3", 1, input_grad, "3x64x17x30 by 72x3x3 pad 1", true);
  add("input_grad_c64_unpadded", 1, input_grad, "2x64x9x8 by 136x3x5 pad 2x0 bf16", true);
  add("input_grad_c32_5x5", 1, input_grad, "5x32x31x7 by 64x3x5 pad 0x1", false);
  add("input_grad_c96_padded", 1, input_grad, "1x96x40x41 by 24x3x5 pad 2x4", true);
  add("input_grad_one_column", 1, input_grad, "7x64x5x5 by 64x5x5", true);
  add("input_grad_few_positions", 1, input_grad, "1x32x2x5 by 16x1x5 pad 0x2", true);
  add("input_grad_c200", 1, input_grad, "3x200x13x6 by 128x3x2 pad 1x0", false);
  add("input_grad_c256", 1, input_grad, "5x256x13x13 by 384x3x3 pad 1", true);
  add("input_grad_dilated", 1, input_grad, "4x192x14x15 by 64x3x3 pad 2x1 dilation 2x1", true);
  add("input_grad_patches_c64", 1, input_grad, "2x64x27x47 by 136x3x3 pad 1", true);
  add("input_grad_patches", 1, input_grad, "5x64x112x112 by 128x3x3 pad 1", true);
  add("input_grad_patches_c256", 1, input_grad, "1x256x56x56 by 128x3x3 pad 1 bf16", true);
  add("input_grad_patches_k32", 1, input_grad, "2x32x29x31 by 32x3x3 pad 1", true);
  add("input_grad_patches_k16_c48", 1, input_grad, "3x48x32x16 by 16x2x3 pad 1x0 bf16", false);
  add("input_grad_patches_padded", 1, input_grad, "3x128x28x32 by 72x3x5 pad 0x4", false);
  // Strided ones: a kernel for each phase that meets taps; filters of phases are packed, and zeros are kernels, too.
  const auto add_phases = [&](const std::string& name, int kernels, const Layer& layer, bool gate) {
    all.push_back({"input_grad_phases_" + name, kernels, [=] { return input_grad(name, layer, gate); }, 0});
  };
  add_phases("3x3", 4, "8x64x57x56 by 72x3x3 stride 2 pad 1", true);
  add_phases("1x1", 1, "9x256x56x55 by 264x1x1 stride 2", true);
  // Where launches weigh more: all phases at once, and a kernel that puts them beside each other.
  add_phases("5x5_merged", 1, "3x96x41x38 by 128x5x5 stride 2 pad 2x1 bf16", false);
  add_phases("11x11_merged", 1, "2x32x60x83 by 64x11x11 stride 2 pad 2x5", true);
  add_phases("7x3_stride_3x1_merged", 1, "4x64x40x33 by 128x7x3 stride 3x1 pad 0x1", true);
  add_phases("dilated_merged", 1, "5x64x50x49 by 136x3x3 stride 3 pad 4x2 dilation 2", false);
  add("input_grad_stride_2_falls_back", 0, input_grad, "2x32x9x9 by 32x3x3 stride 2 pad 1", true);

  add("filter_grad_tiny", 1, filter_grad, "1x64x5x7 by 8x3x3 pad 1", Gradient::with_bias);
  add("filter_grad_c96", 1, filter_grad, "5x96x13x6 by 200x3x2 pad 1x0", Gradient::stored);
  add("filter_grad_c48", 1, filter_grad, "3x48x19x19 by 64x3x3 bf16", Gradient::half);
  add("filter_grad_stride_2", 1, filter_grad, "4x64x15x15 by 136x3x3 stride 2 pad 1", Gradient::updated);
  add("filter_grad_5x5", 1, filter_grad, "2x64x27x27 by 192x5x5 pad 2", Gradient::updated);
  add("filter_grad_13x13", 1, filter_grad, "9x128x13x13 by 256x3x3 pad 1 bf16", Gradient::with_bias);
  add("filter_grad_c16_k96", 1, filter_grad, "3x16x24x20 by 96x1x1", Gradient::with_bias);
  add("filter_grad_1x1", 1, filter_grad, "1x32x6x6 by 1024x1x1", Gradient::updated);
  // Tiles whose epilogues run under each other's products; more stages than two rounds of their ring.
  add("filter_grad_in_turn", 1, filter_grad, "20x2048x6x6 by 2304x1x1", Gradient::updated);
  // Few tiles of many pixels, of which two blocks of a cluster share each; some clusters have several.
  add("filter_grad_clusters", 1, filter_grad, "32x256x14x14 by 384x1x1", Gradient::updated);
  add("filter_grad_clusters_bias", 1, filter_grad, "25x136x13x13 by 200x1x1 bf16", Gradient::with_bias);
  add("filter_grad_clusters_half", 1, filter_grad, "40x128x14x14 by 256x1x1", Gradient::half);
  add("filter_grad_clusters_in_rounds", 1, filter_grad, "16x768x9x9 by 1024x1x1", Gradient::stored);
  // One or two tiles that nearly all blocks have parts of: groups of threads share these.
  add("filter_grad_many_parts", 1, filter_grad, "9x72x39x41 by 40x1x1", Gradient::with_bias);
  add("filter_grad_many_parts_updated", 1, filter_grad, "7x56x48x41 by 24x1x1 bf16", Gradient::updated);
  // Sums longer than tensor cores add in one accumulator: more parts than blocks.
  add("filter_grad_long_sums", 1, filter_grad, "1x64x200x200 by 16x15x15 pad 7", Gradient::with_bias);
  // Half of the last slice of channels is empty.
  add("filter_grad_c8", 1, filter_grad, "2x8x9x9 by 16x3x3", Gradient::stored);
  add("filter_grad_c24", 1, filter_grad, "3x24x19x11 by 40x2x3 pad 1x0 bf16", Gradient::updated);
  add("filter_grad_c456_stride_2", 1, filter_grad, "3x456x14x15 by 272x1x1 stride 2", Gradient::with_bias);
  // From patches that taps share: rows of runs, runs down, half slices, images side by side, filters in several boxes.
  add("filter_grad_patches", 1, filter_grad, "3x64x28x24 by 64x3x3 pad 1", Gradient::updated);
  add("filter_grad_patches_one_image", 1, filter_grad, "1x64x57x63 by 64x3x3 pad 1", Gradient::with_bias);
  add("filter_grad_patches_c256_k192", 1, filter_grad, "5x256x7x7 by 192x3x3 pad 1 bf16", Gradient::with_bias);
  add("filter_grad_patches_c96_k128", 1, filter_grad, "9x96x14x14 by 128x3x3 pad 1", Gradient::half);
  add("filter_grad_patches_1x7", 1, filter_grad, "5x128x17x17 by 136x1x7 pad 0x3", Gradient::updated);
  add("filter_grad_patches_7x1", 1, filter_grad, "5x64x17x19 by 64x7x1 pad 3x0 bf16", Gradient::with_bias);
  add("filter_grad_patches_1x3", 1, filter_grad, "3x64x31x33 by 128x1x3 pad 0x1", Gradient::with_bias);
  add("filter_grad_patches_5x5", 1, filter_grad, "4x64x21x13 by 64x5x5 pad 2", Gradient::with_bias);
  add("filter_grad_patches_dilated", 1, filter_grad, "3x64x33x35 by 64x3x3 pad 4x2 dilation 4x2", Gradient::stored);
  add("filter_grad_patches_c32_k128", 1, filter_grad, "6x32x28x28 by 128x3x3 pad 1", Gradient::updated);
  add("filter_grad_patches_c16", 1, filter_grad, "2x16x40x41 by 64x3x3 pad 1", Gradient::with_bias);
  // Images and gradients change places: few filters.
  add("filter_grad_patches_k32", 1, filter_grad, "5x128x28x25 by 32x3x3 pad 1", Gradient::half);
  add("filter_grad_patches_k32_bf16", 1, filter_grad, "3x64x29x33 by 32x5x3 pad 0x2 bf16", Gradient::stored);
  add("filter_grad_patches_k16_dilated", 1, filter_grad, "9x192x14x14 by 16x3x3 pad 3x2 dilation 2", Gradient::stored);
  add("filter_grad_patches_groups", 1, filter_grad, "3x128x26x25 by 128x3x3 pad 1 groups 2", Gradient::updated);
  add("filter_grad_c12_falls_back", 0, filter_grad, "2x12x9x9 by 16x3x3", Gradient::stored);

  const auto add_pool = [&](const std::string& name, int kernels, const Pooling& pooling, Pooled what) {
    all.push_back({name, kernels, [=] { return max_pool(name, pooling, what); }, kernels == 2});
  };
  add_pool("pool_3x3_output", 1, {2, 8, 5, 5, 2, 2, {3, 3}, {2, 2}}, Pooled::output);
  add_pool("pool_3x3", 2, {3, 64, 55, 55, 27, 27, {3, 3}, {2, 2}, {0, 0}, bf16}, Pooled::gated);
  add_pool("pool_2x2", 2, {2, 16, 14, 12, 7, 6, {2, 2}, {2, 2}}, Pooled::gated);
  add_pool("pool_padded", 2, {2, 24, 13, 17, 7, 9, {3, 3}, {2, 2}, {1, 1}}, Pooled::gated);
  add_pool("pool_uneven", 2, {1, 8, 7, 9, 7, 10, {3, 2}, {1, 1}, {1, 1}, bf16}, Pooled::trained);
  add_pool("pool_sparse", 2, {2, 32, 9, 9, 3, 3, {2, 2}, {3, 3}}, Pooled::gated);
  add_pool("pool_ceil_mode", 2, {2, 8, 6, 6, 3, 3, {3, 3}, {2, 2}}, Pooled::gated);
  add_pool("pool_3x3_f32", 2, {3, 64, 27, 29, 13, 14, {3, 3}, {2, 2}, {0, 0}, Dtype::f32}, Pooled::gated);
  add_pool("pool_2x2_f32", 2, {2, 16, 14, 12, 7, 6, {2, 2}, {2, 2}, {0, 0}, Dtype::f32}, Pooled::gated);
  add_pool("pool_uneven_f32", 2, {1, 8, 7, 9, 7, 10, {3, 2}, {1, 1}, {1, 1}, Dtype::f32}, Pooled::trained);
  add_pool("pool_c12_falls_back", 0, {2, 12, 6, 6, 3, 3, {2, 2}, {2, 2}}, Pooled::gated);

  const auto add_update = [&](const std::string& name, int kernels, std::int64_t n, std::int64_t c, std::int64_t k,
                              Dtype dtype, bool with_bias = false) {
    all.push_back(
        {name, kernels, [=] { return matrix_update("matrix_update", n, c, k, dtype, with_bias); }, with_bias});
  };
  add_update("matrix_update", 1, 100, 2112, 2056, Dtype::f16);
  add_update("matrix_update_bf16", 1, 64, 4096, 1024, bf16);
  add_update("matrix_update_300_terms", 1, 300, 136, 2056, Dtype::f16);
  add_update("matrix_update_3_terms", 1, 3, 1032, 1000, bf16);
  add_update("matrix_update_600_terms", 1, 600, 1040, 1032, Dtype::f16);
  add_update("matrix_update_with_bias", 1, 1030, 1552, 776, bf16, true);
  add_update("matrix_update_falls_back", 0, 600, 1024, 512, Dtype::f16);

  const auto add_product = [&](const std::string& name, int kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                               Dtype dtype, bool rows_of_b) {
    all.push_back({name, kernels, [=] { return matrix_product(name, m, n, k, dtype, rows_of_b); }});
  };
  add_product("matrix_product", 1, 1000, 776, 200, Dtype::f16, true);
  add_product("matrix_product_bf16", 1, 4096, 256, 72, bf16, true);
  add_product("matrix_product_columns", 1, 776, 1000, 136, Dtype::f16, false);
  add_product("matrix_product_small_falls_back", 0, 512, 256, 64, Dtype::f16, true);

  const auto add_stored = [&](const std::string& name, int kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                              Dtype of_a, Dtype of_b, bool rows_of_b = false, Math math = Math::fp32) {
    all.push_back({name, kernels, [=] { return stored_product(name, m, n, k, of_a, of_b, rows_of_b, math); }});
  };
  constexpr Dtype e4m3 = Dtype::f8e4m3, e5m2 = Dtype::f8e5m2;
  add_stored("stored_product", 1, 1000, 776, 208, e4m3, e4m3);
  add_stored("stored_product_e5m2", 1, 4096, 256, 144, e5m2, e4m3);
  add_stored("stored_product_long", 1, 896, 904, 4096, e4m3, e5m2);
  add_stored("stored_product_copied", 1, 776, 1000, 272, e4m3, e4m3, true);
  add_stored("stored_product_turned", 1, 784, 1040, 288, e5m2, e4m3, true);
  add_stored("stored_product_bytes", 1, 1000, 776, 208, Dtype::u8, Dtype::i8);
  add_stored("stored_product_bytes_long", 1, 896, 904, 4096, Dtype::i8, Dtype::i8, true);
  add_stored("stored_product_bytes_small_falls_back", 0, 80, 72, 112, Dtype::u8, Dtype::u8);
  add_stored("stored_product_odd_falls_back", 0, 776, 1000, 200, e4m3, e5m2);
  add_stored("stored_product_small_falls_back", 0, 80, 72, 112, e5m2, e4m3, true);
  add_stored("stored_product_ieee", 0, 136, 72, 240, e4m3, e4m3, false, Math::ieee);

  add("first_stride_4", 1, first_layer, "2x3x47x47 by 64x11x11 stride 4 pad 2", First::forward);
  add("first_stride_4_k96", 2, first_layer, "3x3x51x47 by 96x11x9 stride 4 bf16", First::trained);
  add("first_stride_4_overfeat", 2, first_layer, "2x3x231x231 by 96x11x11 stride 4", First::trained);
  add("first_stride_4_wide", 2, first_layer, "1x3x31x95 by 32x10x12 stride 4 pad 2", First::trained);
  add("first_3x3", 2, first_layer, "2x3x32x32 by 64x3x3 pad 1", First::trained);
  add("first_3x3_unpadded", 2, first_layer, "1x3x6x5 by 128x3x3 bf16", First::trained);
  add("first_3x3_pooled", 2, first_layer, "3x3x33x226 by 64x3x3 pad 1", First::pooled);
  add("first_3x3_pooled_k128", 2, first_layer, "2x3x18x20 by 128x3x3", First::pooled);
  add("first_3x3_as_it_lies", 2, first_layer, "2x3x20x37 by 64x3x3 pad 1 row_major", First::trained);
  add("first_3x3_pooled_as_it_lies", 2, first_layer, "3x3x17x50 by 64x3x3 pad 1 bf16 row_major", First::pooled);
  // In f16, which holds every sum: where rounding makes two of a window equal, the first wins, unlike in doubles.
  const auto add_pooled = [&](const std::string& name, const Layer& layer) {
    all.push_back({name, 3, [=] { return first_layer(name, layer, First::pooled); }, 3});
  };
  add_pooled("first_stride_4_pooled", "2x3x231x231 by 96x11x11 stride 4");
  add_pooled("first_stride_4_pooled_k32", "3x3x99x87 by 32x11x11 stride 4");
  add_pooled("first_stride_4_pooled_k64", "1x3x66x63 by 64x10x9 stride 4 pad 2x1");
  add_pooled("pooled_patches", "9x64x28x56 by 256x3x3 pad 1");
  add_pooled("pooled_patches_of_pairs", "18x64x27x28 by 256x3x3 pad 1");
  add_pooled("pooled_patches_5x5", "22x32x28x28 by 256x5x5");
  add("first_3x3_in_rows", 2, first_layer, "2x3x20x40 by 64x3x3 pad 1 row_major", First::trained);
  add("first_3x3_pooled_in_rows", 2, first_layer, "3x3x33x224 by 64x3x3 pad 1 bf16 row_major", First::pooled);
  add("first_3x3_unpadded_in_rows", 2, first_layer, "70x3x31x16 by 64x3x3 row_major", First::pooled);
  add("first_7x7_unfolded", 1, first_layer, "32x3x61x61 by 64x7x7 stride 2 pad 3", First::forward);
  // Bytes, normalised where they are read: one kernel less. Padding is zero afterwards, whatever the shift.
  const auto add_bytes = [&](const std::string& name, Layer layer, First what, int kernels = 2) {
    layer.bytes = true;
    add("first_bytes_" + name, kernels, first_layer, layer, what);
  };
  add_bytes("stride_4", "2x3x47x47 by 64x11x11 stride 4 pad 2", First::trained);
  add_bytes("stride_4_k96", "3x3x51x47 by 96x11x9 stride 4 pad 3x0 bf16", First::trained);
  add_bytes("stride_4_forward", "2x3x30x41 by 32x11x11 stride 4 pad 5x4", First::forward, 1);
  add_bytes("3x3", "2x3x20x37 by 64x3x3 pad 1", First::trained);
  add_bytes("3x3_unpadded", "1x3x6x5 by 128x3x3 bf16", First::trained);
  add_bytes("3x3_pooled", "3x3x17x50 by 64x3x3 pad 1", First::pooled);
  add_bytes("3x3_in_rows", "2x3x20x48 by 64x3x3 pad 1 bf16", First::trained);
  add_bytes("3x3_pooled_in_rows", "3x3x33x224 by 64x3x3 pad 1", First::pooled);
  add_bytes("3x3_unpadded_in_rows", "70x3x31x16 by 64x3x3", First::pooled);
  add_bytes("stride_4_pooled", "1x3x66x63 by 64x10x9 stride 4 pad 2x1", First::pooled, 3);
  // Layers that no such kernel takes are normalised by the kernel that unfolds images.
  add_bytes("7x7_unfolded", "32x3x61x61 by 64x7x7 stride 2 pad 3", First::forward, 1);

  add_multiply_add_cases(all);
  add_half_plane_cases(all);

  // Lowering adds copies and heads on their own, and drops maps that first layers compute themselves.
  const std::map<std::string, int> fewer{{"forward_packed", -2},
                                         {"first_7x7_unfolded", -2},
                                         {"first_bytes_7x7_unfolded", -1},
                                         {"input_grad_phases_3x3", -7},
                                         {"input_grad_phases_1x1", -2},
                                         {"input_grad_phases_5x5_merged", -3},
                                         {"input_grad_phases_11x11_merged", -3},
                                         {"input_grad_phases_7x3_stride_3x1_merged", -3},
                                         {"input_grad_phases_dilated_merged", -6},
                                         {"input_grad_phases_ieee", -4},
                                         {"input_grad_phases_7x7_ieee", -3},  // merged
                                         {"input_grad_c96_ieee", -2},         // folded
                                         {"stored_product_copied", -1},
                                         {"stored_product_bytes_long", -1},
                                         {"stored_product_turned", -1},
                                         {"matrix_update_falls_back", -1},
                                         {"matrix_product_small_falls_back", -1},
                                         {"first_stride_4", 1},
                                         {"first_3x3", 0},
                                         {"first_3x3_unpadded", 0},
                                         {"first_3x3_pooled", 3},
                                         {"first_3x3_pooled_k128", 3},
                                         {"first_bytes_stride_4_pooled", 3},
                                         {"first_bytes_stride_4", 1},
                                         {"first_bytes_stride_4_k96", 1},
                                         {"first_bytes_3x3", 1},
                                         {"first_bytes_3x3_unpadded", 1},
                                         {"first_bytes_3x3_pooled", 4},
                                         {"first_bytes_3x3_in_rows", 1},
                                         {"first_bytes_3x3_pooled_in_rows", 4},
                                         {"first_bytes_3x3_unpadded_in_rows", 4},
                                         {"forward_packed_ieee", -2},
                                         {"forward_rows_3x3_ieee", -2},
                                         {"forward_rows_7x7_ieee", -2},
                                         {"forward_rows_11x11_ieee", -2},
                                         {"filter_grad_rows_7x7_ieee", -1}};
  for (Case& one : all)
    if (const auto found = fewer.find(one.name); found != fewer.end()) one.fewer = found->second;
  return all;
}

}  // namespace nixie::hopper_plans
