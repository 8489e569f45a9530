// AppendFile: an append-only file; appended bytes survive the process.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "nixie/core/files/folder.h"

namespace nixie {

class AppendFile {
 public:
  /// Goes on behind the contents of a file; behind a copy where it is a link or has further
  /// names, whose bytes stay as they are. Throws Fault::storage.
  explicit AppendFile(FilePlace place);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// The system has the bytes when this returns. Throws Fault::storage.
  void append(std::string_view bytes);
  /// Makes all bytes durable. Throws Fault::storage.
  void sync();
  /// Throws Fault::storage where another file, or none, is there by now, as rows that are appended are lost then,
  /// and where the file holds more or fewer bytes than it was found with and was appended. Any thread may call it.
  void check_place() const;

 private:
  [[noreturn]] void fail_writing(int error, std::size_t bytes = 0) const;

  FilePlace place_;
  int file_ = -1;
  mutable std::mutex mutex_;  // one thread appends while another checks
  std::int64_t bytes_ = 0;
};

}  // namespace nixie
