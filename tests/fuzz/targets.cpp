// Each target writes its input where the reader looks for it, and checks what comes back.
#include "nixie/tests/fuzz/targets.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nixie/backends/cpu/backend.h"
#include "nixie/configs/parse/config.h"
#include "nixie/core/graph/exchange.h"
#include "nixie/data/arrays.h"
#include "nixie/data/files/image.h"
#include "nixie/data/files/packed_file.h"
#include "nixie/data/files/shards.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/io/safetensors.h"

namespace nixie::fuzz {
namespace {

namespace fs = std::filesystem;

/// Ends the program, which is what a fuzzer takes for a finding.
void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// Runs a reader that may throw an Error of one fault and of one line.
template <class Read>
void may_refuse(Fault fault, Read&& read, bool many_lines = false) {
  try {
    read();
  } catch (const Error& error) {
    const std::string line = error.what();
    require(error.fault() == fault, "refused with another fault");
    require(!line.empty() && (many_lines || line.find('\n') == std::string::npos), "the message is not one line");
    require(line.find('\0') == std::string::npos, "the message holds a zero byte");
  }
}

std::string text_of(Input input) { return {input.begin(), input.end()}; }

/// A folder in memory that lives as long as the program.
const fs::path& folder() {
  static const struct Folder {
    fs::path path = fs::path(fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()) /
                    ("nixie_fuzz_" + std::to_string(::getpid()));
    Folder() { fs::create_directories(path); }
    ~Folder() { fs::remove_all(path); }
  } kept;
  return kept.path;
}

void write(const std::string& name, Input bytes) {
  std::ofstream(folder() / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void read_yaml(Input input) {
  may_refuse(
      Fault::usage,
      [&] {
        const std::string text = config_text(read_config(parse_yaml(text_of(input), "fuzz.yaml")));
        require(config_text(read_config(parse_yaml(text, "again.yaml"))) == text, "the printed text reads differently");
      },
      true);
}

void read_assignment(Input input) {
  may_refuse(
      Fault::usage,
      [&] {
        Tree tree = parse_yaml("model: [flatten, {linear: {out: 3}}]\ndata: glyphs\nepochs: 1\n", "fuzz.yaml");
        override_yaml(tree, text_of(input), {"model", "loss", "optimizer", "schedule", "data"});
        const std::string text = config_text(read_config(tree));
        require(config_text(read_config(parse_yaml(text, "again.yaml"))) == text, "the printed text reads differently");
      },
      true);
}

/// Reads every sample of a dataset.
void read_all(const Dataset& dataset) {
  std::vector<float> pixels(static_cast<std::size_t>(dataset.sample_shape().size()));
  for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 8); ++i) {
    const std::int32_t label = dataset.load(i, {.seed = 1, .epoch = 2, .training = true}, pixels);
    require(label >= 0 && label < dataset.classes(), "a label names no class");
  }
}

/// The input's first byte says which of the four files it is; the others are two images of one pixel.
void read_idx(Input input) {
  if (input.empty()) return;
  static const std::array<const char*, 4> names = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                   "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  const std::vector<std::uint8_t> images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 7, 9},
                                  labels = {0, 0, 8, 1, 0, 0, 0, 2, 4, 5};
  for (std::size_t i = 0; i < names.size(); ++i) write(names[i], i % 2 ? labels : images);
  write(names[input[0] % 4], input.subspan(1));
  may_refuse(Fault::data, [] {
    const Splits splits = Mnist{.path = folder()}.open();
    read_all(*splits.train);
    read_all(*splits.test);
  });
}

void read_cifar(Input input) {
  static const std::vector<std::uint8_t> record(3073, 1);
  for (int i = 2; i <= 5; ++i) write(fmt::format("data_batch_{}.bin", i), record);
  write("test_batch.bin", record);
  write("data_batch_1.bin", input);
  may_refuse(Fault::data, [] { read_all(*Cifar10{.path = folder()}.open().train); });
}

/// As .npz, whose arrays are the images and the labels.
void read_npz(Input input) {
  write("fuzz.npz", input);
  may_refuse(Fault::data, [] {
    const Splits splits = Arrays{.path = folder() / "fuzz.npz"}.open();
    read_all(*splits.train);
    read_all(*splits.test);
  });
}

/// As one half of a packed dataset.
void read_packed(Input input) {
  write("fuzz.packed", input);
  may_refuse(Fault::data, [] {
    const PackedFile file(folder() / "fuzz.packed");
    for (std::int64_t i = 0; i < std::min<std::int64_t>(file.header().samples, 8); ++i)
      require(file.sample(i).size() == static_cast<std::size_t>(file.header().sample_bytes()), "a sample is cut short");
  });
}

/// The archive's directory alone; its pictures are those of `jpeg` and `png`.
void read_tar_shard(Input input) {
  write("fuzz.tar", input);
  may_refuse(Fault::data, [&] {
    const FolderScan scan = scan_shards({folder() / "fuzz.tar"});
    std::size_t pictures = 0;
    for (const auto& of_class : scan.pictures) pictures += of_class.size();
    require(pictures <= input.size() / 512, "more pictures than headers");
  });
}

void read_safetensors(Input input) {
  write("fuzz.safetensors", input);
  may_refuse(Fault::checkpoint, [&] {
    std::int64_t bytes = 0;
    for (const auto& [name, array] : load_safetensors(folder() / "fuzz.safetensors").arrays)
      bytes += array.size() * size_of(array.dtype());
    require(bytes <= static_cast<std::int64_t>(input.size()), "more elements than the file holds");
  });
}

/// A picture of any kind, decoded and cut.
void read_picture(Input input) {
  may_refuse(Fault::data, [&] {
    const Image image = decode_image(input, "fuzz", {.least_side = 8, .megapixels = 16});
    require(static_cast<std::int64_t>(image.rgb.size()) == 3 * image.width * image.height, "pixels are missing");
  });
}

/// As a file without a checksum: HDF5 itself sees the bytes.
void read_checkpoint(Input input) {
  write("fuzz.h5", input);
  may_refuse(Fault::checkpoint, [] {
    const Checkpoint checkpoint = load_checkpoint(folder() / "fuzz.h5", {.unchecked = true});
    for (const auto& [name, array] : checkpoint.model) require(array.size() >= 0, "an array has no size");
  });
  const ArrayForms model = {{"w", {Dtype::f32, {2}}}};
  may_refuse(Fault::checkpoint, [&] {
    const Checkpoint checkpoint = load_checkpoint(folder() / "fuzz.h5", {.model = model, .unchecked = true});
    require(checkpoint.model.at("w").shape() == Shape{2}, "an array of another shape was taken");
  });
}

/// Fills the fields of DLPack's struct from the input; the memory behind them is never looked at.
void read_dlpack(Input input) {
  static const std::shared_ptr<Backend> backend = make_cpu_backend(1);
  alignas(64) static float memory[16] = {};
  struct Fields {
    std::uint32_t major;
    std::int32_t device, index, rank;
    dlpack::Type type;
    std::uint64_t byte_offset;
    std::uint8_t has_data, has_shape, has_strides;
    std::int64_t shape[8], strides[8];
  } fields{};
  std::memcpy(&fields, input.data(), std::min(input.size(), sizeof fields));
  if (fields.rank > 8 && fields.rank <= 64) fields.rank = 8;  // more than the arrays hold, and not absurd
  dlpack::Managed managed{.version = {fields.major, 0},
                          .context = nullptr,
                          .release = [](dlpack::Managed*) {},
                          .flags = 0,
                          .array = {fields.has_data % 2 ? memory : nullptr,
                                    {fields.device, fields.index},
                                    fields.rank,
                                    fields.type,
                                    fields.has_shape % 2 ? fields.shape : nullptr,
                                    fields.has_strides % 2 ? fields.strides : nullptr,
                                    fields.byte_offset}};
  may_refuse(Fault::usage, [&] {
    const Tensor tensor = from_dlpack(&managed, *backend);
    require(tensor.shape().rank() == fields.rank, "the rank changed");
  });
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"yaml", read_yaml},    {"set", read_assignment}, {"idx", read_idx},       {"cifar", read_cifar},
      {"npz", read_npz},      {"packed", read_packed},  {"tar", read_tar_shard}, {"safetensors", read_safetensors},
      {"jpeg", read_picture}, {"png", read_picture},    {"webp", read_picture},  {"checkpoint", read_checkpoint},
      {"dlpack", read_dlpack}};
  return all;
}

const Target& target_named(const std::string& name) {
  for (const Target& target : targets())
    if (target.name == name) return target;
  std::fprintf(stderr, "fuzz: there is no target %s\n", name.c_str());
  std::exit(2);
}

}  // namespace nixie::fuzz
