// The epilogue of conv_fprop_sm90.cuh, which defines the tile's sizes, Sums and Column before including it: brings a
// tile's sums from wgmma's order to that of memory and runs Body over them; with PARTS_OF_CHANNELS it also accumulates
// parts of per-channel reductions.
#pragma once

// Runs Body over the sums of one warpgroup's tile, whose corner is (pixel, column). Each warp passes 16 rows x 64
// columns at a time through its own 4 KB of shared memory, so that a lane holds 8 neighbouring channels. 16-byte pieces
// are swizzled so that neither the writes (rows of pairs) nor the reads (rows of eights) have bank conflicts.
// Sums pass through shared memory as floats, i32 by their bits.
NIXIE_DEVICE float bits_of(float sum) { return sum; }
NIXIE_DEVICE float bits_of(int sum) { return __int_as_float(sum); }
NIXIE_DEVICE TensorSum sum_of(float bits) {
#if defined(NIXIE_INTEGERS) && NIXIE_INTEGERS
  return __float_as_int(bits);
#else
  return bits;
#endif
}

struct Epilogue {
#if PARTS_OF_CHANNELS
  static constexpr int kRows = kMmaM * kChunksN * 4, kAhead = CONV_AHEAD;
  // The loads of the first rows are in flight while the tile's products are computed.
  struct Parts : BlockParts<kChunksN> {
    LoadsAhead loads[kAhead];
  };
#else
  struct Parts : BlockParts<1> {};
  // Rows of a lane whose loads are in flight together, as many as registers allow.
  static constexpr int kBytesOf4 = kPlanes == 1 ? 48 : 32, kBytesOf2 = kPlanes == 1 ? 96 : 64;
  static constexpr int kAhead = sizeof(Body::Loads) <= kBytesOf4 ? 4 : sizeof(Body::Loads) <= kBytesOf2 ? 2 : 1;
#endif
  const Body& body;
  u32 staging;  // the warp's buffer in shared memory

  NIXIE_DEVICE void write(const TensorSum (&sum)[kTileN / 2], int j) const {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const u32 to = staging + g * 256 + g % 4 * 32 + t / 2 * 16 + t % 2 * 8;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if ((j * 8 + i) * 8 >= kTileN) break;
      const TensorSum* v = &sum[(j * 8 + i) * 4];
      const u32 at = to ^ (i * 32 + i / 4 * 16);
      store_shared(at, make_float2(bits_of(v[0]), bits_of(v[1])));
      store_shared(at + 2048, make_float2(bits_of(v[2]), bits_of(v[3])));
    }
  }

#if PARTS_OF_CHANNELS
  // A lane's row of a tile by index: first the 16 rows of a product for one chunk of 64 columns, then those of the
  // next.
  struct Row {
    int pixel, chunk, m, channel;  // where the row is outside the result, a channel inside
    bool inside;
    NIXIE_DEVICE Row(int index, int first, Column of)
        : pixel(first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 8 + index / 4 % kMmaM * 64 + index % 4 * 4),
          chunk(index / (4 * kMmaM)),
          m(index / 4 % kMmaM) {
      const int column = chunk * 64 + threadIdx.x % 8 * 8, within = of.n0 + column;
      channel = min(within, CONV_K - 8) + (CONV_GROUPS == 1 ? 0 : of.group * CONV_K);
      inside = (kTileN % 64 == 0 || column < kTileN) && within < CONV_K && pixel < CONV_PIXELS;
    }
  };

  // For a row outside the result, loads one inside.
  NIXIE_DEVICE void ask(int index, int pixel, Column of, Parts& parts) const {
    const Row row(index, pixel, of);
    parts.loads[index % kAhead].load(body, min(row.pixel, CONV_PIXELS - 1), row.channel);
  }

  // Called before a tile's products.
  NIXIE_DEVICE void begin(int pixel, Column of, Parts& parts) const {
#pragma unroll
    for (int i = 0; i < kAhead; i++) ask(i, pixel, of, parts);
  }

  NIXIE_DEVICE void operator()(const Sums& sum, int pixel, Column of, Parts& parts) const {
    const int lane = threadIdx.x % 32;
    const u32 from = staging + lane / 8 * 256 + ((lane % 8 ^ lane / 8) * 2 + lane % 8 / 4) * 16;
    Body::Fixed fixed;
    int seen = 0;
#pragma unroll
    for (int i = 0; i < kRows; i++) {
      const Row row(i, pixel, of);
      if (i % 4 == 0) {
        if (row.m == 0) body.load(row.channel, fixed);
        __syncwarp();
        write(sum[row.m], row.chunk);
        __syncwarp();
      }
      if (row.inside) {
        const float4 low = load_shared(from + i % 4 * 1024), high = load_shared((from + i % 4 * 1024) ^ 16);
        const TensorSum v[8] = {sum_of(low.x),  sum_of(low.y),  sum_of(low.z),  sum_of(low.w),
                                sum_of(high.x), sum_of(high.y), sum_of(high.z), sum_of(high.w)};
        body.run(row.pixel, row.channel, fixed, parts.loads[i % kAhead].arrived(), v, parts.of[row.chunk],
                 parts.seen + i % (4 * kMmaM) + 1);
      }
      if (i + kAhead < kRows) ask(i + kAhead, pixel, of, parts);
      if (i < 4 * kMmaM) seen += row.pixel < CONV_PIXELS;
    }
    parts.seen += seen;
  }
#elif CONV_LANES == 1
  NIXIE_DEVICE void operator()(const Sums& sum, int pixel, Column of, Parts&) const {
    pixel += threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int chunk = 0; chunk < kMmaM * kChunksN; chunk++) {
      const int m = chunk / kChunksN, j = chunk % kChunksN, at = pixel + m * 64;
      __syncwarp();
      write(sum[m], j);
      __syncwarp();
#pragma unroll 1
      for (int column = threadIdx.x % 32; column < 64; column += 32) {
        const int within = of.n0 + j * 64 + column, channel = of.group * CONV_K + within;
        const u32 from = staging + ((column % 8 / 2 * 8) ^ (column / 8 * 32 + column / 32 * 16)) + column % 2 * 4;
        if ((kTileN % 64 != 0 && j * 64 + column >= kTileN) || within >= CONV_K) break;
        Body::Fixed fixed;
        body.load(channel, fixed);
#pragma unroll 1
        for (int row = 0; row < 16; row += 4) {
          Body::Loads loads[4];  // all issued before the first use
#pragma unroll
          for (int i = 0; i < 4; i++)
            if (at + row + i < CONV_PIXELS) body.load(at + row + i, channel, loads[i]);
#pragma unroll
          for (int i = 0; i < 4; i++) {
            if (at + row + i >= CONV_PIXELS) continue;
            const TensorSum v[1] = {sum_of(load_shared_float((from + (row + i) * 256) ^ (i * 32)))};
            body.run(at + row + i, channel, fixed, loads[i], v);
          }
        }
      }
    }
  }
#else
  NIXIE_DEVICE void operator()(const Sums& sum, int pixel, Column of, Parts& parts) const {
    const int lane = threadIdx.x % 32, row = lane / 8, unit = lane % 8;
    const u32 from = staging + row * 256 + ((unit ^ row) * 2 + unit / 4) * 16;
    pixel += threadIdx.x % 128 / 32 * 16 + row;
    Body::Fixed fixed;
#pragma unroll
    for (int chunk = 0; chunk < kMmaM * kChunksN; chunk++) {
      const int m = chunk % kMmaM, j = chunk / kMmaM, at = pixel + m * 64;
      const int within = of.n0 + j * 64 + unit * 8, channel = CONV_GROUPS == 1 ? within : of.group * CONV_K + within;
      const bool inside = (kTileN % 64 == 0 || j * 64 + unit * 8 < kTileN) && within < CONV_K;
      if (inside && m == 0) body.load(channel, fixed);
      __syncwarp();
      write(sum[m], j);
      __syncwarp();
      Body::Loads loads[kAhead];  // all issued before the first use
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (i % kAhead == 0) {
#pragma unroll
          for (int j = 0; j < kAhead; j++)
            if (inside && at + (i + j) * 4 < CONV_PIXELS) body.load(at + (i + j) * 4, channel, loads[j]);
        }
        if (!inside || at + i * 4 >= CONV_PIXELS) continue;
        const float4 low = load_shared(from + i * 1024), high = load_shared((from + i * 1024) ^ 16);
        const TensorSum v[8] = {sum_of(low.x),  sum_of(low.y),  sum_of(low.z),  sum_of(low.w),
                                sum_of(high.x), sum_of(high.y), sum_of(high.z), sum_of(high.w)};
        body.run(at + i * 4, channel, fixed, loads[i % kAhead], v AND_PARTS(parts));
      }
    }
  }
#endif

#ifdef PARTS
  // Called by all consumers after a block's last tile.
  NIXIE_DEVICE void leave(const Worker& worker, Parts& parts) const {
    constexpr int kAcross = PARTS_OF_CHANNELS ? kTilesAcross : 1;  // columns of tiles that have parts of their own
    const Column of(worker.number % kAcross);
    const int thread = threadIdx.x - 128, threads = kConsumers * 128;
    static_assert(sizeof(Body::Accumulators) * (PARTS_OF_CHANNELS ? kChunksN * 64 : 1) <= 4096);
    char* mine = static_cast<char*>(__cvta_shared_to_generic(staging));
    __syncwarp();
    parts.write(reinterpret_cast<Body::Accumulators*>(mine));
    // Not a barrier of Turn: a consumer that is done would be taken for its own arrival there, and the other one would
    // wait for ever.
    asm volatile("bar.sync 3, %0;" ::"n"(kConsumers * 128) : "memory");
    leave_parts(body, reinterpret_cast<const Body::Accumulators*>(mine - thread / 32 * 4096), 4096, kConsumers * 4,
                of.group * CONV_K + of.n0, min(kTileN, CONV_K - of.n0),
                worker.number / kAcross << CONV_PAIRS | worker.rank, worker.count / kAcross << CONV_PAIRS, thread,
                threads);
  }
#endif
};
