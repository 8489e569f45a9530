// The fuzz targets: readers of bytes that strangers may have written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nixie::fuzz {

using Input = std::span<const std::uint8_t>;

/// Reads an input. It may refuse with an Error of its kind and one line, and must do nothing else: not crash, hang,
/// read past the end, or take much memory; what it accepts must hold together.
struct Target {
  const char* name;
  void (*read)(Input input);
};

/// yaml, set, idx, cifar, npz, packed, tar, safetensors, jpeg, png, checkpoint, dlpack.
const std::vector<Target>& targets();

/// The target of that name; ends the program where there is none.
const Target& target_named(const std::string& name);

}  // namespace nixie::fuzz
