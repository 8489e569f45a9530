// Storage: the elements of a stored value, in host memory, in a backend's memory, or both.
#pragma once

#include <memory>
#include <optional>

#include "nixie/core/base/array.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

/// Elements of fixed shape and type. Moves them between host and backend when asked. What only a backend held is lost
/// with it: reading it then throws Fault::usage.
class Storage {
 public:
  explicit Storage(Array host);
  /// What a Variable holds: it lies channels-last in the memory of a backend that wants it (Layout::variable).
  static std::shared_ptr<Storage> for_variable(Array host);
  /// Uninitialised memory of a backend, perhaps as a Variable's.
  Storage(Dtype dtype, Shape shape, Backend& backend, bool as_variable = false);
  /// Elements that are in a backend's memory already.
  Storage(Dtype dtype, Shape shape, Backend& backend, std::shared_ptr<Buffer> buffer);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  bool of_variable() const { return of_variable_; }
  /// Whether reading the elements moves nothing.
  bool is_on_host() const { return host_.has_value(); }
  /// How the elements lie in this backend's memory.
  Strides strides(const Backend& backend) const {
    return reordered(backend) ? shape_.channels_last() : shape_.row_major();
  }
  /// The elements in host memory; waits for the backend where it holds the newest.
  Array read() const;
  /// Replaces the elements; the array's shape and type must match.
  void write(const Array& array);
  /// The elements in this backend's memory, uploaded when they are not there yet.
  std::shared_ptr<Buffer> on(Backend& backend);
  /// The elements in this backend's memory without moving there for good: `staging` is (re)used when they live on the
  /// host, and left as it is when it holds them already. What a Variable holds comes as it lies.
  std::shared_ptr<Buffer> staged(Backend& backend, std::shared_ptr<Storage>& staging) const;
  /// Says that a run changed the backend's copy.
  void backend_wrote() {
    host_.reset();
    version_ = next_version();
  }
  /// Another number after every change, unlike any other storage's.
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
  std::uint64_t staged_version_ = 0;   ///< of staging: the version of the elements it was given last
  mutable std::optional<Array> host_;  ///< none when only the backend holds the elements
  Backend* backend_ = nullptr;
  std::weak_ptr<const void> backend_life_;
  std::shared_ptr<Buffer> buffer_;  ///< null when only the host holds them
};

}  // namespace nixie
