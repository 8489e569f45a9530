// A library to preload: fails a program's allocations of device memory, and hides libraries from it.
//
// NIXIE_FAULT_AT       the number of the allocation, from 1, from which on there is no memory; 0: none
// NIXIE_FAULT_COUNT    a file that gets the number of allocations when the program ends
// NIXIE_FAULT_MISSING  a word: libraries whose name holds it are not found
// NIXIE_FAULT_OLD      the same, but what is found has none of their functions
//
// The CUDA runtime finds the driver's functions by dlsym and then by the driver's own cuGetProcAddress: both are ours.
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

const char* text_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::atomic<long> calls{0};

bool fails() {
  const long number = ++calls, from = std::atol(text_of("NIXIE_FAULT_AT"));
  return from > 0 && number >= from;
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

/// The driver's function for one kind of stream, and ours in its place.
template <int Kind, class... Parts>
struct Allocation {
  static inline int (*real)(Parts...) = nullptr;
  static int ours(Parts... parts) { return fails() ? kOutOfMemory : real(parts...); }
  static void take(void** function) {
    if (!*function) return;
    real = reinterpret_cast<int (*)(Parts...)>(*function);
    *function = reinterpret_cast<void*>(&ours);
  }
};

using Address = std::uint64_t;

template <int PerThread>
void take(std::string_view symbol, void** function) {
  if (symbol == "cuMemAlloc") Allocation<PerThread, Address*, std::size_t>::take(function);
  if (symbol == "cuMemAllocAsync") Allocation<PerThread, Address*, std::size_t, void*>::take(function);
  if (symbol == "cuMemAllocFromPoolAsync") Allocation<PerThread, Address*, std::size_t, void*, void*>::take(function);
  if (symbol == "cuMemHostAlloc") Allocation<PerThread, void**, std::size_t, unsigned>::take(function);
}

void take(const char* symbol, void** function, std::uint64_t flags) {
  constexpr std::uint64_t kPerThreadStream = 2;
  if (flags & kPerThreadStream)
    take<1>(symbol, function);
  else
    take<0>(symbol, function);
}

int (*first_lookup)(const char*, void**, int, std::uint64_t) = nullptr;
int (*lookup)(const char*, void**, int, std::uint64_t, void*) = nullptr;

int our_first_lookup(const char* symbol, void** function, int version, std::uint64_t flags) {
  const int code = first_lookup(symbol, function, version, flags);
  if (code == 0) take(symbol, function, flags);
  return code;
}

int our_lookup(const char* symbol, void** function, int version, std::uint64_t flags, void* status) {
  const int code = lookup(symbol, function, version, flags, status);
  if (code != 0 || !*function) return code;
  if (std::string_view(symbol) == "cuGetProcAddress")
    *function = reinterpret_cast<void*>(&our_lookup);
  else
    take(symbol, function, flags);
  return code;
}

void* real_dlsym(void* handle, const char* name) {
  static const auto real = [] {
    void* found = nullptr;
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (!found) found = ::dlvsym(RTLD_NEXT, "dlsym", version);
    return reinterpret_cast<void* (*)(void*, const char*)>(found);
  }();
  return real(handle, name);
}

bool is_named(const char* library, const char* variable) {
  const char* word = text_of(variable);
  return library && *word && std::strstr(library, word);
}

}  // namespace

extern "C" {

void* dlsym(void* handle, const char* name) {
  void* found = real_dlsym(handle, name);
  if (found && std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    lookup = reinterpret_cast<decltype(lookup)>(found);
    return reinterpret_cast<void*>(&our_lookup);
  }
  if (found && std::strcmp(name, "cuGetProcAddress") == 0) {
    first_lookup = reinterpret_cast<decltype(first_lookup)>(found);
    return reinterpret_cast<void*>(&our_first_lookup);
  }
  return found;
}

void* dlopen(const char* name, int flags) {
  static const auto real = reinterpret_cast<void* (*)(const char*, int)>(real_dlsym(RTLD_NEXT, "dlopen"));
  if (is_named(name, "NIXIE_FAULT_MISSING")) return real("/nowhere/of/this/name", flags);
  if (is_named(name, "NIXIE_FAULT_OLD")) return real("libm.so.6", flags);
  return real(name, flags);
}

}  // extern "C"
