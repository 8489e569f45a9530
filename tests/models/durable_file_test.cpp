// Saving under fire: kill -9, full disks and file size limits leave the old checkpoint or the new one, nothing between.
#include "nixie/models/io/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "nixie/core/files/open_to_read.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/data/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

class DurableFile : public testing::Test {
 protected:
  int files() const { return static_cast<int>(std::distance(fs::directory_iterator(folder_), {})); }

  TempFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A checkpoint whose every value is its step.
Checkpoint filled(std::int64_t step, std::int64_t elements) {
  Checkpoint c;
  const std::vector<float> values(static_cast<std::size_t>(elements), static_cast<float>(step));
  c.model["weight"] = Array::from(values, {elements});
  c.state["step"] = step;
  return c;
}
bool is_whole(const Checkpoint& c) {
  const auto step = static_cast<float>(std::get<std::int64_t>(c.state.at("step")));
  for (const float value : c.model.at("weight").data<float>())
    if (value != step) return false;
  return true;
}

/// Saves, expects Fault::storage, and returns the line.
std::string save_error(const Checkpoint& c, const fs::path& file) {
  return error_of(Fault::storage, [&] { save_checkpoint(c, file); });
}

// A rename would: for root even /dev/null.
TEST_F(DurableFile, ReplacesNoPipeAndNoDevice) {
  const fs::path pipe = folder_ / "pipe", link = folder_ / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", link);
  for (const fs::path& path : {pipe, link}) {
    EXPECT_FAULT(storage, path.string() + " is a device, a pipe or a socket, which is not replaced",
                 PendingFile(path, 1).publish());
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(files(), 2);
}

TEST_F(DurableFile, AppearsOnlyWhenPublished) {
  const fs::path path = folder_ / "a.bin";
  {
    PendingFile file(path, 5);
    file.write(bytes_of("ab"));
    file.write(bytes_of("cde"));
    EXPECT_FALSE(fs::exists(path));
    file.sync();
    file.publish();
  }
  EXPECT_EQ(text_of(path), "abcde");
  { PendingFile(path, 3).write(bytes_of("new")); }  // never published
  EXPECT_EQ(text_of(path), "abcde");
  { PendingFile(folder_ / "empty", 0).publish(); }
  EXPECT_EQ(fs::file_size(folder_ / "empty"), 0u);
  EXPECT_EQ(files(), 2);
}

TEST_F(DurableFile, RemovesTheTemporariesOfTheDeadOnly) {
  const auto touch = [&](const std::string& name) { std::ofstream(folder_ / name) << "x"; };
  for (const char* name :
       {".last.h5.tmp.123", ".best.h5.tmp.9.4", "last.h5", ".last.h5.tmp.", ".last.h5.tmp.12x", "a.tmp.1", ".tmp.5"})
    touch(name);
  const fs::path of_a_running_process = folder_ / ".last.h5.tmp.77.1";
  touch(of_a_running_process.filename());
  const int file = ::open(of_a_running_process.c_str(), O_RDONLY);
  ::flock(file, LOCK_EX);
  EXPECT_EQ(remove_stale_temporaries(folder_), 2);
  EXPECT_FALSE(fs::exists(folder_ / ".last.h5.tmp.123"));
  EXPECT_TRUE(fs::exists(of_a_running_process));
  ::close(file);
  EXPECT_EQ(files(), 6);
  EXPECT_EQ(remove_stale_temporaries(folder_ / "none"), 0);
}

TEST_F(DurableFile, NamesFoldersThatCannotBeWritten) {
  EXPECT_THAT(save_error(filled(1, 4), folder_ / "none" / "last.h5"),
              HasSubstr("none/last.h5 cannot be created: No such file"));
  fs::create_directories(folder_ / "last.h5" / "inside");
  EXPECT_THAT(save_error(filled(1, 4), folder_ / "last.h5"), HasSubstr("cannot be replaced: Is a directory"));
  EXPECT_THAT(save_error(filled(1, 4), "/proc/last.h5"), HasSubstr("/proc/last.h5 cannot be created"));
  EXPECT_EQ(files(), 1);
}

// Whoever takes a folder away while a file is written, and makes another there, keeps what is in the other.
TEST_F(DurableFile, GoesIntoTheFolderThatWasOpenedOrNowhere) {
  const fs::path run = folder_ / "run", moved = folder_ / "moved";
  for (const bool is_removed : {false, true}) {
    SCOPED_TRACE(is_removed);
    fs::create_directory(run);
    std::ofstream(run / "old") << "mine";
    const Folder folder(run);
    PendingFile file(run / "a", 3);
    file.write(bytes_of("new"));
    EXPECT_TRUE(folder.is_in_place());
    is_removed ? static_cast<void>(fs::remove_all(run)) : fs::rename(run, moved);
    EXPECT_FALSE(folder.is_in_place());
    fs::create_directory(run);
    for (const char* name : {"a", "old"}) std::ofstream(run / name) << "another's";
    const std::function<void()> calls[] = {[&] { file.publish(); },
                                           [&] {
                                             PendingFile({folder, "b"}, 0).publish();
                                           },
                                           [&] {
                                             link_durably({folder, "old"}, {folder, "c"});
                                           },
                                           [&] {
                                             remove_file({folder, "old"});
                                           }};
    for (const auto& call : calls) {
      const std::string line = error_of(Fault::storage, call);
      EXPECT_EQ(line != "no error", is_removed && &call != &calls[3]) << line;
    }
    for (const char* name : {"a", "old"}) EXPECT_EQ(text_of(run / name), "another's");
    EXPECT_EQ(std::distance(fs::directory_iterator(run), {}), 2);
    fs::remove_all(run);
  }
  EXPECT_EQ(text_of(moved / "a"), "new");
  EXPECT_EQ(text_of(moved / "c"), "mine");
  EXPECT_FALSE(fs::exists(moved / "old"));
}

// Also by HDF5, which opens files by a path, whatever is at the folder's path.
TEST_F(DurableFile, IsReadInTheFolderThatWasOpened) {
  const fs::path run = folder_ / "run";
  fs::create_directory(run);
  std::ofstream(run / "a") << "mine";
  fs::create_symlink("a", run / "link");
  fs::create_directory(run / "inside");
  save_checkpoint(filled(1, 4), run / "a.h5");
  fs::create_symlink("a.h5", run / "last.h5");
  ASSERT_EQ(::mkfifo((run / "pipe").c_str(), 0600), 0);
  const Folder folder(run);
  const auto expect_mine = [&](const fs::path& path) {
    for (const char* name : {"a", "link"}) {
      const FilePlace place(folder, name);
      EXPECT_EQ(read_text(place, Fault::data, ""), "mine") << path;
      EXPECT_EQ(text_of(place.readable()), "mine") << path;
      EXPECT_EQ(place.path(), run / name);
    }
    EXPECT_TRUE(is_whole(load_checkpoint({folder, "last.h5"}))) << path;
    EXPECT_EQ(FilePlace(folder, "a").readable() == run / "a", path == run);
    EXPECT_TRUE(fs::is_directory(FilePlace(folder, "inside").status()));
    EXPECT_FALSE(fs::exists(FilePlace(folder, "none").status()));
    EXPECT_FAULT(data,
                 testing::Eq((run / "pipe").string() + ": cannot be read: it is not a regular file; name another"),
                 read_text({folder, "pipe"}, Fault::data, "name another"));
    EXPECT_FAULT(data,
                 testing::Eq((run / "none").string() + ": cannot be read: No such file or directory; name another"),
                 read_text({folder, "none"}, Fault::data, "name another"));
  };
  expect_mine(run);
  fs::rename(run, folder_ / "moved");
  expect_mine(folder_ / "moved");
  fs::create_directory(run);
  for (const char* name : {"a", "link", "none", "last.h5"}) std::ofstream(run / name) << "another's";
  expect_mine(folder_ / "moved");
}

// As by its path: whoever may pass through a folder reads the files whose names he knows.
TEST_F(DurableFile, IsReadInAFolderThatMayNotBeListed) {
  std::ofstream(folder_ / "a") << "mine";
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec);
  const test::Unprivileged user;
  EXPECT_EQ(read_text(folder_ / "a", Fault::data, ""), "mine");
  EXPECT_FALSE(fs::exists(FilePlace(folder_ / "none").status()));
  EXPECT_THAT(save_error(filled(1, 4), folder_ / "b"), HasSubstr("cannot be created: Permission denied"));
}

// Where the file system holds files without a name, a process that is killed before it publishes leaves nothing.
TEST_F(DurableFile, AKilledWriterLeavesNothing) {
  const int nameless = ::open(folder_.c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (nameless < 0) GTEST_SKIP() << "files have names here";
  ::close(nameless);
  const pid_t child = ::fork();
  if (child == 0) {
    PendingFile file(folder_ / "a.bin", 1000);
    file.write(bytes_of("abc"));
    std::ofstream(folder_ / "written");
    ::pause();
  }
  while (!fs::exists(folder_ / "written")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(files(), 1);
}

// The name is tried before anything is written.
TEST_F(DurableFile, RefusesANameThatIsTooLong) {
  EXPECT_FAULT(storage, "cannot be created: File name too long", PendingFile(folder_ / std::string(256, 'a'), 1));
  EXPECT_EQ(files(), 0);
}

// A temporary's name is no longer than the file's own may be.
TEST_F(DurableFile, TakesEveryNameThatTheSystemTakes) {
  std::string accents = "a";
  while (accents.size() < 255) accents += "\u00e9";
  for (const std::string& name : {std::string(240, 'a'), std::string(248, 'a'), std::string(255, 'a'), accents}) {
    for (const char* text : {"first", "second"}) {
      PendingFile file(folder_ / name, 1);
      file.write(bytes_of(text));
      file.publish();
    }
    link_durably(folder_ / name, folder_ / std::string(255, 'b'));
    EXPECT_EQ(fs::file_size(folder_ / std::string(255, 'b')), 6u) << name.size();
    fs::remove(folder_ / name);
    fs::remove(folder_ / std::string(255, 'b'));
    EXPECT_EQ(files(), 0) << name.size();
  }
}

TEST_F(DurableFile, KillLeavesAWholeCheckpoint) {
  const fs::path path = folder_ / "last.h5";
  constexpr std::int64_t kElements = 400'000;
  const auto start = std::chrono::steady_clock::now();
  save_checkpoint(filled(0, kElements), path);
  const std::chrono::duration<double> one_save = std::chrono::steady_clock::now() - start;
  std::mt19937 random(3);
  std::int64_t first = 1, changed = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::int64_t step = first;; ++step) save_checkpoint(filled(step, kElements), path);
    }
    std::this_thread::sleep_for(one_save * std::uniform_real_distribution<>(0, 12)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    Checkpoint loaded;
    ASSERT_NO_THROW(loaded = load_checkpoint(path)) << "round " << round;
    ASSERT_TRUE(is_whole(loaded));
    const std::int64_t step = std::get<std::int64_t>(loaded.state.at("step"));
    changed += step + 1 != first;
    first = step + 1;
    remove_stale_temporaries(folder_);
    ASSERT_EQ(files(), 1);
  }
  EXPECT_GT(changed, 0) << "no child ever got to save";
}

/// In a child: limits the size of files, saves, and reports through the exit code.
int save_with_limit(const fs::path& path, rlim_t limit) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limits{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &limits);
    try {
      save_checkpoint(filled(2, 100'000), path);
      ::_exit(0);
    } catch (const Error& error) {
      ::_exit(error.exit_code());
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(DurableFile, SizeLimitsLeaveTheOldCheckpoint) {
  const fs::path path = folder_ / "last.h5";
  save_checkpoint(filled(1, 100'000), path);
  const std::uintmax_t size = fs::file_size(path);
  for (int part = 0; part < 16; ++part) {
    ASSERT_EQ(save_with_limit(path, size * static_cast<std::uintmax_t>(part) / 16), 8) << part << "/16";
    ASSERT_EQ(std::get<std::int64_t>(load_checkpoint(path).state.at("step")), 1);
    ASSERT_EQ(files(), 1);
  }
  EXPECT_EQ(save_with_limit(path, size), 0);
  EXPECT_EQ(std::get<std::int64_t>(load_checkpoint(path).state.at("step")), 2);
}

TEST_F(DurableFile, FullDisksLeaveTheOldCheckpointAndSayWhatIsMissing) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "may not mount a small disk";
  const std::unique_ptr<const char, int (*)(const char*)> unmount(disk.c_str(), ::umount);
  const fs::path path = disk / "last.h5";
  save_checkpoint(filled(1, 500'000), path);  // 2 MB
  for (int megabytes = 1; megabytes < 6; ++megabytes) {
    std::ofstream(disk / "other") << std::string(static_cast<std::size_t>(megabytes) << 20, 'x');
    const std::string error = save_error(filled(2, 1'500'000), path);  // 6 MB more
    EXPECT_THAT(error, HasParts("No space left on device; it needs 60",
                                " are free; free some space; the old file is untouched"));
    EXPECT_EQ(std::get<std::int64_t>(load_checkpoint(path).state.at("step")), 1);
    EXPECT_EQ(std::distance(fs::directory_iterator(disk), {}), 2);
  }
  fs::remove(disk / "other");
  EXPECT_EQ(save_error(filled(3, 1'000'000), path), "no error");
  EXPECT_TRUE(is_whole(load_checkpoint(path)));
}

TEST_F(DurableFile, SayWhatToDoAboutEachRefusal) {
  struct Case {
    int error;
    std::int64_t bytes;
    const char* remedy;
  };
  const std::string file = (folder_ / "a").string();
  for (const Case& c : {
           Case{ENOSPC, 42, "; it needs 42 bytes, [0-9]+ are free; free some space"},
           Case{ENOSPC, 0, "; [0-9]+ are free; free some space"},
           Case{EDQUOT, 42, "; it needs 42 bytes; free some space"},
           Case{EDQUOT, 0, "; free some space"},
           Case{EACCES, 42, "; check the path and its permissions"},
           Case{EROFS, 42, "; check the disk"},
           Case{EIO, 42, "; check the disk"},
           Case{EMFILE, 42, "; close other files, or raise `ulimit -n`"},
           Case{ENFILE, 42, "; close other programs, or have the system's limit .sysctl fs.file-max. raised"},
           Case{ENOMEM, 42, "; end other programs, or take a machine with more memory"},
       })
    EXPECT_THAT(write_remedy(file, c.bytes, c.error), testing::MatchesRegex(c.remedy)) << std::strerror(c.error);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4096, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string remedy = write_remedy(file, 5000, EFBIG);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(remedy, "; 5000 bytes are to be written; a file may have 4096 (RLIMIT_FSIZE); raise `ulimit -f`");
}

TEST_F(DurableFile, DisksWithoutInodesAreNotFull) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=8m,nr_inodes=4") != 0)
    GTEST_SKIP() << "may not mount a small disk";
  const std::unique_ptr<const char, int (*)(const char*)> unmount(disk.c_str(), ::umount);
  for (int i = 0; i < 4; ++i) std::ofstream(disk / std::to_string(i));
  EXPECT_EQ(save_error(filled(1, 4), disk / "last.h5"),
            (disk / "last.h5").string() +
                " cannot be created: No space left on device; its disk has room, but no inode for another file; "
                "remove some files; the old file is untouched");
}

}  // namespace
}  // namespace nixie
