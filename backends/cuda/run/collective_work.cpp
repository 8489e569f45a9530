// Calls NCCL on the stream, which may be one that records a graph.
#include "nixie/backends/cuda/run/collective_work.h"

#include "nixie/backends/cuda/device/nccl.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

class CollectiveWork final : public GroupWork {
 public:
  explicit CollectiveWork(std::vector<CollectiveCall> calls)
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

}  // namespace

std::unique_ptr<GroupWork> make_collective_work(std::vector<CollectiveCall> calls) {
  return std::make_unique<CollectiveWork>(std::move(calls));
}

}  // namespace nixie::cuda
