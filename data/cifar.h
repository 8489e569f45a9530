// Cifar10 and Cifar100: the binary versions of the CIFAR images.
#pragma once

#include <type_traits>

#include "nixie/core/base/path.h"
#include "nixie/data/augment.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [3, 32, 32]. The format: https://www.cs.toronto.edu/~kriz/cifar.html (records of labels and planar RGB;
/// CIFAR-100 has a coarse label, which is ignored, before the fine one).
template <int kClasses>
struct Cifar {
  static_assert(kClasses == 10 || kClasses == 100);
  Path path = kClasses == 10 ? "cifar-10-batches-bin" : "cifar-100-binary";
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  bool normalize = true;
  int pad = 4;
  bool flip = true;
  Augment augment = {};

  static constexpr const char* name = kClasses == 10 ? "cifar10" : "cifar100";
  static constexpr auto fields() {
    return field_list(field("path", &Cifar::path,
                            kClasses == 10 ? "folder of data_batch_1.bin ... data_batch_5.bin and test_batch.bin"
                                           : "folder of train.bin and test.bin"),
                      field("batch", &Cifar::batch, "samples per step", {1, 1e6}),
                      field("limit", &Cifar::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
                      field("normalize", &Cifar::normalize, "to mean 0, deviation 1 per channel; else [0, 1]"),
                      field("pad", &Cifar::pad, "training: random crop after padding by so many pixels", {0, 32}),
                      field("flip", &Cifar::flip, "training: mirror every other image"),
                      field("augment", &Cifar::augment, "training: further random changes"));
  }
  /// Throws Fault::data naming the file and the byte.
  Splits open() const;
};

using Cifar10 = Cifar<10>;
using Cifar100 = Cifar<100>;

}  // namespace nixie
