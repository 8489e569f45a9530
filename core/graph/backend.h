// Backend: runs Plans. Its interface is compiled Plans and plain buffers, nothing smaller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nixie/core/graph/plan.h"
#include "nixie/core/graph/recently_used.h"

namespace nixie {

/// Memory of a backend.
class Buffer {
 public:
  explicit Buffer(std::int64_t size_bytes) : size_bytes_(size_bytes) {}
  virtual ~Buffer() = default;
  std::int64_t size_bytes() const { return size_bytes_; }
  /// The address as the backend's kernels see it.
  virtual void* address() = 0;

 private:
  std::int64_t size_bytes_;
};

/// The properties of a backend that the passes use.
struct Target {
  bool channels_last = false;    ///< physical layout of images and filters
  bool overlaps = false;         ///< groups that do not wait for each other run side by side
  bool replays_members = false;  ///< members of groups run, too, so their slots need memory as well
  /// Seconds that a plan is estimated to take, which it lowers for this; of two expressions of the same value the
  /// cheaper one is planned. Empty: there is no estimate, and expressions stay as they are.
  std::function<double(Plan)> seconds = {};
};

/// The device of a backend's memory.
struct MemoryPlace {
  std::int32_t device_type = 1, device_index = 0;  ///< in DLPack's numbers (core/graph/dlpack.h): the CPU
  std::int64_t alignment = 1;                      ///< alignment in bytes that kernels expect of external memory
  /// Backends of this place may use each other's buffers: all work on them is done when a call returns.
  bool is_shared = false;
};

/// A Plan ready to run.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs the plan once. `externals` are bound to plan.externals in order; `scalars` replace plan.scalars.
  /// Returns when the work is ordered on the backend, not necessarily done.
  virtual void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) = 0;
  /// The algorithm of each kernel of the plan, in order, as named by the backend; empty if it has only one.
  virtual std::vector<std::string> algorithms() const { return {}; }
};

/// Times work by the backend's own clock.
class Stopwatch {
 public:
  virtual ~Stopwatch() = default;
  /// Records the time at which all work ordered so far is done; need not wait for it.
  virtual void mark() = 0;
  /// Milliseconds between successive marks. Waits for the last mark, then clears them.
  virtual std::vector<double> intervals_ms() = 0;
};

/// Threads may call the functions of one backend at a time, and run its executables: it does one after the other.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual Target target() const { return {}; }
  /// Picks algorithms, adds workspace slots, joins kernels into groups. Runs before memory is laid out.
  virtual void lower(Plan&) {}
  /// Throws Fault::memory if there is not enough.
  virtual std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) = 0;
  virtual void upload(const void* from, Buffer& to, std::int64_t size_bytes) = 0;
  virtual void download(Buffer& from, void* to, std::int64_t size_bytes) = 0;
  /// Waits for all work ordered so far.
  virtual void synchronize() {}
  virtual MemoryPlace memory_place() const { return {}; }
  /// Makes this backend's later work wait for the work given so far to `stream`, another stream of the device.
  virtual void wait_for(void* /*stream*/) {}
  /// Makes later work on `stream` wait for the work ordered here so far.
  virtual void be_awaited_by(void* /*stream*/) {}
  /// By default uses the host's clock, read when the work is done. The backend must outlive it.
  virtual std::unique_ptr<Stopwatch> stopwatch();
  virtual std::unique_ptr<Executable> compile(const Plan& plan) = 0;

  /// The executable of an expression of this structure: one of the last kMostKept that `evaluate` used, or a new one.
  std::shared_ptr<Executable> reused(const std::string& structure,
                                     const std::function<std::unique_ptr<Executable>()>& make);
  static constexpr std::size_t kMostKept = 256;
  /// Expires when the backend is destroyed.
  std::weak_ptr<const void> life() const { return life_; }

 private:
  std::mutex keeping_;
  RecentlyUsed<std::shared_ptr<Executable>> kept_{kMostKept};  // guarded by the mutex
  std::shared_ptr<const int> life_ = std::make_shared<const int>(0);
};

/// The backend that `evaluate` and host reads use if none is given; throws until one is set.
Backend& default_backend();
void set_default_backend(std::shared_ptr<Backend> backend);

}  // namespace nixie
