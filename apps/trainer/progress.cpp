// The moving line is drawn again at most ten times a second.
#include "nixie/apps/trainer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/program/program.h"

namespace nixie {
namespace {

double in_seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e12));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(std::FILE* out) : out_(out), is_terminal_(out && ::isatty(::fileno(out)) == 1) {}

void Progress::start(std::int64_t step, std::int64_t total_steps, std::int64_t steps_per_epoch, std::int64_t batch) {
  started_ = Clock::now();
  pauses_ = waits_ = {};
  first_step_ = step_ = step;
  total_ = total_steps;
  steps_per_epoch_ = steps_per_epoch;
  batch_ = batch;
  shown_ = {.loss = NAN, .accuracy = NAN};
}

double Progress::seconds() const { return in_seconds(Clock::now() - started_); }
double Progress::seconds_waited() const { return in_seconds(waits_); }
double Progress::training_seconds() const { return std::max(in_seconds(Clock::now() - started_ - pauses_), 1e-9); }
double Progress::images_per_second() const {
  return static_cast<double>((step_ - first_step_) * batch_) / training_seconds();
}
void Progress::pause() { paused_ = Clock::now(); }
void Progress::resume() { pauses_ += Clock::now() - paused_; }

std::string Progress::text() const {
  const std::int64_t epochs = (total_ + steps_per_epoch_ - 1) / steps_per_epoch_;
  const double speed = images_per_second();
  std::string losses, scale;
  if (!std::isnan(shown_.loss))  // before the first interval there are none
    losses =
        fmt::format(" loss {:.4f}{} rate {:.3g}", shown_.loss,
                    std::isnan(shown_.accuracy) ? "" : fmt::format(" accuracy {:.4f}", shown_.accuracy), shown_.rate);
  if (shown_.loss_scale > 0) scale = fmt::format(" scale {:g} ({} skipped)", shown_.loss_scale, shown_.skipped_steps);
  if (shown_.noise_scale > 0) scale += fmt::format(" noise scale {:.3g}", shown_.noise_scale);
  return fmt::format("epoch {}/{} step {}/{}{}{} {:.0f} images/s data {:.0f} % ETA {}",
                     (step_ - 1) / steps_per_epoch_ + 1, epochs, step_, total_, losses, scale, speed,
                     100 * std::min(1.0, seconds_waited() / training_seconds()),
                     clock_text(static_cast<double>((total_ - step_) * batch_) / speed));
}

void Progress::step(std::int64_t step, Clock::duration waited) {
  step_ = step;
  waits_ += waited;
  draw();
}

void Progress::draw() {
  const bool is_due = Clock::now() - drawn_ > std::chrono::milliseconds(100);
  if (!is_terminal_ || !is_due) return;
  fmt::print(out_, "\r\x1b[K{}", text());
  std::fflush(out_);
  drawn_ = Clock::now();
  is_drawn_ = true;
}

bool Progress::wants_figures() {
  const bool is_time = is_terminal_ && Clock::now() - asked_ > std::chrono::seconds(1);
  if (is_time) asked_ = Clock::now();
  return is_time;
}

void Progress::running(double loss, double accuracy, double rate) {
  shown_.loss = loss;
  shown_.accuracy = accuracy;
  shown_.rate = rate;
}

void Progress::interval(const Interval& interval) {
  shown_ = interval;
  step_ = interval.step;
  if (!is_terminal_) return line(text());
  log_.add(text());
  draw();
}

void Progress::clear() {
  if (is_drawn_) fmt::print(out_, "\r\x1b[K");
  is_drawn_ = false;
}

void Progress::line(const std::string& text) {
  log_.add(text);
  if (!out_) return;
  clear();
  std::fputs((printable(text) + "\n").c_str(), out_);  // unlike fmt::print it does not throw where nothing arrives
  std::fflush(out_);
}

}  // namespace nixie
