// NCCL, opened on first use: the few functions that we call, declared here so that building needs no header of it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>

#include "nixie/backends/cuda/device/shared_library.h"
#include "nixie/core/base/dtype.h"
#include "nixie/core/graph/world.h"

namespace nixie::cuda {

/// NCCL's handles and numbers (nccl.h, the same since NCCL 2.10).
struct NcclId {
  std::array<char, 128> bytes;
};
using NcclComm = void*;
int nccl_type(Dtype dtype);
constexpr int kNcclSum = 0;

struct Nccl {
  SharedLibrary library;
  int (*version)(int* version) = library.find("ncclGetVersion");
  const char* (*error_string)(int status) = library.find("ncclGetErrorString");
  const char* (*last_error)(NcclComm) = library.find("ncclGetLastError");
  int (*unique_id)(NcclId* id) = library.find("ncclGetUniqueId");
  int (*init_rank)(NcclComm* comm, int ranks, NcclId id, int rank) = library.find("ncclCommInitRank");
  int (*group_start)() = library.find("ncclGroupStart");
  int (*group_end)() = library.find("ncclGroupEnd");
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, NcclComm,
                    cudaStream_t) = library.find("ncclAllReduce");
  int (*all_gather)(const void* from, void* to, std::size_t count, int type, NcclComm,
                    cudaStream_t) = library.find("ncclAllGather");
  int (*reduce_scatter)(const void* from, void* to, std::size_t count, int type, int op, NcclComm,
                        cudaStream_t) = library.find("ncclReduceScatter");
  int (*send)(const void* from, std::size_t count, int type, int to, NcclComm, cudaStream_t) = library.find("ncclSend");
  int (*receive)(void* to, std::size_t count, int type, int from, NcclComm, cudaStream_t) = library.find("ncclRecv");
  int (*broadcast)(const void* from, void* to, std::size_t count, int type, int root, NcclComm,
                   cudaStream_t) = library.find("ncclBroadcast");
};

/// Opened on the first call: libnccl.so.2 of NCCL 2.18 or newer. Throws Fault::device, naming the remedy, if it cannot
/// be found or is older.
const Nccl& nccl();

/// Throws Fault::device for a failed call.
void expect_nccl(int status, const char* what);

/// The ranks of a communicator as NCCL sees them, each with the GPU that is current on its first call, which all ranks
/// make at the same place. It lives as long as the process: to destroy one is to wait for all ranks.
NcclComm nccl_comm(const std::shared_ptr<Communicator>& ranks);

}  // namespace nixie::cuda
