// World: the ranks that train one model together, this process among them, and the Communicator between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nixie/core/base/error.h"

namespace nixie {

/// Moves bytes of host memory between the ranks. Every rank calls the same functions in the same order, one thread at a
/// time. Throws Fault::device where another rank cannot be reached.
class Communicator {
 public:
  /// `hosts` are the names of the ranks' machines.
  Communicator(int rank, std::vector<std::string> hosts) : rank_(rank), hosts_(std::move(hosts)) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// Both are `size()` parts of `part_bytes`: part r of `from` goes to rank r, part r of `to` comes from there.
  virtual void all_to_all(const void* from, void* to, std::int64_t part_bytes) = 0;
  /// Part r of `all` becomes rank r's `mine` of `part_bytes`.
  virtual void all_gather(const void* mine, void* all, std::int64_t part_bytes) = 0;
  /// `bytes` become those of rank `root`.
  virtual void broadcast(void* bytes, std::int64_t size_bytes, int root) = 0;

 private:
  int rank_;
  std::vector<std::string> hosts_;
};

/// The ranks of a job, by value; by default this process alone.
class World {
 public:
  World() = default;
  /// Throws for null.
  explicit World(std::shared_ptr<Communicator> communicator) : communicator_(std::move(communicator)) {
    check(communicator_ != nullptr, "world: there is no communicator; leave it out for a process by itself");
  }

  int rank() const { return communicator_ ? communicator_->rank() : 0; }  ///< of this process, from 0
  int size() const { return communicator_ ? communicator_->size() : 1; }  ///< the number of ranks
  bool is_alone() const { return size() == 1; }
  /// Whether this rank is the one that prints and writes.
  bool is_first() const { return rank() == 0; }
  /// This rank among those of its machine, from 0, and how many they are.
  int rank_on_host() const;
  int ranks_on_host() const;
  /// `rank 1 of 4 on node7`
  std::string text() const;
  /// Null for a process by itself.
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  /// An equal share of `count` for each rank. Throws where there is none; `what` names what is counted.
  std::int64_t share_of(std::int64_t count, const std::string& what) const;
  /// The bits that are set on any rank. All ranks call it.
  unsigned any(unsigned bits) const;
  /// Makes text that of rank 0. All ranks call it.
  std::string from_first(std::string text) const;
  /// Makes bytes those of rank 0. All ranks call it.
  void copy_from_first(void* bytes, std::int64_t size_bytes) const {
    if (!is_alone()) communicator_->broadcast(bytes, size_bytes, 0);
  }

 private:
  std::shared_ptr<Communicator> communicator_;
};

}  // namespace nixie
