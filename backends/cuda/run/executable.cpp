// Runs a plan: group by group the first time, afterwards as a graph.
#include "nixie/backends/cuda/run/executable.h"

#include <algorithm>
#include <list>

#include "nixie/backends/cuda/run/autotune.h"
#include "nixie/backends/cuda/run/blas_work.h"
#include "nixie/backends/cuda/run/collective_work.h"
#include "nixie/backends/cuda/run/jit_work.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/plan_too_large.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kMostGraphs = 4;  // for as many sets of external buffers

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(std::shared_ptr<Device> device, const Plan& plan) : device_(std::move(device)), plan_(plan) {
    check_arena_fits();
    make_work();
    always_waits_ = waits_for_kernels();
    traces_time_ = is_traced(BackendTrace::time);
  }

  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
    const auto lock = device_->use();
    bind(externals);
    set_scalars(scalars);
    auto known = find_graph();
    const bool again = addresses_.slots == last_bound_;
    last_bound_ = addresses_.slots;
    // Buffers seen for the first time may be new every time, and the first launch loads code, which no capture allows.
    if (traces_time_) return run_timed();
    if (always_waits_ || (known == graphs_.end() && !again)) return run_directly();
    if (known == graphs_.end()) {
      graphs_.push_front({addresses_.slots, capture()});
      known = graphs_.begin();
      if (graphs_.size() > kMostGraphs) graphs_.pop_back();
    }
    CUDA_CHECK(cudaGraphLaunch(known->exec, device_->stream()));
  }

  std::vector<std::string> algorithms() const override {
    std::vector<std::string> names;
    for (const auto& work : work_) names.push_back(work->variant());
    return names;
  }

 private:
  struct Captured {
    std::vector<char*> slots;
    GraphExec exec;
  };

  // Before anything is compiled or a library is asked: a product of 2^24 x 2^24 ended in a division by zero there. To
  // know the free bytes is to wait for the device, so plans that are small are just tried.
  void check_arena_fits() const {
    constexpr std::int64_t kAlwaysTried = 1 << 30;
    if (plan_.arena_bytes <= kAlwaysTried) return;
    const std::int64_t free = device_->free_bytes();
    if (plan_.arena_bytes > free)
      throw PlanTooLarge(
          "cuda", plan_, [](std::int64_t) { return 0; }, free);
  }

  // Programs compile while libraries are asked, and while other threads use the device.
  void make_work() {
    std::vector<std::size_t> generated;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g)
      if (!is_exchange(plan_.groups[g]) && !blas_problem(plan_.groups[g])) generated.push_back(g);
    const std::vector<KernelCode> codes =
        generate_tuned(*device_, chip_to_choose_for(device_->chip()), plan_, generated);
    const std::unique_ptr<Compilation> programs = compile_programs(*device_, codes);
    {
      const auto lock = device_->use();
      for (const Group& group : plan_.groups) work_.push_back(library_work(group));
    }
    const std::vector<Cubin> cubins = programs->wait();
    const auto lock = device_->use();
    std::vector<std::unique_ptr<GroupWork>> made = make_jit_work(codes, cubins);
    for (std::size_t i = 0; i < made.size(); ++i) work_[generated[i]] = std::move(made[i]);
    allocate();
  }

  // Null for a group with a program.
  std::unique_ptr<GroupWork> library_work(const Group& group) {
    if (auto calls = collective_calls(plan_, group); !calls.empty()) return make_collective_work(*device_, calls);
    const BlasProblem* problem = blas_problem(group);
    return problem ? blas_work(*problem, plan_.kernels[at(group.members.back())]) : nullptr;
  }

  // A ReLU in which the library loses NaN is a kernel after the call.
  std::unique_ptr<GroupWork> blas_work(const BlasProblem& problem, const Kernel& product) {
    if (auto work = make_blas_work(plan_, problem, device_->chip())) return work;
    BlasProblem plain = problem;
    plain.relu = false;
    const KernelCode relu = generate(plan_, relu_after(product), device_->chip());
    std::vector<std::unique_ptr<GroupWork>> works = make_jit_work(*device_, {{relu}});
    works.insert(works.begin(), make_blas_work(plan_, plain, device_->chip()));
    return std::make_unique<WorksInTurn>(std::move(works));
  }

  void allocate() {
    std::int64_t scratch = 0, of_exchanges = 0;  // these run one after another, in the same memory
    for (std::size_t g = 0; g < work_.size(); ++g) {
      const std::int64_t own = round_up(work_[g]->scratch_bytes(), 256);
      const bool exchanges = is_exchange(plan_.groups[g]);
      scratch_offsets_.push_back(exchanges ? 0 : scratch);
      (exchanges ? of_exchanges : scratch) = exchanges ? std::max(of_exchanges, own) : scratch + own;
    }
    for (std::size_t g = 0; g < work_.size(); ++g)
      if (is_exchange(plan_.groups[g])) scratch_offsets_[g] = scratch;
    scratch += of_exchanges;
    try {
      arena_ = device_->allocate(plan_.arena_bytes);
      scratch_ = device_->allocate(scratch);
    } catch (const Error& error) {
      if (error.fault() != Fault::memory) throw;
      arena_.reset();
      const auto grown = [scratch, whole = plan_.batch](std::int64_t batch) {
        return whole == 0 ? scratch : scratch * batch / whole;
      };
      throw PlanTooLarge("cuda", plan_, grown, device_->free_bytes());
    }
    scalars_ = device_->allocate(static_cast<std::int64_t>(plan_.scalars.size() * sizeof(double)));
    CUDA_CHECK(cudaMemsetAsync(scratch_->address(), 0, at(scratch), device_->stream()));
    addresses_.scalars = static_cast<char*>(scalars_->address());
    addresses_.slots.assign(plan_.slots.size(), nullptr);
    for (std::size_t s = 0; s < plan_.slots.size(); ++s)
      if (!plan_.slots[s].external) addresses_.slots[s] = static_cast<char*>(arena_->address()) + plan_.slots[s].offset;
  }

  void bind(std::span<const std::shared_ptr<Buffer>> externals) {
    check(externals.size() == plan_.externals.size(), "cuda: the plan has ", plan_.externals.size(),
          " external slots, given ", externals.size());
    for (std::size_t i = 0; i < externals.size(); ++i)
      addresses_.slots[at(plan_.externals[i])] = static_cast<char*>(externals[i]->address());
  }

  void set_scalars(std::span<const double> scalars) {
    const std::vector<double> values(scalars.begin(), scalars.end());
    if (values.empty() || values == uploaded_) return;
    uploaded_ = values;
    device_->staging().copy(uploaded_.data(), addresses_.scalars,
                            static_cast<std::int64_t>(values.size() * sizeof(double)), device_->stream());
  }

  void enqueue(std::size_t k, bool waits = false) {
    addresses_.scratch = static_cast<char*>(scratch_->address()) + scratch_offsets_[k];
    const std::string label = label_of(plan_, plan_.groups[k]);
    try {
      work_[k]->enqueue(addresses_, device_->stream());
      if (waits) CUDA_CHECK(cudaStreamSynchronize(device_->stream()));
    } catch (const StickyError& error) {
      if (!waits) throw;  // of another kernel
      fail(error.fault(), "kernel \"", label, "\": ", error.cause());
    } catch (const Error& error) {
      fail(error.fault(), "kernel \"", label, "\": ", error.what());
    }
  }

  // A faulty kernel mostly fails at once: the first run finds out which one it is.
  void run_directly() {
    const bool waits = first_ || always_waits_;
    if (waits) CUDA_CHECK(cudaStreamSynchronize(device_->stream()));
    for (std::size_t k = 0; k < work_.size(); ++k) enqueue(k, waits);
    first_ = false;
  }

  // Prints how long each kernel takes by itself, in microseconds.
  void run_timed() {
    std::vector<Event> events(work_.size() + 1);
    for (std::size_t k = 0; k < events.size(); ++k) {
      CUDA_CHECK(cudaEventCreate(events[k].out()));
      CUDA_CHECK(cudaEventRecord(events[k], device_->stream()));
      if (k < work_.size()) enqueue(k);
    }
    CUDA_CHECK(cudaStreamSynchronize(device_->stream()));
    for (std::size_t k = 0; k < work_.size(); ++k) {
      float milliseconds = 0;
      CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events[k], events[k + 1]));
      fmt::print(stderr, "{:9.1f} us  {} {} by {}\n", 1e3 * milliseconds, label_of(plan_, plan_.groups[k]),
                 plan_.kernels[at(plan_.groups[k].members.back())].domain, work_[k]->variant());
    }
  }

  bool is_exchange(const Group& group) const { return !collective_calls(plan_, group).empty(); }
  bool exchanges() const {
    return std::ranges::any_of(plan_.groups, [&](const Group& group) { return is_exchange(group); });
  }

  std::list<Captured>::iterator find_graph() { return std::ranges::find(graphs_, addresses_.slots, &Captured::slots); }

  // The stream records into the graph behind these nodes. NCCL's own streams join a recording, which must then be one
  // for the whole graph: another recording of the same graph is foreign to them.
  void begin_recording(const Graph& graph, std::vector<cudaGraphNode_t>& before, bool goes_on) {
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
    if (goes_on)
      CUDA_CHECK(cudaStreamUpdateCaptureDependencies(device_->stream(), before.data(), nullptr, before.size(),
                                                     cudaStreamSetCaptureDependencies));
    else
      CUDA_CHECK(cudaStreamBeginCaptureToGraph(device_->stream(), graph, before.data(), nullptr, before.size(),
                                               cudaStreamCaptureModeThreadLocal));
  }

  // One graph whose edges are the plan's partial order and no more, so that independent kernels overlap.
  GraphExec capture() {
    device_->leave_default_stream();
    Graph graph;
    CUDA_CHECK(cudaGraphCreate(graph.out(), 0));
    const bool is_one = exchanges();
    std::vector<cudaGraphNode_t> all;
    std::vector<std::vector<cudaGraphNode_t>> last(work_.size());  // of each group
    for (std::size_t k = 0; k < work_.size(); ++k) {
      std::vector<cudaGraphNode_t> before;
      for (int w : plan_.groups[k].waits_for) {
        const auto& nodes = last[at(w)];
        before.insert(before.end(), nodes.begin(), nodes.end());
      }
      begin_recording(graph, before, is_one && k > 0);
      try {
        enqueue(k);
      } catch (...) {
        cudaGraph_t ended = nullptr;
        cudaStreamEndCapture(device_->stream(), &ended);
        throw;
      }
      cudaStreamCaptureStatus status;
      const cudaGraphNode_t* nodes = nullptr;
      std::size_t count = 0;
      CUDA_CHECK(cudaStreamGetCaptureInfo(device_->stream(), &status, nullptr, nullptr, &nodes, nullptr, &count));
      last[k].assign(nodes, nodes + count);
      all.insert(all.end(), nodes, nodes + count);
      if (is_one && k + 1 < work_.size()) continue;
      if (is_one) begin_recording(graph, all, true);  // the end is behind all nodes, those of other streams included
      cudaGraph_t ended = nullptr;
      CUDA_CHECK(cudaStreamEndCapture(device_->stream(), &ended));
    }
    GraphExec exec;
    CUDA_CHECK(cudaGraphInstantiate(exec.out(), graph, 0));
    return exec;
  }

  std::shared_ptr<Device> device_;
  Plan plan_;
  std::vector<std::unique_ptr<GroupWork>> work_;
  std::vector<std::int64_t> scratch_offsets_;
  std::shared_ptr<Buffer> arena_, scratch_, scalars_;
  Addresses addresses_;
  std::vector<char*> last_bound_;
  std::vector<double> uploaded_;
  std::list<Captured> graphs_;
  bool first_ = true, always_waits_ = false, traces_time_ = false;
};

}  // namespace

std::unique_ptr<Executable> make_executable(std::shared_ptr<Device> device, const Plan& plan) {
  return std::make_unique<CudaExecutable>(std::move(device), plan);
}

}  // namespace nixie::cuda
