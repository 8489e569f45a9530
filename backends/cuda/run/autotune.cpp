// Chooses each group's algorithm (mostly a tile): by table, by running the candidates, or by estimate.
#include "nixie/backends/cuda/run/autotune.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/run/jit_work.h"
#include "nixie/backends/cuda/tune/candidate_timer.h"
#include "nixie/core/base/array.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kMostAlgorithms = 7;
constexpr double kWorthTiming = 1.3;
constexpr std::size_t kFewestLaunches = 4;  // of a graph

// Numbers of a type as a net holds them, and small indices.
Array random_numbers(Dtype dtype) {
  Array array(dtype, {1 << 20});
  std::mt19937 random(1);
  visit_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    for (T& x : array.data<T>())
      x = is_floating(dtype) ? convert<T>(std::uniform_real_distribution<float>(-1, 1)(random))
                             : convert<T>(static_cast<float>(random() % 4));
  });
  return array;
}

/// Device memory full of random numbers of a type, again and again.
class Noise {
 public:
  explicit Noise(Device& device) : device_(device) {}
  std::shared_ptr<Buffer> buffer(Dtype dtype, std::int64_t bytes) {
    std::shared_ptr<Buffer>& block = blocks_[dtype];
    if (!block) {
      const Array numbers = random_numbers(dtype);
      block = device_.allocate(numbers.size_bytes());
      device_.staging().copy(numbers.bytes(), block->address(), numbers.size_bytes(), device_.stream());
    }
    std::shared_ptr<Buffer> buffer = device_.allocate(bytes);
    for (std::int64_t done = 0; done < bytes; done += block->size_bytes())
      CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(buffer->address()) + done, block->address(),
                                 static_cast<std::size_t>(std::min(bytes - done, block->size_bytes())),
                                 cudaMemcpyDeviceToDevice, device_.stream()));
    return buffer;
  }

 private:
  Device& device_;
  std::map<Dtype, std::shared_ptr<Buffer>> blocks_;
};

/// The memory that a group reads and writes: sets that take turns, and scratch for any of its algorithms.
class Arena {
 public:
  Arena(Device& device, const Plan& plan, const Group& group, Noise& noise,
        std::span<const std::unique_ptr<GroupWork>> works)
      : device_(device) {
    std::set<int> slots(group.reads.begin(), group.reads.end());
    slots.insert(group.writes.begin(), group.writes.end());
    std::int64_t bytes = 0, scratch = 0;
    for (int slot : slots) bytes += plan.slots[at(slot)].size_bytes();
    for (const auto& work : works) scratch = std::max(scratch, work->scratch_bytes());
    scalars_ = device.allocate(static_cast<std::int64_t>(plan.scalars.size() * sizeof(double)));
    if (!plan.scalars.empty())
      device.staging().copy(plan.scalars.data(), scalars_->address(), scalars_->size_bytes(), device.stream());
    scratch_ = device.allocate(scratch);
    sets_.resize(sets_beyond_l2(bytes, device.chip().l2_bytes));
    for (Addresses& addresses : sets_) {
      addresses.slots.resize(plan.slots.size());
      for (int slot : slots) {
        memory_.push_back(noise.buffer(dtype_of(plan, slot), plan.slots[at(slot)].size_bytes()));
        addresses.slots[at(slot)] = static_cast<char*>(memory_.back()->address());
      }
      addresses.scalars = static_cast<char*>(scalars_->address());
      addresses.scratch = static_cast<char*>(scratch_->address());
    }
  }
  std::size_t sets() const { return sets_.size(); }
  const Addresses& set(std::size_t i) const { return sets_[i % sets_.size()]; }
  /// As the first run of a plan finds it: another algorithm may have left something.
  void clear_scratch() {
    CUDA_CHECK(
        cudaMemsetAsync(scratch_->address(), 0, static_cast<std::size_t>(scratch_->size_bytes()), device_.stream()));
  }

 private:
  Device& device_;
  std::shared_ptr<Buffer> scalars_, scratch_;
  std::vector<std::shared_ptr<Buffer>> memory_;
  std::vector<Addresses> sets_;
};

/// `works` are algorithms of this group.
Fastest fastest_work(Device& device, const Plan& plan, const Group& group, Noise& noise,
                     std::span<const std::unique_ptr<GroupWork>> works) {
  device.leave_default_stream();
  Arena arena(device, plan, group, noise, works);
  CandidateTimer timer(device.stream());
  for (const auto& work : works) {
    arena.clear_scratch();
    timer.add(std::max(arena.sets(), kFewestLaunches),
              [&](std::size_t launch) { work->enqueue(arena.set(launch), device.stream()); });
  }
  return fastest_of(works.size(), [&](std::size_t candidate) {
    arena.clear_scratch();
    return timer.microseconds(candidate);
  });
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc;
  gmtime_r(&now, &utc);
  return fmt::format("{}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

void print_times(const KernelCode& code, const Fastest& fastest) {
  std::string times;
  for (std::size_t i = 0; i < fastest.microseconds.size(); ++i)
    times += fmt::format("{} {} {:.1f}{}", i ? "," : "", code.algorithms[i].name, fastest.microseconds[i],
                         i == fastest.index ? " (taken)" : "");
  fmt::print(stderr, "tuned: {}:{} us\n", code.operation, times);
}

// Times the algorithms of these groups, which all have several, and prints what was found for each. Every launch of a
// CUDA graph has other memory, more than the L2 cache holds, of random numbers.
std::vector<Tuned> time_algorithms(Device& device, const Chip& chip, const Plan& plan,
                                   std::span<const std::size_t> groups) {
  std::vector<KernelCode> codes;
  std::vector<std::size_t> first{0};  // code of each group
  for (std::size_t g : groups) {
    for (const Algorithm& algorithm : worth_timing(generate(plan, plan.groups[g], chip).algorithms))
      codes.push_back(generate(plan, plan.groups[g], chip, algorithm.name));
    first.push_back(codes.size());
  }
  std::vector<std::unique_ptr<GroupWork>> works = make_jit_work(device, codes);  // compiles all of them in parallel
  Noise noise(device);
  std::vector<Tuned> lines;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::size_t count = first[i + 1] - first[i];
    const std::vector<Algorithm>& algorithms = codes[first[i]].algorithms;
    const Fastest fastest =
        fastest_work(device, plan, plan.groups[groups[i]], noise, std::span(works).subspan(first[i], count));
    print_times(codes[first[i]], fastest);
    lines.push_back({.device = device.name(),
                     .operation = codes[first[i]].operation,
                     .algorithm = algorithms[fastest.index].name,
                     .microseconds = fastest.microseconds[fastest.index],
                     .estimated_algorithm = algorithms[0].name,
                     .estimated_microseconds = fastest.microseconds[0],
                     .date = today(),
                     .version = NIXIE_VERSION});
  }
  return lines;
}

// The groups whose operation is to be measured, one of each.
std::vector<std::size_t> unmeasured(const Device& device, const Chip& chip, const Plan& plan,
                                    std::span<const std::size_t> groups, bool again) {
  static std::set<std::pair<std::string, std::string>> measured;  // by this process
  std::vector<std::size_t> found;
  for (std::size_t g : groups) {
    const KernelCode code = generate(plan, plan.groups[g], chip);
    if (worth_timing(code.algorithms).size() < 2) continue;
    if (!again && known_tuning().find(device.name(), code.operation)) continue;
    if (measured.emplace(device.name(), code.operation).second) found.push_back(g);
  }
  return found;
}

void measure(Device& device, const Chip& chip, const Plan& plan, std::span<const std::size_t> groups) {
  if (groups.empty()) return;
  if (!cubin_cache().enabled())
    fail(Fault::storage,
         "measurements cannot be kept, the cache folder is missing or open to others: set NIXIE_CACHE to a folder of "
         "mode "
         "0700 that you own");
  TuningDatabase& known = known_tuning();  // refuses a damaged table before anything is measured in vain
  const std::vector<Tuned> lines = time_algorithms(device, chip, plan, groups);
  for (const Tuned& line : lines) known.keep(line);
  add_to_file(user_table(), lines);
  fmt::print(stderr, "tuned: {} more lines in {}\n", lines.size(), user_table().string());
}

}  // namespace

std::vector<Algorithm> worth_timing(std::vector<Algorithm> algorithms) {
  const auto end = std::ranges::find_if(algorithms, [&](const Algorithm& algorithm) {
    return algorithm.estimate > kWorthTiming * algorithms[0].estimate;
  });
  algorithms.erase(end, algorithms.end());
  if (algorithms.size() > kMostAlgorithms) algorithms.resize(kMostAlgorithms);
  return algorithms;
}

std::vector<KernelCode> generate_tuned(Device& device, const Chip& chip, const Plan& plan,
                                       std::span<const std::size_t> groups) {
  const Tuning mode = tuning();
  static std::mutex mutex;  // tables, and nothing else on the device while something is timed
  const std::lock_guard lock(mutex);
  if (mode == Tuning::measure || mode == Tuning::again) {
    const auto in_use = device.use();
    measure(device, chip, plan, unmeasured(device, chip, plan, groups, mode == Tuning::again));
  }
  std::vector<KernelCode> codes;
  for (std::size_t g : groups)
    codes.push_back(mode == Tuning::off ? generate(plan, plan.groups[g], chip)
                                        : generate_known(plan, plan.groups[g], chip, device.name(), known_tuning()));
  return codes;
}

}  // namespace nixie::cuda
