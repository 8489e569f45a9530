// EventFile: fields by tensorflow/core/util/event.proto and framework/summary.proto, frames by lib/io/record_writer.h.
#include "nixie/apps/trainer/record/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>

#include "nixie/models/io/protobuf.h"

namespace nixie {
namespace {

constexpr auto kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
  }
  return table;
}();

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// A checksum of data that holds checksums is weak, so the format turns it and adds a constant.
std::string masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return little_endian(std::uint32_t{(crc >> 15 | crc << 17) + 0xa282ead8u}, 4);
}

std::string record(const Protobuf& event) {
  const std::string length = little_endian(event.bytes().size(), 8);
  return length + masked_checksum(length) + event.bytes() + masked_checksum(event.bytes());
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Protobuf event_at(std::int64_t step) {
  Protobuf event;
  event.real64(1, now()).number(2, step);
  return event;
}

std::string packed(const std::vector<double>& numbers) {
  std::string bytes;
  for (const double number : numbers) bytes += little_endian(std::bit_cast<std::uint64_t>(number), 8);
  return bytes;
}

/// HistogramProto, whose least and largest numbers are the limits of the buckets that are not empty.
Protobuf histogram(const Buckets& buckets) {
  constexpr int kLeast = 1, kLargest = 2, kCount = 3, kLimits = 6, kCounts = 7;
  double count = 0, least = 0, largest = 0;
  for (std::size_t i = 0; i < buckets.counts.size(); ++i) {
    if (buckets.counts[i] == 0) continue;
    if (count == 0) least = i > 0 ? buckets.limits[i - 1] : buckets.limits[i];
    largest = buckets.limits[i];
    count += buckets.counts[i];
  }
  Protobuf message;
  message.real64(kLeast, least).real64(kLargest, largest).real64(kCount, count);
  return message.text(kLimits, packed(buckets.limits)).text(kCounts, packed(buckets.counts));
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

/// The seconds in the name of the folder's newest file, -1 where there is none.
std::int64_t newest_seconds(const Folder& folder) {
  std::int64_t newest = -1;
  for (const std::string& name : folder.names()) {
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t seconds = -1;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
    newest = std::max(newest, seconds);
  }
  return newest;
}

// Names sort as the files were begun, also within a second or after the clock was turned back.
FilePlace next_place(const Folder& folder) {
  const std::int64_t seconds = std::max(static_cast<std::int64_t>(now()), newest_seconds(folder) + 1);
  return {folder, fmt::format("{}{:010}.nixie", kPrefix, seconds)};
}

std::string begin_of(std::int64_t step) {
  std::string begin = record(event_at(0).text(3, "brain.Event:2"));
  constexpr int kSessionLog = 7, kStatus = 1, kStart = 1;
  if (step > 0) begin += record(event_at(step + 1).message(kSessionLog, Protobuf().number(kStatus, kStart)));
  return begin;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(Replacements& changes, const Folder& folder, std::int64_t step) : place_(next_place(folder)) {
  changes.write(place_, begin_of(step));
}

void EventFile::append(std::int64_t step, const std::vector<Scalar>& scalars, const std::vector<Buckets>& histograms) {
  constexpr int kSummary = 5, kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5;
  Protobuf summary;
  for (const auto& [tag, value] : scalars)
    summary.message(kValue, Protobuf().text(kTag, tag).real(kSimpleValue, static_cast<float>(value)));
  for (const Buckets& buckets : histograms)
    summary.message(kValue, Protobuf().text(kTag, buckets.tag).message(kHistogram, histogram(buckets)));
  file_->append(record(event_at(step).message(kSummary, summary)));
}

}  // namespace nixie
