// Builds the layer of another size.
#include "nixie/layers/upsample.h"

namespace nixie {

Forward Upsample::build(const Shape& in, Parameters&) const {
  check(in.rank() >= 3 && in.rank() <= 5, "input is ", in, ", expected [N, C, spatial...]");
  const bool is_of_images = mode.starts_with("bi");
  const std::string line = is_of_images ? mode.substr(2) : mode;
  check(!is_of_images || in.rank() == 4, "mode is ", mode, " for input ", in, ", expected ", line);
  check(line != "nearest" || !(align_corners || antialias),
        "align_corners and antialias are for linear and cubic, the mode is nearest");
  const int spatial = in.rank() - 2;
  const ResizeOptions options{.mode = line == "nearest"  ? ResizeMode::nearest
                                      : line == "linear" ? ResizeMode::linear
                                                         : ResizeMode::cubic,
                              .align_corners = align_corners,
                              .antialias = antialias};
  return [=, factor = factor.expand(spatial, "factor"), size = size.expand(spatial, "size")](const Tensor& x,
                                                                                             const Pass&) {
    check_input(x.shape(), spatial);
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < size.size(); ++i)
      sizes.push_back(size[i] > 0 ? size[i] : factor[i] * x.shape()[static_cast<int>(i) + 2]);
    return resize(x, sizes, options);
  };
}

}  // namespace nixie
