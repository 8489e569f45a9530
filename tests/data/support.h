// Helpers for tests of data/: a folder that goes away, IDX files made on the spot, and caught errors.
#pragma once

#include <unistd.h>
#include <zlib.h>

#include "nixie/core/base/error.h"
#include "nixie/tests/errors.h"

namespace nixie::test {

using Bytes = std::vector<std::uint8_t>;

/// A fresh folder, removed with everything in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "nixie_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() { fs::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// While it lives, the process has no more rights than any user, whom modes bind: root ignores them.
class Unprivileged {
 public:
  Unprivileged() : is_root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (is_root_ && ::seteuid(kNobody) != 0) throw std::runtime_error("cannot become another user");
  }
  ~Unprivileged() {
    if (is_root_) std::ignore = ::seteuid(0);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

 private:
  bool is_root_;
};

inline void write_file(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

/// All of a file.
inline std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<std::uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes big_endian(std::initializer_list<std::uint32_t> words) {
  Bytes bytes;
  for (const std::uint32_t word : words)
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  return bytes;
}

/// Reads copies of a good file in which up to three bytes were changed, put in or cut off with the rest, and expects
/// each to be read or refused as bad. Returns the share refused.
inline double refused_mutants(const Bytes& good, int count, const std::function<void(const Bytes&)>& read,
                              Fault bad = Fault::data) {
  std::mt19937 random(static_cast<unsigned>(good.size()));
  int refused = 0;
  for (int mutant = 0; mutant < count; ++mutant) {
    Bytes bytes = good;
    const auto place = [&] {  // half of them in the header
      const std::size_t size = mutant % 2 ? std::min<std::size_t>(bytes.size(), 24) : bytes.size();
      return bytes.begin() + static_cast<std::ptrdiff_t>(random() % size);
    };
    for (unsigned changes = 1 + random() % 3; changes > 0 && !bytes.empty(); --changes) switch (random() % 4) {
        case 0:
          *place() ^= static_cast<std::uint8_t>(1 << random() % 8);
          break;
        case 1:
          *place() = static_cast<std::uint8_t>(random());
          break;
        case 2:
          bytes.insert(place(), static_cast<std::uint8_t>(random()));
          break;
        default:
          bytes.erase(place(), bytes.end());
      }
    refused += error_of(bad, [&] { read(bytes); }) != "no error";
  }
  return refused / static_cast<double>(count);
}

/// The folder of real data, or "" where the machine has none.
inline std::string real_data() {
  const char* folder = std::getenv("NIXIE_TEST_DATA");
  return folder ? folder : "";
}

}  // namespace nixie::test
