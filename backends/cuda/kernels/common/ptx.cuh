// Wrappers of Hopper's instructions: mbarriers, tensor copies (TMA), warpgroup matrix products (wgmma), and small
// conversions. Includes nothing: NVRTC compiles a kernel that includes only this file in a quarter of a second.
// NIXIE_BF16 = 1 makes the 16-bit storage type bf16, otherwise it is fp16.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

#ifndef NIXIE_BF16
#define NIXIE_BF16 0
#endif
#if NIXIE_BF16
#define NIXIE_HALF "bf16"
#else
#define NIXIE_HALF "f16"
#endif
#define NIXIE_DEVICE __device__ __forceinline__

// The type of the tensor cores' sums, and such a sum as an operand of asm that is read and written.
#if defined(NIXIE_INTEGERS) && NIXIE_INTEGERS
using TensorSum = int;
#define NIXIE_SUM_IN(sum) "+r"(sum)
#else
using TensorSum = float;
#define NIXIE_SUM_IN(sum) "+f"(sum)
#endif

struct alignas(64) TensorMap {  // a CUtensorMap, passed by value as a __grid_constant__ parameter
  u64 words[16];
};

// ---- shared memory ----

NIXIE_DEVICE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// Makes ordinary stores to shared memory visible to the copy engine and to wgmma; every writer calls it before the
// barrier.
NIXIE_DEVICE void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

NIXIE_DEVICE void store_shared(u32 address, uint4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

NIXIE_DEVICE void store_shared(u32 address, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

NIXIE_DEVICE void store_shared(u32 address, uint2 v) {
  asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}

NIXIE_DEVICE void store_shared(u32 address, float2 v) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(address), "f"(v.x), "f"(v.y) : "memory");
}
NIXIE_DEVICE void store_shared(u32 address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}
NIXIE_DEVICE float load_shared_float(u32 address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
  return v;
}
NIXIE_DEVICE float4 load_shared(u32 address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// Asynchronous copy (cp.async) of 16 bytes from memory to shared memory, or of zeros. From sm_80 on.
NIXIE_DEVICE void copy_piece(u32 to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
NIXIE_DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Loads four 8x8 matrices of 16-bit values, as they are or transposed: lane l passes the address of row l % 8 of matrix
// l / 8.
NIXIE_DEVICE void load_matrices(u32 (&registers)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row)
               : "memory");
}
NIXIE_DEVICE void load_transposed(u32 (&registers)[4], u32 row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row)
               : "memory");
}

// ---- mbarriers ----

NIXIE_DEVICE void barrier_init(u32 bar, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
NIXIE_DEVICE void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
NIXIE_DEVICE void barrier_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
NIXIE_DEVICE void barrier_expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
NIXIE_DEVICE bool barrier_try(u32 bar, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(bar), "r"(parity)
               : "memory");
  return done != 0;
}
// A wait that never ends is a bug. Traps after a while, so that it is reported as an error instead of hanging.
NIXIE_DEVICE void barrier_wait(u32 bar, u32 parity) {
  if (barrier_try(bar, parity)) return;
  for (u32 tries = 0; !barrier_try(bar, parity);)
    if (++tries == (1u << 24)) asm volatile("trap;");
}

// ---- clusters: blocks that run together and reach each other's shared memory ----

// The address in block `rank` of the cluster of what is at `address` in this one.
NIXIE_DEVICE u32 in_block(u32 address, u32 rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
NIXIE_DEVICE float4 load_from_block(u32 address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
NIXIE_DEVICE u32 rank_in_cluster() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// All threads of all blocks of the cluster.
NIXIE_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}
// Arrives at a barrier of any block; what this thread has seen is seen by those who wait there with
// barrier_wait_cluster.
NIXIE_DEVICE void barrier_arrive_at_block(u32 bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
// The same where nobody reads what this thread wrote: products have read memory that copies may write again.
NIXIE_DEVICE void barrier_release_at_block(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
NIXIE_DEVICE void barrier_wait_cluster(u32 bar, u32 parity) {
  for (u32 done = 0, tries = 0; !done;) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    if (!done && ++tries == (1u << 24)) asm volatile("trap;");
  }
}

// The position in a ring of stages, and the parity of the barriers there.
template <int kStages>
struct Ring {
  int stage = 0;
  u32 parity = 0;
  NIXIE_DEVICE void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  NIXIE_DEVICE void skip(int count) {
    stage += count;
    parity ^= stage / kStages & 1;
    stage %= kStages;
  }
  NIXIE_DEVICE int previous() const { return stage == 0 ? kStages - 1 : stage - 1; }
};

// ---- tensor copies (TMA); a single thread issues each ----

NIXIE_DEVICE void copy_box_2d(u32 to, const TensorMap* map, u32 bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4}], [%2];" ::"r"(
          to),
      "l"(map), "r"(bar), "r"(x), "r"(y)
      : "memory");
}
NIXIE_DEVICE void copy_box_3d(u32 to, const TensorMap* map, u32 bar, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5}], [%2];" ::"r"(
          to),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z)
      : "memory");
}
// The same to those blocks of the cluster that have a bit in `blocks`, to the same place in each, whose barriers count
// it.
NIXIE_DEVICE void copy_box_3d_to(u32 blocks, u32 to, const TensorMap* map, u32 bar, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3,%4,%5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "h"(static_cast<u16>(blocks))
      : "memory");
}
NIXIE_DEVICE void copy_box_4d(u32 to, const TensorMap* map, u32 bar, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], [%2];" ::
          "r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}
// im2col: loads a run of output pixels from (w, h, n) on, shifted by the filter tap (s, r); zeros outside the image.
NIXIE_DEVICE void copy_im2col(u32 to, const TensorMap* map, u32 bar, int c, int w, int h, int n, int s, int r) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3,%4,%5,%6}], "
      "[%2], "
      "{%7,%8};" ::"r"(to),
      "l"(map), "r"(bar), "r"(c), "r"(w), "r"(h), "r"(n), "h"(static_cast<u16>(s)), "h"(static_cast<u16>(r))
      : "memory");
}
// Prefetches memory into L2; address and size are multiples of 16 bytes.
NIXIE_DEVICE void prefetch_l2(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
NIXIE_DEVICE void copy_bulk(u32 to, const void* from, u32 bytes, u32 bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(bar)
               : "memory");
}
NIXIE_DEVICE void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// ---- registers ----

template <int kRegisters>
NIXIE_DEVICE void registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
NIXIE_DEVICE void registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- wgmma ----

enum class Swizzle : u32 { none = 0, b128 = 1, b64 = 2, b32 = 3 };

// Shared-memory operand. Bytes: `leading` and `stride` between the 8x8 core matrices, in the order that the operand's
// major axis and swizzle give them (PTX ISA, "matrix descriptor"); the swizzle follows the address bits, as TMA writes
// them.
template <Swizzle kSwizzle>
NIXIE_DEVICE u64 operand(u32 address, u32 leading, u32 stride) {
  return static_cast<u64>((address & 0x3FFFF) >> 4) | (static_cast<u64>(leading >> 4) << 16) |
         (static_cast<u64>(stride >> 4) << 32) | (static_cast<u64>(kSwizzle) << 62);
}
NIXIE_DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
NIXIE_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
NIXIE_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving accesses to the sums across an asynchronous product.
template <int kCount>
NIXIE_DEVICE void pin(TensorSum (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i++) asm volatile("" : NIXIE_SUM_IN(d[i])::"memory");
}

// d[64 x N] (+)= a[64 x 16] * b[16 x N], fp32 sums over 16-bit operands; N is twice the length of d. kTransA / kTransB:
// the operand is stored with its M / N axis contiguous. add = false overwrites d. With NIXIE_BYTES_A and NIXIE_BYTES_B,
// the types of 8-bit operands ("e4m3", "u8"), a is 64 x 32, b 32 x N: as many bytes, whose 32 terms are contiguous.
// Sums of integers are i32. NIXIE_PRODUCTS, which programs define (products_of_columns in generate/program.h), has a
// NIXIE_WGMMA for each of their N.
#ifndef NIXIE_BYTES_A
#define NIXIE_TERMS "k16.f32." NIXIE_HALF "." NIXIE_HALF
#define NIXIE_ORDERS(TA, TB) ", 1, 1, " TA ", " TB
#elif NIXIE_INTEGERS
#define NIXIE_TERMS "k32.s32." NIXIE_BYTES_A "." NIXIE_BYTES_B
#define NIXIE_ORDERS(TA, TB) ""
#else
#define NIXIE_TERMS "k32.f32." NIXIE_BYTES_A "." NIXIE_BYTES_B
#define NIXIE_ORDERS(TA, TB) ", 1, 1"
#endif
#define NIXIE_WGMMA(N, COUNT, SUMS, A, B, ADD, TA, TB, ...)                                                   \
  template <int kTransA, int kTransB>                                                                         \
  NIXIE_DEVICE void wgmma(TensorSum(&d)[COUNT], u64 a, u64 b, bool add) {                                     \
    asm volatile("{.reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" #N NIXIE_TERMS \
                 " {" SUMS "}, " A ", " B ", p" NIXIE_ORDERS(TA, TB) ";}"                                     \
                 : __VA_ARGS__                                                                                \
                 : "l"(a), "l"(b), "r"(static_cast<int>(add)), "n"(kTransA), "n"(kTransB));                   \
  }
#ifdef NIXIE_PRODUCTS
NIXIE_PRODUCTS
#endif

// d[16 x 8] += a[16 x 16] * b[16 x 8], one warp. With g = lane / 4 and t = lane % 4: a = {rows g, g + 8} x {columns 2t,
// 2t + 1}, then the same rows x {2t + 8, 2t + 9}; b = rows {2t, 2t + 1}, {2t + 8, 2t + 9} of column g; d = rows g, g +
// 8, columns 2t, 2t + 1.
NIXIE_DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NIXIE_HALF "." NIXIE_HALF
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- 16-bit storage ----

// Two floats to one word of storage type, the first in the low half, round to nearest even.
NIXIE_DEVICE u32 pack(float low, float high) {
  u32 word;
  asm("cvt.rn." NIXIE_HALF "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
// The same after max(., 0); NaN stays NaN.
NIXIE_DEVICE u32 pack_relu(float low, float high) {
  u32 word;
  asm("cvt.rn.relu." NIXIE_HALF "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
NIXIE_DEVICE float unpack(u16 half) {
  float value;
#if NIXIE_BF16
  asm("mov.b32 %0, {%1, %2};" : "=f"(value) : "h"(static_cast<u16>(0)), "h"(half));
#else
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
#endif
  return value;
}

// Comparisons of packed pairs: 0xffff in each half where they hold.
#if NIXIE_BF16 && __CUDA_ARCH__ < 900  // no packed comparison: as floats
#define NIXIE_COMPARE(NAME, OP, EXPRESSION)                                     \
  NIXIE_DEVICE u32 NAME(u32 x, u32 y) {                                         \
    float a = __uint_as_float(x << 16), b = __uint_as_float(y << 16);           \
    u32 low = (EXPRESSION) ? 0xffffu : 0;                                       \
    a = __uint_as_float(x & 0xffff0000u), b = __uint_as_float(y & 0xffff0000u); \
    return low | ((EXPRESSION) ? 0xffff0000u : 0);                              \
  }
#else
#define NIXIE_COMPARE(NAME, OP, EXPRESSION)                                           \
  NIXIE_DEVICE u32 NAME(u32 x, u32 y) {                                               \
    u32 mask;                                                                         \
    asm("set." OP ".u32." NIXIE_HALF "x2 %0, %1, %2;" : "=r"(mask) : "r"(x), "r"(y)); \
    return mask;                                                                      \
  }
#endif
NIXIE_COMPARE(greater_or_unordered, "gtu", !(a <= b))
NIXIE_COMPARE(ordered, "num", a == a && b == b)

// A mask of the halves where v replaces the maximum so far: it is greater, or it is NaN and the maximum is not.
NIXIE_DEVICE u32 beats(u32 v, u32 best) { return greater_or_unordered(v, best) & ordered(best, best); }
NIXIE_DEVICE u32 select(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }
// Packs the low bytes of four 16-bit values into one word.
NIXIE_DEVICE u32 bytes(u32 a, u32 b) { return __byte_perm(a, b, 0x6420); }
