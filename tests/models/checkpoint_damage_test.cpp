// Damaged checkpoints: truncated, appended to, with changed bytes. Each is refused or gives the very same values.
#include "nixie/models/io/checkpoint.h"
#include "nixie/tests/models/checkpoint_samples.h"

namespace nixie {
namespace {

TEST_F(CheckpointRefuses, WhatIsNoCheckpoint) {
  EXPECT_THAT(load_error(file("none.h5")), HasSubstr("none.h5 cannot be opened: No such file"));
  EXPECT_THAT(load_error(folder_), HasSubstr("is no file"));
  write_bytes(file(), "");
  EXPECT_THAT(load_error(file()), HasSubstr("is no nixie checkpoint"));
  write_bytes(file(), "NIXIECK1");
  EXPECT_THAT(load_error(file()), HasSubstr("is no nixie checkpoint"));
  write_bytes(file(), std::string(5000, 'x'));
  EXPECT_THAT(load_error(file(), {.model = std::nullopt, .unchecked = true}), HasSubstr("is damaged (HDF5: "));
}

TEST_F(CheckpointRefuses, NewerFormats) {
  save_checkpoint(small_sample(), file());
  std::string bytes = text_of(file());
  bytes[8] = 9;  // a later format that this reader still understands
  write_bytes(file(), bytes);
  EXPECT_TRUE(equal(load_checkpoint(file()), small_sample()));
  bytes[12] = 9;  // and one that it does not
  write_bytes(file(), bytes);
  EXPECT_THAT(load_error(file()), HasSubstr("has format 9, this program reads up to 2; use a newer nixie"));
  EXPECT_THAT(load_error(file(), {.model = std::nullopt, .unchecked = true}), HasSubstr("use a newer nixie"));
}

TEST_F(CheckpointRefuses, TruncationAndAppendedBytes) {
  save_checkpoint(small_sample(), file());
  const std::string whole = text_of(file());
  for (std::size_t part = 0; part < 64; ++part) {
    write_bytes(file(), whole.substr(0, whole.size() * part / 64));
    EXPECT_NE(load_error(file()), "no error") << part << "/64";
    EXPECT_NE(load_error(file(), {.model = std::nullopt, .unchecked = true}), "no error") << part << "/64, unchecked";
  }
  write_bytes(file(), whole.substr(0, whole.size() - 1));
  EXPECT_THAT(load_error(file()), HasSubstr("bytes long, expected"));
  write_bytes(file(), whole + "x");
  EXPECT_THAT(load_error(file()), HasSubstr("bytes long, expected"));
}

/// Loads `count` copies with bits, bytes or words changed. Each is refused or gives the very same values.
void load_damaged(const fs::path& file, int count, bool unchecked, int* refused) {
  save_checkpoint(small_sample(), file);
  const std::string whole = text_of(file);
  std::mt19937 random(unchecked ? 11 : 12);
  for (int round = 0; round < count; ++round) {
    std::string bytes = whole;
    const std::size_t at = unchecked && round % 4 ? 512 + random() % (bytes.size() - 512) : random() % bytes.size();
    switch (random() % 3) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      default:
        for (std::size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = static_cast<char>(random());
    }
    write_bytes(file, bytes);
    try {
      const Checkpoint loaded = load_checkpoint(file, {.model = std::nullopt, .unchecked = unchecked});
      ASSERT_TRUE(equal(loaded, small_sample())) << "round " << round << ", byte " << at;
      // A later format that this reader still understands is no damage; those are bytes 8 to 11.
      ASSERT_TRUE(unchecked || bytes.substr(0, 8) + bytes.substr(12) == whole.substr(0, 8) + whole.substr(12)) << at;
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::checkpoint) << error.what();
      ++*refused;
    }
  }
}

TEST_F(CheckpointRefuses, ChangedBytesByChecksum) {
  int refused = 0;
  load_damaged(file(), 4000, false, &refused);
  EXPECT_GT(refused, 3900);
}

TEST_F(CheckpointRefuses, ChangedBytesWithoutTheChecksumToo) {
  int refused = 0;
  load_damaged(file(), 4000, true, &refused);
  EXPECT_GT(refused, 1000);
}

TEST_F(CheckpointRefuses, ChangedBytesLong) {
  int refused = 0;
  load_damaged(file(), 200'000, true, &refused);
  EXPECT_GT(refused, 50'000);
}

}  // namespace
}  // namespace nixie
