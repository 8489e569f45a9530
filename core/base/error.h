// Errors are part of the interface: one line that says what was found, where, and what to do.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace nixie {

/// The kind of an error. The numbers are the exit codes of every nixie program; besides them 0 is success, 1 a
/// difference found by a comparison, 130 an interrupt.
enum class Fault : int {
  usage = 2,       ///< wrong arguments, configuration or shapes
  device = 3,      ///< no usable device
  memory = 4,      ///< out of memory
  data = 5,        ///< a dataset is missing, damaged or empty
  checkpoint = 6,  ///< a checkpoint is damaged, hostile or of another model
  non_finite = 7,  ///< the loss became NaN or infinite
  storage = 8,     ///< a disk is full, or the system does not let a file be written or read (fail_reading)
};

/// The one exception type of nixie. `what()` is a single line, scope included.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, std::string line) : std::runtime_error(std::move(line)), fault_(fault) {}
  Fault fault() const { return fault_; }
  int exit_code() const { return static_cast<int>(fault_); }

 private:
  Fault fault_;
};

/// Names the layer or key that is being built, for errors thrown inside it:
/// `Scope scope("features"); Scope inner("3", "conv2d");` gives `features.3 (conv2d): ...`.
/// Scopes belong to the thread that opened them.
class Scope {
 public:
  explicit Scope(std::string_view name, std::string_view kind = {});
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The path of all open scopes joined by dots, without kinds; "" outside any scope.
  static std::string path();
  /// `path (kind): ` or "" outside any scope.
  static std::string prefix();
};

/// Throws Error with the line, prefixed with the open scopes.
[[noreturn]] void fail_line(Fault fault, std::string line);

/// Joins `count` parts. Not a template: fmt's code for every kind of part is large.
std::string line_of_parts(std::size_t count, fmt::format_args parts);

/// Joins the parts, each as fmt prints it.
template <class... Parts>
std::string line_of(const Parts&... parts) {
  return line_of_parts(sizeof...(parts), fmt::make_format_args(parts...));
}

/// Throws Error made of the parts.
template <class... Parts>
[[noreturn]] void fail(Fault fault, const Parts&... parts) {
  fail_line(fault, line_of(parts...));
}

/// Throws a usage Error made of the parts unless the condition holds.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(Fault::usage, parts...);
}

}  // namespace nixie
