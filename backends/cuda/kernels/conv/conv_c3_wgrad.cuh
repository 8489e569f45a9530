// The filter gradient of conv_c3.cuh, which loads the bands, and the kernel that adds the blocks' partial sums.
#pragma once

// Word i of a row holds elements i and i + 3: the same channel of two neighbouring pixels.
#if CONV_ROWS
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  at_pairs<(kPairPitch + 5) / 6>(rows_of(shared), body, n, first_row, [&](int row, int pixel, const u32(&e)[9]) {
#pragma unroll
    for (int i = 0; i < 6; i++)
      if (pixel * 3 + i < kPairPitch) shared[row * kPairPitch + pixel * 3 + i] = e[i] | e[i + 3] << 16;
  });
}
#else
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
#pragma unroll 4
  for (int i = threadIdx.x; i < (kBandRows + 2) * kPairPitch; i += kWarps * 32) {
    const int r = i / kPairPitch, at = i - r * kPairPitch, row = first_row + r - CONV_PAD, column = at / 3 - CONV_PAD;
    shared[i] = pixel(body, n, row, column, at % 3) | pixel(body, n, row, column + 1, at % 3) << 16;
  }
}
#endif

// The gradients of 8 filters in one window, in the layout of y: pooled, one value per filter and its index; else four
// pixels.
struct Gradients {
  uint4 dy[CONV_POOL ? 1 : 4];
  uint2 index;
};
NIXIE_DEVICE Gradients load_gradients(const u16* dy, const u8* index, int image, int p, int q, int filter) {
  Gradients v = {};
  if (CONV_POOL) {
    if (p / 2 >= kOutP || q / 2 >= kOutQ) return v;
    u64 at = (static_cast<u64>(image * kOutP + p / 2) * kOutQ + q / 2) * CONV_K + filter;
    v.dy[0] = *reinterpret_cast<const uint4*>(dy + at);
    v.index = *reinterpret_cast<const uint2*>(index + at);
  } else {
#pragma unroll
    for (int i = 0; i < (CONV_POOL ? 1 : 4); i++) {
      int row = p + i / 2, column = q + i % 2;
      if (row >= kP || column >= kQ) continue;
      v.dy[i] = *reinterpret_cast<const uint4*>(dy + (static_cast<u64>(image * kOutP + row) * kOutQ + column) * CONV_K +
                                                filter);
    }
  }
  return v;
}
NIXIE_DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// The operand for filters 2i (rows g) and 2i + 1 (rows g + 8) of the thread's eight: positions 0, 1 and 2, 3 of its
// window.
NIXIE_DEVICE void expand(const Gradients& v, int i, u32 (&a)[4]) {
  if (CONV_POOL) {
    u32 pair = word_of(v.dy[0], i), where = (i < 2 ? v.index.x : v.index.y) >> (i % 2 * 16);
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      u32 value = odd ? pair >> 16 : pair & 0xffff, position = where >> (8 * odd) & 3;
      u32 placed = value << (position % 2 * 16);
      a[odd] = position < 2 ? placed : 0;
      a[odd + 2] = position < 2 ? 0 : placed;
    }
  } else {
#pragma unroll
    for (int row = 0; row < 2; row++) {
      u32 left = word_of(v.dy[CONV_POOL ? 0 : row * 2], i), right = word_of(v.dy[CONV_POOL ? 0 : row * 2 + 1], i);
      a[row * 2] = __byte_perm(left, right, 0x5410);
      a[row * 2 + 1] = __byte_perm(left, right, 0x7632);
    }
  }
}

// Adds the warps' sums in order and writes them as [filter][32].
NIXIE_DEVICE void write_parts(const float (&sum)[4][4][4], float* shared, float* parts) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int turn = 0; turn < kWarps; turn++) {
    __syncthreads();
    if (turn != warp) continue;
#pragma unroll
    for (int i = 0; i < 64; i++) {
      int m = i / 16, n = i / 4 % 4, filter = lane / 4 * 8 + m * 2 + i % 4 / 2, column = n * 8 + lane % 4 * 2 + i % 2;
      float* at = shared + filter * 33 + column;  // 33: few bank conflicts
      *at = (turn == 0 ? 0.f : *at) + sum[m][n][i % 4];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * 32; i += kWarps * 32) parts[i] = shared[i / 32 * 33 + i % 32];
}

extern "C" __global__ void __launch_bounds__(256, CONV_POOL ? 2 : 1) conv_c3_wgrad(const __grid_constant__ Body body) {
  extern __shared__ u32 band[];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, filter = blockIdx.y * 64 + g * 8;
  constexpr int kSteps = (kQ + 7) / 8, kUnitSteps = kBandRows / 2 * kSteps;  // a step is four windows in a row
  int offset[4];
#pragma unroll
  for (int n = 0; n < 4; n++) {  // column g of block n is tap n * 8 + g; 27 to 30 are not used, 31 is one
    int tap = n * 8 + g;
    offset[n] = tap < 27 ? tap / 9 * kPairPitch + tap % 9 : 0;
  }
  float sum[4][4][4] = {};
#if CONV_ROWS
  fetch_rows(band, body.x, blockIdx.x);
#endif
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x) {
    int image = unit / kBands, first = (unit - image * kBands) * kBandRows;
    auto at = [&](int step) {
      if (step >= kUnitSteps) return Gradients{};
      return load_gradients(body.dy, body.index, image, first + step / kSteps * 2, step % kSteps * 8 + t * 2, filter);
    };
    int step = threadIdx.x / 32;
    Gradients ahead[2] = {at(step), at(step + kWarps)};
    make_band(band, body, unit);
    for (; step < kUnitSteps; step += kWarps) {
      Gradients now = ahead[0];
      ahead[0] = ahead[1];
      ahead[1] = at(step + 2 * kWarps);
      const u32* from = band + step / kSteps * 2 * kPairPitch + 3 * (step % kSteps * 8 + t * 2);
      u32 b[4][2];
#pragma unroll
      for (int n = 0; n < 4; n++) {
        b[n][0] = from[offset[n]], b[n][1] = from[offset[n] + kPairPitch];
        if (n == 3 && g == 7) b[n][0] = b[n][1] = kOnes;
      }
#pragma unroll
      for (int m = 0; m < 4; m++) {
        u32 a[4];
        expand(now, m, a);
#pragma unroll
        for (int n = 0; n < 4; n++) mma(sum[m][n], a, b[n][0], b[n][1]);
      }
    }
  }
  write_parts(sum, reinterpret_cast<float*>(band), body.parts + (blockIdx.x * gridDim.y + blockIdx.y) * (64 * 32));
}

extern "C" __global__ void __launch_bounds__(256) conv_c3_wgrad_reduce(const __grid_constant__ Body body) {
  __shared__ float sums[8][32];
  int column = threadIdx.x % 32, share = threadIdx.x / 32, filter = blockIdx.x;
  const float* from = body.parts + blockIdx.y * (64 * 32) + filter * 32 + column;
  float sum = 0;
#pragma unroll 8
  for (int i = share; i < CONV_BLOCKS; i += 8) sum += from[static_cast<u64>(i) * gridDim.y * (64 * 32)];
  sums[share][column] = sum;
  __syncthreads();
  if (share != 0) return;
  for (int i = 1; i < 8; i++) sum += sums[i][column];
  int out = blockIdx.y * 64 + filter;
  if (column == 31) body.db[out] = sum;
  if (column >= 27) return;
#if CONV_OUT_FLOAT
  static_cast<float*>(body.dw)[out * 27 + column] = sum;
#else
  static_cast<u16*>(body.dw)[out * 27 + column] = static_cast<u16>(pack(sum, 0.f));
#endif
}
