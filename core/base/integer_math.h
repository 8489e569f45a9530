// Integer arithmetic on sizes, and signed/unsigned conversions without compiler warnings.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nixie {

/// An index into a standard container.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
constexpr std::uint64_t u64(std::int64_t value) { return static_cast<std::uint64_t>(value); }
constexpr std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

/// a / b, rounded up; b is positive.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : a / b; }
/// The smallest multiple of b that is at least a.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace nixie
