// The scope stack behind error messages.
#include "nixie/core/base/error.h"

#include "nixie/core/base/one_line.h"

#include <vector>

namespace nixie {
namespace {

struct Frame {
  std::string name, kind;
};

std::vector<Frame>& frames() {
  thread_local std::vector<Frame> stack;
  return stack;
}

}  // namespace

Scope::Scope(std::string_view name, std::string_view kind) {
  frames().push_back({std::string(name), std::string(kind)});
}
Scope::~Scope() { frames().pop_back(); }

std::string Scope::path() {
  std::string path;
  for (const Frame& frame : frames()) {
    if (frame.name.empty()) continue;
    if (!path.empty()) path += '.';
    path += frame.name;
  }
  return path;
}

std::string Scope::prefix() {
  if (frames().empty()) return {};
  const std::string path = Scope::path();
  const std::string& kind = frames().back().kind;
  if (path.empty()) return kind.empty() ? std::string{} : kind + ": ";
  return kind.empty() ? path + ": " : path + " (" + kind + "): ";
}

// Names that come from files and command lines may hold anything.
void fail_line(Fault fault, std::string line) { throw Error(fault, one_line(Scope::prefix() + line)); }

std::string line_of_parts(std::size_t count, fmt::format_args parts) {
  std::string format;
  for (std::size_t i = 0; i < count; ++i) format += "{}";
  return fmt::vformat(format, parts);
}

}  // namespace nixie
