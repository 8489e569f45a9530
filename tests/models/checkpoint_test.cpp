// Checkpoints: exact round trips, refusal of foreign ones, and files that other tools read.
#include "nixie/models/io/checkpoint.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nixie/tests/models/checkpoint_samples.h"
#include "nixie/tests/shell.h"

namespace nixie {
namespace {

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
  // Names are looked at several times, but count once.
  ArrayForms forms;
  std::map<std::string, ArrayForms> buffers;
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = fmt::format("{}.weight", i);
    saved.optimizer[name];
    buffers[name];
    saved.model[name] = Array(Dtype::f32, {1});
  }
  for (const auto& [name, array] : saved.model) forms[name] = {array.dtype(), array.shape()};
  save_checkpoint(saved, file());
  EXPECT_EQ(load_checkpoint(file(), {.model = forms, .optimizer = buffers}).optimizer.size(), 20'000u);
  for (int i = 0; i < 60'000; ++i) saved.state[fmt::format("more.{}", i)] = 1.0;
  EXPECT_FAULT(usage, "more than 99900 names", save_checkpoint(saved, file()));
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

// The second format has one attribute more.
TEST(CheckpointFormats, Format2LoadsForEver) {
  const fs::path fixtures = fs::path(NIXIE_SOURCE_DIR) / "tests/models/fixtures";
  const Checkpoint first = load_checkpoint(fixtures / "checkpoint_format1.h5"),
                   second = load_checkpoint(fixtures / "checkpoint_format2.h5");
  EXPECT_FALSE(first.upright);
  EXPECT_TRUE(second.upright);
  EXPECT_EQ(second.model.at("fc.weight").to_vector<float>(), first.model.at("fc.weight").to_vector<float>());
  EXPECT_EQ(second.state, first.state);
}

TEST_F(CheckpointTest, SameStateGivesTheSameBytes) {
  save_checkpoint(sample(), file("a.h5"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a time stamp would differ
  save_checkpoint(sample(), file("b.h5"));
  EXPECT_EQ(text_of(file("a.h5")), text_of(file("b.h5")));
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
  EXPECT_NE(save_with([](Checkpoint& c) { c.class_names.assign(100'001, "as many as no reader takes"); }), "no error");
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(CheckpointTest, OtherModelsAreRefusedWithTheDifferences) {
  save_checkpoint(small_sample(), file());
  ArrayForms model;
  for (const auto& [name, array] : small_sample().model) model[name] = {array.dtype(), array.shape()};
  EXPECT_TRUE(equal(load_checkpoint(file(), {.model = model}), small_sample()));

  auto other = model;
  other["layer0.weight"].shape = {9, 3, 2};
  EXPECT_THAT(load_error(file(), {.model = other}),
              HasSubstr("layer0.weight is f32 [8, 3, 2], the model has f32 [9, 3, 2]"));
  other = model;
  other["half"].dtype = Dtype::f32;
  EXPECT_THAT(load_error(file(), {.model = other}), HasSubstr("half is f16 [33], the model has f32 [33]"));
  other = model;
  other.erase("half");
  EXPECT_THAT(load_error(file(), {.model = other}), HasSubstr("half (f16 [33]) is unknown to the model"));
  other = model;
  other["new.bias"] = {Dtype::f32, {4}};
  EXPECT_THAT(load_error(file(), {.model = other}), HasSubstr("new.bias (f32 [4]) is missing"));
  other.clear();
  EXPECT_THAT(load_error(file(), {.model = other}), HasSubstr("and 1 more difference"));

  Checkpoint stray = small_sample();
  stray.optimizer["gone.weight"]["momentum_buffer"] = Array(Dtype::f32, {2});
  save_checkpoint(stray, file());
  EXPECT_THAT(load_error(file(), {.model = model}), HasSubstr("/optimizer/gone.weight belongs to no parameter"));

  Checkpoint averaged = small_sample();
  averaged.ema["layer0.weight"] = Array(Dtype::f32, {8, 3, 2});
  save_checkpoint(averaged, file());
  EXPECT_TRUE(equal(load_checkpoint(file(), {.model = model}), averaged));
  averaged.ema["layer0.weight"] = Array(Dtype::f32, {8, 6});
  save_checkpoint(averaged, file());
  EXPECT_THAT(load_error(file(), {.model = model}),
              HasSubstr("/ema: layer0.weight is f32 [8, 6], the model has f32 [8, 3, 2]"));
}

TEST_F(CheckpointTest, OtherOptimizersAreRefusedWithTheDifferences) {
  save_checkpoint(small_sample(), file());
  const std::map<std::string, ArrayForms> optimizer = {
      {"layer0.weight", {{"momentum_buffer", {Dtype::f32, {8, 3, 2}}}}}};
  EXPECT_TRUE(equal(load_checkpoint(file(), {.optimizer = optimizer}), small_sample()));
  const auto refusal = [&](const std::function<void(std::map<std::string, ArrayForms>&)>& change) {
    std::map<std::string, ArrayForms> other = optimizer;
    change(other);
    return load_error(file(), {.optimizer = other});
  };
  EXPECT_THAT(refusal([](auto& o) {
                o["layer0.weight"]["exp_avg"] = {Dtype::f32, {8, 3, 2}};
              }),
              HasSubstr("/optimizer/layer0.weight: exp_avg (f32 [8, 3, 2]) is missing"));
  EXPECT_THAT(refusal([](auto& o) { o["layer0.weight"] = {}; }),
              HasSubstr("momentum_buffer (f32 [8, 3, 2]) is unknown to the"));
  EXPECT_THAT(refusal([](auto& o) { o["layer0.weight"]["momentum_buffer"].dtype = Dtype::f16; }),
              HasSubstr("momentum_buffer is f32 [8, 3, 2], the optimizer has f16 [8, 3, 2]"));
  EXPECT_THAT(refusal([](auto& o) { o.clear(); }), HasSubstr("/optimizer/layer0.weight is unknown to the optimizer"));
}

TEST_F(CheckpointTest, TheHeaderIsOfferedBeforeAnyArray) {
  save_checkpoint(small_sample(), file());
  struct Declined {};
  const auto decline = [](const Checkpoint& header) {
    EXPECT_TRUE(header.model.empty() && header.optimizer.empty());
    EXPECT_EQ(header.state, small_sample().state);
    EXPECT_EQ(header.config, small_sample().config);
    throw Declined{};
  };
  EXPECT_THROW(load_checkpoint(file(), {.model = ArrayForms{}, .accept = decline}), Declined);
}

// Whatever a caller forgets to look at, a value that is no number never replaces a good file.
TEST_F(CheckpointTest, ArraysThatAreNotFiniteAreNotWritten) {
  save_checkpoint(small_sample(), file());
  const std::string before = text_of(file());
  const auto bad = [](Dtype dtype, double value) {
    Array array = Array::from(std::vector<double>(100, 1.0), {100}).clone();
    array.data<double>()[99] = value;
    return array.to(dtype);
  };
  for (const double value : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
      Checkpoint model = small_sample(), ema = model, optimizer = model;
      model.model["half"] = ema.ema["half"] = optimizer.optimizer["layer0.weight"]["exp_avg_sq"] = bad(dtype, value);
      for (const auto& [checkpoint, name] :
           {std::pair{model, "/model/half"}, {ema, "/ema/half"}, {optimizer, "/optimizer/layer0.weight/exp_avg_sq"}}) {
        EXPECT_EQ(non_finite_array(checkpoint), name);
        EXPECT_THAT(error_of(Fault::non_finite, [&, &c = checkpoint] { save_checkpoint(c, file()); }), HasSubstr(name));
      }
    }
  EXPECT_EQ(text_of(file()), before);
  EXPECT_EQ(non_finite_array(small_sample()), "");
}

TEST_F(CheckpointTest, WhatCannotBeReadBackIsNotCalledDamaged) {
  save_checkpoint(small_sample(), file());
  const std::string before = text_of(file());
  const int unused = ::open("/dev/null", O_RDONLY);
  ::close(unused);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit two{.rlim_cur = static_cast<rlim_t>(unused) + 2, .rlim_max = limit.rlim_max};  // folder and new file
  ::setrlimit(RLIMIT_NOFILE, &two);
  const std::string line = error_of(Fault::storage, [&] { save_checkpoint({}, file()); });
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(line, file().string() +
                      ": what was written cannot be checked: the new file cannot be opened: Too many open files; close "
                      "other files, or raise `ulimit -n`; the old file is untouched");
  EXPECT_EQ(text_of(file()), before);
}

// HDF5 builds the file in memory, under a name: no file of that name, and no other save, may matter.
TEST_F(CheckpointTest, SavingLooksAtNoOtherFile) {
  const fs::path old = fs::current_path();
  fs::current_path(folder_);
  std::ofstream(folder_ / "checkpoint.h5") << "x";
  fs::resize_file(folder_ / "checkpoint.h5", std::uintmax_t{1} << 42);  // sparse: nobody can read it into memory
  save_checkpoint(small_sample(), file());
  fs::current_path(old);
  EXPECT_TRUE(equal(load_checkpoint(file()), small_sample()));
}

TEST_F(CheckpointTest, ThreadsSaveAtOnce) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 30; ++round) try {
          const fs::path path = file(fmt::format("{}.h5", round % 2 ? i : 0));  // own files, and all the same one
          save_checkpoint(small_sample(), path);
          if (!equal(load_checkpoint(path), small_sample())) ++failed;
        } catch (const Error& error) {
          ++failed;
          ADD_FAILURE() << error.what();
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

// Whoever reads it has one of the two whole, never the size of one and the bytes of the other.
TEST_F(CheckpointTest, IsReadWholeWhileAnotherTakesItsPlace) {
  Checkpoint larger = small_sample();
  larger.model["more"] = Array::from(std::vector<float>(40'000, 1), {200, 200});
  const Checkpoint smaller = small_sample();
  save_checkpoint(larger, file("0"));
  save_checkpoint(smaller, file("1"));
  fs::copy_file(file("0"), file());
  std::jthread replaces([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      fs::create_hard_link(file(std::to_string(i % 2)), file("next"));
      fs::rename(file("next"), file());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  for (int i = 0; i < 200; ++i) {
    Checkpoint loaded;
    ASSERT_EQ(error_of(Fault::checkpoint, [&] { loaded = load_checkpoint(file()); }), "no error") << i;
    ASSERT_TRUE(equal(loaded, loaded.model.contains("more") ? larger : smaller));
  }
}

// ---- Other tools

std::string output_of(const std::string& command) { return run_shell(command).output; }

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
  EXPECT_THAT(output_of("h5dump -d /model/features.0.weight " + at),
              HasSubstr("(0,0): 1.5, -2.25,\n   (1,0): 1024, 4"));
  EXPECT_THAT(output_of("h5dump -d /model/bf " + at), HasSubstr("1.5, -3"));
  EXPECT_THAT(output_of("h5dump -d /model/half " + at), HasSubstr("0.0999756, -65504"));
  EXPECT_THAT(output_of("h5dump -d /class_names " + at), HasSubstr("\"yz\""));
  EXPECT_THAT(output_of("h5dump -a /state/step " + at), HasSubstr("(0): 7"));
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
  EXPECT_THAT(text, HasParts("features.0.weight float32 (2, 2) [[1.5, -2.25], [1024.0, 4.0]]",
                             "half float16 (2,) [1.5, -65504.0]", "bf float32 (2,) [1.5, -3.0]",
                             "layer2.weight float32 ()", "layer3.weight float32 (0,) []", "b'sgd' 7 0.5 a: 1"));
}

TEST_F(CheckpointTest, PlainFilesFromH5pyLoadUnchecked) {
  const std::string python = python_with_h5py();
  if (python.empty()) GTEST_SKIP() << "no h5py";
  std::ofstream(file("write.py"))
      << "import h5py, numpy, sys\nf = h5py.File(sys.argv[1], 'w')\n"
         "f['model/a.weight'] = numpy.arange(6, dtype='f4').reshape(2, 3)\nf['model/h'] = numpy.float16([1.5, 2])\n"
         "f['model/h'].attrs['unit'] = 'm'\n"
         "f.create_dataset('model/z', data=numpy.zeros(10000, 'f4'), compression='gzip', shuffle=True)\n";
  ASSERT_EQ(output_of(python + " " + file("write.py").string() + " " + file().string()), "");
  EXPECT_THAT(load_error(file()), HasSubstr("is no nixie checkpoint"));
  const Checkpoint c = load_checkpoint(file(), {.model = std::nullopt, .unchecked = true});
  EXPECT_EQ(c.model.at("a.weight").to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(c.model.at("h").dtype(), Dtype::f16);
  EXPECT_EQ(c.model.at("h").to_vector<float>(), (std::vector<float>{1.5f, 2}));
  EXPECT_EQ(c.model.at("z").to_vector<float>(), std::vector<float>(10'000, 0.0f));
}

}  // namespace
}  // namespace nixie
