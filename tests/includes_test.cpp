// The direction of includes between folders, and what an installed header may include.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NIXIE_SOURCE_DIR;

// The folders that the files of a folder may include besides their own.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"core", {}},
    {"backends", {"core"}},
    {"layers", {"core"}},
    {"optimizers", {"core"}},
    {"models", {"layers", "optimizers", "core"}},
    {"data", {"core"}},
    {"configs", {"models", "layers", "optimizers", "data", "core"}},
    {"apps", {"configs", "models", "layers", "optimizers", "data", "backends", "core"}},
    {"tests", {"apps", "configs", "models", "layers", "optimizers", "data", "backends", "core"}},
};

// The rooms of a folder from the ground up: each may include those before it, and itself.
const std::map<std::string, std::vector<std::string>> kRooms = {
    {"core",
     {"core/base", "core/graph", "core/ops", "core/state", "core/passes", "core/rewrites", "core/files", "core"}},
    {"backends/cuda",
     {"backends/cuda/kernels/conv", "backends/cuda/device", "backends/cuda/compile", "backends/cuda/generate",
      "backends/cuda/families", "backends/cuda/rewrite", "backends/cuda/tune", "backends/cuda/run", "backends/cuda"}},
    {"backends/cpu",
     {"backends/cpu/host", "backends/cpu/lanes", "backends/cpu/contract", "backends/cpu/stages", "backends/cpu"}},
    {"apps/trainer",
     {"apps/trainer/program", "apps/trainer/ranks", "apps/trainer/record", "apps/trainer/profile",
      "apps/trainer/report", "apps/trainer", "apps/trainer/rates", "apps/trainer/commands", "apps/trainer/study"}},
};

using Pairs = std::set<std::pair<std::string, std::string>>;

// Rooms that include each other are one room with two doors. These are left.
const Pairs kTwoDoors = {{"apps/trainer", "apps/trainer/profile"},
                         {"apps/trainer", "apps/trainer/report"},
                         {"backends/cpu/contract/conv", "backends/cpu/contract/winograd"},
                         {"backends/cuda/families", "backends/cuda/families/conv"},
                         {"configs/parse", "configs/parse/neon"},
                         {"configs/parse", "configs/parse/syntax"},
                         {"data", "data/files"},
                         {"data", "data/pixels"},
                         {"data/files", "data/pictures"},
                         {"models/io", "models/io/onnx"}};

// Subfolders whose headers are installed beside those at the top of their folders.
const std::set<std::string> kPublicRooms = {"core/base",           "core/graph",         "core/ops",    "core/state",
                                            "core/files",          "models/io",          "models/nets", "configs/parse",
                                            "apps/trainer/record", "apps/trainer/ranks", "data/files"};

struct Include {
  int line;
  std::string file;
  bool quoted;
  bool ours;  // starts with nixie/, which is cut off
};

std::vector<Include> includes_of(std::istream& text) {
  std::vector<Include> found;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') continue;
    std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) continue;
    std::size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) continue;
    std::size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    if (close == std::string::npos) continue;
    std::string file = line.substr(open + 1, close - open - 1);
    const bool ours = file.starts_with("nixie/");
    found.push_back({number, ours ? file.substr(6) : file, line[open] == '"', ours});
  }
  return found;
}

struct Source {
  std::string path;  // from the root: "core/base/shape.h"
  std::string folder;
  std::vector<Include> includes;

  std::string room() const { return fs::path(path).parent_path(); }
  /// A program's main is above all rooms.
  bool is_main() const { return fs::path(path).filename() == "main.cpp"; }
  bool device_code() const { return path.starts_with("backends/cuda/kernels/") && path.ends_with(".cuh"); }
};

// Installed are the headers at the top of a library's folder and of its public rooms, and each backend's backend.h.
bool installed(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  if (parent.parent_path() == "backends") return path.ends_with("/backend.h");
  bool library = parent == "apps/trainer" || kPublicRooms.contains(parent) ||
                 (parent != "apps" && parent != "tests" && kAllowed.contains(parent));
  return library && path.ends_with(".h");
}

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const auto& [folder, allowed] : kAllowed) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cuh") continue;
      std::string path = fs::relative(entry.path(), kRoot);
      if (path.starts_with("tests/consumer/")) continue;  // an outside project
      std::ifstream text(entry.path());
      all.push_back({path, folder, includes_of(text)});
    }
  }
  return all;
}

std::string place(const Source& source, const Include& include) {
  return source.path + ":" + std::to_string(include.line) + ": includes " + include.file;
}

std::string first_folder(const std::string& path) { return path.substr(0, path.find('/')); }

TEST(Includes, AreRead) {
  std::istringstream text(
      "#include \"nixie/core/a.h\"\n  #  include <vector>  // why\n// #include \"no.h\"\nint include;\n#if 1\n");
  std::vector<Include> found = includes_of(text);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].file, "core/a.h");
  EXPECT_TRUE(found[0].quoted && found[0].ours);
  EXPECT_EQ(found[1].file, "vector");
  EXPECT_EQ(found[1].line, 2);
  EXPECT_FALSE(found[1].quoted);
}

TEST(Includes, FollowTheDirectionOfFolders) {
  std::set<std::string> seen;
  for (const Source& source : sources()) {
    seen.insert(source.path);
    if (source.device_code()) continue;
    for (const Include& include : source.includes) {
      if (!include.quoted && !include.ours) continue;
      if (std::set<std::string>{"benchmark_commit.h", "benchmark_render.h", "nixie.h"}.contains(include.file))
        continue;  // made by the build
      std::string folder = first_folder(include.file);
      EXPECT_TRUE(include.ours && fs::exists(kRoot / include.file))
          << place(source, include) << ", which is no nixie/ and a path from the root";
      EXPECT_TRUE(folder == source.folder || kAllowed.at(source.folder).contains(folder)) << place(source, include);
    }
  }
  EXPECT_TRUE(seen.contains("core/base/shape.h") && seen.contains("tests/includes_test.cpp"));
}

// Within a folder of several rooms no include runs back up, but between two rooms that are one.
TEST(Includes, FollowTheDirectionOfRooms) {
  for (const auto& [folder, rooms] : kRooms) {
    // A folder inside a room is on its floor.
    auto floor_of = [&](const std::string& path) {
      for (fs::path parent = fs::path(path).parent_path(); parent.string().starts_with(folder);
           parent = parent.parent_path())
        if (const auto room = std::find(rooms.begin(), rooms.end(), parent);
            room != rooms.end() && (*room != folder || fs::path(path).parent_path() == folder))
          return room - rooms.begin();
      return std::ssize(rooms);
    };
    int seen = 0;
    for (const Source& source : sources()) {
      if (!source.path.starts_with(folder + "/") || source.device_code() || source.is_main()) continue;
      ++seen;
      const auto floor = floor_of(source.path);
      EXPECT_LT(floor, std::ssize(rooms)) << source.path << " is in a room that this test does not know";
      for (const Include& include : source.includes) {
        if (!include.ours || !include.file.starts_with(folder + "/")) continue;
        if (kTwoDoors.contains({fs::path(include.file).parent_path(), source.room()})) continue;
        EXPECT_LE(floor_of(include.file), floor) << place(source, include) << ", which is further up";
      }
    }
    EXPECT_GT(seen, 10) << folder;
  }
}

/// The pairs of names of which each includes the other, the smaller name first.
Pairs mutual(const std::map<std::string, std::set<std::string>>& includes) {
  Pairs pairs;
  for (const auto& [from, all] : includes)
    for (const std::string& to : all)
      if (const auto back = includes.find(to); from < to && back != includes.end() && back->second.contains(from))
        pairs.emplace(from, to);
  return pairs;
}

// Functions that two sources ask of each other belong to one of them, or to a third. A source that includes the header
// of its details, which knows the source's types, is no such pair.
TEST(Includes, OfTwoSourcesGoOneWay) {
  std::map<std::string, std::set<std::string>> includes;
  for (const Source& source : sources())
    if (source.path.ends_with(".cpp") && source.folder != "tests")
      for (const Include& include : source.includes)
        includes[fs::path(source.path).replace_extension()].insert(fs::path(include.file).replace_extension());
  EXPECT_EQ(mutual(includes), (Pairs{{"data/files/folder_scan", "data/preparation"}}));
}

TEST(Includes, OfTwoFoldersGoOneWay) {
  std::map<std::string, std::set<std::string>> includes;
  for (const Source& source : sources()) {
    if (source.folder == "tests" || source.is_main()) continue;
    for (const Include& include : source.includes)
      if (include.ours) includes[source.room()].insert(fs::path(include.file).parent_path());
  }
  EXPECT_EQ(mutual(includes), kTwoDoors);
}

// A visitor keeps some sixteen files in mind; a header and its source are one, and so are the variants of a kernel.
TEST(Includes, NoFolderHoldsMoreThanSixteenFiles) {
  std::map<std::string, std::set<std::string>> stems;
  for (const Source& source : sources()) {
    fs::path path = source.path;
    if (source.folder != "tests") stems[path.parent_path()].insert(path.stem());
  }
  for (const auto& [folder, files] : stems) EXPECT_LE(files.size(), 16u) << folder;
}

TEST(Includes, OfInstalledHeadersAreInstalled) {
  int headers = 0;
  for (const Source& source : sources()) {
    if (!installed(source.path)) continue;
    ++headers;
    for (const Include& include : source.includes) {
      EXPECT_TRUE(!include.ours || installed(include.file)) << place(source, include) << ", which is not installed";
      for (const char* forbidden : {"Eigen/", "unsupported/", "immintrin", "x86intrin", "cuda", "nvrtc", "cublas"}) {
        EXPECT_FALSE(!include.quoted && include.file.starts_with(forbidden)) << place(source, include);
      }
    }
  }
  EXPECT_GE(headers, 5);
}

// Each of these takes a compiler as long as ten headers of ours, in every file of every program that includes one.
TEST(Includes, OfInstalledHeadersCompileFast) {
  const std::set<std::string> slow = {"CLI/CLI.hpp", "fmt/format.h", "fmt/ranges.h", "fmt/chrono.h",     "fmt/std.h",
                                      "iostream",    "sstream",      "regex",        "nlohmann/json.hpp"};
  for (const Source& source : sources()) {
    if (!installed(source.path)) continue;
    for (const Include& include : source.includes) EXPECT_EQ(slow.count(include.file), 0u) << place(source, include);
  }
}

// Only backends/, the programs and the tests know that there is CUDA; inside backends/ its own folder and the list do.
TEST(Includes, NameCudaOnlyWhereItLives) {
  for (const Source& source : sources()) {
    if (source.folder == "apps" || source.folder == "tests" || source.path.starts_with("backends/cuda/")) continue;
    bool list_of_backends =
        source.folder == "backends" && !source.path.ends_with(".h") && source.path.find('/') == source.path.rfind('/');
    for (const Include& include : source.includes) {
      EXPECT_TRUE(list_of_backends || include.file.find("cuda") == std::string::npos) << place(source, include);
    }
  }
}

// Device code is compiled at run time from embedded text: there is no other file to include.
TEST(Includes, OfDeviceCodeStayInItsFolder) {
  const std::vector<Source> all = sources();
  for (const Source& source : all) {
    if (!source.device_code()) continue;
    for (const Include& include : source.includes) {
      bool found = false;
      for (const Source& other : all) found |= other.device_code() && fs::path(other.path).filename() == include.file;
      EXPECT_TRUE(include.quoted && found) << place(source, include);
    }
  }
}

}  // namespace
