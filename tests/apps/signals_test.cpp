// Signals to commands that train nothing.
#include <sys/stat.h>

#include "nixie/tests/apps/child.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

// It may be sent to a whole job.
TEST(Signals, Usr1EndsNoOtherCommand) {
  const TempFolder folder;
  const fs::path log = folder / "log", pipe = folder / "pipe.yaml";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Child child({"--dry-run", "--config", pipe.string()}, log.string());
  std::ofstream config(pipe);  // waits until the trainer reads
  child.send(SIGUSR1);
  config << kRun;
  config.close();
  EXPECT_EQ(exit_code(child.wait()), 0) << text_of(log);
}

}  // namespace
}  // namespace nixie
