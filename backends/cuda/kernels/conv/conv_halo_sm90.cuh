// Convolution on Hopper's tensor cores from patches of pixels that all taps share: the sums of conv_fprop_sm90.cuh, in
// both roles, for windows of several taps with stride 1.
//
// Idea     conv_fprop reads x from L2 once for each tap. Here a patch of pixels with its halo is copied to shared
// memory
//          once for CONV_SLICE channels, and a tap is a shifted address. This works because the swizzle depends on
//          address bits, and because wgmma takes an operand that starts at any pixel.
// Layout   x channels-last, w [K][R][S][C], 16-bit storage, fp32 sums. M = 64 filters, N = the pixels of a patch: 8 in
//          a row (CONV_TOGETHER images of 8 / TOGETHER pixels) by CONV_HIGH rows, a single wgmma, which reads the least
//          shared memory; reduction = channels in slabs of CONV_SLICE, x taps.
// Roles    persistent blocks with two consumers. Each computes 64 filters of a patch; the second is a slab behind the
//          first, so that one's epilogue overlaps with the other's products. With CONV_SHARED both use the same patch
//          with different filters, otherwise different patches. Each ring, of patches or of a consumer's filters, is
//          filled by one thread. With CONV_RESIDENT, filters are few enough to be copied once and kept.
// Epilogue sums pass through shared memory, 16 pixels at a time; then the generated Body, 8 channels of a pixel.
// Pool     CONV_POOL: bias and ReLU only, then 2x2 max pooling: the un-pooled output is never written.
// Gradient as in conv_fprop: CONV_TRANSPOSED_W = 1, C and K are the layer's K and C, PAD is what the flipped window
//          needs.
// Limits   stride and dilation 1, one group, C and K multiples of 8. Pays off if patches tile the images.
//
// Measured on an H200, in us, conv_fprop against this kernel: VGG conv2 forward 226 and its
// pooling 70 against 158 for both; its input gradient 270 against 180 (0.88 of the matrix rate); conv4 forward 303 and
// pooling 37 against 276; conv3 to conv6 2 to 7 % faster, as patches halve the traffic from L2. If tiles do not fill
// the
// last wave it is slower (VGG conv5's input gradient: 143 against 157), which the estimate takes into account.
//
// Body     as for conv_fprop_sm90.cuh.
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S      channels, filters, window
//   CONV_IMAGES CONV_P CONV_Q        images, output height and width
//   CONV_PAD_H CONV_PAD_W            padding before the first row and column
//   CONV_SLICE                       channels of a slab: 64, or 32 or 16 if C is at most that
//   CONV_TOGETHER CONV_HIGH          1, 2, 4 or 8; rows of a patch, even, such that wgmma can have 8 * HIGH columns
//   CONV_SHARED                      0 or 1; 1: ceil(K / 64) is even
//   CONV_PATCHES CONV_STAGES         depth of a ring of patches, and of a ring of filters
//   CONV_RESIDENT                    0 or 1; 1: STAGES = slabs x taps, K at most 64, or 128 if SHARED
//   CONV_TRANSPOSED_W NIXIE_BF16     0 or 1
//   NIXIE_PRODUCTS                   as in ptx.cuh, of 8 * HIGH columns
//   CONV_POOL CONV_BIAS CONV_RELU    0 or 1; 1: instead of Body a Memory; y [N][P/2][Q/2][K], index a byte each
//   PARTS... CONV_AHEAD              as in conv_fprop_sm90.cuh, not with POOL; AHEAD counts pixels two rows apart
// Kernel conv_halo(x_map, w_map, body):
//   x_map   tiled, 16-bit {C, N, W, H} of channels-last images, box {SLICE, TOGETHER, 8 / TOGETHER + S - 1,
//           HIGH + R - 1}, swizzle of SLICE * 2 bytes
//   w_map   tiled {C, R*S, K}, box {SLICE, 1, K rounded up to 8, at most 64}, the same swizzle; transposed: over the
//           layer's own w, {K, R*S, C} in this kernel's letters, box {64, 1, SLICE}, swizzle 128
//   grid    at most one block per SM; block 384; dynamic shared memory 1024 + (1 if SHARED, else 2) * PATCHES * (bytes
//           of a patch, rounded up to 1024) + (1 if RESIDENT and not SHARED, else 2) * STAGES * SLICE * 2 * (rows of
//           the box of w; transposed: 64) + 4 * 4608
#pragma once
#include "ptx.cuh"
#if !CONV_POOL
#include "parts.cuh"
#endif

constexpr int kTogether = CONV_TOGETHER, kWide = 8 / kTogether, kHigh = CONV_HIGH, kPatches = CONV_PATCHES;
constexpr int kSlice = CONV_SLICE, kPlaceBytes = kSlice * 2;
constexpr int kPitch = (kWide + CONV_S - 1) * kTogether;  // pixels from one row of a patch to the next
constexpr int kPatchBytes = kPitch * (kHigh + CONV_R - 1) * kPlaceBytes,
              kPatchRoom = (kPatchBytes + 1023) / 1024 * 1024;
constexpr int kRings = CONV_SHARED ? 1 : 2, kStages = CONV_STAGES, kTaps = CONV_R * CONV_S;
// Filters copied per stage. If there are fewer than 64, a product's 64 rows include whatever follows in shared memory;
// those results are not stored.
constexpr int kFilterRows = CONV_TRANSPOSED_W || CONV_K > 64 ? 64 : (CONV_K + 7) / 8 * 8;
constexpr int kStageBytes = kSlice * 2 * kFilterRows;
constexpr int kFilterRings = CONV_RESIDENT ? 2 / kRings : 2;
constexpr int kSlabs = (CONV_C + kSlice - 1) / kSlice, kLastSteps = (CONV_C - (kSlabs - 1) * kSlice + 15) / 16;
constexpr Swizzle kSwizzle = kSlice == 64 ? Swizzle::b128 : kSlice == 32 ? Swizzle::b64 : Swizzle::b32;
constexpr int kAcross = (CONV_Q + kWide - 1) / kWide, kDown = (CONV_P + kHigh - 1) / kHigh;
constexpr int kPlaces = (CONV_IMAGES + kTogether - 1) / kTogether * kDown * kAcross;  // positions of patches
constexpr int kColumns = (CONV_K + 63) / 64 / (CONV_SHARED ? 2 : 1);                  // tiles that use the same patch
constexpr int kTiles = (CONV_SHARED ? kPlaces : (kPlaces + 1) / 2) * kColumns;
static_assert(!CONV_RESIDENT || (kStages == kSlabs * kTaps && kColumns == 1));
constexpr int kChunkBytes = 16 * 288;  // of a chunk: the sums of 16 pixels on their way to Body

// A consumer's share of a tile: 64 filters from n0 on, of the patch at (image, h, w).
struct Share {
  int n0, image, h, w;
  NIXIE_DEVICE Share(int tile, int group) {
    const int column = tile % kColumns, place = CONV_SHARED ? tile / kColumns : tile / kColumns * 2 + group;
    const int row = place / kAcross;
    n0 = (CONV_SHARED ? column * 2 + group : column) * 64;
    image = row / kDown * kTogether, h = row % kDown * kHigh, w = place % kAcross * kWide;
  }
};

// The addresses of a ring's data and barriers in shared memory.
struct Buffers {
  u32 data, full, empty;
};

NIXIE_DEVICE void produce_patches(const TensorMap* x, Buffers to, int group) {
  Ring<kPatches> ring;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
    const Share share(tile, group);
    for (int slab = 0; slab < kSlabs; slab++, ring.next()) {
      barrier_wait(to.empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(to.full + 8 * ring.stage, kPatchBytes);
      copy_box_4d(to.data + ring.stage * kPatchRoom, x, to.full + 8 * ring.stage, slab * kSlice, share.image,
                  share.w - CONV_PAD_W, share.h - CONV_PAD_H);
    }
  }
}

NIXIE_DEVICE void produce_filters(const TensorMap* w, Buffers to, int group) {
  Ring<kStages> ring;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
    const int n0 = Share(tile, group).n0;
    for (int slab = 0; slab < kSlabs; slab++)
      for (int tap = 0; tap < kTaps; tap++, ring.next()) {
        const u32 at = to.data + ring.stage * kStageBytes, bar = to.full + 8 * ring.stage;
        if (!CONV_RESIDENT) barrier_wait(to.empty + 8 * ring.stage, ring.parity ^ 1);
        barrier_expect(bar, kStageBytes);
        if (CONV_TRANSPOSED_W)
          copy_box_3d(at, w, bar, n0, kTaps - 1 - tap, slab * kSlice);
        else
          copy_box_3d(at, w, bar, slab * kSlice, tap, n0);
      }
    if (CONV_RESIDENT) break;
  }
}

using Sums = float[kHigh * 4];

// Adds the products of one tap: filters at `a`, pixels from `b` on.
NIXIE_DEVICE void multiply_tap(Sums& sum, u32 a, u32 b, bool add, bool last_slab) {
#pragma unroll
  for (int k = 0; k < kSlice / 16; k++) {
    if (k >= kLastSteps && last_slab) break;
    const u64 left = CONV_TRANSPOSED_W ? operand<Swizzle::b128>(a + k * 2048, 8192, 1024)
                                       : operand<kSwizzle>(a + k * 32, 16, 8 * kPlaceBytes);
    wgmma<CONV_TRANSPOSED_W, 0>(sum, left, operand<kSwizzle>(b + k * 32, 16, kPitch * kPlaceBytes), add || k != 0);
  }
}

// Computes the sums of a share. Buffers are released to their producers once the products that read them are done.
struct Multiplier {
  Buffers patches, filters;
  u32 lead;  // barrier on which the second consumer waits until the first is a slab ahead
  Ring<kPatches> patch;
  Ring<kStages> stage;

  NIXIE_DEVICE void operator()(Sums& sum, bool leads) {
    const bool leader = threadIdx.x % 128 == 0;
    for (int slab = 0; slab < kSlabs; slab++, patch.next()) {
      barrier_wait(patches.full + 8 * patch.stage, patch.parity);
      u32 b = patches.data + patch.stage * kPatchRoom;
      for (int r = 0; r < CONV_R; r++, b += (kPitch - CONV_S * kTogether) * kPlaceBytes)
        for (int s = 0; s < CONV_S; s++, b += kTogether * kPlaceBytes, stage.next()) {
          barrier_wait(filters.full + 8 * stage.stage, CONV_RESIDENT ? 0 : stage.parity);
          const bool first = (slab | r | s) == 0;
          pin(sum);
          wgmma_begin();
          multiply_tap(sum, filters.data + stage.stage * kStageBytes, b, !first, slab == kSlabs - 1);
          wgmma_commit();
          wgmma_wait<1>();  // the previous tap is done: release its buffers
          if (!leader || first) continue;
          if (!CONV_RESIDENT) barrier_arrive(filters.empty + 8 * stage.previous());
          if ((r | s) == 0) barrier_arrive(patches.empty + 8 * patch.previous());
        }
      if (leads && leader && slab == 0) barrier_arrive(lead);
    }
    wgmma_wait<0>();
    if (leader) {
      if (!CONV_RESIDENT) barrier_arrive(filters.empty + 8 * stage.previous());
      barrier_arrive(patches.empty + 8 * patch.previous());
    }
    pin(sum);
  }
};

// A consumer's passage through shared memory, from wgmma's order to 8 neighbouring channels per thread.
struct Passage {
  u32 staging;  // the consumer's buffer, two chunks
  int barrier;  // the consumer's named barrier, 1 to 15

  NIXIE_DEVICE void meet() const { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }
  NIXIE_DEVICE u32 chunk(int i) const { return staging + i % 2 * kChunkBytes; }
  // The filter of a thread's first sum; the filter of its third is 8 more.
  static NIXIE_DEVICE int filter() { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4; }
  // Reads eight words of a chunk's row. Half of the lanes read the two halves in swapped order: no bank conflicts.
  static NIXIE_DEVICE void read(u32 row, int unit, float4& low, float4& high) {
    const u32 swap = unit / 4 * 16;
    const float4 first = load_shared(row + unit * 32 + swap), second = load_shared(row + unit * 32 + 16 - swap);
    low = swap ? second : first, high = swap ? first : second;
  }
};

#if CONV_POOL
#include "conv_halo_pool.cuh"
#else
#include "conv_halo_epilogue.cuh"
#endif

NIXIE_DEVICE void consume(const Epilogue& epilogue, Multiplier multiplier, int group) {
  Sums sum;
  Epilogue::Parts parts;
  if (group == 1) barrier_wait(multiplier.lead, 0);
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
#if PARTS_OF_CHANNELS
    epilogue.begin(Share(tile, group), parts);
#endif
    multiplier(sum, group == 0 && tile == blockIdx.x);
    epilogue(sum, Share(tile, group), parts);
  }
#ifdef PARTS
  epilogue.leave(parts, group);
#endif
}

extern "C" __global__ void __launch_bounds__(384, 1)
    conv_halo(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
              const __grid_constant__ Given given) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 patch_full[2][kPatches], patch_empty[2][kPatches], full[2][kStages], empty[2][kStages],
      lead;
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u, filters = shared + kRings * kPatches * kPatchRoom;
  if (threadIdx.x == 0) {
    for (int group = 0; group < 2; group++) {
      for (int i = 0; i < kPatches; i++) {
        barrier_init(shared_address(&patch_full[group][i]), 1);
        barrier_init(shared_address(&patch_empty[group][i]), CONV_SHARED ? 2 : 1);
      }
      for (int i = 0; i < kStages; i++) {
        barrier_init(shared_address(&full[group][i]), 1);
        barrier_init(shared_address(&empty[group][i]), 1);
      }
    }
    barrier_init(shared_address(&lead), 1);
    barrier_init_done();
    prefetch_map(&x), prefetch_map(&w);
  }
  __syncthreads();
  const auto patches_of = [&](int group) {
    const int ring = CONV_SHARED ? 0 : group;
    return Buffers{shared + ring * kPatches * kPatchRoom, shared_address(patch_full[ring]),
                   shared_address(patch_empty[ring])};
  };
  const auto filters_of = [&](int group) {
    const int ring = group % kFilterRings;
    return Buffers{filters + ring * kStages * kStageBytes, shared_address(full[ring]), shared_address(empty[ring])};
  };
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    registers_down<40>();
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    if (threadIdx.x % 32 == 0) {
      if (warp < kFilterRings) produce_filters(&w, filters_of(warp), warp);
      if (warp >= 2 && warp - 2 < kRings) produce_patches(&x, patches_of(warp - 2), warp - 2);
    }
  } else {
    registers_up<232>();
    const int group = role - 1;
    const u32 staging = filters + kFilterRings * kStages * kStageBytes + group * 2 * kChunkBytes;
    consume({given, {staging, role}}, {patches_of(group), filters_of(group), shared_address(&lead), {}, {}}, group);
  }
}
