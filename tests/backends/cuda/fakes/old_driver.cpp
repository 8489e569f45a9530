// A libcuda.so.1 that is too old: all that the CUDA runtime asks before it gives up.
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
  *version = 11040;
  return 0;
}
int cuGetProcAddress(const char*, void**, int, unsigned long long) { return 500; }  // not found
}
