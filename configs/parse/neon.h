// neon_config: converts a configuration of Nervana's neon to nixie's.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// The YAML of a nixie configuration equivalent to a neon file; comments name what is not exact. Throws a usage Error
/// `file:line:column: ...` if the file is no neon configuration or needs a feature that nixie does not have; with a
/// line for each key that has no counterpart.
std::string neon_config(const std::filesystem::path& file);

}  // namespace nixie
