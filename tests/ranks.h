// Ranks that are threads of one process, each with a CPU backend of its own.
#pragma once

#include "nixie/tests/test.h"

#include <barrier>
#include <exception>
#include <mutex>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/graph/world.h"

namespace nixie::test {

/// The place where the ranks of a process meet.
struct Meeting {
  explicit Meeting(int size) : gate(size), bytes(static_cast<std::size_t>(size)) {}
  std::barrier<> gate;
  std::vector<const char*> bytes;  // of each rank, while all are here
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, std::shared_ptr<Meeting> meeting)
      : Communicator(rank, std::vector<std::string>(meeting->bytes.size(), "here")), meeting_(std::move(meeting)) {}

  void all_to_all(const void* from, void* to, std::int64_t part) override {
    meet(from, [&](int other, const char* theirs) { copy(to, other * part, theirs + rank() * part, part); });
  }
  void all_gather(const void* mine, void* all, std::int64_t part) override {
    meet(mine, [&](int other, const char* theirs) { copy(all, other * part, theirs, part); });
  }
  void broadcast(void* bytes, std::int64_t size, int root) override {
    meet(bytes, [&](int other, const char* theirs) {
      if (other == root && rank() != root) copy(bytes, 0, theirs, size);
    });
  }
  /// This rank comes no more.
  void leave() { meeting_->gate.arrive_and_drop(); }

 private:
  static void copy(void* to, std::int64_t offset, const char* from, std::int64_t size) {
    if (size > 0) std::memcpy(static_cast<char*>(to) + offset, from, static_cast<std::size_t>(size));
  }
  template <class Take>
  void meet(const void* mine, const Take& take) {
    meeting_->bytes[static_cast<std::size_t>(rank())] = static_cast<const char*>(mine);
    meeting_->gate.arrive_and_wait();
    for (int other = 0; other < size(); ++other) take(other, meeting_->bytes[static_cast<std::size_t>(other)]);
    meeting_->gate.arrive_and_wait();
  }
  std::shared_ptr<Meeting> meeting_;
};

/// Calls `work` on this many ranks at a time, and throws the first rank's error.
inline void on_ranks(int size, const std::function<void(const World& world, Backend& backend)>& work) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        const auto communicator = std::make_shared<ThreadCommunicator>(rank, meeting);
        try {
          work(World(communicator), *make_cpu_backend(1));
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
        communicator->leave();
      });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// A rank of a job whose other ranks never come, for plans that are not run.
inline World alone_of(int size, int rank = 0) {
  return World(std::make_shared<ThreadCommunicator>(rank, std::make_shared<Meeting>(size)));
}

}  // namespace nixie::test
