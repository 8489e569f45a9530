// The forward pass of conv_c3.cuh, which loads the bands: 3x3 convolution of three channels, then bias, ReLU and 2x2
// max pooling, or Body.
#pragma once

// The weights of one warp's products, in registers: [half of 32 filters][block of 8][step of 16][register].
NIXIE_DEVICE void load_weights(u32 (&b)[2][4][2][2], const u16* w, int lane) {
  int column = lane / 4;
#pragma unroll
  for (int i = 0; i < 32; i++) {
    int half = i / 16, block = i / 4 % 4, step = i / 2 % 2, reg = i % 2;
    int filter = half * 32 + column / 2 * 8 + block * 2 + column % 2, k = step * 16 + reg * 8 + lane % 4 * 2;
    const u16* from = w + filter * 27 + k / 10 * 9 + k % 10;
    u32 low = k < 30 ? from[0] : 0, high = k < 30 && k % 10 != 8 ? from[1] : 0;
    b[half][block][step][reg] = low | high << 16;
  }
}

// Writes both copies of a band: word i of the first holds elements 2i and 2i + 1, of the second 2i + 1 and 2i + 2.
#if CONV_ROWS
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  constexpr int kWords = kPitch / 2;
  at_pairs<(kWords + 2) / 3>(rows_of(shared), body, n, first_row, [&](int row, int pixel, const u32(&e)[9]) {
#pragma unroll
    for (int i = 0; i < 3; i++) {
      const int at = pixel / 2 * 3 + i;
      if (kWords % 3 != 0 && at >= kWords) continue;
      shared[row * kWords + at] = e[2 * i] | e[2 * i + 1] << 16;
      shared[(kLoadedRows + row) * kWords + at] = e[2 * i + 1] | e[2 * i + 2] << 16;
    }
  });
}
#else
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  constexpr int kWords = kPitch / 2;
  // Element i of a padded row, channels innermost.
  const auto at_element = [&](int row, int i) { return pixel(body, n, row, i / 3 - CONV_PAD, i % 3); };
#pragma unroll(CONV_POOL ? 4 : 2)  // as far as registers allow
  for (int i = threadIdx.x; i < (kBandRows + 2) * kWords; i += kWarps * 32) {
    int r = i / kWords, at = (i - r * kWords) * 2, row = first_row + r - CONV_PAD;
    u32 a = at_element(row, at), b = at_element(row, at + 1), c = at_element(row, at + 2);
    shared[i] = a | b << 16;
    shared[(kBandRows + 2) * kWords + i] = b | c << 16;
  }
}
#endif

// Eight filters of 2 x 2 pixels, [position][filter]; (p, q) is the first pixel.
#if CONV_POOL
NIXIE_DEVICE void finish_windows(const Body& body, const float (&sum)[4][8], int image, int p, int q, int filter) {
  if (p / 2 >= kOutP || q / 2 >= kOutQ) return;
  u32 best[4], at[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (u32 position = 0; position < 4; position++) {
      const float low = sum[position][2 * i], high = sum[position][2 * i + 1];
      const u32 word = CONV_RELU ? pack_relu(low, high) : pack(low, high);
      const u32 wins = position == 0 ? ~0u : beats(word, best[i]);
      best[i] = position == 0 ? word : select(wins, word, best[i]);
      at[i] = position == 0 ? 0 : select(wins, position * 0x10001u, at[i]);
    }
  }
  u64 out = (static_cast<u64>(image * kOutP + p / 2) * kOutQ + q / 2) * CONV_K + filter;
  *reinterpret_cast<uint4*>(body.y + out) = make_uint4(best[0], best[1], best[2], best[3]);
  *reinterpret_cast<uint2*>(body.index + out) = make_uint2(bytes(at[0], at[1]), bytes(at[2], at[3]));
}
#else
NIXIE_DEVICE void finish_windows(const Body& body, const float (&sum)[4][8], int image, int p, int q, int filter) {
#pragma unroll
  for (int position = 0; position < 4; position++) {
    const int row = p + position / 2, column = q + position % 2, pixel = (image * kP + row) * kQ + column;
    if (row >= kP || column >= kQ) continue;
    Body::Loads loads;
    body.load(pixel, filter, loads);
    body.run(pixel, filter, loads, sum[position]);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(256, 2) conv_c3(const __grid_constant__ Body body) {
  extern __shared__ u32 band[];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, group = blockIdx.y * 64;
  u32 b[2][4][2][2], mask[4];
  int offset[4];
  load_weights(b, body.w + group * 27, lane);
#pragma unroll
  for (int i = 0; i < 4; i++) {  // the pair of elements of operand register i (and of i + row)
    int k = i * 8 + t * 2;
    offset[i] = k < 30 ? k / 10 * kPitch + k % 10 : 0;
    mask[i] = k >= 30 ? 0 : k % 10 == 8 ? 0xffffu : ~0u;
  }
  __shared__ float start[64];
#if CONV_POOL
  if (threadIdx.x < 64) start[threadIdx.x] = CONV_BIAS ? body.bias[group + threadIdx.x] : 0.f;
#else
  if (threadIdx.x < 64) start[threadIdx.x] = 0.f;
#endif
#if CONV_ROWS
  fetch_rows(band, body.x, blockIdx.x);
#endif
  constexpr int kTilesQ = (kQ + 15) / 16, kCopy = (kBandRows + 2) * kPitch / 2;
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x) {
    int image = unit / kBands, first = (unit - image * kBands) * kBandRows;
    make_band(band, body, unit);
    for (int tile = threadIdx.x / 32; tile < kBandRows / 2 * kTilesQ; tile += kWarps) {
      int pair = tile / kTilesQ, q = (tile - pair * kTilesQ) * 16 + 2 * g, p = first + pair * 2;
      if (p >= kP) break;
      u32 a[2][2][4];  // [row][step]
#pragma unroll
      for (int i = 0; i < 16; i++) {
        int row = i / 8, k = i / 2 % 4, odd = i % 2;  // register k % 2 * 2 + odd of step k / 2
        const u32* from = band + ((pair * 2 + row) * kPitch + 3 * q + offset[k]) / 2 + (odd ? kCopy + 1 : 0);
        a[row][k / 2][k % 2 * 2 + odd] = *from & mask[k];
      }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int filter = group + half * 32 + t * 8;
        float value[4][8];
#pragma unroll
        for (int block = 0; block < 4; block++) {
#pragma unroll
          for (int row = 0; row < 2; row++) {
            const float2 add = *reinterpret_cast<const float2*>(start + half * 32 + t * 8 + block * 2);
            float sum[4] = {add.x, add.y, add.x, add.y};
            mma(sum, a[row][0], b[half][block][0][0], b[half][block][0][1]);
            mma(sum, a[row][1], b[half][block][1][0], b[half][block][1][1]);
            value[row * 2][block * 2] = sum[0], value[row * 2][block * 2 + 1] = sum[1];
            value[row * 2 + 1][block * 2] = sum[2], value[row * 2 + 1][block * 2 + 1] = sum[3];
          }
        }
        finish_windows(body, value, image, p, q, filter);
      }
    }
  }
}
