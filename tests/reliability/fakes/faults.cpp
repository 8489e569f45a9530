// A library to preload: counts a program's calls that change files below a folder (or those that read them or ask about
// them), and fails or kills it at one of them.
//
// NIXIE_FAULT_FOLDER  the folder whose files count
// NIXIE_FAULT_AT      the number of the call, from 1; 0: none
// NIXIE_FAULT_CALLS   reads: calls that read count; looks: calls that ask about files; else those that change
// NIXIE_FAULT_KIND    kill, short (a write of half), or a number: the errno
// NIXIE_FAULT_COUNT   a file that gets the number of calls when the program ends
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace {

const char* text_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::atomic<long> calls{0};

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

bool counts(const char* path) {
  const char* folder = text_of("NIXIE_FAULT_FOLDER");
  return *folder && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool counts(int file) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return counts(path);
}

/// Whether a name in an open folder counts.
bool counts(const std::pair<int, const char*>& place) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(place.first);
  const ssize_t length = place.second[0] == '/' ? -1 : ::readlink(link.c_str(), path, sizeof path);
  return counts(length < 0 ? place.second
                           : (std::string(path, static_cast<size_t>(length)) + "/" + place.second).c_str());
}

enum class Fault { none, half, error };

constexpr const char *kChanges = "", *kReads = "reads", *kLooks = "looks";  // of NIXIE_FAULT_CALLS

/// The outcome of this call. An error is in errno; calls on names never wait, so they have no EINTR.
template <class Target>
Fault next_call(Target target, const char* calls_of = kChanges, bool can_wait = true) {
  const int kept = errno;
  if (std::strcmp(text_of("NIXIE_FAULT_CALLS"), calls_of) != 0 || !counts(target)) {
    errno = kept;
    return Fault::none;
  }
  const long number = ++calls;
  if (number != std::atol(text_of("NIXIE_FAULT_AT"))) {
    errno = kept;
    return Fault::none;
  }
  const std::string kind = text_of("NIXIE_FAULT_KIND");
  if (kind == "kill") ::kill(::getpid(), SIGKILL);
  errno = kept;
  if (kind == "short") return Fault::half;
  const int error = std::atoi(kind.c_str());
  if (error == EINTR && !can_wait) return Fault::none;
  errno = error;
  return Fault::error;
}

struct Report {
  ~Report() {
    const char* file = text_of("NIXIE_FAULT_COUNT");
    if (!*file) return;
    if (std::FILE* out = std::fopen(file, "w")) {
      std::fprintf(out, "%ld\n", calls.load());
      std::fclose(out);
    }
  }
} report;

}  // namespace

// From the flags of an open: whether a mode follows them, and whether the call may change the folder.
static bool makes(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }
static bool changes(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0; }

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = makes(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (changes(flags) && next_call(path) == Fault::error) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = makes(flags) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (changes(flags) && next_call(std::pair(folder, path)) == Fault::error) return -1;
  return real<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t count) {
  const Fault fault = next_call(file);
  if (fault == Fault::error) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(file, bytes, fault == Fault::half ? (count + 1) / 2 : count);
}

ssize_t read(int file, void* bytes, size_t count) {
  const Fault fault = next_call(file, kReads);
  if (fault == Fault::error) return -1;
  return real<ssize_t(int, void*, size_t)>("read")(file, bytes, fault == Fault::half ? (count + 1) / 2 : count);
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  const Fault fault = next_call(file, kReads);
  if (fault == Fault::error) return -1;
  const size_t wanted = fault == Fault::half ? (count + 1) / 2 : count;
  return real<ssize_t(int, void*, size_t, off_t)>("pread")(file, bytes, wanted, offset);
}

ssize_t pread64(int file, void* bytes, size_t count, off64_t offset) { return pread(file, bytes, count, offset); }

int fstat(int file, struct stat* about) noexcept {
  if (next_call(file, kLooks, false) == Fault::error) return -1;
  return real<int(int, struct stat*)>("fstat")(file, about);
}

int fstatat(int folder, const char* path, struct stat* about, int flags) noexcept {
  if (next_call(std::pair(folder, path), kLooks, false) == Fault::error) return -1;
  return real<int(int, const char*, struct stat*, int)>("fstatat")(folder, path, about, flags);
}

int fsync(int file) {
  if (next_call(file) == Fault::error) return -1;
  return real<int(int)>("fsync")(file);
}

int ftruncate(int file, off_t size) {
  if (next_call(file) == Fault::error) return -1;
  return real<int(int, off_t)>("ftruncate")(file, size);
}

int posix_fallocate(int file, off_t offset, off_t size) {
  const int kept = errno;
  if (next_call(file) == Fault::error) {
    const int error = errno;
    errno = kept;
    return error;
  }
  return real<int(int, off_t, off_t)>("posix_fallocate")(file, offset, size);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  if (next_call(std::pair(to_folder, to), kChanges, false) == Fault::error) return -1;
  return real<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from, to_folder, to, flags);
}

int unlinkat(int folder, const char* path, int flags) {
  if (next_call(std::pair(folder, path), kChanges, false) == Fault::error) return -1;
  return real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (next_call(std::pair(to_folder, to), kChanges, false) == Fault::error) return -1;
  return real<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder, to);
}

int mkdir(const char* path, mode_t mode) {
  if (next_call(path, kChanges, false) == Fault::error) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

}  // extern "C"
