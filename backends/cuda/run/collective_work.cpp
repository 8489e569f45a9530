// Calls NCCL on the stream, which may be one that records a graph. Sums of floating types are ours: NCCL adds halves in
// halves, and in an order that depends on sizes and links.
#include "nixie/backends/cuda/run/collective_work.h"

#include <map>

#include "nixie/backends/cuda/device/nccl.h"
#include "nixie/backends/cuda/families/rank_sum.h"
#include "nixie/backends/cuda/run/jit_work.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

// Two numbers have one sum: NCCL computes it as well, and faster, but rounds halves to halves.
bool is_own_sum(const CollectiveCall& call) {
  const bool is_half = call.dtype == Dtype::f16 || call.dtype == Dtype::bf16;
  return call.op.kind == CollectiveKind::all_reduce && is_floating(call.dtype) &&
         (is_half || call.op.communicator->size() > 2);
}

class NcclCalls final : public GroupWork {
 public:
  explicit NcclCalls(std::vector<CollectiveCall> calls)
      : calls_(std::move(calls)), comm_(nccl_comm(calls_.front().op.communicator)) {}
  std::int64_t scratch_bytes() const override { return 0; }
  std::string variant() const override {
    return calls_.size() == 1 ? "NCCL" : fmt::format("NCCL, {} arrays", calls_.size());
  }
  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    expect_nccl(nccl().group_start(), "ncclGroupStart");
    for (const CollectiveCall& call : calls_) enqueue(call, addresses, stream);
    expect_nccl(nccl().group_end(), "ncclGroupEnd");
  }

 private:
  void enqueue(const CollectiveCall& call, const Addresses& addresses, cudaStream_t stream) const {
    const char* const from = addresses.slots[at(call.from)] + call.from_offset;
    char* const to = addresses.slots[at(call.to)] + call.to_offset;
    const auto count = static_cast<std::size_t>(call.count);
    const int type = nccl_type(call.dtype);
    switch (call.op.kind) {
      case CollectiveKind::all_reduce:
        return expect_nccl(nccl().all_reduce(from, to, count, type, kNcclSum, comm_, stream), "ncclAllReduce");
      case CollectiveKind::all_gather:
        return expect_nccl(nccl().all_gather(from, to, count, type, comm_, stream), "ncclAllGather");
      case CollectiveKind::reduce_scatter:
        return expect_nccl(nccl().reduce_scatter(from, to, count, type, kNcclSum, comm_, stream), "ncclReduceScatter");
      case CollectiveKind::broadcast:
        return expect_nccl(nccl().broadcast(from, to, count, type, call.op.root, comm_, stream), "ncclBroadcast");
    }
  }

  std::vector<CollectiveCall> calls_;
  NcclComm comm_;
};

class SumWork final : public GroupWork {
 public:
  SumWork(const Device& device, const std::vector<CollectiveCall>& calls)
      : ranks_(calls.front().op.communicator->size()),
        rank_(calls.front().op.communicator->rank()),
        arrays_(calls.size()),
        sum_(rank_sum(calls, rank_, ranks_)),
        comm_(nccl_comm(calls.front().op.communicator)) {
    std::vector<KernelCode> codes;
    for (const RankSum::Exchange& exchange : sum_.exchanges) {
      codes.push_back(exchange.pack);
      codes.push_back(exchange.add);
      if (!sum_.gathers) codes.push_back(exchange.unpack);
    }
    kernels_ = make_jit_work(device, codes);
  }
  std::int64_t scratch_bytes() const override { return sum_.scratch_bytes; }
  std::string variant() const override {
    return fmt::format("NCCL, {} arrays of {}, {}", arrays_, to_string(sum_.dtype),
                       sum_.gathers ? "gathered" : "shared out");
  }
  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    auto kernel = kernels_.begin();
    for (const RankSum::Exchange& exchange : sum_.exchanges) {
      (*kernel++)->enqueue(addresses, stream);
      sum_.gathers ? gather(exchange.part, addresses, stream) : share_out(exchange.part, addresses, stream);
      (*kernel++)->enqueue(addresses, stream);
      if (sum_.gathers) continue;
      gather(exchange.part, addresses, stream);
      (*kernel++)->enqueue(addresses, stream);
    }
  }

 private:
  char* part_of(int rank, std::int64_t part, char* all) const { return all + rank * part * size_of(sum_.dtype); }

  void gather(std::int64_t part, const Addresses& addresses, cudaStream_t stream) const {
    expect_nccl(nccl().all_gather(part_of(rank_, part, addresses.scratch), addresses.scratch, at(part),
                                  nccl_type(sum_.dtype), comm_, stream),
                "ncclAllGather");
  }
  void share_out(std::int64_t part, const Addresses& addresses, cudaStream_t stream) const {
    const int type = nccl_type(sum_.dtype);
    expect_nccl(nccl().group_start(), "ncclGroupStart");
    for (int step = 1; step < ranks_; ++step) {
      const int to = (rank_ + step) % ranks_, from = (rank_ + ranks_ - step) % ranks_;
      expect_nccl(nccl().send(part_of(to, part, addresses.scratch), at(part), type, to, comm_, stream), "ncclSend");
      expect_nccl(
          nccl().receive(part_of(from, part, addresses.scratch + sum_.received), at(part), type, from, comm_, stream),
          "ncclRecv");
    }
    expect_nccl(nccl().group_end(), "ncclGroupEnd");
  }

  int ranks_, rank_;
  std::size_t arrays_;
  RankSum sum_;
  NcclComm comm_;
  std::vector<std::unique_ptr<GroupWork>> kernels_;
};

// A process that exchanges with itself needs no NCCL.
class Copies final : public GroupWork {
 public:
  explicit Copies(std::vector<CollectiveCall> calls) : calls_(std::move(calls)) {}
  std::int64_t scratch_bytes() const override { return 0; }
  std::string variant() const override { return fmt::format("copies of {} arrays", calls_.size()); }
  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    for (const CollectiveCall& call : calls_) {
      const char* const from = addresses.slots[at(call.from)] + call.from_offset;
      char* const to = addresses.slots[at(call.to)] + call.to_offset;
      if (from == to) continue;
      CUDA_CHECK(cudaMemcpyAsync(to, from, at(call.count * size_of(call.dtype)), cudaMemcpyDeviceToDevice, stream));
    }
  }

 private:
  std::vector<CollectiveCall> calls_;
};

}  // namespace

std::unique_ptr<GroupWork> make_collective_work(const Device& device, const std::vector<CollectiveCall>& calls) {
  if (calls.front().op.communicator->size() == 1) return std::make_unique<Copies>(calls);
  std::vector<CollectiveCall> others;
  std::map<Dtype, std::vector<CollectiveCall>> sums;
  for (const CollectiveCall& call : calls) (is_own_sum(call) ? sums[call.dtype] : others).push_back(call);
  std::vector<std::unique_ptr<GroupWork>> works;
  if (!others.empty()) works.push_back(std::make_unique<NcclCalls>(std::move(others)));
  for (const auto& [dtype, of_type] : sums) works.push_back(std::make_unique<SumWork>(device, of_type));
  return works.size() == 1 ? std::move(works[0]) : std::make_unique<WorksInTurn>(std::move(works));
}

}  // namespace nixie::cuda
