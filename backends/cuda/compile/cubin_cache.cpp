// Reads and writes the cubin cache.
#include "nixie/backends/cuda/compile/cubin_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <fstream>

#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

// A file: this header, the log, the code.
struct Header {
  char magic[8] = {'n', 'i', 'x', 'i', 'e', 'c', 'b', '1'};
  std::uint64_t key_check = 0;  // another hash of the key: a collision of names is a miss
  std::uint64_t log_bytes = 0, code_bytes = 0, payload_hash = 0;
};

bool ours_alone(const std::filesystem::path& folder) {
  struct stat info;
  return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 0077) == 0;
}

std::uint64_t hash(const std::string& text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::string file_name(const std::string& key) {
  const XXH128_hash_t name = XXH3_128bits(key.data(), key.size());
  return fmt::format("{:016x}{:016x}.cubin", name.high64, name.low64);
}

}  // namespace

CubinCache::CubinCache(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  mkdir(folder.c_str(), 0700);
  if (ours_alone(folder)) folder_ = folder;
}

std::optional<Cubin> CubinCache::find(const std::string& key) const {
  if (!enabled()) return {};
  std::ifstream in(folder_ / file_name(key), std::ios::binary);
  Header header, expected;
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 || header.key_check != hash(key, 1))
    return {};
  const std::string rest{std::istreambuf_iterator<char>(in), {}};
  if (header.log_bytes > rest.size() || rest.size() - header.log_bytes != header.code_bytes) return {};
  if (header.payload_hash != hash(rest, 0)) return {};
  return Cubin{rest.substr(header.log_bytes), rest.substr(0, header.log_bytes)};
}

std::filesystem::path CubinCache::write(const std::string& key, const Cubin& cubin) const {
  if (!enabled()) return {};
  static std::atomic<int> count{0};
  const std::string payload = cubin.log + cubin.code;
  Header header;
  header.key_check = hash(key, 1);
  header.log_bytes = cubin.log.size();
  header.code_bytes = cubin.code.size();
  header.payload_hash = hash(payload, 0);
  const std::filesystem::path temporary = folder_ / fmt::format("tmp.{}.{}", getpid(), count++);
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&header), sizeof header)
      .write(payload.data(), static_cast<std::streamsize>(payload.size()));
  out.close();
  if (out) return temporary;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return {};
}

void CubinCache::keep(const std::string& key, const Cubin& cubin) const {
  const std::filesystem::path temporary = write(key, cubin);
  std::error_code error;
  if (!temporary.empty()) std::filesystem::rename(temporary, folder_ / file_name(key), error);
  if (error) std::filesystem::remove(temporary, error);
}

Cubin CubinCache::agree(const std::string& key, const Cubin& mine) const {
  const std::filesystem::path temporary = write(key, mine);
  if (temporary.empty()) return mine;
  std::error_code error;
  std::filesystem::create_hard_link(temporary, folder_ / file_name(key), error);  // fails where there is one
  std::filesystem::remove(temporary, error);
  if (const std::optional<Cubin> first = find(key)) return *first;
  keep(key, mine);  // that one is damaged, or the folder has no links
  return mine;
}

const CubinCache& cubin_cache() {
  static const CubinCache cache(cache_folder());
  return cache;
}

}  // namespace nixie::cuda
