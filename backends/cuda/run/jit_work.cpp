// Launches kernels of loaded cubins.
#include "nixie/backends/cuda/run/jit_work.h"

#include <map>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

class JitWork final : public GroupWork {
 public:
  JitWork(const KernelCode& code, std::shared_ptr<Library> library)
      : arguments_(code.arguments),
        maps_(code.maps),
        scratch_bytes_(code.scratch_bytes),
        variant_(code.variant),
        library_(std::move(library)) {
    if (const std::size_t bytes = code.table.size() * sizeof(std::int32_t)) {
      CUDA_CHECK(cudaMalloc(table_.out(), bytes));
      CUDA_CHECK(cudaMemcpy(table_, code.table.data(), bytes, cudaMemcpyHostToDevice));
    }
    for (const Launch& launch : code.launches) {
      Entry entry;
      CUDA_CHECK(cudaLibraryGetKernel(&entry.kernel, *library_, launch.entry.c_str()));
      entry.grid = dim3(static_cast<unsigned>(launch.blocks), static_cast<unsigned>(launch.blocks_y));
      entry.threads = dim3(static_cast<unsigned>(launch.threads));
      entry.shared_bytes = at(launch.shared_bytes);
      entry.maps = launch.maps;
      entry.meets = launch.meets;
      if (launch.shared_bytes > 0)
        CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(entry.kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(launch.shared_bytes)));
      entries_.push_back(entry);
    }
  }
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }
  std::string variant() const override { return variant_; }

  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    std::vector<std::uintptr_t> body;
    for (const Argument& argument : arguments_)
      body.push_back(reinterpret_cast<std::uintptr_t>(base(argument, addresses)) +
                     static_cast<std::uintptr_t>(argument.offset_bytes));
    std::vector<EncodedMap> maps;
    for (const TensorMap& map : maps_) maps.push_back(encode(map, addresses.slots[at(map.slot)] + map.offset_bytes));
    for (const Entry& entry : entries_) {
      std::vector<void*> parameters;
      for (int map : entry.maps) parameters.push_back(&maps[at(map)]);
      parameters.push_back(body.data());
      const auto launch = entry.meets ? &cudaLaunchCooperativeKernel : &cudaLaunchKernel;
      CUDA_CHECK(launch(reinterpret_cast<const void*>(entry.kernel), entry.grid, entry.threads, parameters.data(),
                        entry.shared_bytes, stream));
    }
  }

 private:
  struct Entry {
    cudaKernel_t kernel;
    dim3 grid, threads;
    std::size_t shared_bytes;
    bool meets;
    std::vector<int> maps;
  };

  char* base(const Argument& argument, const Addresses& addresses) const {
    switch (argument.slot) {
      case Argument::kScalars:
        return addresses.scalars;
      case Argument::kScratch:
        return addresses.scratch;
      case Argument::kTable:
        return static_cast<char*>(table_.get());
      case Argument::kNumber:
        return nullptr;
      default:  // not negative
        return addresses.slots[at(argument.slot)];
    }
  }

  std::vector<Argument> arguments_;
  std::vector<TensorMap> maps_;
  std::int64_t scratch_bytes_;
  std::string variant_;
  Handle<void*, cudaFree> table_;
  std::shared_ptr<Library> library_;
  std::vector<Entry> entries_;
};

}  // namespace

std::unique_ptr<Compilation> compile_programs(const Device& device, std::span<const KernelCode> codes) {
  std::vector<std::string> sources;
  for (const KernelCode& code : codes) sources.push_back(code.source);
  return std::make_unique<Compilation>(std::move(sources), device.chip().architecture);
}

std::vector<std::unique_ptr<GroupWork>> make_jit_work(std::span<const KernelCode> codes,
                                                      std::span<const Cubin> cubins) {
  std::map<std::string_view, std::shared_ptr<Library>> libraries;
  std::vector<std::unique_ptr<GroupWork>> works;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::shared_ptr<Library>& library = libraries[codes[i].source];
    if (!library) {
      library = std::make_shared<Library>();
      CUDA_CHECK(cudaLibraryLoadData(library->out(), cubins[i].code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    }
    works.push_back(std::make_unique<JitWork>(codes[i], library));
  }
  return works;
}

std::vector<std::unique_ptr<GroupWork>> make_jit_work(const Device& device, std::span<const KernelCode> codes) {
  return make_jit_work(codes, compile_programs(device, codes)->wait());
}

}  // namespace nixie::cuda
