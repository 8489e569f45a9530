// Runs NVRTC over sources, several at a time.
#include "nixie/backends/cuda/compile/jit.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "nixie/backends/cuda/compile/cubin_cache.h"
#include "nixie/backends/cuda/compile/embedded_files.h"
#include "nixie/backends/cuda/device/libraries.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/base/threads.h"

namespace nixie::cuda {
namespace {

// No contraction of a*b+c: the generated code then computes what the CPU does; the matrix kernels say fmaf themselves.
// NVRTC's own cache is not asked: it returns machine code without the log that says what the code uses.
std::vector<const char*> options() {
  int major = 0, minor = 0;
  nvrtc().version(&major, &minor);
  std::vector<const char*> all{"--std=c++17", "--fmad=false", "--ptxas-options=-v", "-default-device",
                               "-diag-suppress=177"};  // 177: a position that no access needs
  if (std::pair(major, minor) >= std::pair(12, 9)) all.push_back("--no-cache");
  // Nothing of the CUDA runtime and no textures: a fifth of what NVRTC parses, one program at a time, before ours.
  if (major >= 13) all.push_back("--minimal");
  return all;
}

class Program {
 public:
  Program(const Nvrtc& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
    std::vector<const char*> names, texts;
    for (const EmbeddedFile& file : embedded_kernels()) {
      names.push_back(file.name);
      texts.push_back(file.text.data());
    }
    expect(nvrtc_.create(&program_, source.c_str(), "kernel.cu", static_cast<int>(names.size()), texts.data(),
                         names.data()),
           "");
  }
  ~Program() { nvrtc_.destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Cubin compile(const std::string& architecture) {
    const std::string gpu = "--gpu-architecture=" + architecture;
    std::vector<const char*> all = options();
    all.push_back(gpu.c_str());
    const nvrtcResult result = nvrtc_.compile(program_, static_cast<int>(all.size()), all.data());
    Cubin cubin;
    std::size_t size = 0;
    expect(nvrtc_.log_size(program_, &size), "");
    cubin.log.resize(size);
    expect(nvrtc_.log(program_, cubin.log.data()), "");
    while (!cubin.log.empty() && cubin.log.back() == '\0') cubin.log.pop_back();
    expect(result, cubin.log);
    expect(nvrtc_.cubin_size(program_, &size), "");
    cubin.code.resize(size);
    expect(nvrtc_.cubin(program_, cubin.code.data()), "");
    return cubin;
  }

 private:
  void expect(nvrtcResult result, const std::string& log) const {
    if (result != NVRTC_SUCCESS)
      fail(Fault::device, "nvrtc: ", nvrtc_.error_string(result), log.empty() ? "" : ": ", log);
  }
  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// Everything the machine code depends on: the source with the files it includes, options, architecture, compiler.
std::string key_text(const std::string& source, const std::string& architecture) {
  int major = 0, minor = 0;
  nvrtc().version(&major, &minor);
  std::string key = fmt::format("{} nvrtc {}.{}\n", architecture, major, minor);
  for (const char* option : options()) key += option + std::string("\n");
  std::vector<std::string_view> texts{source};
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    key += texts[i];
    for (const EmbeddedFile& file : embedded_kernels()) {
      const bool included = texts[i].find(fmt::format("#include \"{}\"", file.name)) != std::string_view::npos;
      if (!included || std::ranges::find(seen, file.name) != seen.end()) continue;
      seen.emplace_back(file.name);
      texts.push_back(file.text);
    }
  }
  return key;
}

Cubin compile_one(const std::string& source, const std::string& architecture) {
  const CubinCache& cache = cubin_cache();
  const std::string key = key_text(source, architecture);
  if (std::optional<Cubin> found = cache.find(key)) return *std::move(found);
  Cubin cubin = Program(nvrtc(), source).compile(architecture);
  cache.keep(key, cubin);
  return cubin;
}

}  // namespace

struct Compilation::State {
  const std::vector<std::string> sources;
  const std::string architecture;
  std::vector<std::size_t> first = {};  // of each source: the index of the first that equals it
  std::vector<std::size_t> work = {};
  std::vector<Cubin> cubins = std::vector<Cubin>(sources.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex = {};
  std::exception_ptr error = {};
  std::vector<std::jthread> threads = {};

  void run() {
    for (std::size_t i; (i = next++) < work.size();) try {
        cubins[work[i]] = compile_one(sources[work[i]], architecture);
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
  }
};

Compilation::Compilation(std::vector<std::string> sources, std::string architecture)
    : state_(new State{std::move(sources), std::move(architecture)}) {
  nvrtc();  // a missing library is reported from here
  std::map<std::string_view, std::size_t> first;
  for (std::size_t i = 0; i < state_->sources.size(); ++i) {
    const auto [found, is_new] = first.emplace(state_->sources[i], i);
    state_->first.push_back(found->second);
    if (is_new) state_->work.push_back(i);
  }
  if (is_traced(BackendTrace::source))
    for (std::size_t i : state_->work) fmt::print(stderr, "{}\n", state_->sources[i]);
  // A long program that began last would be waited for by all threads.
  std::ranges::stable_sort(state_->work, std::greater(), [&](std::size_t i) { return state_->sources[i].size(); });
  const auto cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const std::size_t wanted = std::min(cores, state_->work.size());
  start_threads(state_->threads, "nvrtc", static_cast<int>(wanted) - 1,
                [state = state_.get()](const std::stop_token&) { state->run(); });
}

Compilation::~Compilation() { state_->next = state_->work.size(); }

std::vector<Cubin> Compilation::wait() {
  state_->run();
  state_->threads.clear();
  if (state_->error) std::rethrow_exception(state_->error);
  for (std::size_t i = 0; i < state_->sources.size(); ++i)
    if (const std::size_t same = state_->first[i]; same != i) state_->cubins[i] = state_->cubins[same];
  return std::move(state_->cubins);
}

std::vector<Cubin> compile_sources(std::span<const std::string> sources, const std::string& architecture) {
  return Compilation({sources.begin(), sources.end()}, architecture).wait();
}

}  // namespace nixie::cuda
