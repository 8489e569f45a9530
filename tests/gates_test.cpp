// Inputs and outputs that each pass through one place: whoever goes round it fails here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = NIXIE_SOURCE_DIR;

struct Gate {
  const char* what;
  std::regex goes_round;
  std::set<std::string> may;  // files, or folders with a slash at their end
};

const Gate kGates[] = {
    {"standard output: tell (apps/trainer/program/program.h), which escapes control characters",
     std::regex(R"(\b(fmt::print\((?!\s*(stderr|out_))|puts\(|printf\(|std::cout))"),
     {"apps/trainer/program/program.cpp", "apps/examples/"}},
    {"the end of a program: exit_code_of (apps/trainer/program/program.h), which gives a line and a number",
     std::regex(R"(\bint main\()"),
     {"apps/trainer/main.cpp", "apps/benchmark/main.cpp", "apps/explain/main.cpp", "apps/examples/"}},
    {"command lines: parse_arguments (apps/trainer/program/arguments.h), which refuses empty values",
     std::regex(R"(\bapp\.parse\(|CLI11_PARSE)"),
     {"apps/trainer/program/arguments.cpp"}},
    {"threads: start_threads and share_out (core/base/threads.h), which say what the system refused",
     std::regex(R"(std::async|std::thread [a-z_]+[({]|std::jthread\(|std::jthread [a-z_]+[({]|hreads\.emplace_back)"),
     {"core/base/threads.cpp"}},
    {"the working folder: working_folder and absolute_path (core/base/working_folder.h), which say that it is gone",
     std::regex(R"(current_path\(|(filesystem|fs)::(absolute|canonical|weakly_canonical|relative|proximate)\()"),
     {"core/base/working_folder.cpp"}},
    {"variables of the environment: backends/settings/environment.h, which refuses unknown values",
     std::regex(R"(getenv\("NIXIE_)"),
     {}},
    {"files that are replaced: PendingFile (models/io/durable_file.h), which leaves the old one or the new",
     std::regex(R"(std::ofstream|fopen\(.*"w|O_TRUNC)"),
     {"backends/cuda/",                                // caches, which are renamed into place and checked when read
      "apps/benchmark/subjects/contraction_peer.cpp",  // a file of its own for another process
      "apps/benchmark/measure/peer_process.cpp"}},     // what that process complains of
    {"folders that are made: make_folders (core/files/make_folders.h), which says what is in the way",
     std::regex(R"(create_director(y|ies)\()"),
     {"core/files/make_folders.cpp", "backends/cuda/"}},  // caches, without which it compiles again
    {"files that are read: FileToRead (core/files/open_to_read.h), which does not wait for a pipe",
     std::regex(R"(std::ifstream( [a-z_]+)?[({]|std::ifstream [a-z_]+;|\bopen(at|_file)?\(.*O_RDONLY|fopen\(.*"r)"),
     {"core/files/open_to_read.h", "core/files/open_to_read.cpp",
      "data/files/input_file.h",  // opened by it
      // descriptors, opened without waiting or for what was found to be a regular file
      "data/files/input_file.cpp", "data/files/packed_file.cpp", "data/files/tar_file.cpp",
      "models/io/checkpoint_block.cpp", "models/io/safetensors.cpp",
      "core/files/folder.cpp",  // folders
      // temporaries and marks, to see whether they are locked
      "models/io/durable_file.cpp", "apps/trainer/program/batch_advice.cpp",
      // caches and tables of the backend
      "backends/cuda/compile/cubin_cache.cpp", "backends/cuda/tune/tuning_database.cpp",
      "apps/trainer/program/program.cpp",  // /dev/null in the place of closed descriptors
      // what the system says of itself
      "core/base/free_memory.cpp", "apps/trainer/program/watchdog.cpp", "apps/trainer/commands/doctor_command.cpp",
      "apps/trainer/program/machine.cpp", "apps/trainer/program/subprocess.cpp",
      "apps/benchmark/measure/peer_process.cpp"}},  // what that process complains of
};

// The name by which a file may pass, or none.
std::string pass_of(const Gate& gate, const std::string& file) {
  for (const std::string& name : gate.may)
    if (file == name || (name.back() == '/' && file.starts_with(name))) return name;
  return {};
}

TEST(Gates, NothingGoesRoundThem) {
  std::set<std::pair<const Gate*, std::string>> used;
  for (const char* folder : {"core", "backends", "layers", "optimizers", "models", "data", "configs", "apps"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      const std::string file = fs::relative(entry.path(), kRoot).string();
      std::ifstream text(entry.path());
      std::string line;
      for (int number = 1; std::getline(text, line); ++number)
        for (const Gate& gate : kGates) {
          if (!std::regex_search(line, gate.goes_round)) continue;
          const std::string pass = pass_of(gate, file);
          EXPECT_FALSE(pass.empty()) << file << ":" << number << " goes round " << gate.what << "\n" << line;
          used.emplace(&gate, pass);
        }
    }
  for (const Gate& gate : kGates)  // a pattern that finds nothing would let everything through
    for (const std::string& name : gate.may)
      EXPECT_TRUE(used.contains({&gate, name})) << name << " needs no leave to go round " << gate.what;
}

}  // namespace
