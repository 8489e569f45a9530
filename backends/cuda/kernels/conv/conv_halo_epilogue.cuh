// The epilogue of conv_halo_sm90.cuh, which defines Sums, Share and Passage before including it: runs Body over the
// sums
// of a share; with PARTS_OF_CHANNELS it also accumulates parts of per-channel reductions.
#pragma once

// Runs Body over the sums of one share, 16 pixels x 64 filters at a time. A pitch of 68 words per pixel avoids bank
// conflicts of the writes.
struct Epilogue {
  static constexpr int kChunks = kHigh / 2, kPixelPitch = 272;
#if PARTS_OF_CHANNELS
  static constexpr int kAhead = CONV_AHEAD;  // in chunks
  // The loads of the first chunks are in flight while the products are computed.
  struct Parts : BlockParts<1> {
    LoadsAhead loads[kAhead];
  };
#else
  struct Parts : BlockParts<1> {};
  static constexpr int kAhead = sizeof(Body::Loads) <= 16 ? 4 : sizeof(Body::Loads) <= 48 ? 2 : 1;
#endif
  const Body& body;
  Passage passage;

  NIXIE_DEVICE void write(const Sums& sum, int chunk) const {
    const u32 to = passage.chunk(chunk) + threadIdx.x % 4 * 2 * kPixelPitch + Passage::filter() * 4;
#pragma unroll
    for (int row = 0; row < 2; row++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        store_shared(to + (row * 8 + i % 2) * kPixelPitch + i / 2 * 32, sum[(chunk * 2 + row) * 4 + i]);
  }

  // A thread's pixels in a share: one per chunk, each two rows below the last.
  struct Pixels {
    int channel, first, rows;  // number of image rows from the first pixel's on
    NIXIE_DEVICE explicit Pixels(const Share& share) {
      const int thread = threadIdx.x % 128, inside = thread / 8 % 8, row = thread / 64;
      const int image = share.image + inside % kTogether, w = share.w + inside / kTogether;
      channel = share.n0 + thread % 8 * 8;
      first = (image * CONV_P + share.h + row) * CONV_Q + w;
      rows = image < CONV_IMAGES && w < CONV_Q && channel < CONV_K ? CONV_P - share.h - row : 0;
    }
    NIXIE_DEVICE bool has(int chunk) const { return chunk * 2 < rows && chunk < kChunks; }
    NIXIE_DEVICE int operator[](int chunk) const { return first + chunk * 2 * CONV_Q; }
  };

#if PARTS_OF_CHANNELS
  // For a chunk whose pixel is outside the image, loads one inside.
  NIXIE_DEVICE void ask(const Pixels& pixels, int chunk, Parts& parts) const {
    if (chunk < kChunks)
      parts.loads[chunk % kAhead].load(body, pixels.has(chunk) ? pixels[chunk] : 0, min(pixels.channel, CONV_K - 8));
  }

  // Called before a share's products.
  NIXIE_DEVICE void begin(const Share& share, Parts& parts) const {
    const Pixels pixels(share);
#pragma unroll
    for (int i = 0; i < kAhead; i++) ask(pixels, i, parts);
  }
#endif

  NIXIE_DEVICE void operator()(const Sums& sum, const Share& share, Parts& parts) const {
    const int thread = threadIdx.x % 128;
    const Pixels pixels(share);
    Body::Fixed fixed;
    body.load(min(pixels.channel, CONV_K - 8), fixed);
#if !PARTS_OF_CHANNELS
    Body::Loads loads[kAhead];
#endif
    passage.meet();  // all threads have read the previous tile's chunks
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk++) {
#if !PARTS_OF_CHANNELS
      if (chunk % kAhead == 0) {
#pragma unroll
        for (int i = 0; i < kAhead; i++)
          if (pixels.has(chunk + i)) body.load(pixels[chunk + i], pixels.channel, loads[i]);
      }
#endif
      write(sum, chunk);
      passage.meet();
      if (!pixels.has(chunk)) continue;
      float4 low, high;
      Passage::read(passage.chunk(chunk) + thread / 8 * kPixelPitch, thread % 8, low, high);
      const float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#if PARTS_OF_CHANNELS
      body.run(pixels[chunk], pixels.channel, fixed, parts.loads[chunk % kAhead].arrived(), v, parts.of[0],
               parts.seen + chunk + 1);
      ask(pixels, chunk + kAhead, parts);
#else
      body.run(pixels[chunk], pixels.channel, fixed, loads[chunk % kAhead], v AND_PARTS(parts));
#endif
    }
#if PARTS_OF_CHANNELS
    const int seen = pixels.rows > 0 ? (pixels.rows + 1) / 2 : 0;
    parts.seen += seen < kChunks ? seen : kChunks;
#endif
  }

#ifdef PARTS
  // Called after a block's last tile. Consumers that share a patch have different filters; otherwise both have the
  // same.
  NIXIE_DEVICE void leave(Parts& parts, int group) const {
    constexpr bool kApart = PARTS_OF_CHANNELS && CONV_SHARED;
    constexpr int kPitch = kChunkBytes / 2, kThreads = kApart ? 128 : 256, kAcross = PARTS_OF_CHANNELS ? kColumns : 1;
    static_assert(sizeof(Body::Accumulators) * (PARTS_OF_CHANNELS ? 64 : 1) <= kPitch);
    const int thread = threadIdx.x % 128 + (kApart ? 0 : group * 128);
    char* staging = static_cast<char*>(__cvta_shared_to_generic(passage.staging));
    char* first = kApart ? staging : staging - group * 2 * kChunkBytes;
    passage.meet();  // all threads have read the last tile's chunks
    parts.write(reinterpret_cast<Body::Accumulators*>(first + thread / 32 * kPitch));
    asm volatile("bar.sync %0, %1;" ::"r"(kApart ? passage.barrier : 3), "n"(kThreads) : "memory");
    leave_parts(body, reinterpret_cast<const Body::Accumulators*>(first), kPitch, kThreads / 32,
                PARTS_OF_CHANNELS ? Share(blockIdx.x, group).n0 : 0, 64, blockIdx.x / kAcross, gridDim.x / kAcross,
                thread, kThreads);
  }
#endif
};
using Given = Body;
