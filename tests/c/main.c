/* A program in C: loads a checkpoint, runs it on bytes and on numbers, and reads errors: main CHECKPOINT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nixie/apps/c/c.h"

/* DLPack 1.0, as dlpack.h declares it. */
typedef struct {
  void* data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;
struct DLManagedTensorVersioned {
  struct { uint32_t major, minor; } version;
  void* context;
  void (*deleter)(struct DLManagedTensorVersioned*);
  uint64_t flags;
  Tensor tensor;
};
typedef struct DLManagedTensorVersioned Managed;

static int released = 0;
static void release(Managed* self) {
  free(self->tensor.data);
  free(self->tensor.shape);
  free(self);
  ++released;
}

static Managed* images(const int64_t* sample, int64_t count, uint8_t code, uint8_t bits) {
  const size_t elements = (size_t)(count * sample[0] * sample[1] * sample[2]);
  Managed* array = calloc(1, sizeof(Managed));
  array->version.major = 1;
  array->deleter = release;
  array->tensor.device.type = 1;
  array->tensor.ndim = 4;
  array->tensor.dtype.code = code;
  array->tensor.dtype.bits = bits;
  array->tensor.dtype.lanes = 1;
  array->tensor.shape = malloc(4 * sizeof(int64_t));
  array->tensor.shape[0] = count;
  memcpy(array->tensor.shape + 1, sample, 3 * sizeof(int64_t));
  array->tensor.data = aligned_alloc(64, (elements * bits / 8 + 63) / 64 * 64);
  memset(array->tensor.data, 0, elements * bits / 8);
  return array;
}

#define EXPECT(condition)                                                                 \
  if (!(condition)) {                                                                     \
    fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, nixie_last_error());       \
    return 1;                                                                             \
  }

int main(int count, char** arguments) {
  EXPECT(count == 2);
  EXPECT(strcmp(nixie_last_error(), "") == 0);
  EXPECT(nixie_load("missing.h5", "cpu") == NULL);
  EXPECT(strstr(nixie_last_error(), "missing.h5") != NULL && strchr(nixie_last_error(), '\n') == NULL);
  EXPECT(nixie_load(arguments[1], "tpu") == NULL && strstr(nixie_last_error(), "tpu") != NULL);

  nixie_net* net = nixie_load(arguments[1], "cpu");
  EXPECT(net != NULL);
  int64_t sample[3];
  nixie_sample_shape(net, sample);
  EXPECT(sample[0] > 0 && sample[1] > 0 && sample[2] > 0);
  EXPECT(strcmp(nixie_class_name(net, 0), "0") == 0 && nixie_class_name(net, 10) == NULL && nixie_class_name(net, -1) == NULL);

  Managed* scores = NULL;
  EXPECT(nixie_run(net, images(sample, 3, 1, 8), &scores) == 0);
  EXPECT(released == 1);
  EXPECT(scores->tensor.ndim == 2 && scores->tensor.shape[0] == 3 && scores->tensor.shape[1] == 10);
  const float* values = (const float*)((const char*)scores->tensor.data + scores->tensor.byte_offset);
  float sum = 0;
  for (int i = 0; i < 10; ++i) sum += values[i];
  EXPECT(sum > 0.999f && sum < 1.001f);
  for (int i = 0; i < 20; ++i) EXPECT(values[i] == values[i + 10]);
  scores->deleter(scores);

  EXPECT(nixie_run(net, images(sample, 2, 2, 32), &scores) == 0 && released == 2);
  scores->deleter(scores);
  const int64_t wrong[3] = {sample[0], sample[1] + 1, sample[2]};
  Managed* larger = images(wrong, 1, 1, 8);
  EXPECT(nixie_run(net, larger, &scores) == 2 && strstr(nixie_last_error(), "expected [N, ") != NULL && released == 2);
  larger->deleter(larger);
  Managed* doubles = images(sample, 1, 2, 64);
  EXPECT(nixie_run(net, doubles, &scores) == 2 && strstr(nixie_last_error(), "expected u8 or f32") != NULL && released == 3);
  doubles->deleter(doubles);
  nixie_free(net);
  return 0;
}
