// The epilogue of conv_halo_sm90.cuh with CONV_POOL, included after Sums, Share and Passage: bias, ReLU and a 2x2 max
// pooling with its index, in place of Body.
#pragma once

struct Memory {
  const float* bias;
  u16* y;
  u8* index;
};

// Bias, ReLU, the maximum of each 2x2 window and its index. One thread has all four sums of a window (with two images
// per row two threads do, which exchange one). The maximum of a filter and its position are packed into one word, and
// 16
// windows x 64 filters pass through shared memory at a time.
struct Epilogue {
  struct Parts {};
  static constexpr int kPairs = kHigh / 2, kOutP = CONV_P / 2, kOutQ = CONV_Q / 2, kWindowPitch = 288;
  static_assert(kTogether <= 2);
  const Memory& body;
  Passage passage;

  // Two neighbouring pixels of a row of the thread's window; filters f and f + 8 are packed into one word.
  static NIXIE_DEVICE void neighbours(const float* v, float bias, float bias8, u32& left, u32& right) {
    const auto word = [&](int i) {
      const float a = v[i] + bias, b = v[i + 2] + bias8;
      return CONV_RELU ? pack_relu(a, b) : pack(a, b);
    };
    left = word(0), right = word(1);
    if (kTogether == 2) {  // this thread has one pixel of two images, its neighbour the other
      const bool odd = threadIdx.x % 2;
      const u32 other = __shfl_xor_sync(~0u, odd ? left : right, 1);
      if (odd)
        left = other;
      else
        right = other;
    }
  }

  NIXIE_DEVICE void write(const Sums& sum, int pair, float bias, float bias8) const {
    u32 word[4], best, at = 0;
    neighbours(&sum[pair * 8], bias, bias8, word[0], word[1]);
    neighbours(&sum[pair * 8 + 4], bias, bias8, word[2], word[3]);
    best = word[0];
#pragma unroll
    for (u32 position = 1; position < 4; position++) {
      const u32 wins = beats(word[position], best);
      best = select(wins, word[position], best), at = select(wins, position * 0x10001u, at);
    }
    const u32 to = passage.chunk(pair / 4) + (pair % 4 * 4 + threadIdx.x % 4) * kWindowPitch + Passage::filter() * 4;
    store_shared(to, __uint_as_float(__byte_perm(best, at, 0x5410)));
    store_shared(to + 32, __uint_as_float(__byte_perm(best, at, 0x7632)));
  }

  NIXIE_DEVICE void operator()(const Sums& sum, const Share& share, Parts& parts) const {
    const int thread = threadIdx.x % 128, unit = thread % 8, channel = share.n0 + unit * 8;
    const int inside = thread / 8 % 4, image = share.image + inside % kTogether, q = share.w / 2 + inside / kTogether,
              p = share.h / 2 + thread / 32;
    const bool there = image < CONV_IMAGES && q < kOutQ && channel < CONV_K;
    const auto bias_of = [&](int filter) { return CONV_BIAS && filter < CONV_K ? body.bias[filter] : 0.f; };
    const float bias = bias_of(share.n0 + Passage::filter()), bias8 = bias_of(share.n0 + Passage::filter() + 8);
    passage.meet();  // all threads have read the previous tile's chunks
#pragma unroll
    for (int chunk = 0; chunk < (kPairs + 3) / 4; chunk++) {
#pragma unroll
      for (int pair = chunk * 4; pair < chunk * 4 + 4; pair++)
        if (pair < kPairs) write(sum, pair, bias, bias8);
      passage.meet();
      if (!there || p + chunk * 4 >= kOutP || chunk * 4 + thread / 32 >= kPairs) continue;
      float4 low, high;
      Passage::read(passage.chunk(chunk) + thread / 8 * kWindowPitch, unit, low, high);
      const auto word = [](float a, float b, u32 which) {
        return __byte_perm(__float_as_uint(a), __float_as_uint(b), which);
      };
      const u64 out = (static_cast<u64>(image * kOutP + p + chunk * 4) * kOutQ + q) * CONV_K + channel;
      *reinterpret_cast<uint4*>(body.y + out) = make_uint4(word(low.x, low.y, 0x5410), word(low.z, low.w, 0x5410),
                                                           word(high.x, high.y, 0x5410), word(high.z, high.w, 0x5410));
      *reinterpret_cast<uint2*>(body.index + out) =
          make_uint2(bytes(word(low.x, low.y, 0x7632), word(low.z, low.w, 0x7632)),
                     bytes(word(high.x, high.y, 0x7632), word(high.z, high.w, 0x7632)));
    }
  }
};
using Given = Memory;
