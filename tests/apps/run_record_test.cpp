// The files that a run's figures go to, read back by other means than those that wrote them.
#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/record/run_record.h"
#include "nixie/tests/apps/pages.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/protobuf.h"

namespace nixie {
namespace {

using testing::Pair;

// RFC 3720, appendix B.4, and the check value of the catalogue of CRC algorithms.
TEST(Crc32c, KnownVectors) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i), falling += static_cast<char>(31 - i);
  const struct {
    std::string bytes;
    std::uint32_t expected;
  } kCases[] = {{"", 0},
                {"123456789", 0xe3069283},
                {std::string(32, '\0'), 0x8a9136aa},
                {std::string(32, '\xff'), 0x62a8ab43},
                {rising, 0x46dd794e},
                {falling, 0x113fdb5c}};
  for (const auto& each : kCases) EXPECT_EQ(crc32c(each.bytes), each.expected);
}

/// Bit by bit, from the definition.
std::uint32_t slow_masked_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool flips = ((crc ^ (static_cast<unsigned char>(byte) >> bit)) & 1) != 0;
      crc >>= 1;
      if (flips) crc ^= 0x82f63b78;
    }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Event {
  double seconds = 0;  ///< since 1970
  std::int64_t step = 0;
  std::string version = {};
  bool starts = false;
  std::vector<std::pair<std::string, float>> scalars = {};
};

/// Every frame must be whole and both its checksums right.
std::vector<Event> events_in(const fs::path& file) {
  const std::string bytes = text_of(file);
  std::vector<Event> events;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = number_at<std::uint64_t>(bytes, at);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 8), slow_masked_crc(bytes.substr(at, 8)));
    const std::string message = bytes.substr(at + 12, size);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 12 + size), slow_masked_crc(message));
    at += 16 + size;
    EXPECT_LE(at, bytes.size());
    Event event;
    for (const auto& [field, value] : fields_of(message)) {
      if (field == 1) event.seconds = number_at<double>(value, 0);
      if (field == 2) event.step = std::stoll(value);
      if (field == 3) event.version = value;
      if (field == 7) event.starts = fields_of(value) == std::vector<std::pair<int, std::string>>{{1, "1"}};
      if (field == 5)
        for (const auto& [one, scalar] : fields_of(value)) {
          EXPECT_EQ(one, 1);
          const auto parts = fields_of(scalar);
          EXPECT_THAT(parts, ElementsAre(Pair(1, testing::_), Pair(2, testing::_)));
          event.scalars.emplace_back(parts[0].second, number_at<float>(parts[1].second, 0));
        }
    }
    EXPECT_GT(event.seconds, 1.6e9);
    events.push_back(event);
  }
  return events;
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(RunRecord, WritesTheSameFiguresToEveryFile) {
  const TempFolder folder;
  RunRecord record(folder.path(), {"f1", "top_k", "top_k_2"}, {});
  record.training({.epoch = 1, .step = 50, .loss = 2.25, .accuracy = 0.125, .rate = 1e-5}, 3, 1000);
  record.evaluation({.epoch = 1, .step = 60, .loss = 1.5, .accuracy = 0.5, .rate = 2e-5, .metrics = {0.25, 0.75, NAN}});
  EXPECT_EQ(text_of(folder / "metrics.csv"),
            "epoch,step,split,loss,accuracy,learning_rate,f1,top_k,top_k_2\n"
            "1,50,train,2.25,0.125,1e-05,,,\n1,60,test,1.5,0.5,2e-05,0.25,0.75,nan\n");
  RunState state;
  record.count(state);
  EXPECT_EQ(state.metrics_bytes, static_cast<std::int64_t>(fs::file_size(folder / "metrics.csv")));
  EXPECT_TRUE(record.began_with(state));
  state.metrics_checksum = "of other rows";
  EXPECT_FALSE(record.began_with(state));
  std::vector<nlohmann::json> rows;
  for (const std::string& line : lines_of(text_of(folder / "metrics.jsonl")))
    rows.push_back(nlohmann::json::parse(line));
  using nlohmann::json;
  EXPECT_THAT(rows, ElementsAre(json::parse(R"({"epoch": 1, "step": 50, "split": "train", "loss": 2.25,
                                                "accuracy": 0.125, "learning_rate": 1e-5})"),
                                json::parse(R"({"epoch": 1, "step": 60, "split": "test", "loss": 1.5, "accuracy": 0.5,
                                                "learning_rate": 2e-5, "f1": 0.25, "top_k": 0.75, "top_k_2": null})")));
  EXPECT_EQ(text_of(folder / "timing.csv"), "epoch,step,seconds,images_per_second\n1,50,3.000,1000.0\n");

  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  const std::vector<Event> events = events_in(files[0]);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 50);
  EXPECT_THAT(events[1].scalars, ElementsAre(Pair("learning_rate", 1e-5f), Pair("images_per_second", 1000),
                                             Pair("loss/train", 2.25), Pair("accuracy/train", 0.125)));
  EXPECT_EQ(events[2].step, 60);
  EXPECT_THAT(events[2].scalars,
              ElementsAre(Pair("f1/test", 0.25), Pair("top_k/test", 0.75), Pair("top_k_2/test", testing::IsNan()),
                          Pair("loss/test", 1.5), Pair("accuracy/test", 0.5)));
}

TEST(RunRecord, GoesOnAfterAStep) {
  const TempFolder folder;
  for (const std::int64_t done : {0, 10, 10}) {
    RunRecord record(folder.path(), {}, {.step = done});
    for (const std::int64_t more : {5, 10, 15})
      record.training({.epoch = 1, .step = done + more, .loss = static_cast<double>(done + more)}, 2, 100);
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << R"({"torn)";
  RunRecord record(folder.path(), {}, {.step = 20});
  record.training({.epoch = 1, .step = 21, .loss = 0.5}, 1, 100);
  std::vector<std::int64_t> steps;
  for (const std::string& line : lines_of(text_of(folder / "metrics.jsonl")))
    steps.push_back(nlohmann::json::parse(line).at("step"));
  EXPECT_THAT(steps, ElementsAre(5, 10, 15, 20, 21));
  EXPECT_THAT(text_of(folder / "timing.csv"), EndsWith("1,20,4.000,100.0\n1,21,5.000,100.0\n"));
  // A file for each process, the later ones by name behind, each saying what is no longer so.
  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 4u);
  EXPECT_FALSE(events_in(files[0])[1].starts);
  for (std::size_t i : {1, 2, 3}) {
    const Event start = events_in(files[i]).at(1);
    EXPECT_TRUE(start.starts);
    EXPECT_EQ(start.step, i == 3 ? 21 : 11);
  }
}

TEST(RunRecord, SaysWhatCannotBeWritten) {
  EXPECT_FAULT(storage, "/nonexistent/metrics.csv", RunRecord(Folder("/nonexistent"), {}, {}));
  Replacements changes;
  const EventFile events(changes, Folder("/nonexistent"), 0);
  EXPECT_FAULT(storage, "events.out.tfevents.", changes.make());
  EXPECT_FAULT(storage, "No such file", AppendFile("/nonexistent/file"));
}

}  // namespace
}  // namespace nixie
