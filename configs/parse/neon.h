// neon_config: a configuration of Nervana's neon as one of nixie.
#pragma once

#include <filesystem>
#include <string>

namespace nixie {

/// The YAML of a nixie configuration that trains what a neon file describes; lines of comment say what could not be
/// kept. Throws a usage Error `file:line:column: ...` where the file is no neon configuration or asks for what nixie
/// has not.
std::string neon_config(const std::filesystem::path& file);

}  // namespace nixie
