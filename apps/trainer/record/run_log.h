// RunLog: writes a run's output with times to log.txt in its folder.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/apps/trainer/record/append_file.h"

namespace nixie {

/// Any thread may add lines. A line that was added has reached the system: a killed process loses none.
class RunLog {
 public:
  /// Adds each line of `text`; keeps them until the file is opened. Throws Fault::storage.
  void add(std::string_view text);
  /// Goes on at the end of the file, where there is one. Throws Fault::storage.
  void open(const FilePlace& file);
  /// There will be no file: nothing is kept.
  void close();
  /// Makes all lines durable. Throws Fault::storage.
  void sync();

 private:
  std::mutex mutex_;
  std::optional<AppendFile> file_;
  std::vector<std::string> early_;  // before there was a file
  bool is_closed_ = false;
};

}  // namespace nixie
