// The output of a trainer as a text.
#pragma once

#include "nixie/tests/test.h"

namespace nixie::test {

class Printed {
 public:
  std::FILE* file() const { return file_.get(); }
  std::string text() const {
    std::string text(static_cast<std::size_t>(std::ftell(file())), '\0');
    std::rewind(file());
    text.resize(std::fread(text.data(), 1, text.size(), file()));
    std::fseek(file(), 0, SEEK_END);
    return text;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), &std::fclose};
};

}  // namespace nixie::test
