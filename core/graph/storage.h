// Storage: the elements of a stored value, in host memory, in a backend's memory, or both.
#pragma once

#include <memory>
#include <optional>

#include "nixie/core/base/array.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

/// Elements of fixed shape and type. Moves them between host and backend on demand. Elements that only a destroyed
/// backend held are lost: reading them throws Fault::usage.
class Storage {
 public:
  explicit Storage(Array host);
  /// The storage of a Variable: channels-last in the memory of a backend that prefers it (Layout::variable).
  static std::shared_ptr<Storage> for_variable(Array host);
  /// Uninitialised memory of a backend, optionally in a Variable's layout.
  Storage(Dtype dtype, Shape shape, Backend& backend, bool as_variable = false);
  /// Elements already in a backend's memory.
  Storage(Dtype dtype, Shape shape, Backend& backend, std::shared_ptr<Buffer> buffer);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool of_variable() const { return of_variable_; }
  /// Whether the host holds the elements, so that reading copies nothing.
  bool is_on_host() const { return host_.has_value(); }
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
  /// Marks the backend's copy as changed by a run.
  void backend_wrote() {
    host_.reset();
    version_ = next_version();
  }
  /// A number that changes with every change and is unique among storages.
  std::uint64_t version() const { return version_; }

 private:
  static std::uint64_t next_version();
  bool reordered(const Backend& backend) const;
  bool is_on(const Backend& backend) const { return buffer_ && backend_ == &backend && !backend_life_.expired(); }
  void upload(const Array& array);
  Dtype dtype_;
  Shape shape_;
  bool of_variable_ = false;
  std::uint64_t version_ = next_version();
  std::uint64_t staged_version_ = 0;   ///< of staging: the version of the elements last copied to it
  mutable std::optional<Array> host_;  ///< none when only the backend holds the elements
  Backend* backend_ = nullptr;
  std::weak_ptr<const void> backend_life_;
  std::shared_ptr<Buffer> buffer_;  ///< null when only the host holds them
};

}  // namespace nixie
