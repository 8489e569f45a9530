// Each line is one write, so that lines of several threads do not mix.
#include "nixie/apps/trainer/record/run_log.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"

namespace nixie {
namespace {

/// `2026-11-22 21:04:59`, local time.
std::string time_text() { return fmt::format("{:%F %T}", fmt::localtime(std::time(nullptr))); }

}  // namespace

void RunLog::add(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  const std::string time = time_text();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = fmt::format("{} {}\n", time, printable(text.substr(at, end - at)));
    at = end + 1;
    if (file_)
      file_->append(line);
    else
      early_.push_back(std::move(line));
  }
}

void RunLog::open(const FilePlace& file) {
  const std::lock_guard lock(mutex_);
  if (file_) return;
  if (!std::filesystem::exists(file.status())) write_text(file, "");
  file_.emplace(file);
  for (const std::string& line : early_) file_->append(line);
  early_.clear();
}

void RunLog::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  early_.clear();
  file_.reset();
}

void RunLog::sync() {
  const std::lock_guard lock(mutex_);
  if (file_) file_->sync();
}

}  // namespace nixie
