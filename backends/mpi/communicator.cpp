// Opens Open MPI's library with dlopen, so that programs run where it is missing; of its ABI we use bytes and the
// world.
#include "nixie/backends/mpi/communicator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>

namespace nixie {
namespace {

constexpr int kMultiple = 3;              // MPI_THREAD_MULTIPLE
constexpr int kSign = 1;                  // the tag of signs of life
constexpr unsigned kSecondsToBegin = 60;  // until all ranks are there; then SIGALRM ends those that wait
constexpr int kLongestName = 256;         // MPI_MAX_PROCESSOR_NAME
constexpr int kLongestError = 256;        // MPI_MAX_ERROR_STRING
constexpr int kMostBytes = 1 << 30;       // of one call, which counts in int

// Open MPI's handles are addresses of its variables.
using Handle = void*;

struct Mpi {
  int (*init_thread)(int* argc, char*** argv, int required, int* provided);
  int (*finalize)();
  int (*abort)(Handle communicator, int code);
  int (*rank)(Handle communicator, int* rank);
  int (*size)(Handle communicator, int* size);
  int (*processor_name)(char* name, int* length);
  int (*set_error_handler)(Handle communicator, Handle handler);
  int (*error_string)(int code, char* text, int* length);
  int (*all_to_all)(const void* from, int, Handle, void* to, int, Handle, Handle communicator);
  int (*all_gather)(const void* from, int, Handle, void* to, int, Handle, Handle communicator);
  int (*broadcast)(void* bytes, int, Handle, int root, Handle communicator);
  int (*send)(const void* bytes, int, Handle, int to, int tag, Handle communicator, Handle* request);
  int (*receive)(void* bytes, int, Handle, int from, int tag, Handle communicator, Handle* request);
  int (*test)(Handle* request, int* is_done, void* status);
  Handle world, byte, errors_return;
};

Mpi open_library() {
  // Its plugins look for its symbols among the program's.
  void* const library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    fail(Fault::device,
         "mpi: a launcher started this program as one of several ranks, but Open MPI's libmpi.so.40 cannot be opened; "
         "install it (Debian: apt install openmpi-bin), or start the program without mpirun or srun");
  const auto find = [&](const char* name) {
    void* const found = dlsym(library, name);
    if (!found) fail(Fault::device, "mpi: libmpi.so.40 lacks ", name, "; install Open MPI 4 or 5");
    return found;
  };
  const auto function = [&]<class Function>(Function& to, const char* name) {
    to = reinterpret_cast<Function>(find(name));
  };
  Mpi mpi{};
  function(mpi.init_thread, "MPI_Init_thread");
  function(mpi.finalize, "MPI_Finalize");
  function(mpi.abort, "MPI_Abort");
  function(mpi.rank, "MPI_Comm_rank");
  function(mpi.size, "MPI_Comm_size");
  function(mpi.processor_name, "MPI_Get_processor_name");
  function(mpi.set_error_handler, "MPI_Comm_set_errhandler");
  function(mpi.error_string, "MPI_Error_string");
  function(mpi.all_to_all, "MPI_Alltoall");
  function(mpi.all_gather, "MPI_Allgather");
  function(mpi.broadcast, "MPI_Bcast");
  function(mpi.send, "MPI_Isend");
  function(mpi.receive, "MPI_Irecv");
  function(mpi.test, "MPI_Test");
  mpi.world = find("ompi_mpi_comm_world");
  mpi.byte = find("ompi_mpi_byte");
  mpi.errors_return = find("ompi_mpi_errors_return");
  return mpi;
}

void expect(const Mpi& mpi, int code, const char* what) {
  if (code == 0) return;
  std::array<char, kLongestError> text{};
  int length = 0;
  mpi.error_string(code, text.data(), &length);
  fail(Fault::device, "mpi: ", what, ": ", std::string(text.data(), static_cast<std::size_t>(length)),
       "; look for the rank that ended first");
}

class OpenMpi final : public MpiCommunicator {
 public:
  OpenMpi(const Mpi& mpi, int rank, std::vector<std::string> hosts)
      : MpiCommunicator(rank, std::move(hosts)), mpi_(mpi) {}

  void all_to_all(const void* from, void* to, std::int64_t part_bytes) override {
    const int bytes = count(part_bytes);
    const Exchange exchange(exchanges_);
    expect(mpi_, mpi_.all_to_all(from, bytes, mpi_.byte, to, bytes, mpi_.byte, mpi_.world), "all_to_all");
  }
  void all_gather(const void* mine, void* all, std::int64_t part_bytes) override {
    const int bytes = count(part_bytes);
    const Exchange exchange(exchanges_);
    expect(mpi_, mpi_.all_gather(mine, bytes, mpi_.byte, all, bytes, mpi_.byte, mpi_.world), "all_gather");
  }
  void broadcast(void* bytes, std::int64_t size_bytes, int root) override {
    const Exchange exchange(exchanges_);
    for (std::int64_t done = 0; done < size_bytes; done += kMostBytes) {
      const auto piece = static_cast<int>(std::min<std::int64_t>(kMostBytes, size_bytes - done));
      expect(mpi_, mpi_.broadcast(static_cast<char*>(bytes) + done, piece, mpi_.byte, root, mpi_.world), "broadcast");
    }
  }
  void finalize() override { mpi_.finalize(); }
  void abort(int code) override { mpi_.abort(mpi_.world, code); }

  // A sign that is still on its way says as much as another one.
  void send_sign(int rank) override {
    if (sent_ && !is_done(sent_)) return;
    mpi_.send(&sign_, 1, mpi_.byte, rank, kSign, mpi_.world, &sent_);
  }
  bool take_sign(int rank) override {
    bool taken = false;
    for (;; taken = true) {
      if (!received_) mpi_.receive(&their_sign_, 1, mpi_.byte, rank, kSign, mpi_.world, &received_);
      if (!is_done(received_)) return taken;
    }
  }
  std::int64_t exchanges() const override { return exchanges_; }

 private:
  struct Exchange {
    explicit Exchange(std::atomic<std::int64_t>& count) : count_(count) { ++count_; }
    ~Exchange() { ++count_; }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

   private:
    std::atomic<std::int64_t>& count_;
  };

  /// Makes a request null once it is done. One that failed is that of a rank which is lost.
  bool is_done(Handle& request) const {
    int done = 0;
    if (mpi_.test(&request, &done, nullptr) != 0 || !done) return false;
    request = nullptr;
    return true;
  }
  static int count(std::int64_t bytes) {
    check(bytes <= INT_MAX, "mpi: a rank's part of an exchange has ", bytes, " bytes, expected at most ", INT_MAX,
          "; exchange smaller arrays");
    return static_cast<int>(bytes);
  }
  Mpi mpi_;
  std::atomic<std::int64_t> exchanges_{0};
  Handle sent_ = nullptr, received_ = nullptr;  // requests that are not done
  char sign_ = 0, their_sign_ = 0;
};

}  // namespace

std::shared_ptr<MpiCommunicator> open_mpi() {
  const Mpi mpi = open_library();
  int provided = 0, rank = 0, size = 1, length = 0;
  ::alarm(kSecondsToBegin);
  expect(mpi, mpi.init_thread(nullptr, nullptr, kMultiple, &provided), "init");
  if (provided < kMultiple)
    fail(Fault::device, "mpi: Open MPI was built without threads (MPI_THREAD_MULTIPLE); install Debian's openmpi-bin");
  mpi.set_error_handler(mpi.world, mpi.errors_return);
  expect(mpi, mpi.rank(mpi.world, &rank), "rank");
  expect(mpi, mpi.size(mpi.world, &size), "size");
  std::array<char, kLongestName> name{};
  mpi.processor_name(name.data(), &length);
  std::vector<std::array<char, kLongestName>> names(static_cast<std::size_t>(size));
  expect(mpi, mpi.all_gather(name.data(), kLongestName, mpi.byte, names.data(), kLongestName, mpi.byte, mpi.world),
         "all_gather");
  std::vector<std::string> hosts;
  for (const auto& host : names) hosts.emplace_back(host.data());
  ::alarm(0);
  return std::make_shared<OpenMpi>(mpi, rank, std::move(hosts));
}

}  // namespace nixie
