// Mnist: the MNIST digits, or any ten-class set in the same four IDX files (Fashion-MNIST).
#pragma once

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [1, H, W]. The format: http://yann.lecun.com/exdb/mnist (big-endian magic 0x803 / 0x801, sizes, bytes).
struct Mnist {
  Path path = "mnist";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  bool normalize = true;
  int pad = 0;
  Augment augment = {};

  static constexpr const char* name = "mnist";
  static constexpr auto fields() {
    return field_list(
        field("path", &Mnist::path, "folder of the four files, gzip or not (train-images-idx3-ubyte ...)"),
        field("batch", &Mnist::batch, "samples per step", {1, 1e6}),
        field("limit", &Mnist::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
        field("normalize", &Mnist::normalize, "to mean 0, deviation 1 (0.1307, 0.3081); else [0, 1]"),
        field("pad", &Mnist::pad, "training: random crop after padding by so many pixels", {0, 28}),
        field("augment", &Mnist::augment, "training: further random changes"));
  }
  /// Throws Fault::data naming the file and the byte.
  Splits open() const;
};

}  // namespace nixie
