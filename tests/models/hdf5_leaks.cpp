// HDF5 1.10 loses memory of its own where it refuses a damaged object header; the leak checker need not say so. Only
// the library's name is known of such memory: it is built without frame pointers.

extern "C" const char* __lsan_default_suppressions();  // the name is the checker's
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
