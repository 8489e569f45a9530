/* nixie for C, and for languages that call C: load the net of a checkpoint and run it on arrays, which DLPack
 * exchanges.
 *
 *   nixie_net* net = nixie_load("runs/mine/best.h5", "auto");
 *   struct DLManagedTensorVersioned* scores = NULL;
 *   if (!net || nixie_run(net, images, &scores) != 0) fprintf(stderr, "%s\n", nixie_last_error());
 *
 * Link with -lnixie_c. A net is used by one thread at a time; several nets by several threads. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of dlpack.h, version 1.x: https://dmlc.github.io/dlpack/latest/c_api.html */
struct DLManagedTensorVersioned;
typedef struct nixie_net nixie_net;

/* What the last failed call of this thread found: one line; "" if none failed. Valid until the next that fails. */
const char* nixie_last_error(void);

/* The net of a checkpoint that a training run wrote, on a device: "cpu", "cuda", or "auto": a GPU if there is one. NULL
 * on error. To be freed. */
nixie_net* nixie_load(const char* checkpoint, const char* device);
void nixie_free(nixie_net* net);

/* The sizes of a sample, channels, height and width, which nixie_run wants behind the number of samples. */
void nixie_sample_shape(const nixie_net* net, int64_t sizes[3]);

/* The name of class `index`, which has that column of the scores; NULL where there is none. Valid as long as the net.
 */
const char* nixie_class_name(const nixie_net* net, int64_t index);

/* Runs the net on `images` [N, C, H, W] on its device, row-major: u8, which are normalised as in training, or f32,
 * which are taken as they are. `scores` becomes a new array [N, K], f32, on that device: probabilities where the loss
 * of the training makes them so, else the outputs; the caller calls its deleter. Returns 0 and owns the images, or an
 * exit code of nixie's programs (2 usage, 3 device, 4 memory, 6 checkpoint, 1 other), and the images stay the caller's.
 * On CUDA the work is ordered with the default stream. */
int nixie_run(nixie_net* net, struct DLManagedTensorVersioned* images, struct DLManagedTensorVersioned** scores);

#ifdef __cplusplus
}
#endif
