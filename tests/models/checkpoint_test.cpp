// Checkpoints: exact round trips, files that other tools read, and refusal of damaged, hostile and foreign files.
#include "models/checkpoint.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "models/checkpoint_block.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// A folder that lives as long as a test.
class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : folder_(fs::path(testing::TempDir()) / ("nixie_checkpoint_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~CheckpointTest() override { fs::remove_all(folder_); }
  fs::path file(const std::string& name = "last.h5") const { return folder_ / name; }

  fs::path folder_;
};
using CheckpointRefuses = CheckpointTest;

Array random_array(Dtype dtype, Shape shape, std::mt19937& random) {
  Array array(dtype, std::move(shape));
  visit_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    for (T& value : array.data<T>()) value = convert<T>(std::normal_distribution<float>(0, 40)(random));
  });
  return array;
}

Checkpoint sample() {
  std::mt19937 random(1);
  Checkpoint c;
  const Shape shapes[] = {{}, {0}, {1}, {3, 0, 2}, {7}, {5, 3}, {2, 3, 4, 5}, {1, 1, 1, 1, 1, 3}};
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Shape& shape : shapes) {
      const auto dtype = static_cast<Dtype>(i);
      c.model[fmt::format("features.{}.{}", c.model.size(), dtype)] = random_array(dtype, shape, random);
    }
  c.model["classifier.1.weight"] = random_array(Dtype::f32, {1000, 700}, random);  // several chunks
  c.model["wide"] = random_array(Dtype::u8, {2, 3'000'000}, random);               // a row is more than a chunk
  c.ema["classifier.1.weight"] = random_array(Dtype::f32, {20, 7}, random);
  c.optimizer_type = "adam";
  c.optimizer_options = {{"beta1", 0.9}, {"steps", std::int64_t{12}}};
  c.optimizer["classifier.1.weight"]["exp_avg"] = random_array(Dtype::f32, {20, 7}, random);
  c.optimizer["classifier.1.weight"]["step"] = random_array(Dtype::i32, {}, random);
  c.state = {{"step", std::int64_t{-5}}, {"best", 0.1 + 0.2}, {"metric", "accuracy"}, {"empty", ""}};
  c.rng = {{"seed", std::numeric_limits<std::int64_t>::min()}};
  c.config = "model: {lenet: {classes: 10}}\n# über\n" + std::string(100'000, '#');
  c.class_names = {"cat", "", "Hündchen"};
  c.mean = {0.485, 0.456, 0.406};
  c.deviation = {1};
  c.writer = "nixie test";
  return c;
}

/// Small, so that thousands of damaged copies are read in seconds.
Checkpoint small_sample() {
  std::mt19937 random(2);
  Checkpoint c;
  for (const Shape& shape : {Shape{8, 3, 2}, Shape{5}, Shape{}, Shape{0}})
    c.model[fmt::format("layer{}.weight", c.model.size())] = random_array(Dtype::f32, shape, random);
  c.model["half"] = random_array(Dtype::f16, {33}, random);
  c.optimizer_type = "sgd";
  c.optimizer["layer0.weight"]["momentum_buffer"] = random_array(Dtype::f32, {8, 3, 2}, random);
  c.state = {{"step", std::int64_t{7}}, {"best", 0.5}, {"metric", "loss"}};
  c.rng = {{"seed", std::int64_t{3}}};
  c.config = "a: 1\n";
  c.class_names = {"x", "yz"};
  c.mean = {0.5};
  return c;
}

bool equal(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.size() == 0 || std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.size_bytes())) == 0);
}
bool equal(const Checkpoint::Arrays& a, const Checkpoint::Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
}
bool equal(const Checkpoint& a, const Checkpoint& b) {
  const bool same_optimizer =
      std::equal(a.optimizer.begin(), a.optimizer.end(), b.optimizer.begin(), b.optimizer.end(),
                 [](const auto& x, const auto& y) { return x.first == y.first && equal(x.second, y.second); });
  return equal(a.model, b.model) && equal(a.ema, b.ema) && same_optimizer && a.optimizer_type == b.optimizer_type &&
         a.optimizer_options == b.optimizer_options && a.state == b.state && a.rng == b.rng && a.config == b.config &&
         a.class_names == b.class_names && a.mean == b.mean && a.deviation == b.deviation && a.writer == b.writer;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

/// The line of the Error with that fault, or what happened instead.
std::string error_of(Fault fault, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}
std::string load_error(const fs::path& file, const LoadOptions& options = {}) {
  return error_of(Fault::checkpoint, [&] { load_checkpoint(file, options); });
}

TEST_F(CheckpointTest, RoundTripsEveryDtypeShapeAndField) {
  const Checkpoint saved = sample();
  save_checkpoint(saved, file());
  verify_checkpoint(file());
  EXPECT_TRUE(equal(load_checkpoint(file()), saved));
  EXPECT_TRUE(equal(load_checkpoint(file(), {.model = std::nullopt, .unchecked = true}), saved));
}

TEST_F(CheckpointTest, RoundTripsNothing) {
  save_checkpoint({}, file());
  EXPECT_TRUE(equal(load_checkpoint(file()), {}));
}

TEST_F(CheckpointTest, RoundTripsThousandsOfNames) {
  Checkpoint saved;
  for (int i = 0; i < 3000; ++i) {
    saved.model[fmt::format("layers.{}.weight", i)] = Array::from(std::vector<float>{static_cast<float>(i)}, {1});
    saved.state[fmt::format("counter.{}", i)] = std::int64_t{i};
  }
  save_checkpoint(saved, file());
  EXPECT_TRUE(equal(load_checkpoint(file()), saved));
}

TEST(CheckpointFormats, Format1LoadsForEver) {
  const Checkpoint c = load_checkpoint(fs::path(NIXIE_SOURCE_DIR) / "tests/models/fixtures/checkpoint_format1.h5");
  EXPECT_EQ(c.model.size(), 3u);
  EXPECT_EQ(c.model.at("fc.weight").shape(), (Shape{2, 3}));
  EXPECT_EQ(c.model.at("fc.weight").to_vector<float>(), (std::vector<float>{1, -2, 3.5f, 4, 5, 6}));
  EXPECT_EQ(c.model.at("fc.bias").dtype(), Dtype::f16);
  EXPECT_EQ(c.model.at("fc.bias").to_vector<float>(), (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(c.model.at("bn.num_batches_tracked").shape(), Shape{});
  EXPECT_EQ(c.model.at("bn.num_batches_tracked").to_vector<std::int32_t>(), std::vector<std::int32_t>{7});
  EXPECT_EQ(c.ema.at("fc.weight").dtype(), Dtype::bf16);
  EXPECT_EQ(c.ema.at("fc.weight").to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(c.optimizer_type, "sgd");
  EXPECT_EQ(c.optimizer_options, (Checkpoint::Values{{"momentum", 0.9}}));
  const Array& buffer = c.optimizer.at("fc.weight").at("momentum_buffer");
  EXPECT_EQ(buffer.to_vector<double>(), (std::vector<double>{1, 2, 3, 4, 5, 0.1}));
  EXPECT_EQ(c.state, (Checkpoint::Values{{"step", std::int64_t{1000}}, {"best", 0.25}, {"metric", "loss"}}));
  EXPECT_EQ(c.rng, (Checkpoint::Values{{"seed", std::int64_t{42}}}));
  EXPECT_EQ(c.config, "model: {mlp: {}}\n");
  EXPECT_EQ(c.class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(c.mean, std::vector<double>{0.5});
  EXPECT_EQ(c.deviation, std::vector<double>{0.25});
  EXPECT_EQ(c.writer, "nixie 0.1.0");
}

TEST_F(CheckpointTest, SameStateGivesTheSameBytes) {
  save_checkpoint(sample(), file("a.h5"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a time stamp would differ
  save_checkpoint(sample(), file("b.h5"));
  EXPECT_EQ(bytes_of(file("a.h5")), bytes_of(file("b.h5")));
}

TEST_F(CheckpointTest, FileIsNotPaddedAndReplacesTheOldOne) {
  Checkpoint c;
  c.model["weight"] = Array(Dtype::f32, {1024, 1024});
  save_checkpoint(c, file());
  EXPECT_LT(fs::file_size(file()), (4 << 20) + 16'384u);
  save_checkpoint(small_sample(), file());
  EXPECT_TRUE(equal(load_checkpoint(file()), small_sample()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(CheckpointTest, NamesAndTextsAreChecked) {
  const auto save_with = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint c = small_sample();
    change(c);
    return error_of(Fault::usage, [&] { save_checkpoint(c, file()); });
  };
  for (const std::string name : {"", ".", "..", "a/b", "/", "a b", "a\nb", "ü", "a\tb"}) {
    EXPECT_NE(save_with([&](Checkpoint& c) { c.model[name] = Array(Dtype::f32, {1}); }), "no error") << name;
    EXPECT_NE(save_with([&](Checkpoint& c) { c.ema[name] = Array(Dtype::f32, {1}); }), "no error") << name;
    EXPECT_NE(save_with([&](Checkpoint& c) { c.optimizer[name]; }), "no error") << name;
    EXPECT_NE(save_with([&](Checkpoint& c) { c.optimizer["w"][name] = Array(Dtype::f32, {1}); }), "no error") << name;
    EXPECT_NE(save_with([&](Checkpoint& c) { c.state[name] = 1.0; }), "no error") << name;
  }
  EXPECT_NE(save_with([](Checkpoint& c) { c.model[std::string("a\0b", 3)] = Array(Dtype::f32, {1}); }), "no error");
  EXPECT_NE(save_with([](Checkpoint& c) { c.model[std::string(2000, 'x')] = Array(Dtype::f32, {1}); }), "no error");
  EXPECT_NE(save_with([](Checkpoint& c) { c.optimizer_options["type"] = 1.0; }), "no error");
  EXPECT_NE(save_with([](Checkpoint& c) { c.state["text"] = std::string(100'000, 'x'); }), "no error");
  EXPECT_NE(save_with([](Checkpoint& c) { c.config = std::string("a\0", 2); }), "no error");
  EXPECT_NE(save_with([](Checkpoint& c) { c.class_names = {std::string("\0", 1)}; }), "no error");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(CheckpointTest, OtherModelsAreRefusedWithTheDifferences) {
  save_checkpoint(small_sample(), file());
  std::map<std::string, Shape> model;
  for (const auto& [name, array] : small_sample().model) model[name] = array.shape();
  EXPECT_TRUE(equal(load_checkpoint(file(), {.model = model}), small_sample()));

  auto other = model;
  other["layer0.weight"] = {9, 3, 2};
  EXPECT_NE(load_error(file(), {.model = other}).find("layer0.weight is [8, 3, 2], the model has [9, 3, 2]"),
            std::string::npos);
  other = model;
  other.erase("half");
  EXPECT_NE(load_error(file(), {.model = other}).find("half [33] is unknown to the model"), std::string::npos);
  other = model;
  other["new.bias"] = {4};
  EXPECT_NE(load_error(file(), {.model = other}).find("new.bias [4] is missing"), std::string::npos);
  other.clear();
  EXPECT_NE(load_error(file(), {.model = other}).find("and 1 more difference"), std::string::npos);

  Checkpoint stray = small_sample();
  stray.optimizer["gone.weight"]["momentum_buffer"] = Array(Dtype::f32, {2});
  save_checkpoint(stray, file());
  EXPECT_NE(load_error(file(), {.model = model}).find("/optimizer/gone.weight belongs to no parameter"),
            std::string::npos);
}

// ---- Other tools
// ------------------------------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::string text;
  for (char buffer[4096]; std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe);) text.append(buffer, count);
  ::pclose(pipe);
  return text;
}

std::string python_with_h5py() {
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (output_of(python + " -c 'import h5py'").empty()) return python;
  return {};
}

TEST_F(CheckpointTest, H5dumpReadsIt) {
  if (output_of("h5dump --version").find("Version") == std::string::npos) GTEST_SKIP() << "no h5dump";
  Checkpoint c = small_sample();
  c.model["features.0.weight"] = Array::from(std::vector<float>{1.5f, -2.25f, 1024, 4}, {2, 2});
  c.model["bf"] = Array::from(std::vector<float>{1.5f, -3}, {2}).to(Dtype::bf16);
  c.model["half"] = Array::from(std::vector<float>{0.0999755859375f, -65504}, {2}).to(Dtype::f16);
  save_checkpoint(c, file());
  const std::string at = file().string();
  EXPECT_NE(output_of("h5dump -d /model/features.0.weight " + at).find("(0,0): 1.5, -2.25,\n   (1,0): 1024, 4"),
            std::string::npos);
  EXPECT_NE(output_of("h5dump -d /model/bf " + at).find("1.5, -3"), std::string::npos);
  EXPECT_NE(output_of("h5dump -d /model/half " + at).find("0.0999756, -65504"), std::string::npos);
  EXPECT_NE(output_of("h5dump -d /class_names " + at).find("\"yz\""), std::string::npos);
  EXPECT_NE(output_of("h5dump -a /state/step " + at).find("(0): 7"), std::string::npos);
}

TEST_F(CheckpointTest, H5pyReadsItAsNumpyArrays) {
  const std::string python = python_with_h5py();
  if (python.empty()) GTEST_SKIP() << "no h5py";
  Checkpoint c = small_sample();
  c.model["features.0.weight"] = Array::from(std::vector<float>{1.5f, -2.25f, 1024, 4}, {2, 2});
  c.model["half"] = Array::from(std::vector<float>{1.5f, -65504}, {2}).to(Dtype::f16);
  c.model["bf"] = Array::from(std::vector<float>{1.5f, -3}, {2}).to(Dtype::bf16);
  save_checkpoint(c, file());
  std::ofstream(file("read.py"))
      << "import h5py, sys\nf = h5py.File(sys.argv[1], 'r')\nd = {k: v[()] for k, v in f['model'].items()}\n"
         "for k in ('features.0.weight', 'half', 'bf', 'layer2.weight', 'layer3.weight'):\n"
         "  print(k, d[k].dtype, d[k].shape, d[k].tolist() if k != 'layer2.weight' else '')\n"
         "print(f['optimizer'].attrs['type'], f['state'].attrs['step'], f['state'].attrs['best'], "
         "f['config'][0].decode())\n";
  const std::string text = output_of(python + " " + file("read.py").string() + " " + file().string());
  EXPECT_NE(text.find("features.0.weight float32 (2, 2) [[1.5, -2.25], [1024.0, 4.0]]"), std::string::npos) << text;
  EXPECT_NE(text.find("half float16 (2,) [1.5, -65504.0]"), std::string::npos) << text;
  EXPECT_NE(text.find("bf float32 (2,) [1.5, -3.0]"), std::string::npos) << text;
  EXPECT_NE(text.find("layer2.weight float32 ()"), std::string::npos) << text;
  EXPECT_NE(text.find("layer3.weight float32 (0,) []"), std::string::npos) << text;
  EXPECT_NE(text.find("b'sgd' 7 0.5 a: 1"), std::string::npos) << text;
}

TEST_F(CheckpointTest, PlainFilesFromH5pyLoadUnchecked) {
  const std::string python = python_with_h5py();
  if (python.empty()) GTEST_SKIP() << "no h5py";
  std::ofstream(file("write.py"))
      << "import h5py, numpy, sys\nf = h5py.File(sys.argv[1], 'w')\n"
         "f['model/a.weight'] = numpy.arange(6, dtype='f4').reshape(2, 3)\nf['model/h'] = numpy.float16([1.5, 2])\n"
         "f.create_dataset('model/z', data=numpy.zeros(10000, 'f4'), compression='gzip', shuffle=True)\n";
  ASSERT_EQ(output_of(python + " " + file("write.py").string() + " " + file().string()), "");
  EXPECT_NE(load_error(file()).find("is no nixie checkpoint"), std::string::npos);
  const Checkpoint c = load_checkpoint(file(), {.model = std::nullopt, .unchecked = true});
  EXPECT_EQ(c.model.at("a.weight").to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(c.model.at("h").dtype(), Dtype::f16);
  EXPECT_EQ(c.model.at("h").to_vector<float>(), (std::vector<float>{1.5f, 2}));
  EXPECT_EQ(c.model.at("z").to_vector<float>(), std::vector<float>(10'000, 0.0f));
}

// ---- Damage
// -----------------------------------------------------------------------------------------------------------

TEST_F(CheckpointRefuses, WhatIsNoCheckpoint) {
  EXPECT_NE(load_error(file("none.h5")).find("none.h5 cannot be opened: No such file"), std::string::npos);
  EXPECT_NE(load_error(folder_).find("is no file"), std::string::npos);
  write_bytes(file(), "");
  EXPECT_NE(load_error(file()).find("is no nixie checkpoint"), std::string::npos);
  write_bytes(file(), "NIXIECK1");
  EXPECT_NE(load_error(file()).find("is no nixie checkpoint"), std::string::npos);
  write_bytes(file(), std::string(5000, 'x'));
  EXPECT_NE(load_error(file(), {.model = std::nullopt, .unchecked = true}).find("is damaged (HDF5: "),
            std::string::npos);
}

TEST_F(CheckpointRefuses, NewerFormats) {
  save_checkpoint(small_sample(), file());
  std::string bytes = bytes_of(file());
  bytes[8] = 9;  // a later format that this reader still understands
  write_bytes(file(), bytes);
  EXPECT_TRUE(equal(load_checkpoint(file()), small_sample()));
  bytes[12] = 9;  // and one that it does not
  write_bytes(file(), bytes);
  EXPECT_NE(load_error(file()).find("has format 9, this program reads up to 1; use a newer nixie"), std::string::npos);
  EXPECT_NE(load_error(file(), {.model = std::nullopt, .unchecked = true}).find("use a newer nixie"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, TruncationAndAppendedBytes) {
  save_checkpoint(small_sample(), file());
  const std::string whole = bytes_of(file());
  for (std::size_t part = 0; part < 64; ++part) {
    write_bytes(file(), whole.substr(0, whole.size() * part / 64));
    EXPECT_NE(load_error(file()), "no error") << part << "/64";
    EXPECT_NE(load_error(file(), {.model = std::nullopt, .unchecked = true}), "no error") << part << "/64, unchecked";
  }
  write_bytes(file(), whole.substr(0, whole.size() - 1));
  EXPECT_NE(load_error(file()).find("bytes long, expected"), std::string::npos);
  write_bytes(file(), whole + "x");
  EXPECT_NE(load_error(file()).find("bytes long, expected"), std::string::npos);
}

/// Loads `count` copies with bits, bytes or words changed. Each is refused or gives the very same values.
void load_damaged(const fs::path& file, int count, bool unchecked, int* refused) {
  save_checkpoint(small_sample(), file);
  const std::string whole = bytes_of(file);
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

// ---- Hostile files
// ----------------------------------------------------------------------------------------------------

/// Changes a saved checkpoint through HDF5 itself and returns what loading it says.
std::string hostile_error(const fs::path& file, const std::function<void(hid_t file, hid_t model)>& change) {
  save_checkpoint(small_sample(), file);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDWR, access);
  H5Pclose(access);
  change(id, H5Gopen2(id, "/model", H5P_DEFAULT));
  H5Fclose(id);
  return load_error(file, {.model = std::nullopt, .unchecked = true});
}

hid_t add_dataset(hid_t model, const char* name, hid_t type, std::vector<hsize_t> sizes, hid_t creation = H5P_DEFAULT) {
  const hid_t space =
      sizes.empty() ? H5Screate(H5S_NULL) : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
  return H5Dcreate2(model, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
}

TEST_F(CheckpointRefuses, LinksOutOfTheFile) {
  write_bytes(file("secret"), "secret");
  Checkpoint other;
  other.model["evil"] = Array(Dtype::f32, {3});
  save_checkpoint(other, file("other.h5"));
  const std::string target = file("other.h5").string();
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t, hid_t model) {
                            H5Lcreate_external(target.c_str(), "/model/evil", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
                          })
                .find("/model/evil is a soft, external or user link"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t, hid_t model) {
                            H5Lcreate_soft("/model/layer0.weight", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
                          })
                .find("/model/evil is a soft, external or user link"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t id, hid_t) {
                            H5Ldelete(id, "/rng", H5P_DEFAULT);
                            H5Lcreate_external(target.c_str(), "/", id, "rng", H5P_DEFAULT, H5P_DEFAULT);
                          })
                .find("/rng is a soft, external or user link"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t id, hid_t) {
                            H5Ldelete(id, "/config", H5P_DEFAULT);
                            H5Lcreate_soft("/class_names", id, "config", H5P_DEFAULT, H5P_DEFAULT);
                          })
                .find("/config is a soft, external or user link"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, ElementsInOtherFiles) {
  write_bytes(file("secret"), std::string(64, 's'));
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t, hid_t model) {
                            const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                            H5Pset_external(creation, file("secret").c_str(), 0, 64);
                            ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {64}, creation), 0);
                          })
                .find("/model/evil keeps its elements in other files"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t, hid_t model) {
                            const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                            const hsize_t size = 4;
                            const hid_t space = H5Screate_simple(1, &size, nullptr);
                            H5Pset_virtual(creation, space, file("other.h5").c_str(), "/model/evil", space);
                            ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_UINT8, {4}, creation), 0);
                          })
                .find("/model/evil is a virtual dataset"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, SizesThatAreNotStored) {
  EXPECT_NE(
      hostile_error(file(),
                    [](hid_t, hid_t model) {
                      const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                      const hsize_t chunk[] = {1024, 1024};
                      H5Pset_chunk(creation, 2, chunk);
                      ASSERT_GE(add_dataset(model, "evil", H5T_NATIVE_FLOAT, {1'000'000, 1'100'000}, creation), 0);
                    })
          .find("/model/evil declares 4400000000000 bytes of elements, but the file stores 0"),
      std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {  // 64 MB of zeros in some kilobytes
                            const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                            const hsize_t chunk = 1 << 20;
                            H5Pset_chunk(creation, 1, &chunk);
                            H5Pset_shuffle(creation);
                            H5Pset_deflate(creation, 9);
                            const hid_t evil = add_dataset(model, "evil", H5T_NATIVE_UINT8, {64 << 20}, creation);
                            const std::vector<char> zeros(64 << 20);
                            ASSERT_GE(H5Dwrite(evil, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), 0);
                          })
                .find("/model/evil declares 67108864 bytes"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {  // one array under many names
                            const hid_t evil = add_dataset(model, "evil", H5T_NATIVE_UINT8, {100'000});
                            const std::vector<char> ones(100'000, 1);
                            ASSERT_GE(H5Dwrite(evil, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones.data()), 0);
                            for (int i = 0; i < 50; ++i)
                              H5Lcreate_hard(model, "evil", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT,
                                             H5P_DEFAULT);
                          })
                .find("more than are left of the file's"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, StrangeObjects) {
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) { H5Gcreate2(model, "evil", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT); })
                .find("/model/evil is damaged"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t id, hid_t model) {  // a cycle
                            H5Lcreate_hard(id, "/", model, "evil", H5P_DEFAULT, H5P_DEFAULT);
                          })
                .find("/model/evil is damaged"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(), [](hid_t, hid_t model) { add_dataset(model, "evil", H5T_NATIVE_FLOAT, {}); })
                .find("/model/evil has no elements"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            const float one = 1;
                            H5Dwrite(add_dataset(model, "evil", H5T_IEEE_F32BE, {1}), H5T_NATIVE_FLOAT, H5S_ALL,
                                     H5S_ALL, H5P_DEFAULT, &one);
                          })
                .find("/model/evil has another element type"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            const hid_t text = H5Tcopy(H5T_C_S1);
                            H5Tset_size(text, H5T_VARIABLE);
                            const char* one = "x";
                            H5Dwrite(add_dataset(model, "evil", text, {1}), text, H5S_ALL, H5S_ALL, H5P_DEFAULT, &one);
                          })
                .find("/model/evil has another element type"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                            const hsize_t size = 4, limit = H5S_UNLIMITED;
                            H5Pset_chunk(creation, 1, &size);
                            H5Dcreate2(model, "evil", H5T_NATIVE_FLOAT, H5Screate_simple(1, &size, &limit), H5P_DEFAULT,
                                       creation, H5P_DEFAULT);
                          })
                .find("/model/evil can grow"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
                            const hsize_t size = 4;
                            H5Pset_chunk(creation, 1, &size);
                            H5Pset_nbit(creation);
                            add_dataset(model, "evil", H5T_NATIVE_INT, {4}, creation);
                          })
                .find("/model/evil uses filter 5"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            const float one = 1;
                            H5Dwrite(add_dataset(model, "e v", H5T_NATIVE_FLOAT, {1}), H5T_NATIVE_FLOAT, H5S_ALL,
                                     H5S_ALL, H5P_DEFAULT, &one);
                          })
                .find("/model holds a name that is none"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, StrangeAttributes) {
  const auto add = [](hid_t id, hid_t type) {
    const hid_t attribute =
        H5Acreate_by_name(id, "/state", "evil", type, H5Screate(H5S_SCALAR), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ASSERT_GE(attribute, 0);
    H5Aclose(attribute);
  };
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t id, hid_t) {
                            const hid_t text = H5Tcopy(H5T_C_S1);
                            H5Tset_size(text, 2 << 20);
                            add(id, text);
                          })
                .find("/state @evil is a text of 2097152 bytes"),
            std::string::npos);
  EXPECT_NE(hostile_error(file(),
                          [&](hid_t id, hid_t) {
                            const hid_t text = H5Tcopy(H5T_C_S1);
                            H5Tset_size(text, H5T_VARIABLE);
                            add(id, text);
                          })
                .find("/state @evil is no 64-bit integer"),
            std::string::npos);
}

TEST_F(CheckpointRefuses, TooManyObjects) {
  EXPECT_NE(hostile_error(file(),
                          [](hid_t, hid_t model) {
                            for (int i = 0; i <= 100'000; ++i)
                              H5Lcreate_hard(model, "half", model, fmt::format("evil{}", i).c_str(), H5P_DEFAULT,
                                             H5P_DEFAULT);
                          })
                .find("/model brings more than 100000 objects"),
            std::string::npos);
}

}  // namespace
}  // namespace nixie
