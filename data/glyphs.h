// Glyphs: handwriting-like digits drawn by the program: a dataset that needs no download.
#pragma once

#include "nixie/core/base/fields.h"
#include "nixie/data/dataset.h"

namespace nixie {

/// Images [1, 28, 28]. Strokes of wandering control points under random affine warps, stroke widths, contrast and
/// noise; a sample depends on its index alone. A linear model classifies about nine of ten correctly, LeNet nearly all.
struct Glyphs {
  std::int64_t train = 20000, test = 4000;
  std::int64_t batch = 128;
  std::int64_t limit = 0;
  bool normalize = true;

  static constexpr const char* name = "glyphs";
  static constexpr auto fields() {
    return field_list(field("train", &Glyphs::train, "training samples", {1, 1e9}),
                      field("test", &Glyphs::test, "test samples", {1, 1e9}),
                      field("batch", &Glyphs::batch, "samples per step", {1, 1e6}),
                      field("limit", &Glyphs::limit, "use only the first n samples of each half, 0 = all", {0, 1e12}),
                      field("normalize", &Glyphs::normalize, "to about mean 0, deviation 1; else [0, 1]"));
  }
  Splits open() const;
};

}  // namespace nixie
