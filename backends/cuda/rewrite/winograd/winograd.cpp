// Convolutions of halves with very many channels by Winograd's tiles: F(2x2, 3x3) takes 16 multiplications for four
// results in place of 36.
//
// A tile of results y of one filter g reads a window d of the images, larger by what the filter reaches:
// y = A^T [(G g G^T) * (B^T d B)] A, where * is element by element and the brackets are summed over channels (Lavin and
// Gray, 2015). So each element is a product of matrices, [tiles, channels] by [channels, filters], between kernels that
// transform tiles; all of them are kernels that any backend runs. The input gradient is the same with dy for the images
// and the flipped filter, the filter gradient is G^T [(A dy A^T) * (B^T d B)] G, summed over tiles.
//
// Transformed windows, filters and gradients and the products' sums are rounded to halves between the kernels (filter
// gradients' sums stay floats): by a model of 512 channels the rms error is 3 times that of rounding the result once;
// it would be 12 times in tiles of 4x4. f32 stays direct: a large neighbour in a tile costs a result its digits.
#include <algorithm>
#include <array>

#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/winograd/winograd_layers.h"
#include "nixie/backends/cuda/rewrite/winograd/winograd_tiles.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

// Rows and columns from the last to the first.
Grid turned_round(Grid grid) {
  std::ranges::reverse(grid);
  for (Line& line : grid) std::ranges::reverse(line);
  return grid;
}

// Images that are worked on together.
struct Share {
  std::int64_t first = 0, images = 0;
};

class WinogradLowering {
 public:
  WinogradLowering(Plan& plan, const Chip& chip, bool wherever_possible, std::int64_t most_bytes)
      : plan_(plan), chip_(chip), wherever_possible_(wherever_possible), most_bytes_(most_bytes) {}

  void operator()() {
    for (Kernel& kernel : plan_.kernels) {
      const auto layer = tiled(kernel);
      if (layer)
        compute(*layer, std::move(kernel));
      else
        kernels_.push_back(std::move(kernel));
      for (auto* known : {&filters_, &windows_})
        std::erase_if(*known, [&](const Known& one) { return writes(kernels_.back(), one.from.slot); });
    }
    plan_.kernels = std::move(kernels_);
  }

 private:
  std::optional<TiledLayer> tiled(const Kernel& kernel) const {
    const auto conv = half_conv(plan_, kernel);
    if (!conv || !(wherever_possible_ || tiles_pay(*conv, chip_))) return {};
    return TiledLayer(*conv);
  }

  void compute(const TiledLayer& layer, Kernel kernel) {
    const bool filter_grad = layer.role == ConvRole::filter_grad;
    std::optional<Kernel> rest;
    if (!may_follow(kernel, static_cast<int>(filter_grad ? kTaps * kTaps : kTile * kTile))) {
      auto [alone, after] = split_head(plan_, kernel, kernel.domain.channels_last(), kernel.label);
      kernel = std::move(alone), rest = std::move(after);
    }
    if (filter_grad)
      filter_gradient(layer, kernel);
    else
      result(layer, kernel);
    if (rest) kernels_.push_back(*std::move(rest));
  }

  // Forward pass and gradient of the images.
  void result(const TiledLayer& layer, const Kernel& kernel) {
    const Operand &images = kernel.head->operands[0], &filter = kernel.head->operands[1];
    const bool turned = layer.role == ConvRole::input_grad;
    const std::int64_t c = layer.from_channels, k = layer.to_channels;
    const int u = filter_elements(layer, filter);
    for (const Share& share : shares_of(layer)) {
      const std::int64_t tiles = share.images * layer.tiles();
      const int v = windows_of(images, layer, share);
      // U has the layout [filters, channels] of the layer.
      const Strides u_strides = turned ? Strides{c * k, k, 1} : Strides{c * k, 1, c};
      const int m = product({v, 0, {kElements, tiles, c}, Shape{kElements, tiles, c}.row_major()},
                            {u, 0, {kElements, c, k}, u_strides}, layer.dtype);
      Kernel made{.label = kernel.label + " from tiles", .domain = {share.images, k, layer.rows, layer.columns}};
      InstructionBuilder code;
      Grid sums(at(kWindow));
      for (std::int64_t i = 0; i < kElements; ++i)
        sums[at(i / kWindow)].push_back(load(
            made, code, {.slot = m, .offset = i * tiles * k, .strides = {layer.tiles() * k, 1, layer.columns * k, k}}));
      Grid results = both_ways(code, sums, line_matrices().result);
      if (turned) results = turned_round(std::move(results));
      follow(made, std::move(code), kernel, results, share.first);
      kernels_.push_back(std::move(made));
    }
  }

  void filter_gradient(const TiledLayer& layer, const Kernel& kernel) {
    const Operand &dy = kernel.head->operands[0], &x = kernel.head->operands[1];
    const std::int64_t c = layer.from_channels, k = layer.to_channels;
    const std::vector<Share> shares = shares_of(layer);
    const std::int64_t parts = parts_of(layer, shares), batches = kElements * parts;
    const Shape shape{std::ssize(shares), kElements, parts, k * c};
    const int m = add_slot(plan_, "winograd sums", Dtype::f32, shape, shape.row_major());
    for (const Share& share : shares) {
      const std::int64_t tiles = share.images / parts * layer.tiles();
      const int v = windows_of(x, layer, share), w = gradients_of(dy, layer, share);
      multiply({w, 0, {batches, k, tiles}, {k * tiles, 1, k}},
               {v, 0, {batches, tiles, c}, Shape{batches, tiles, c}.row_major()},
               {.slot = m,
                .offset = (&share - shares.data()) * batches * k * c,
                .strides = Shape{batches, k, c}.row_major()});
    }
    const int summed = std::ssize(shares) * parts > 1 ? sum_parts(m, shape) : m;
    Kernel made{.label = kernel.label + " from tiles", .domain = {k, c, 1, 1}};
    InstructionBuilder code;
    Grid sums(at(kWindow));
    for (std::int64_t i = 0; i < kElements; ++i)
      sums[at(i / kWindow)].push_back(load(made, code, {.slot = summed, .offset = i * k * c, .strides = {c, 1, 0, 0}}));
    const Grid results = both_ways(code, sums, transposed(line_matrices().filter));
    follow(made, std::move(code), kernel, results, 0);
    kernels_.push_back(std::move(made));
  }

  static int load(Kernel& kernel, InstructionBuilder& code, Access access) {
    kernel.loads.push_back(std::move(access));
    return code.load(static_cast<int>(kernel.loads.size()) - 1);
  }

  // Transformed windows of images, turned round for their gradient. Those of a forward pass are kept for the filter
  // gradient, up to most_bytes_ of them.
  int windows_of(const Operand& images, const TiledLayer& layer, const Share& share) {
    const auto known =
        std::ranges::find_if(windows_, [&](const Known& one) { return one.from == images && one.pad == layer.pad; });
    const bool whole = share.images == layer.images;
    if (layer.role == ConvRole::filter_grad && whole && known != windows_.end()) return known->slot;
    Kernel kernel;
    InstructionBuilder code;
    Grid window = read_tiles(kernel, code, images, layer, share, kWindow, {-layer.pad[0], -layer.pad[1]});
    if (layer.role == ConvRole::input_grad) window = turned_round(std::move(window));
    const Grid elements = both_ways(code, window, line_matrices().images);
    const int slot = write_tiles(std::move(kernel), std::move(code), elements, layer);
    const std::int64_t bytes = plan_.slots[at(slot)].size_bytes();
    if (layer.role == ConvRole::output && whole && kept_bytes_ + bytes <= most_bytes_) {
      kept_bytes_ += bytes;
      windows_.push_back({images, layer.pad, slot});
    }
    return slot;
  }
  // Transformed gradients of tiles of results.
  int gradients_of(const Operand& results, const TiledLayer& layer, const Share& share) {
    Kernel kernel;
    InstructionBuilder code;
    const Grid tile = read_tiles(kernel, code, results, layer, share, kTile, {0, 0});
    const Grid elements = both_ways(code, tile, transposed(line_matrices().result));
    return write_tiles(std::move(kernel), std::move(code), elements, layer);
  }

  // Makes `kernel` read squares of `size` positions, a tile apart, the first at `origin`.
  static Grid read_tiles(Kernel& kernel, InstructionBuilder& code, const Operand& from, const TiledLayer& layer,
                         const Share& share, std::int64_t size, std::array<std::int64_t, 2> origin) {
    kernel.label = "tiles";
    kernel.domain = {share.images, from.shape[1], layer.rows, layer.columns};
    const Access whole = from_image(access_of(from), share.first);
    Grid grid(at(size));
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t j = 0; j < size; ++j)
        grid[at(i)].push_back(
            load(kernel, code, in_tiles(whole, from.shape, {origin[0] + i, origin[1] + j}, kTile, kernel.domain)));
    return grid;
  }
  // Lets a kernel that computes a grid of elements end by storing them, each a matrix of `size` numbers.
  void store_elements(Kernel kernel, InstructionBuilder code, const Grid& grid, int slot, std::int64_t size,
                      const Strides& strides) {
    Stage stage{.body = std::move(code.body)};
    for (const Line& line : grid)
      for (int element : line) {
        const auto i = static_cast<std::int64_t>(kernel.stores.size());
        stage.stores.push_back({element, static_cast<int>(i)});
        kernel.stores.push_back({.slot = slot, .offset = i * size, .strides = strides});
      }
    kernel.stages = {std::move(stage)};
    kernels_.push_back(std::move(kernel));
  }
  // Lets it write their elements: a matrix [tiles, channels] of each.
  int write_tiles(Kernel kernel, InstructionBuilder code, const Grid& grid, const TiledLayer& layer) {
    const std::int64_t channels = kernel.domain[1], tiles = kernel.domain[0] * layer.tiles();
    const Shape shape{kElements, tiles, channels};
    const int slot = add_slot(plan_, "winograd tiles", layer.dtype, shape, shape.row_major());
    store_elements(std::move(kernel), std::move(code), grid, slot, tiles * channels,
                   {layer.tiles() * channels, 1, layer.columns * channels, channels});
    return slot;
  }

  // G g G^T of a filter: a matrix [filters, channels] of each element, the same for the forward pass and the gradient.
  int filter_elements(const TiledLayer& layer, const Operand& filter) {
    for (const Known& known : filters_)
      if (known.from == filter) return known.slot;
    const std::int64_t k = filter.shape[0], c = filter.shape[1];
    Kernel kernel{.label = "filter elements", .domain = {k, c}};
    InstructionBuilder code;
    Grid grid(at(kTaps));
    for (std::int64_t r = 0; r < kTaps; ++r)
      for (std::int64_t s = 0; s < kTaps; ++s)
        grid[at(r)].push_back(load(kernel, code,
                                   {.slot = filter.slot,
                                    .offset = filter.offset + r * filter.strides[2] + s * filter.strides[3],
                                    .strides = {filter.strides[0], filter.strides[1]}}));
    grid = both_ways(code, grid, line_matrices().filter);
    const Shape shape{kElements, k, c};
    const int slot = add_slot(plan_, "winograd filter", layer.dtype, shape, shape.row_major());
    store_elements(std::move(kernel), std::move(code), grid, slot, k * c, {c, 1});
    filters_.push_back({filter, {}, slot});
    return slot;
  }

  void multiply(Operand left, Operand right, Access to) {
    Kernel kernel{.label = "products of elements", .domain = {left.shape[0], left.shape[1], right.shape[2]}};
    kernel.head = Head{Matmul{}, {std::move(left), std::move(right)}, Dtype::f32};
    kernel.stores = {std::move(to)};
    kernel.stages = {{.body = {{.primitive = Primitive::head}}, .stores = {{0, 0}}}};
    kernels_.push_back(std::move(kernel));
  }
  int product(Operand left, Operand right, Dtype dtype) {
    const Shape shape{left.shape[0], left.shape[1], right.shape[2]};
    const int slot = add_slot(plan_, "winograd products", dtype, shape, shape.row_major());
    multiply(std::move(left), std::move(right), {.slot = slot, .strides = shape.row_major()});
    return slot;
  }

  // Of [shares, elements, parts, numbers], over shares and parts.
  int sum_parts(int from, const Shape& shape) {
    const int slot = add_slot(plan_, "winograd sum", Dtype::f32, {shape[1], shape[3]}, {shape[3], 1});
    Kernel kernel{.label = "sum of parts", .domain = shape, .reduced = {0, 2}};
    kernel.loads = {{.slot = from, .strides = shape.row_major()}};
    kernel.stores = {{.slot = slot, .strides = {0, shape[3], 0, 1}}};
    kernel.carried = {Dtype::f32};
    kernel.stages = {{.body = {{.primitive = Primitive::load}}, .reductions = {{ReduceKind::sum, 0, 0}}},
                     {.full = false, .body = {{.primitive = Primitive::carried}}, .stores = {{0, 0}}}};
    kernels_.push_back(std::move(kernel));
    return slot;
  }

  // The fewest shares of the images whose matrices keep to most_bytes_, if they can; or up to twice as many, where
  // these are equal: equal shares run the same kernels.
  std::vector<Share> shares_of(const TiledLayer& layer) const {
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(layer.dtype)) * kElements * layer.tiles() *
                               (layer.from_channels + layer.to_channels),
                       fewest = ceil_div(layer.images, std::clamp<std::int64_t>(most_bytes_ / bytes, 1, layer.images));
    std::int64_t count = fewest;
    while (layer.images % count != 0 && count < 2 * fewest) ++count;
    if (layer.images % count != 0) count = fewest;
    std::vector<Share> shares;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t first = layer.images * i / count;
      shares.push_back({first, layer.images * (i + 1) / count - first});
    }
    return shares;
  }

  // Filter gradients of few channels have few results for long sums: parts of the images have sums of their own until
  // the library has some 256 tiles of 128 x 128 to compute.
  static std::int64_t parts_of(const TiledLayer& layer, const std::vector<Share>& shares) {
    const std::int64_t images = shares[0].images,
                       blocks = kElements * ceil_div(layer.from_channels, 128) * ceil_div(layer.to_channels, 128);
    if (images * std::ssize(shares) != layer.images) return 1;  // shares are unequal
    std::int64_t parts = 1;
    while (parts < images && (images % parts != 0 || (parts * blocks < 256 && images / parts * layer.tiles() > 512)))
      ++parts;
    return parts;
  }

  Plan& plan_;
  const Chip& chip_;
  const bool wherever_possible_;
  const std::int64_t most_bytes_;
  std::vector<Kernel> kernels_;
  struct Known {  // what is transformed so far, and where
    Operand from;
    std::array<std::int64_t, 2> pad;
    int slot;
  };
  std::vector<Known> filters_, windows_;
  std::int64_t kept_bytes_ = 0;  // of windows_
};

}  // namespace

void lower_to_winograd(Plan& plan, const Chip& chip, bool wherever_possible, std::int64_t most_bytes) {
  WinogradLowering{plan, chip, wherever_possible, most_bytes}();
}

}  // namespace nixie::cuda
