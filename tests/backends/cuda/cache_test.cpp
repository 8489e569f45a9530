// The cubin cache: what is kept comes back, what is damaged does not, and a folder that others can write is not used.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "nixie/backends/cuda/compile/cubin_cache.h"

namespace nixie::cuda {
namespace {

class CudaCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "nixie-cache-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::filesystem::path only_file() const {
    std::filesystem::path found;
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "cache")) {
      EXPECT_TRUE(found.empty()) << "more than one file";
      found = entry.path();
    }
    return found;
  }

  std::filesystem::path root_;
};

TEST_F(CudaCache, GivesBackWhatWasKeptAndMakesItsFolderPrivate) {
  const CubinCache cache(root_ / "cache");
  ASSERT_TRUE(cache.enabled());
  EXPECT_FALSE(cache.find("key"));
  cache.keep("key", {std::string("co\0de", 5), "log"});
  const auto found = cache.find("key");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, std::string("co\0de", 5));
  EXPECT_EQ(found->log, "log");
  EXPECT_FALSE(cache.find("another key"));
  struct stat info;
  ASSERT_EQ(lstat((root_ / "cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  only_file();  // no temporary is left
}

// Processes that choose at the same time take the choice of one of them.
TEST_F(CudaCache, TheFirstOfSeveralChoicesCounts) {
  const CubinCache first(root_ / "cache"), second(root_ / "cache"), none("");
  EXPECT_EQ(first.agree("key", {"a", ""}).code, "a");
  EXPECT_EQ(second.agree("key", {"b", ""}).code, "a");
  EXPECT_EQ(first.find("key")->code, "a");
  EXPECT_EQ(none.agree("key", {"b", ""}).code, "b");
  std::filesystem::resize_file(only_file(), 3);  // as a full disk leaves it
  EXPECT_EQ(second.agree("key", {"b", ""}).code, "b");
  EXPECT_EQ(first.find("key")->code, "b");
  only_file();
}

TEST_F(CudaCache, ADamagedFileIsAMiss) {
  const CubinCache cache(root_ / "cache");
  cache.keep("key", {std::string(1000, 'c'), "log"});
  const std::filesystem::path file = only_file();
  const auto size = std::filesystem::file_size(file);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<long>(size) - 10).put('x');
  EXPECT_FALSE(cache.find("key"));
  std::filesystem::resize_file(file, size - 1);
  EXPECT_FALSE(cache.find("key"));
  std::filesystem::resize_file(file, 3);
  EXPECT_FALSE(cache.find("key"));
  cache.keep("key", {"again", ""});
  ASSERT_TRUE(cache.find("key"));
  EXPECT_EQ(cache.find("key")->code, "again");
}

TEST_F(CudaCache, AFolderOthersCanWriteIsNotUsed) {
  std::filesystem::create_directory(root_ / "cache");
  ASSERT_EQ(chmod((root_ / "cache").c_str(), 0777), 0);
  const CubinCache cache(root_ / "cache");
  EXPECT_FALSE(cache.enabled());
  cache.keep("key", {"code", ""});
  EXPECT_FALSE(cache.find("key"));
  EXPECT_TRUE(std::filesystem::is_empty(root_ / "cache"));
}

TEST_F(CudaCache, ALinkInPlaceOfTheFolderIsNotUsed) {
  std::filesystem::create_directory(root_ / "elsewhere");
  std::filesystem::create_directory_symlink(root_ / "elsewhere", root_ / "cache");
  EXPECT_FALSE(CubinCache(root_ / "cache").enabled());
}

TEST_F(CudaCache, WithoutAFolderNothingIsKept) { EXPECT_FALSE(CubinCache("").enabled()); }

}  // namespace
}  // namespace nixie::cuda
#endif
