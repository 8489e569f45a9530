// Reads and writes the block, field by field in little endian.
#include "nixie/models/io/checkpoint_block.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <system_error>
#include <vector>

#include "nixie/core/base/error.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/core/files/uninterrupted.h"

namespace nixie {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are written as memory holds them");

constexpr std::array<char, 8> kMagic{'N', 'I', 'X', 'I', 'E', 'C', 'K', '1'};

struct Block {
  std::array<char, 8> magic;
  std::uint32_t format;
  std::uint32_t min_reader;  // programs that know this format can read the file
  std::uint64_t payload_bytes;
  XXH128_canonical_t checksum;
  std::array<char, 472> zeros;
};
static_assert(sizeof(Block) == kBlockBytes);

XXH128_canonical_t canonical(XXH128_hash_t hash) {
  XXH128_canonical_t result;
  XXH128_canonicalFromHash(&result, hash);
  return result;
}

/// The checksum of the bytes that `read` gives from here on.
XXH128_canonical_t checksum_of_rest(const std::function<std::size_t(void* buffer, std::size_t bytes)>& read) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (!state) fail(Fault::memory, "checkpoint: no memory for a checksum");
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(std::size_t{4} << 20);
  while (const std::size_t count = read(buffer.data(), buffer.size()))
    XXH3_128bits_update(state.get(), buffer.data(), count);
  return canonical(XXH3_128bits_digest(state.get()));
}

}  // namespace

void write_block(std::span<std::byte> file) {
  const auto payload = file.subspan(kBlockBytes);
  const Block block{kMagic,
                    kCheckpointFormat,
                    kCheckpointFormat,
                    payload.size(),
                    canonical(XXH3_128bits(payload.data(), payload.size())),
                    {}};
  std::memcpy(file.data(), &block, sizeof block);
}

CheckpointFile::CheckpointFile(const FilePlace& place, std::string name)
    : name_(std::move(name)), file_(open_file(place, O_RDONLY | O_NONBLOCK)) {
  try {
    struct stat info {};
    const bool is_open = file_ >= 0 && ::fstat(file_, &info) == 0;
    if (!is_open) fail_reading("cannot be opened", errno);
    if (!S_ISREG(info.st_mode)) refuse("is no file", "give the path of a checkpoint");
    bytes_ = info.st_size;
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    throw;
  }
}

CheckpointFile::~CheckpointFile() { ::close(file_); }

std::size_t CheckpointFile::read(void* buffer, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t count = uninterrupted([&] { return ::read(file_, static_cast<char*>(buffer) + done, bytes - done); });
    if (count < 0) fail_reading("cannot be read", errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

// A file that the system refuses may be good, so no other takes its place: no fault of the checkpoint.
void CheckpointFile::fail_reading(const char* what, int error) const {
  const std::string why = std::string(what) + ": " + std::generic_category().message(error);
  if (fault_of_reading(error, Fault::checkpoint) == Fault::checkpoint) refuse(why, "give the path of a checkpoint");
  fail(fault_of_reading(error, Fault::checkpoint), name_, " ", why, "; ", system_remedy(error));
}

void CheckpointFile::refuse(const std::string& what, const char* remedy) const {
  fail(Fault::checkpoint, name_, " ", what, "; ", remedy);
}

std::uint32_t CheckpointFile::check_block(bool unchecked) {
  Block block{};
  const std::size_t got = read(&block, sizeof block);
  const bool has_block = got == sizeof block && block.magic == kMagic;
  if (has_block && block.min_reader > kCheckpointFormat)
    refuse(fmt::format("has format {}, this program reads up to {}", block.format, kCheckpointFormat),
           "use a newer nixie");
  if (unchecked) return has_block ? block.format : 0;

  if (!has_block)
    refuse("is no nixie checkpoint (its first bytes are not NIXIECK1)", "give best.h5 or last.h5 of a run");
  const std::int64_t payload = bytes_ - kBlockBytes;
  if (block.payload_bytes != static_cast<std::uint64_t>(payload))
    refuse(fmt::format("is {} bytes long, expected {}", bytes_, block.payload_bytes + kBlockBytes));
  const bool is_sound = block.format >= 1 && block.min_reader >= 1 && block.min_reader <= block.format &&
                        std::all_of(block.zeros.begin(), block.zeros.end(), [](char c) { return c == 0; });
  if (!is_sound) refuse("has a damaged first block");
  const XXH128_canonical_t checksum =
      checksum_of_rest([&](void* buffer, std::size_t bytes) { return read(buffer, bytes); });
  if (std::memcmp(&checksum, &block.checksum, sizeof checksum) != 0) refuse("is damaged: its checksum does not match");
  return block.format;
}

}  // namespace nixie
