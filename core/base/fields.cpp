// Text of options as YAML reads it back.
#include "nixie/core/base/fields.h"

namespace nixie {

std::string field_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\')
      text += std::string("\\") + c;
    else if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f)
      text += fmt::format("\\x{:02x}", byte);
    else
      text += c;
  }
  return text + '"';
}

}  // namespace nixie
