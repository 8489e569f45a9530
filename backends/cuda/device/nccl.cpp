// Opens NCCL; rank 0 makes the id of a communicator, which reaches the others through the host's.
#include "nixie/backends/cuda/device/nccl.h"

#include <map>
#include <mutex>

namespace nixie::cuda {
namespace {

constexpr int kOldest = 21800;

Nccl open_nccl() {
  const Nccl table{{"libnccl.so", {".2", ""}, "NCCL 2.18 or newer (Debian: libnccl2 of NVIDIA's repository)"}};
  int version = 0;
  table.version(&version);
  if (version < kOldest)
    fail(Fault::device, "cuda: NCCL ", version / 10000, ".", version / 100 % 100,
         " is too old for several ranks; install NCCL 2.18 or newer");
  return table;
}

}  // namespace

int nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::i8:
      return 0;
    case Dtype::u8:
    case Dtype::boolean:
      return 1;
    case Dtype::i32:
      return 2;
    case Dtype::u32:
      return 3;
    case Dtype::i64:
      return 4;
    case Dtype::u64:
      return 5;
    case Dtype::f16:
      return 6;
    case Dtype::f32:
      return 7;
    case Dtype::f64:
      return 8;
    case Dtype::bf16:
      return 9;
    case Dtype::f8e4m3:
    case Dtype::f8e5m2:
    case Dtype::i16:
    case Dtype::u16:
      break;
  }
  fail(Fault::usage, "NCCL exchanges no ", dtype);
}

const Nccl& nccl() {
  static const Nccl table = open_nccl();
  return table;
}

void expect_nccl(int status, const char* what) {
  if (status == 0) return;
  fail(Fault::device, "NCCL: ", what, ": ", nccl().error_string(status), ": ", nccl().last_error(nullptr),
       "; start one rank for each GPU, NCCL_DEBUG=WARN says more");
}

NcclComm nccl_comm(const std::shared_ptr<Communicator>& ranks) {
  static std::mutex mutex;
  static std::map<std::shared_ptr<Communicator>, NcclComm> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(ranks); found != known.end()) return found->second;
  NcclId id{};
  if (ranks->rank() == 0) expect_nccl(nccl().unique_id(&id), "ncclGetUniqueId");
  ranks->broadcast(id.bytes.data(), static_cast<std::int64_t>(id.bytes.size()), 0);
  NcclComm comm = nullptr;
  expect_nccl(nccl().init_rank(&comm, ranks->size(), id, ranks->rank()), "ncclCommInitRank");
  return known[ranks] = comm;
}

}  // namespace nixie::cuda
