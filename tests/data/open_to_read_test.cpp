// Which fault it is that a file cannot be read.
#include "nixie/core/files/open_to_read.h"

#include <cerrno>
#include "nixie/tests/test.h"

namespace nixie {
namespace {

TEST(OpenToRead, AFaultOfTheSystemIsNoneOfTheFile) {
  struct Row {
    int error;
    Fault fault;
    const char* why;
  };
  for (const Row& row : {Row{ENOENT, Fault::data, "the name is wrong"}, Row{ENOTDIR, Fault::data, "so is its folder"},
                         Row{ENOMEM, Fault::memory, "the file may be whole, and a disk is no matter of it"},
                         Row{EACCES, Fault::storage, "permissions"}, Row{EIO, Fault::storage, "the disk"},
                         Row{EMFILE, Fault::storage, "descriptors"}})
    EXPECT_EQ(fault_of_reading(row.error, Fault::data), row.fault) << row.why;
}

}  // namespace
}  // namespace nixie
