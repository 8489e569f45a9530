// What ./dev shows of a build: progress in a line of its own, warnings and errors, and nothing else. cmake and
// dpkg-query are scripts of the test.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace nixie {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Dev : public testing::Test {
 protected:
  Dev() {
    std::string name = (fs::temp_directory_path() / "nixie_dev_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::copy_file(fs::path(NIXIE_SOURCE_DIR) / "dev", folder_ / "dev");
    write("dpkg-query", "for package in \"$@\"; do echo \"installed $package\"; done");
  }
  ~Dev() override { fs::remove_all(folder_); }

  void write(const std::string& program, const std::string& script) {
    fs::create_directories(folder_ / "bin");
    std::ofstream(folder_ / "bin" / program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "bin" / program, fs::perms::owner_all);
  }

  /// Runs ./dev with these arguments; gives its exit code and what it printed.
  std::pair<int, std::string> run(const std::string& arguments) {
    const std::string folder = folder_.string(), out = folder + "/out";
    const int status = std::system(
        ("PATH='" + folder + "/bin':$PATH '" + folder + "/dev' " + arguments + " > '" + out + "' 2>&1").c_str());
    std::ostringstream text;
    text << std::ifstream(out).rdbuf();
    return {WEXITSTATUS(status), text.str()};
  }

  fs::path folder_;
};

TEST_F(Dev, ShowsWarningsOfABuildAndNoOtherLine) {
  write("cmake",
        "echo \"$@\" >> called\necho '[1/2] Building a.o'\necho 'a.cpp:1:2: warning: odd'\necho '[2/2] Linking a'");
  const auto [code, output] = run("build trainer");
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output,
              AllOf(HasSubstr("dev: building trainer in build/release\n"), HasSubstr("a.cpp:1:2: warning: odd\n"),
                    HasSubstr("dev: built trainer in "), Not(HasSubstr("[1/2]")), Not(HasSubstr("Linking"))));
  std::ostringstream called;
  called << std::ifstream(folder_ / "called").rdbuf();
  EXPECT_THAT(called.str(), AllOf(HasSubstr("--preset release"), HasSubstr("--target trainer\n")));
}

TEST_F(Dev, ABuildThatFailsShowsWhy) {
  write("cmake",
        "[ \"$1\" = --preset ] && exit 0\necho '[1/2] Building a.o'\necho 'FAILED: a.o'\necho 'a.cpp:1:2: error: "
        "no'\nexit 1");
  const auto [code, output] = run("build");
  EXPECT_EQ(code, 1) << output;
  EXPECT_THAT(output,
              AllOf(HasSubstr("FAILED: a.o\na.cpp:1:2: error: no\n"), HasSubstr("the build of everything failed"),
                    Not(HasSubstr("[1/2]")), Not(HasSubstr("dev: built"))));
}

TEST_F(Dev, AConfigurationThatFailsShowsWhy) {
  write("cmake", "echo 'CMake Error: no compiler'; exit 1");
  const auto [code, output] = run("build");
  EXPECT_EQ(code, 1) << output;
  EXPECT_THAT(output, AllOf(HasSubstr("CMake Error: no compiler\n"), Not(HasSubstr("dev: building"))));
}

TEST_F(Dev, NamesItsCommands) {
  EXPECT_THAT(run("").second, AllOf(HasSubstr("setup [cuda]"), HasSubstr("build [TARGET...]")));
  EXPECT_EQ(run("").first, 0);
  EXPECT_EQ(run("nonsense").first, 2);
}

}  // namespace
}  // namespace nixie
