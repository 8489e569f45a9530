// Storage: the elements of a stored value, in host memory, in a backend's memory, or both.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

/// Elements of fixed shape and type. Moves them between host and backends on demand; each backend that reads them keeps
/// a copy, and backends of one shared memory (MemoryPlace) keep one together, which outlives them. Elements that only
/// destroyed backends of other memory held are lost: reading them throws Fault::usage. Several threads may read them;
/// see Use.
class Storage {
 public:
  explicit Storage(Array host);
  /// The storage of a Variable: channels-last in the memory of a backend that prefers it (Layout::variable). Errors
  /// name the Variable.
  static std::shared_ptr<Storage> for_variable(Array host, std::string name);
  /// Uninitialised memory of a backend, optionally in a Variable's layout.
  Storage(Dtype dtype, Shape shape, Backend& backend, bool as_variable = false);
  /// Elements already in a backend's memory.
  Storage(Dtype dtype, Shape shape, Backend& backend, std::shared_ptr<Buffer> buffer);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool of_variable() const { return of_variable_; }
  /// Whether the host holds the elements, so that reading copies nothing.
  bool is_on_host() const;
  /// The elements' strides in this backend's memory.
  Strides strides(const Backend& backend) const {
    return reordered(backend) ? shape_.channels_last() : shape_.row_major();
  }
  /// The elements in host memory; waits for the backend if it holds the newest ones.
  Array read() const;
  /// Replaces the elements; the array's shape and type must match.
  void write(const Array& array);
  /// The elements in this backend's memory, uploaded if they are not there yet.
  std::shared_ptr<Buffer> on(Backend& backend);
  /// The elements in this backend's memory, without making that copy permanent: elements on the host are copied to
  /// `staging`, unless it holds them already. A Variable's elements keep their layout.
  std::shared_ptr<Buffer> staged(Backend& backend, std::shared_ptr<Storage>& staging) const;
  /// After a run of this backend changed the elements in `buffer`: the host and other backends hold old ones.
  void backend_wrote(Backend& backend, const std::shared_ptr<Buffer>& buffer);
  /// A number that changes with every change and is unique among storages.
  std::uint64_t version() const;

  /// A run that reads the elements, or also changes them, for as long as this exists. A change while another thread
  /// reads or changes them, and reading while another thread changes them, throw Fault::usage.
  class Use {
   public:
    enum class Kind { reads, changes };
    Use(std::shared_ptr<Storage> storage, Kind kind);
    Use(Use&&) noexcept = default;
    Use& operator=(Use&&) = delete;
    ~Use();

   private:
    std::shared_ptr<Storage> storage_;
  };

 private:
  struct Copy {
    Copy(Backend& backend, bool is_reordered, std::shared_ptr<Buffer> buffer);
    bool is_alive() const { return place.is_shared || !backend_life.expired(); }
    bool serves(const Backend& other, bool is_reordered_there) const;
    void upload(const Array& array) const;
    Array download(Dtype dtype, const Shape& shape) const;
    Backend* backend;
    std::weak_ptr<const void> backend_life;
    MemoryPlace place;
    bool is_reordered;
    std::shared_ptr<Buffer> buffer;
  };
  static std::uint64_t next_version();
  bool reordered(const Backend& backend) const;
  // The following functions are called with the mutex locked.
  const Copy* find(const Backend& backend) const;
  Array elements() const;
  std::string label() const;
  void check_may_read() const;
  void check_may_change() const;

  const Dtype dtype_;
  const Shape shape_;
  bool of_variable_ = false;
  std::string name_;  ///< of the Variable

  mutable std::mutex mutex_;  ///< guards all that follows
  int uses_ = 0;              ///< runs that read the elements, or -1: one changes them
  std::uint64_t version_ = next_version();
  std::uint64_t staged_version_ = 0;   ///< of staging: the version of the elements last copied to it
  mutable std::optional<Array> host_;  ///< none when only backends hold the elements
  std::vector<Copy> copies_;           ///< equal ones, at most one for each memory
};

}  // namespace nixie
