// Average pooling of channels-last images over two axes of pixels, and its gradient, each in one pass over memory.
//
// Layout   x [N][H][W][C] and y [N][P][Q][C], 16-bit values or floats. A thread holds 8 channels of a pixel: 16-byte
//          loads, sums in floats, taps in the order of the window.
// Gradient a thread computes a pixel of dx from the windows that contain it: no atomics, the same result every time.
// Limits   C a multiple of 8; element counts below 2^31. Any architecture from sm_80.
//
// Body     as for conv_fprop_sm90.cuh, without Fixed, over pixels of the result; it also has operand0: x, or for the
//          gradient dy.
// Compile-time, all required: POOL_PIXELS POOL_C (of the result), POOL_H POOL_W POOL_P POOL_Q (x and y), POOL_R POOL_S
//   (window) POOL_STRIDE_H/_W POOL_PAD_H/_W, POOL_N_STEP POOL_H_STEP POOL_W_STEP (elements of operand0 from one image,
//   row and pixel to the next), POOL_COUNT_PAD (1: divide by the window's size), POOL_GRADIENT.
// Kernel pool_average(body): PIXELS * C / 8 threads, blocks of 256.
#pragma once
#include "math.cuh"

constexpr int kGroups = POOL_C / 8;  // groups of 8 channels

// The number of positions of window (p, q) inside x, or 1 if there are none.
__device__ inline float window_count(int p, int q) {
  if (POOL_COUNT_PAD) return POOL_R * POOL_S;
  const int h = p * POOL_STRIDE_H - POOL_PAD_H, w = q * POOL_STRIDE_W - POOL_PAD_W;
  const int rows = (h + POOL_R < POOL_H ? h + POOL_R : POOL_H) - (h > 0 ? h : 0);
  const int columns = (w + POOL_S < POOL_W ? w + POOL_S : POOL_W) - (w > 0 ? w : 0);
  return rows > 0 && columns > 0 ? rows * columns : 1;
}

// Adds 8 channels of a pixel of operand0, times `share`, to the sums.
__device__ inline void add_pixel(const Body& body, int n, int h, int w, int channel, float share, float (&sum)[8]) {
  const auto pixel = read<8>(body.operand0 + (n * POOL_N_STEP + h * POOL_H_STEP + w * POOL_W_STEP + channel));
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] += convert<f32>(pixel.lane[i]) * share;
}

extern "C" __global__ void __launch_bounds__(256) pool_average(const __grid_constant__ Body body) {
  constexpr int kRows = POOL_GRADIENT ? POOL_H : POOL_P, kColumns = POOL_GRADIENT ? POOL_W : POOL_Q;
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= POOL_PIXELS * kGroups) return;
  const int pixel = i / kGroups, channel = (i - pixel * kGroups) * 8, line = pixel / kColumns;
  const int column = pixel - line * kColumns, n = line / kRows, row = line - n * kRows;
  Body::Loads loads;
  body.load(pixel, channel, loads);
  float sum[8] = {};
#if POOL_GRADIENT
  constexpr int kDown = (POOL_R + POOL_STRIDE_H - 1) / POOL_STRIDE_H,
                kAcross = (POOL_S + POOL_STRIDE_W - 1) / POOL_STRIDE_W;  // windows that can contain a pixel
  constexpr bool kUnrolls = kDown * kAcross <= 16;
  const int h = row + POOL_PAD_H, w = column + POOL_PAD_W;
#pragma unroll(kUnrolls ? kDown : 1)
  for (int down = kDown - 1; down >= 0; --down) {
    const int p = h / POOL_STRIDE_H - down;
    if (p < 0 || p >= POOL_P || h - p * POOL_STRIDE_H >= POOL_R) continue;
#pragma unroll(kUnrolls ? kAcross : 1)
    for (int across = kAcross - 1; across >= 0; --across) {
      const int q = w / POOL_STRIDE_W - across;
      if (q < 0 || q >= POOL_Q || w - q * POOL_STRIDE_W >= POOL_S) continue;
      add_pixel(body, n, p, q, channel, 1 / window_count(p, q), sum);
    }
  }
#else
  constexpr bool kUnrolls = POOL_R * POOL_S <= 16;
  const int h0 = row * POOL_STRIDE_H - POOL_PAD_H, w0 = column * POOL_STRIDE_W - POOL_PAD_W;
#pragma unroll(kUnrolls ? POOL_R : 1)
  for (int r = 0; r < POOL_R; ++r) {
    if (h0 + r < 0 || h0 + r >= POOL_H) continue;
#pragma unroll(kUnrolls ? POOL_S : 1)
    for (int s = 0; s < POOL_S; ++s)
      if (w0 + s >= 0 && w0 + s < POOL_W) add_pixel(body, n, h0 + r, w0 + s, channel, 1, sum);
  }
  const float count = window_count(row, column);
#pragma unroll
  for (int k = 0; k < 8; ++k) sum[k] /= count;
#endif
  body.run(pixel, channel, loads, sum);
}
