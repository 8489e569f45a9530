// Launches kernels of loaded cubins.
#include "backends/cuda/jit_work.h"

#include <map>

#include "backends/cuda/jit.h"

namespace nixie::cuda {
namespace {

class JitWork final : public Work {
 public:
  JitWork(const KernelCode& code, std::shared_ptr<Library> library)
      : arguments_(code.arguments), scratch_bytes_(code.scratch_bytes), library_(std::move(library)) {
    for (const Launch& launch : code.launches) {
      Entry entry;
      CUDA_CHECK(cudaLibraryGetKernel(&entry.kernel, *library_, launch.entry.c_str()));
      entry.blocks = static_cast<unsigned>(launch.blocks);
      entry.threads = static_cast<unsigned>(launch.threads);
      entries_.push_back(entry);
    }
  }
  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void enqueue(const Addresses& addresses, cudaStream_t stream) const override {
    std::vector<char*> body;
    for (const Argument& argument : arguments_) {
      char* base = argument.slot == Argument::kScalars   ? addresses.scalars
                   : argument.slot == Argument::kScratch ? addresses.scratch
                                                         : addresses.slots[static_cast<std::size_t>(argument.slot)];
      body.push_back(base + argument.offset_bytes);
    }
    void* parameters[] = {body.data()};
    for (const Entry& entry : entries_)
      CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(entry.kernel), dim3(entry.blocks), dim3(entry.threads),
                                  parameters, 0, stream));
  }

 private:
  struct Entry {
    cudaKernel_t kernel;
    unsigned blocks, threads;
  };
  std::vector<Argument> arguments_;
  std::int64_t scratch_bytes_;
  std::shared_ptr<Library> library_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<std::unique_ptr<Work>> make_jit_work(const Device& device, std::span<const KernelCode> codes) {
  std::vector<std::string> sources;
  for (const KernelCode& code : codes) sources.push_back(code.source);
  const std::vector<Cubin> cubins = compile_sources(sources, device.architecture());
  std::map<std::string_view, std::shared_ptr<Library>> libraries;
  std::vector<std::unique_ptr<Work>> works;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::shared_ptr<Library>& library = libraries[sources[i]];
    if (!library) {
      library = std::make_shared<Library>();
      CUDA_CHECK(cudaLibraryLoadData(library->out(), cubins[i].code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    }
    works.push_back(std::make_unique<JitWork>(codes[i], library));
  }
  return works;
}

}  // namespace nixie::cuda
