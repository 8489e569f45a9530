// How every program of nixie begins, prints and ends. Nothing else writes to standard output or turns an exception into
// an exit code (tests/gates_test.cpp).
#pragma once

#include <fmt/format.h>


#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"

/// A path is printed as one_line gives it: a name may hold a line's end.
template <>
struct fmt::formatter<std::filesystem::path> : fmt::formatter<std::string> {
  auto format(const std::filesystem::path& path, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(nixie::one_line(path.string()), context);
  }
};

namespace nixie {

/// The text with every line as one_line gives it; its lines and tabs stay.
std::string printable(std::string_view text);

/// Prints to standard output what `printable` leaves of the text.
void tell_text(std::string_view text);

/// The same, formatted as by fmt::print.
template <class... Parts>
void tell(fmt::format_string<Parts...> format, Parts&&... parts) {
  tell_text(fmt::format(format, std::forward<Parts>(parts)...));
}

/// Has std::terminate without an exception, which is what the runtime calls where even the memory for one is wanting,
/// end the program as any want of memory does. For a program's constructor: declaring the library's ops takes memory.
void name_want_of_memory();

/// To be called before a program does anything else: takes the descriptors 0 to 2 where they are closed, so that no
/// file becomes standard output, has a write past a limit of file sizes fail with a message (SIGXFSZ would end the
/// program without one), and under a limit of addresses has all threads share an arena, but for large arrays.
void begin_program();

enum class Output {
  result,  ///< what is printed is what the program is for: it must have arrived
  log,     ///< the result is in files; who reads along does not matter
};

/// The exit code of work that a signal ended before its time.
constexpr int kInterrupted = 130;

/// The exit code of the work, or of what it throws, whose line goes to standard error behind `before`. Output that was
/// lost is Fault::storage, unless its reader has seen enough (EPIPE).
int exit_code_of(Output output, const std::function<int()>& work, const std::string& before = "");

}  // namespace nixie
