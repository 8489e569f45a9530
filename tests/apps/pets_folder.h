// Two folders of pictures, and what `trainer data` makes of them.
#pragma once

#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/pictures.h"

namespace nixie::test {

/// Folders `cat` and `dog` with ten pictures each, of several sizes, and a text file.
class PetsFolder : public testing::Test {
 protected:
  PetsFolder() {
    for (int i = 0; i < 10; ++i) {
      write_file(folder_ / fmt::format("pets/cat/{}.png", i), png(picture(24 + i, 20, i)));
      write_file(folder_ / fmt::format("pets/dog/{}.jpg", i), jpeg(picture(30, 40 + i, 0.3 * i)));
    }
    folder_.write("pets/cat/notes.txt", "no picture");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ran data(const std::string& arguments) const { return folder_.trainer("data " + arguments); }
  void pack_pets(int side) const {
    const Ran ran = data(fmt::format("pack pets packed --side {}", side));
    ASSERT_EQ(ran.code, 0) << ran.output;
  }

  Workplace folder_;
};

}  // namespace nixie::test
