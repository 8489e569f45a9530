// Runs the ways to compute a kernel, each in a graph of its own.
#include "nixie/backends/cuda/tune/tuner.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <random>
#include <set>

#include "nixie/backends/cuda/run/jit_work.h"
#include "nixie/backends/cuda/tune/autotune.h"
#include "nixie/core/base/array.h"
#include "nixie/core/passes/memory.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kMostWays = 6;
constexpr double kWorthTiming = 1.3;
constexpr std::size_t kFewestLaunches = 4;  // of a graph

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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

std::set<int> slots_of(const Kernel& kernel) {
  const auto read = slots_read(kernel);
  std::set<int> slots(read.begin(), read.end());
  for (const Access& store : kernel.stores) slots.insert(store.slot);
  return slots;
}

/// What a kernel reads and writes: sets of memory that take turns, and scratch for any of its ways.
class Arena {
 public:
  Arena(Device& device, const Plan& plan, const Kernel& kernel, Noise& noise,
        std::span<const std::unique_ptr<Work>> works)
      : device_(device) {
    const std::set<int> slots = slots_of(kernel);
    std::int64_t bytes = 0, scratch = 0;
    for (int slot : slots) bytes += plan.slots[at(slot)].size_bytes();
    for (const auto& work : works) scratch = std::max(scratch, work->scratch_bytes());
    scalars_ = device.allocate(static_cast<std::int64_t>(plan.scalars.size() * sizeof(double)));
    if (!plan.scalars.empty())
      device.staging().copy(plan.scalars.data(), scalars_->address(), scalars_->size_bytes(), device.stream());
    scratch_ = device.allocate(scratch);
    sets_.resize(sets_beyond_l2(bytes));
    for (Addresses& addresses : sets_) {
      addresses.slots.resize(plan.slots.size());
      for (int slot : slots) {
        memory_.push_back(noise.buffer(plan.slots[at(slot)].dtype, plan.slots[at(slot)].size_bytes()));
        addresses.slots[at(slot)] = static_cast<char*>(memory_.back()->address());
      }
      addresses.scalars = static_cast<char*>(scalars_->address());
      addresses.scratch = static_cast<char*>(scratch_->address());
    }
  }
  std::size_t sets() const { return sets_.size(); }
  const Addresses& set(std::size_t i) const { return sets_[i % sets_.size()]; }
  /// As the first run of a plan finds it: another way may have left something.
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

/// `works` are ways of this kernel.
Fastest fastest_work(Device& device, const Plan& plan, const Kernel& kernel, Noise& noise,
                     std::span<const std::unique_ptr<Work>> works) {
  Arena arena(device, plan, kernel, noise, works);
  Race race(device.stream());
  for (const auto& work : works) {
    arena.clear_scratch();
    race.add(std::max(arena.sets(), kFewestLaunches),
             [&](std::size_t launch) { work->enqueue(arena.set(launch), device.stream()); });
  }
  return fastest_of(works.size(), [&](std::size_t way) {
    arena.clear_scratch();
    return race.microseconds(way);
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
    times += fmt::format("{} {} {:.1f}{}", i ? "," : "", code.ways[i].name, fastest.microseconds[i],
                         i == fastest.index ? " (taken)" : "");
  fmt::print(stderr, "tuned: {}:{} us\n", code.operation, times);
}

}  // namespace

std::vector<Way> worth_timing(std::vector<Way> ways) {
  const auto end = std::find_if(ways.begin(), ways.end(),
                                [&](const Way& way) { return way.estimate > kWorthTiming * ways[0].estimate; });
  ways.erase(end, ways.end());
  if (ways.size() > kMostWays) ways.resize(kMostWays);
  return ways;
}

std::vector<Tuned> time_ways(Device& device, const Plan& plan, std::span<const std::size_t> kernels) {
  std::vector<KernelCode> codes;
  std::vector<std::size_t> first{0};  // code of each kernel
  for (std::size_t k : kernels) {
    const Kernel& kernel = plan.kernels[k];
    for (const Way& way : worth_timing(generate(plan, kernel, device.is_hopper()).ways))
      codes.push_back(generate(plan, kernel, device.is_hopper(), way.name));
    first.push_back(codes.size());
  }
  std::vector<std::unique_ptr<Work>> works = make_jit_work(device, codes);  // compiles all of them in parallel
  Noise noise(device);
  std::vector<Tuned> lines;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::size_t count = first[i + 1] - first[i];
    const std::vector<Way>& ways = codes[first[i]].ways;
    const Fastest fastest =
        fastest_work(device, plan, plan.kernels[kernels[i]], noise, std::span(works).subspan(first[i], count));
    print_times(codes[first[i]], fastest);
    lines.push_back({.device = device.name(),
                     .operation = codes[first[i]].operation,
                     .way = ways[fastest.index].name,
                     .microseconds = fastest.microseconds[fastest.index],
                     .estimated_way = ways[0].name,
                     .estimated_microseconds = fastest.microseconds[0],
                     .date = today(),
                     .version = NIXIE_VERSION});
  }
  return lines;
}

}  // namespace nixie::cuda
