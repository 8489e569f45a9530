// A resume that is refused changes no file, whatever it was to go on from; one that is not writes through no links.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

/// While it lives nobody may change the file; `holds` is false where the file system knows no such files.
class Immutable {
 public:
  Immutable(fs::path file, int flag) : file_(std::move(file)), flag_(flag), holds_(set(flag_, 0)) {}
  ~Immutable() { set(0, flag_); }
  Immutable(const Immutable&) = delete;
  Immutable& operator=(const Immutable&) = delete;
  bool holds() const { return holds_; }

 private:
  bool set(int with, int without) const {
    const int file = ::open(file_.c_str(), O_RDONLY);
    int flags = 0;
    const bool is_set = file >= 0 && ::ioctl(file, FS_IOC_GETFLAGS, &flags) == 0 &&
                        ((flags = (flags & ~without) | with), ::ioctl(file, FS_IOC_SETFLAGS, &flags) == 0);
    ::close(file);
    return is_set;
  }

  fs::path file_;
  int flag_;
  bool holds_;
};

/// No file of this process may be larger, as on a disk without room.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
};

std::map<std::string, std::string> bytes_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != ".lock") files[entry.path().filename()] = text_of(entry.path());
  return files;
}

/// 30 steps of which the best were the first 10, kept at each evaluation.
const fs::path& whole_run() {
  static const TempFolder folder;
  static const bool is_made = [] {
    train_all(folder.path(), small_config("keep: 3\n", {"steps=30", "epochs=0"}));
    fs::copy_file(folder / "step-10.h5", folder / "best.h5", fs::copy_options::overwrite_existing);
    return true;
  }();
  EXPECT_TRUE(is_made);
  return folder.path();
}

TEST(RefusedResume, ChangesNoFile) {
  struct Refusal {
    std::string name;
    std::string more = {};  // of the configuration
    std::string file = {};  // its text is another
    std::string text = {};
    std::string fixed = {};  // this one may not be changed
    int flag = FS_IMMUTABLE_FL;
    rlim_t largest = RLIM_INFINITY;
    std::vector<std::string> froms = {"last.h5", "best.h5", "step-10.h5", "step-20.h5"};
  };
  std::vector<Refusal> refusals = {
      {.name = "other metrics", .more = "metrics: [f1]\n"},
      {.name = "foreign timing.csv", .file = "timing.csv", .text = "a,b\n1,2\n"},
      {.name = "lost timing.csv", .file = "timing.csv", .text = std::string(50, '\0') + "\n"},
      {.name = "foreign metrics.csv", .file = "metrics.csv", .text = "a,b\n1,2\n"},
      {.name = "no room for metrics.csv", .largest = 100},
      {.name = "another model", .more = "model: [flatten, {linear: {out: 10}}]\n"},
      {.name = "immutable step-10.h5", .fixed = "step-10.h5", .froms = {"step-10.h5", "best.h5"}},
  };
  for (const char* name :
       {"config.yaml", "metrics.csv", "metrics.jsonl", "timing.csv", "log.txt", "report.html", "last.h5", "best.h5"}) {
    refusals.push_back({.name = std::string("immutable ") + name, .fixed = name});
    if (name != std::string("log.txt"))
      refusals.push_back({.name = std::string("append-only ") + name, .fixed = name, .flag = FS_APPEND_FL});
  }
  int refused = 0;
  for (const Refusal& refusal : refusals)
    for (const std::string& from : refusal.froms) {
      const std::string what = refusal.name + " from " + from;
      const TempFolder run;
      fs::copy(whole_run(), run.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
      if (!refusal.file.empty()) std::ofstream(run / refusal.file, std::ios::binary) << refusal.text;
      const std::optional<Immutable> fixed =
          refusal.fixed.empty() ? std::nullopt
                                : std::optional<Immutable>(std::in_place, run / refusal.fixed, refusal.flag);
      if (fixed && !fixed->holds()) continue;  // not by this user, or not in this file system
      const auto before = bytes_of(run.path());
      std::string config = kRun + "keep: 3\n";
      if (refusal.more.starts_with("model:")) config.erase(0, config.find("data:"));
      const TrainConfig wanted = parse_config(config + refusal.more, "run.yaml", {"steps=40", "epochs=0"});
      const SmallFiles limit(refusal.largest);
      EXPECT_ANY_THROW({
        Trainer trainer(wanted, {.run = run.path()});
        trainer.resume(run / from);
        trainer.train();
      }) << what;
      for (const auto& [file, bytes] : bytes_of(run.path()))
        EXPECT_TRUE(before.contains(file) && before.at(file) == bytes) << file << " differs: " << what;
      EXPECT_EQ(bytes_of(run.path()).size(), before.size()) << what;
      ++refused;
    }
  EXPECT_GE(refused, 20);
}

// A copy of names (cp -al), and links to files elsewhere: what a run writes is its own.
TEST(Links, AreNotWrittenThrough) {
  const TrainConfig config = small_config("keep: 3\n", {"steps=40", "epochs=0"});
  for (const bool are_hard : {true, false}) {
    const TempFolder source, run;
    fs::copy(whole_run(), source.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    std::ofstream(source / ".lock") << "pid 1 on another";
    const auto before = bytes_of(source.path());
    for (const auto& entry : fs::directory_iterator(source.path())) {
      const fs::path file = run / entry.path().filename().string();
      if (are_hard)
        fs::create_hard_link(entry.path(), file);
      else if (file.filename() != ".lock")  // refused: see RunLock
        fs::create_symlink(entry.path(), file);
    }
    {
      const RunLock of_the_source(source.path());  // and the source goes on meanwhile
      const std::string holder = text_of(source / ".lock");
      Trainer trainer(config, {.run = run.path()});
      trainer.resume_last({});
      EXPECT_TRUE(trainer.train());
      EXPECT_EQ(text_of(source / ".lock"), holder);
    }
    EXPECT_TRUE(bytes_of(source.path()) == before) << are_hard;
    EXPECT_THAT(text_of(run / "log.txt"), StartsWith(text_of(source / "log.txt")));
    EXPECT_GT(fs::file_size(run / "log.txt"), fs::file_size(source / "log.txt"));
    EXPECT_FALSE(fs::equivalent(run / ".lock", source / ".lock"));
  }
}

}  // namespace
}  // namespace nixie
