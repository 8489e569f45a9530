// Max pooling of channels-last images with a one-byte index, forward and backward, each in one pass over memory.
//
// Layout   x [N][H][W][C], y and index [N][P][Q][C]; 16-bit values or floats, index = row-major position in the window
//          of the first maximum (NaN wins; padding never does). A thread holds 8 channels: 16-byte loads.
// Forward  a thread computes one output pixel; halves are compared in packed pairs.
// Backward a thread computes one STRIDE x STRIDE cell of dx from the windows that overlap it, each read once: no
//          atomics, no zeroing, the same result every time. The generated Body takes the gradients, 8 channels of a
//          pixel at a time.
// Limits   C a multiple of 8; windows up to 255 positions; element counts below 2^31. Any architecture from sm_80.
//
// Measured on an H200, as a fraction of copy bandwidth (4.25 TB/s): 3x3 with stride 2 forward 0.77 to 0.83, backward
// 0.72 to 0.79; 2x2 with stride 2 forward 1.0, backward 0.95. PyTorch takes 5 to 12 times as long for the same work.
//
// Compile-time, all required: POOL_IMAGES POOL_C POOL_H POOL_W POOL_P POOL_Q POOL_R POOL_S (window) POOL_STRIDE_H/_W
//   POOL_PAD_H/_W POOL_F32 NIXIE_BF16. Forward also
//   POOL_INDEX  1 to store the index. Kernel pool_max(memory): IMAGES * P * Q * C / 8 threads, blocks of 256.
// Backward Body holds operand0 (dy), operand1 (index) and what conv_fprop_sm90.cuh says, without Fixed. Kernel
// pool_max_grad(body):
//   IMAGES * kCellsH * kCellsW * C / 8 threads, blocks of 256, where kCellsH = ceil((H + PAD_H) / STRIDE_H).
#pragma once
#include "ptx.cuh"

constexpr int kGroups = POOL_C / 8;  // groups of 8 channels
constexpr int kCellsH = (POOL_H + POOL_PAD_H + POOL_STRIDE_H - 1) / POOL_STRIDE_H;
constexpr int kCellsW = (POOL_W + POOL_PAD_W + POOL_STRIDE_W - 1) / POOL_STRIDE_W;
// Whether windows reach outside the image.
constexpr bool kOutside = POOL_PAD_H || POOL_PAD_W || (POOL_P - 1) * POOL_STRIDE_H + POOL_R > POOL_H ||
                          (POOL_Q - 1) * POOL_STRIDE_W + POOL_S > POOL_W;
constexpr int kBackH = (POOL_R - 1) / POOL_STRIDE_H,
              kBackW = (POOL_S - 1) / POOL_STRIDE_W;  // earlier windows that overlap a cell, along each axis
static_assert(POOL_C % 8 == 0 && POOL_R * POOL_S < 256);

// The 8 channels of a pixel that a thread holds: 8 floats, or 4 pairs of halves.
constexpr int kWords = POOL_F32 ? 8 : 4;
struct alignas(16) Pixel {
  u32 word[kWords];
};
NIXIE_DEVICE Pixel load_pixel(const Pixel* from) {
  Pixel pixel;
#pragma unroll
  for (int i = 0; i < kWords / 4; i++) {
    const uint4 four = reinterpret_cast<const uint4*>(from)[i];
    pixel.word[4 * i] = four.x, pixel.word[4 * i + 1] = four.y;
    pixel.word[4 * i + 2] = four.z, pixel.word[4 * i + 3] = four.w;
  }
  return pixel;
}
NIXIE_DEVICE u32 wins_over(u32 v, u32 best) {
  if (!POOL_F32) return beats(v, best);
  const float a = __uint_as_float(v), b = __uint_as_float(best);
  return !(a <= b) && b == b ? ~0u : 0;
}

#ifdef POOL_INDEX
struct Memory {
  const Pixel* x;
  Pixel* y;
  uint2* index;
};

extern "C" __global__ void __launch_bounds__(256) pool_max(const __grid_constant__ Memory memory) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= POOL_IMAGES * (POOL_P * POOL_Q * kGroups)) return;
  int pixel = i / kGroups, c = i - pixel * kGroups, row = pixel / POOL_Q, q = pixel - row * POOL_Q;
  int n = row / POOL_P, p = row - n * POOL_P, h0 = p * POOL_STRIDE_H - POOL_PAD_H, w0 = q * POOL_STRIDE_W - POOL_PAD_W;
  Pixel best{};
  u32 at[kWords] = {};
  bool found = false;
#pragma unroll
  for (int r = 0; r < POOL_R; r++) {
#pragma unroll
    for (int s = 0; s < POOL_S; s++) {
      int h = h0 + r, w = w0 + s;
      if (kOutside && (h < 0 || h >= POOL_H || w < 0 || w >= POOL_W)) continue;
      const Pixel v = load_pixel(memory.x + ((n * POOL_H + h) * POOL_W + w) * kGroups + c);
      const u32 position = (r * POOL_S + s) * (POOL_F32 ? 1u : 0x10001u);
#pragma unroll
      for (int k = 0; k < kWords; k++) {
        u32 wins = found ? wins_over(v.word[k], best.word[k]) : ~0u;
        best.word[k] = select(wins, v.word[k], best.word[k]);
        at[k] = select(wins, position, at[k]);
      }
      found = true;
    }
  }
#pragma unroll
  for (int k = 0; k < kWords; k += 4)
    reinterpret_cast<uint4*>(memory.y + i)[k / 4] =
        make_uint4(best.word[k], best.word[k + 1], best.word[k + 2], best.word[k + 3]);
  if (!POOL_INDEX) return;
  if (POOL_F32) {
#pragma unroll
    for (int k = 0; k < kWords / 2; k++) at[k] = at[2 * k] | at[2 * k + 1] << 16;
  }
  memory.index[i] = make_uint2(bytes(at[0], at[1]), bytes(at[2], at[3]));
}
#else

// The gradients of one window, as floats, and the positions of its maxima, as bytes.
struct Window {
  float dy[8];
  uint2 index;
};
NIXIE_DEVICE Window load_window(const Body& body, int at) {
  Pixel v = load_pixel(static_cast<const Pixel*>(body.operand0) + at);
  Window window;
#pragma unroll
  for (int k = 0; k < 8; k++)
    window.dy[k] =
        POOL_F32 ? __uint_as_float(v.word[k % kWords]) : unpack(static_cast<u16>(v.word[k / 2] >> (k % 2 * 16)));
  window.index = body.operand1[at];
  return window;
}

extern "C" __global__ void __launch_bounds__(256) pool_max_grad(const __grid_constant__ Body body) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= POOL_IMAGES * (kCellsH * kCellsW * kGroups)) return;
  int cell = i / kGroups, c = i - cell * kGroups, row = cell / kCellsW, cw = cell - row * kCellsW;
  int n = row / kCellsH, ch = row - n * kCellsH;
  auto each_pixel = [&](auto&& act) {
#pragma unroll
    for (int dh = 0; dh < POOL_STRIDE_H; dh++) {
#pragma unroll
      for (int dw = 0; dw < POOL_STRIDE_W; dw++) {
        int h = ch * POOL_STRIDE_H + dh - POOL_PAD_H, w = cw * POOL_STRIDE_W + dw - POOL_PAD_W;
        if (h < 0 || h >= POOL_H || w < 0 || w >= POOL_W) continue;
        act(dh, dw, (n * POOL_H + h) * POOL_W + w);
      }
    }
  };
  float sum[POOL_STRIDE_H][POOL_STRIDE_W][8] = {};
  Body::Loads loads[POOL_STRIDE_H][POOL_STRIDE_W];
  each_pixel([&](int dh, int dw, int pixel) { body.load(pixel, c * 8, loads[dh][dw]); });
#pragma unroll
  for (int bh = 0; bh <= kBackH; bh++) {
#pragma unroll
    for (int bw = 0; bw <= kBackW; bw++) {
      int p = ch - bh, q = cw - bw;
      if (p < 0 || p >= POOL_P || q < 0 || q >= POOL_Q) continue;
      Window window = load_window(body, ((n * POOL_P + p) * POOL_Q + q) * kGroups + c);
#pragma unroll
      for (int dh = 0; dh < POOL_STRIDE_H; dh++) {
#pragma unroll
        for (int dw = 0; dw < POOL_STRIDE_W; dw++) {
          int r = dh + bh * POOL_STRIDE_H, s = dw + bw * POOL_STRIDE_W;
          if (r >= POOL_R || s >= POOL_S) continue;
          u32 position = r * POOL_S + s;
#pragma unroll
          for (int k = 0; k < 8; k++) {
            u32 at = ((k < 4 ? window.index.x : window.index.y) >> (k % 4 * 8)) & 255;
            if (at == position) sum[dh][dw][k] += window.dy[k];
          }
        }
      }
    }
  }
  each_pixel([&](int dh, int dw, int pixel) { body.run(pixel, c * 8, loads[dh][dw], sum[dh][dw]); });
}
#endif
