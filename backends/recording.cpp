// The pieces of a plan are compiled when it first runs under the clock.
#include "nixie/backends/recording.h"

namespace nixie {
namespace {

class RecordingExecutable final : public Executable {
 public:
  RecordingExecutable(const Plan& plan, std::shared_ptr<Backend> backend, std::shared_ptr<const bool> is_on,
                      std::shared_ptr<std::list<PlanRecord>> records)
      : plan_(plan),
        backend_(std::move(backend)),
        is_on_(std::move(is_on)),
        records_(std::move(records)),
        whole_(backend_->compile(plan)) {}

  void run(std::span<const std::shared_ptr<Buffer>> externals, std::span<const double> scalars) override {
    if (!*is_on_) return whole_->run(externals, scalars);
    if (!record_) prepare();
    memory_->bind(externals);
    const auto stopwatch = backend_->stopwatch();
    stopwatch->mark();
    for (std::size_t g = 0; g < pieces_.size(); ++g) {
      pieces_[g]->run(memory_->of((*record_)[g].piece), scalars);
      stopwatch->mark();
    }
    const std::vector<double> times = stopwatch->intervals_ms();
    for (std::size_t g = 0; g < times.size(); ++g) (*record_)[g].ms.push_back(times[g]);
  }
  std::vector<std::string> algorithms() const override { return whole_->algorithms(); }

 private:
  void prepare() {
    const std::vector<std::string> algorithms = whole_->algorithms();
    records_->emplace_back();
    record_ = &records_->back();
    for (PlanPiece& piece : cut_plan(plan_, false)) {
      pieces_.push_back(backend_->compile(piece.plan));
      const std::size_t g = record_->size();
      record_->push_back({std::move(piece), g < algorithms.size() ? algorithms[g] : ""});
    }
    memory_.emplace(plan_, *backend_);
  }

  Plan plan_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<const bool> is_on_;
  std::shared_ptr<std::list<PlanRecord>> records_;
  std::unique_ptr<Executable> whole_;
  PlanRecord* record_ = nullptr;
  std::vector<std::unique_ptr<Executable>> pieces_;
  std::optional<PieceMemory> memory_;
};

}  // namespace

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> backend)
    : ForwardingBackend(std::move(backend)),
      is_on_(std::make_shared<bool>(false)),
      records_(std::make_shared<std::list<PlanRecord>>()) {}

std::unique_ptr<Executable> RecordingBackend::compile(const Plan& plan) {
  return std::make_unique<RecordingExecutable>(plan, inner(), is_on_, records_);
}

}  // namespace nixie
