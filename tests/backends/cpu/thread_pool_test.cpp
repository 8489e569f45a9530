// ThreadPool: every part once, exceptions, nesting, and calls from several threads.
#include "nixie/backends/cpu/host/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include "nixie/core/base/error.h"

namespace nixie::cpu {
namespace {

TEST(ThreadPool, RunsEveryPartOnce) {
  for (int threads : {1, 2, 3, 16}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (std::int64_t parts : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(parts));
      pool.parallel_for(parts, [&](std::int64_t part) { ++runs[static_cast<std::size_t>(part)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1) << threads << " threads, " << parts << " parts";
    }
  }
}

TEST(ThreadPool, ManySmallCalls) {
  ThreadPool pool(4);
  std::atomic<std::int64_t> sum = 0;
  for (int call = 0; call < 20000; ++call) pool.parallel_for(4, [&](std::int64_t part) { sum += part + call; });
  EXPECT_EQ(sum, 20000 * 6LL + 4LL * 20000 * 19999 / 2);
}

TEST(ThreadPool, CallerSeesWhatThePartsWrote) {
  ThreadPool pool(3);
  std::vector<int> values(1000);
  for (int round = 1; round <= 50; ++round) {
    pool.parallel_for(1000, [&](std::int64_t part) { values[static_cast<std::size_t>(part)] = round; });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 1000 * round);
  }
}

TEST(ThreadPool, ThrowsWhatAPartThrewAndGoesOn) {
  for (int threads : {1, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.parallel_for(8,
                                     [](std::int64_t part) {
                                       if (part == 5) throw std::runtime_error("five");
                                     }),
                   std::runtime_error);
      std::atomic<int> runs = 0;
      pool.parallel_for(8, [&](std::int64_t) { ++runs; });
      EXPECT_EQ(runs, 8);
    }
  }
}

TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(4);
  std::atomic<int> inner = 0;
  pool.parallel_for(8, [&](std::int64_t) {
    const auto outer_thread = std::this_thread::get_id();
    pool.parallel_for(10, [&](std::int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer_thread);
      ++inner;
    });
  });
  EXPECT_EQ(inner, 80);
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> runs = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int call = 0; call < 200; ++call) pool.parallel_for(5, [&](std::int64_t) { ++runs; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 4 * 200 * 5);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need all the address space there is
TEST(ThreadPool, AThreadThatCannotStartIsAnError) {
  const auto start_many = [] {
    ::alarm(20);  // in place of hanging for ever
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes =
        static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{256} << 20);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      const ThreadPool pool(4000);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s", error.what());
      ::_exit(error.exit_code());
    }
    ::_exit(0);
  };
  EXPECT_EXIT(start_many(), testing::ExitedWithCode(4),
              "cpu: thread [0-9]+ of 3999 cannot be started: .*; ask for fewer threads");
}
#endif

TEST(ThreadPool, RefusesNonsense) {
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(5000), Error);
  EXPECT_GE(ThreadPool(0).threads(), 1);
}

}  // namespace
}  // namespace nixie::cpu
