// safetensors files: exact round trips, bytes as the format's own library writes them, and hostile headers.
#include "nixie/models/io/safetensors.h"

#include "nixie/models/io/weights.h"
#include "nixie/tests/models/checkpoint_samples.h"

namespace nixie {
namespace {

class SafetensorsTest : public CheckpointTest {};

/// A file of a header and data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST_F(SafetensorsTest, EveryTypeAndShapeComesBack) {
  std::mt19937 random(4);
  Safetensors saved;
  saved.metadata = {{"format", "pt"}, {"made by", "\"nixie\"\n"}};
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Shape& shape : {Shape{3, 4}, Shape{}, Shape{0, 5}, Shape{1, 2, 3, 2, 1}}) {
      const auto dtype = static_cast<Dtype>(i);
      saved.arrays[fmt::format("{}.{}", to_string(dtype), to_string(shape))] = random_array(dtype, shape, random);
    }
  save_safetensors(saved, file());
  const Safetensors loaded = load_safetensors(file());
  EXPECT_EQ(loaded.metadata, saved.metadata);
  ASSERT_EQ(loaded.arrays.size(), saved.arrays.size());
  for (const auto& [name, array] : saved.arrays) {
    const Array& same = loaded.arrays.at(name);
    EXPECT_EQ(same.dtype(), array.dtype()) << name;
    EXPECT_EQ(same.shape(), array.shape()) << name;
    EXPECT_TRUE(std::equal(array.bytes(), array.bytes() + array.size_bytes(), same.bytes())) << name;
  }
}

// The first byte is the header's length modulo 256, 0x80 as well, with which files of pickle begin.
TEST_F(SafetensorsTest, AreKnownByWhateverLength) {
  for (std::size_t length = 256; length < 512; length += 8) {
    std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize(length, ' ');
    write(file(), file_of(header, std::string("\0\0\0\x3f", 4)));
    EXPECT_THAT(read_weights(file()).at("w").to_vector<double>(), ElementsAre(0.5)) << length;
  }
}

// The bytes that safetensors 0.8.0 for Python wrote for {"b": uint64 [2], "a": float16 [[1, -2]], "w": float32 [0.5]}.
TEST_F(SafetensorsTest, ReadsWhatPythonWrote) {
  const std::string header =
      R"({"b":{"dtype":"U64","shape":[2],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[1],"data_offsets":[16,20]},)"
      R"("a":{"dtype":"F16","shape":[1,2],"data_offsets":[20,24]}} )";
  std::string data(16, '\1');
  data += std::string("\0\0\0\x3f", 4) + std::string("\0\x3c\0\xc0", 4);
  write(file(), file_of(header, data));
  const Safetensors loaded = load_safetensors(file());
  EXPECT_THAT(loaded.skipped, ElementsAre());
  EXPECT_THAT(loaded.arrays.at("b").to_vector<std::uint64_t>(), ElementsAre(0x0101010101010101u, 0x0101010101010101u));
  EXPECT_THAT(loaded.arrays.at("w").to_vector<double>(), ElementsAre(0.5));
  EXPECT_THAT(loaded.arrays.at("a").to_vector<double>(), ElementsAre(1, -2));
}

TEST_F(SafetensorsTest, OtherTypesAreSkippedAndNullMetadataAreNone) {
  const std::string header =
      R"({"__metadata__":null,"z":{"dtype":"C64","shape":[1],"data_offsets":[0,8]},)"
      R"("w":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"s":{"dtype":"F4","shape":[8],"data_offsets":[12,16]}})";
  write(file(), file_of(header, std::string(8, '\1') + std::string("\0\0\0\x3f", 4) + std::string(4, '\2')));
  const Safetensors loaded = load_safetensors(file());
  EXPECT_TRUE(loaded.metadata.empty());
  EXPECT_THAT(loaded.skipped, ElementsAre("s", "z"));
  EXPECT_THAT(loaded.arrays.at("w").to_vector<double>(), ElementsAre(0.5));
  WeightReport report;
  read_weights(file(), {}, &report.skipped);
  EXPECT_THAT(to_string(report), HasSubstr("of a type that nixie has not, left out (2): s, z"));
}

// A walk of all names for each name would take minutes.
TEST_F(SafetensorsTest, ManyArraysTakeNoLongerEach) {
  constexpr int kMany = 50'000;
  Safetensors saved;
  for (int i = 0; i < kMany; ++i) saved.arrays[fmt::format("layer.{}.weight", i)] = Array(Dtype::u8, {1});
  save_safetensors(saved, file());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(load_safetensors(file()).arrays.size(), saved.arrays.size());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "0.3 s on a free machine";
}

TEST_F(SafetensorsTest, HostileHeadersAreRefused) {
  const std::string data(8, 'x');
  const auto one = [](const std::string& entry) { return "{\"a\":" + entry + "}"; };
  const struct {
    std::string bytes, expected;
  } cases[] = {
      {"", "too short"},
      {"1234567", "too short"},
      {file_of("", ""), "no JSON object"},
      {std::string(8, '\xff') + "{}", "announces a header of 18446744073709551615 bytes"},
      {std::string("\x09\0\0\0\0\0\0\0{}", 10), "announces a header of 9 bytes in a file of 10"},
      {file_of("[1]", ""), "no JSON object"},
      {file_of(one(R"({"dtype":"BOOL","shape":[8],"data_offsets":[0,8]})"), data), "holds a bool other than 0 and 1"},
      {file_of("{\"a\"", ""), "no JSON"},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})") + "{}", data), "no JSON"},
      {file_of(one("[" + std::string(5, '[') + std::string(5, ']') + "]"), ""), "nested too deeply"},
      {file_of("{" + std::string(100000, '['), ""), "JSON"},
      {file_of(R"({"a":{},"a":{}})", ""), "\"a\" twice"},
      {file_of(one(R"({"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]})"), data), "\"dtype\" twice"},
      {file_of(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "\"a\" twice"},
      {file_of(one("3"), data), "is not {dtype"},
      {file_of(one(R"({"dtype":3,"shape":[2],"data_offsets":[0,8]})"), data), "has no dtype"},
      {file_of(one(R"({"dtype":"F12","shape":[2],"data_offsets":[0,9]})"), data), "is at bytes 0 to 9 of 8"},
      {file_of(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), data), "no shape of whole numbers"},
      {file_of(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"), data), "no shape of whole numbers"},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), data), "no begin and end"},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,9]})"), data), "is at bytes 0 to 9 of 8"},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), data), "is at bytes 8 to 0"},
      {file_of(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), data), "type and shape do not give"},
      {file_of(one(R"({"dtype":"F32","shape":[9223372036854775807,9223372036854775807,4],"data_offsets":[0,8]})"),
               data),
       "\"a\" has the impossible shape [9223372036854775807,"},
      {file_of(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})"), data),
       "has the impossible shape [18446744073709551615]"},
      {file_of(one(R"({"dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,0]})"), ""),
       "\"a\" has the impossible shape [0,4611686018427387904,"},
      {file_of(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), data), "4 bytes behind its last array"},
      {file_of(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), data), "leaves a gap"},
      {file_of(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           data),
       "\"b\" overlaps another"},
      {file_of(R"({"__metadata__":{"a":3}})", ""), "metadata"},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})"), data), "is not {dtype"},
  };
  for (const auto& each : cases) {
    write(file(), each.bytes);
    EXPECT_FAULT(checkpoint, each.expected, load_safetensors(file())) << each.bytes.substr(0, 200);
  }
}

// Whatever becomes of the bytes, reading gives arrays or an Error.
TEST_F(SafetensorsTest, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(5);
  Safetensors saved;
  for (const char* name : {"a", "b", "c"}) saved.arrays[name] = random_array(Dtype::f32, {4, 2}, random);
  save_safetensors(saved, file());
  const std::string whole = text_of(file());
  const auto read = [&](const Bytes& bytes) {
    write_file(file(), bytes);
    for (const auto& [name, array] : load_safetensors(file()).arrays) EXPECT_LE(array.size(), 8);
  };
  EXPECT_GT(refused_mutants({whole.begin(), whole.end()}, 600, read, Fault::checkpoint), 0.5);
}

class WeightsTest : public CheckpointTest {};

TEST_F(WeightsTest, AreTakenByNameAndShape) {
  Parameters parameters;
  const Variable a = parameters.make("a", {2}), fc = parameters.make("fc", {3, 2}), own = parameters.make("own", {1});
  const Array drawn = fc.array();
  const NamedArrays arrays = {{"a", Array::from(std::vector<double>{1, 2}, {2})},
                              {"fc", Array(Dtype::f32, {5, 2})},
                              {"extra", Array(Dtype::f32, {1})},
                              {"a.num_batches_tracked", Array(Dtype::i64, {})}};  // a counter, no weight
  const WeightReport report = set_weights(parameters, arrays);
  EXPECT_THAT(a.array().to_vector<double>(), ElementsAre(1, 2));
  EXPECT_EQ(fc.array().to_vector<double>(), drawn.to_vector<double>());
  EXPECT_FALSE(report.is_complete());
  EXPECT_EQ(to_string(report),
            "1 of 3 arrays taken, 1 converted from f64\n"
            "  of another shape, left as they were (1): fc [3, 2] (the file has [5, 2])\n"
            "  not in the file, left as they were (1): own [1]\n"
            "  in the file alone (1): extra");
  EXPECT_FAULT(checkpoint, "a holds values that are not finite",
               set_weights(parameters, {{"a", Array::from(std::vector<float>{0, NAN}, {2})}}));
  // Not even after they became f32; and counts are no weights, though they have a weight's name and shape.
  EXPECT_FAULT(checkpoint, "a holds values that are not finite in f32",
               set_weights(parameters, {{"a", Array::from(std::vector<double>{0, 1e300}, {2})}}));
  EXPECT_FAULT(checkpoint, "a is i32 in the file, expected floats",
               set_weights(parameters, {{"a", Array(Dtype::i32, {2})}}));
  EXPECT_THAT(a.array().to_vector<double>(), ElementsAre(1, 2));
}

TEST_F(WeightsTest, AreReadFromEveryFileThatHoldsThem) {
  Checkpoint checkpoint = small_sample();
  checkpoint.ema["half"] = Array::from(std::vector<float>(33, 2), {33});
  save_checkpoint(checkpoint, file("a.h5"));
  const NamedArrays from_checkpoint = read_weights(file("a.h5"));
  EXPECT_EQ(from_checkpoint.size(), checkpoint.model.size());
  EXPECT_EQ(from_checkpoint.at("half").to_vector<double>()[5], 2) << "the average wins";
  save_safetensors({.arrays = checkpoint.model}, file("a.safetensors"));
  EXPECT_EQ(read_weights(file("a.safetensors")).size(), checkpoint.model.size());

  const struct {
    std::string bytes, expected;
  } cases[] = {{"PK\x03\x04 archive", "torch.load(\"x.bin\", map_location=\"cpu\", weights_only=True)"},
               {"\x80\x02 pickle", "torch.load(\"x.bin\""},
               {"\x89HDF\r\n\x1a\n plain", " reads, or damaged (bad superblock version number)"},
               {"", "x.bin: is empty; name another file"},
               {"some other file, a text", "neither a nixie checkpoint nor a safetensors file"}};
  for (const auto& each : cases) {
    write(file("x.bin"), each.bytes);
    EXPECT_FAULT(checkpoint, each.expected, read_weights(file("x.bin")));
  }
  EXPECT_FAULT(checkpoint, "No such file or directory", read_weights(file("none")));
}

}  // namespace
}  // namespace nixie
