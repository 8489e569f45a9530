// Matmul: packs one operand into panels of lanes and broadcasts the other row by row; shapes decide which is which.
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/backends/cpu/contract/pack.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kDepthChunk = 128;    // a panel of this depth stays in the first-level cache
constexpr std::int64_t kRowBlock = 256;      // rows of a chunk that stay in the second-level cache
constexpr std::int64_t kPanelGroup = 8;      // panels packed at a time
constexpr std::int64_t kPartWork = 1 << 18;  // multiply-adds that are worth a part of their own
constexpr std::int64_t kParts = 16;

/// out[row][lane] = sum over k of row_data[row][k] * lane_data[k][lane], with any strides; repeated over a batch.
template <class T>
struct Product {
  std::int64_t rows, lanes, depth;
  std::int64_t row_stride, row_depth_stride, lane_stride, lane_depth_stride, out_row_stride, out_lane_stride;
  bool transposed() const { return out_lane_stride != 1; }
};

/// One batch element's data.
template <class T>
struct Element {
  const T* rows;
  const T* lanes;
  T* out;
};

/// Lanes cut into panels of whole vectors, at most kTileVectors each and nearly equal.
template <class T>
struct Panels {
  explicit Panels(std::int64_t lanes)
      : lanes(lanes), vectors(ceil_div(lanes, kLanes<T>)), count(ceil_div(vectors, kTileVectors)) {}
  std::int64_t first(std::int64_t panel) const { return cut(vectors, count, panel) * kLanes<T>; }
  std::int64_t width(std::int64_t panel) const { return first(panel + 1) - first(panel); }
  std::int64_t used(std::int64_t panel) const { return std::min(first(panel + 1), lanes) - first(panel); }
  std::int64_t lanes, vectors, count;
};

/// How many parts each dimension is cut into.
struct Grid {
  std::int64_t rows = 1, panels = 1, depth = 1;
  std::int64_t size() const { return rows * panels * depth; }
};

template <class T>
Grid choose_grid(const Product<T>& p, std::int64_t batch) {
  const Panels<T> panels(p.lanes);
  const std::int64_t work = p.rows * panels.vectors * kLanes<T> * std::max<std::int64_t>(1, p.depth);
  std::int64_t wanted = std::clamp(work / kPartWork, std::int64_t{1}, ceil_div(kParts, batch));
  Grid grid;
  const std::int64_t most_rows = std::max<std::int64_t>(1, p.rows / (4 * kTileRows));
  const std::int64_t most_panels = std::max<std::int64_t>(1, panels.count / 2);
  // A short depth makes the result the most of the traffic: whole rows of it are written in one go.
  if (p.rows >= p.lanes || 2 * p.depth <= p.rows) {
    grid.rows = std::min(wanted, most_rows);
    grid.panels = std::min(wanted / grid.rows, most_panels);
  } else {
    grid.panels = std::min(wanted, most_panels);
    grid.rows = std::min(wanted / grid.panels, most_rows);
  }
  wanted /= grid.rows * grid.panels;
  grid.depth = std::min(wanted, std::max<std::int64_t>(1, p.depth / (8 * kDepthChunk)));
  return grid;
}

/// A part of a product: its block of rows, panels and depth, summed into `out`.
template <class T>
class Block {
 public:
  Block(const Product<T>& product, const Element<T>& element, const T* packed)
      : p_(product), e_(element), packed_(packed), panels_(product.lanes) {}

  std::int64_t row0, row1, panel0, panel1, k0, k1;

  /// `finished_rows(first, last)` is called when these rows of the block are final.
  template <class Finished>
  void run(const Finished& finished_rows) {
    const std::int64_t block_bytes = p_.lanes * static_cast<std::int64_t>(sizeof(T));
    std::int64_t height = kRowBlock;
    if (packed_ && !p_.transposed()) height = std::clamp<std::int64_t>((1 << 19) / block_bytes, kTileRows, kRowBlock);
    for (std::int64_t row = row0; row < row1; row += height) {
      const std::int64_t last = std::min(row1, row + height);
      for (std::int64_t panel = panel0; panel < panel1; panel += kPanelGroup)
        run_group(row, last, panel, std::min(panel1, panel + kPanelGroup));
      finished_rows(row, last);
    }
  }

 private:
  void run_group(std::int64_t first, std::int64_t last, std::int64_t panel_first, std::int64_t panel_last) {
    const std::int64_t lane0 = panels_.first(panel_first), width = panels_.first(panel_last) - lane0;
    // A single panel is read from the second-level cache while the rows stream past once.
    const std::int64_t chunk = panel_last - panel_first == 1 && packed_ && p_.row_depth_stride == 1
                                   ? (std::int64_t{1} << 18) / width
                                   : kDepthChunk;
    Scratch<T> own_panels(packed_ ? 0 : width * std::min(chunk, k1 - k0));
    Scratch<T> own_rows(p_.row_depth_stride == 1 ? 0 : (last - first) * std::min(chunk, k1 - k0));
    Scratch<T> turned(p_.transposed() ? (last - first) * width : 0);
    for (std::int64_t k = k0; k < k1 || k == k0; k += chunk) {
      const std::int64_t depth = std::min(chunk, k1 - k);
      if (!packed_) pack_group(panel_first, panel_last, k, depth, own_panels.data());
      if (p_.row_depth_stride != 1) pack_row_blocks(first, last, k, depth, own_rows.data());
      for (std::int64_t panel = panel_first; panel < panel_last; ++panel) {
        const std::int64_t offset = panels_.first(panel) - lane0;
        const T* lanes = packed_ ? packed_ + panels_.first(panel) * p_.depth + k * panels_.width(panel)
                                 : own_panels.data() + offset * depth;
        T* out = p_.transposed() ? turned.data() + offset : e_.out + first * p_.out_row_stride + panels_.first(panel);
        const std::int64_t out_step = p_.transposed() ? width : p_.out_row_stride;
        run_panel(first, last, panel, k, depth, lanes, own_rows.data(), out, out_step);
      }
    }
    if (p_.transposed())
      transpose(turned.data(), width, last - first, std::min(width, p_.lanes - lane0),
                e_.out + first + lane0 * p_.out_lane_stride, p_.out_lane_stride);
  }

  void pack_group(std::int64_t panel_first, std::int64_t panel_last, std::int64_t k, std::int64_t depth, T* to) const {
    for (std::int64_t panel = panel_first; panel < panel_last; ++panel) {
      pack_lanes(e_.lanes + panels_.first(panel) * p_.lane_stride + k * p_.lane_depth_stride, p_.lane_stride,
                 p_.lane_depth_stride, panels_.used(panel), panels_.width(panel), depth, to);
      to += panels_.width(panel) * depth;
    }
  }

  /// Tiles take nearly equal numbers of rows: one of 8 and one of 1 would waste the second.
  void pack_row_blocks(std::int64_t first, std::int64_t last, std::int64_t k, std::int64_t depth, T* to) const {
    for_each_tile(first, last, [&](std::int64_t row, std::int64_t rows) {
      pack_rows(e_.rows + row * p_.row_stride + k * p_.row_depth_stride, p_.row_stride, p_.row_depth_stride, rows,
                depth, to + (row - first) * depth);
    });
  }

  template <class Tile>
  static void for_each_tile(std::int64_t first, std::int64_t last, const Tile& tile) {
    const std::int64_t count = ceil_div(last - first, kTileRows);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = first + cut(last - first, count, i);
      tile(row, first + cut(last - first, count, i + 1) - row);
    }
  }

  void run_panel(std::int64_t first, std::int64_t last, std::int64_t panel, std::int64_t k, std::int64_t depth,
                 const T* lanes, const T* own_rows, T* out, std::int64_t out_step) const {
    const std::int64_t used = panels_.used(panel), width = panels_.width(panel);
    const bool partial = used < width && !p_.transposed();
    T edge[kTileRows * kTileLanes<T>];
    TileArgs<T> tile;
    tile.length = depth;
    tile.lanes = lanes;
    tile.lanes_step = width;
    for_each_tile(first, last, [&](std::int64_t row, std::int64_t rows) {
      tile.step = p_.row_depth_stride == 1 ? 1 : rows;
      for (std::int64_t r = 0; r < rows; ++r)
        tile.rows[r] =
            p_.row_depth_stride == 1 ? e_.rows + (row + r) * p_.row_stride + k : own_rows + (row - first) * depth + r;
      T* target = out + (row - first) * out_step;
      tile.add = k > k0 && !partial;
      tile.out = partial ? edge : target;
      tile.out_step = partial ? width : out_step;
      run_tile(static_cast<int>(rows), static_cast<int>(width / kLanes<T>), tile);
      if (!partial) return;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t lane = 0; lane < used; ++lane)
          target[r * out_step + lane] = edge[r * width + lane] + (k > k0 ? target[r * out_step + lane] : T{});
    });
  }

  const Product<T>& p_;
  const Element<T>& e_;
  const T* packed_;
  const Panels<T> panels_;
};

/// Cycles, roughly: what packing, whole vectors and a turned result add to the multiply-adds.
template <class T>
double cost(const Product<T>& p) {
  const double rows = static_cast<double>(p.rows), lanes = static_cast<double>(p.lanes);
  const double depth = static_cast<double>(p.depth), width = kLanes<T>;
  const double vectors = static_cast<double>(Panels<T>(p.lanes).vectors);
  double cycles = rows * vectors * depth * (rows < 4 ? 1.0 : 0.5);
  cycles += lanes * depth * (p.lane_stride == 1 ? 2 / width : p.lane_depth_stride == 1 ? 8 / width : 2);
  cycles += rows * depth * (p.row_depth_stride == 1 ? 0 : 1);
  return cycles + rows * lanes * (p.transposed() ? 8 / width : 1 / width);
}

template <class T>
class BatchedProduct {
 public:
  BatchedProduct(const Product<T>& product, const std::vector<Element<T>>& elements, const HeadSink& sink,
                 ThreadPool& pool)
      : p_(product), elements_(elements), sink_(sink), pool_(pool), panels_(product.lanes) {}

  void run() {
    const std::int64_t batch = static_cast<std::int64_t>(elements_.size());
    if (batch >= kParts / 2) return run_batch(batch);
    const Grid grid = choose_grid(p_, batch);
    const bool shared = grid.rows > 1 || p_.rows > kRowBlock;
    const std::int64_t packed_size = panels_.vectors * kLanes<T> * p_.depth;
    Scratch<T> packed(shared ? batch * packed_size : 0);
    if (shared) pack(packed.data(), packed_size);
    const std::int64_t partial_size = p_.rows * panels_.vectors * kLanes<T>;
    Scratch<T> partial(grid.depth > 1 ? batch * grid.depth * partial_size : 0);
    const bool whole_rows = !p_.transposed() && grid.panels == 1 && grid.depth == 1;
    Product<T> to_partial = p_;
    to_partial.out_row_stride = panels_.vectors * kLanes<T>;
    to_partial.out_lane_stride = 1;
    pool_.parallel_for(batch * grid.size(), [&](std::int64_t part) {
      const std::int64_t depth = part % grid.depth, panel = part / grid.depth % grid.panels;
      const std::int64_t row = part / (grid.depth * grid.panels) % grid.rows, b = part / grid.size();
      Element<T> element = elements_[static_cast<std::size_t>(b)];
      if (grid.depth > 1) element.out = partial.data() + (b * grid.depth + depth) * partial_size;
      Block<T> block(grid.depth > 1 ? to_partial : p_, element, shared ? packed.data() + b * packed_size : nullptr);
      block.row0 = cut(p_.rows, grid.rows, row), block.row1 = cut(p_.rows, grid.rows, row + 1);
      block.panel0 = cut(panels_.count, grid.panels, panel), block.panel1 = cut(panels_.count, grid.panels, panel + 1);
      block.k0 = cut(p_.depth, grid.depth, depth), block.k1 = cut(p_.depth, grid.depth, depth + 1);
      block.run([&](std::int64_t first, std::int64_t last) {
        if (whole_rows && sink_.finished) sink_.finished((b * p_.rows + first) * p_.lanes, (last - first) * p_.lanes);
      });
    });
    if (grid.depth > 1) combine(partial.data(), partial_size, grid.depth);
    if (!whole_rows) finish_all(sink_, batch * p_.rows * p_.lanes, pool_);
  }

 private:
  /// Many elements: each is a part's work from end to end.
  void run_batch(std::int64_t batch) {
    pool_.parallel_for(std::min(batch, 2 * kParts), [&](std::int64_t part) {
      const std::int64_t parts = std::min(batch, 2 * kParts), size = p_.rows * p_.lanes;
      Pieces pieces(sink_);
      for (std::int64_t b = cut(batch, parts, part); b < cut(batch, parts, part + 1); ++b) {
        Block<T> block(p_, elements_[static_cast<std::size_t>(b)], nullptr);
        block.row0 = block.panel0 = block.k0 = 0;
        block.row1 = p_.rows, block.panel1 = panels_.count, block.k1 = p_.depth;
        block.run([](std::int64_t, std::int64_t) {});
        pieces.add(b * size, size);
      }
      pieces.flush();
    });
  }

  void pack(T* to, std::int64_t packed_size) {
    const std::int64_t batch = static_cast<std::int64_t>(elements_.size());
    const std::int64_t chunks = std::max<std::int64_t>(1, panels_.lanes * p_.depth / 65536 / panels_.count);
    pool_.parallel_for(batch * panels_.count * chunks, [&](std::int64_t part) {
      const std::int64_t chunk = part % chunks, panel = part / chunks % panels_.count;
      const std::int64_t b = part / (chunks * panels_.count), k0 = cut(p_.depth, chunks, chunk);
      const T* from = elements_[static_cast<std::size_t>(b)].lanes + panels_.first(panel) * p_.lane_stride;
      pack_lanes(from + k0 * p_.lane_depth_stride, p_.lane_stride, p_.lane_depth_stride, panels_.used(panel),
                 panels_.width(panel), cut(p_.depth, chunks, chunk + 1) - k0,
                 to + b * packed_size + panels_.first(panel) * p_.depth + k0 * panels_.width(panel));
    });
  }

  /// Adds the partial sums in the order of the depth.
  void combine(const T* partial, std::int64_t partial_size, std::int64_t depth_parts) {
    const std::int64_t batch = static_cast<std::int64_t>(elements_.size()), width = panels_.vectors * kLanes<T>;
    pool_.parallel_for(batch * p_.rows, [&](std::int64_t part) {
      const std::int64_t b = part / p_.rows, row = part % p_.rows;
      T* out = elements_[static_cast<std::size_t>(b)].out + row * p_.out_row_stride;
      const T* from = partial + b * depth_parts * partial_size + row * width;
      for (std::int64_t lane = 0; lane < p_.lanes; ++lane) {
        T sum = from[lane];
        for (std::int64_t i = 1; i < depth_parts; ++i) sum += from[i * partial_size + lane];
        out[lane * p_.out_lane_stride] = sum;
      }
    });
  }

  const Product<T>& p_;
  const std::vector<Element<T>>& elements_;
  const HeadSink& sink_;
  ThreadPool& pool_;
  const Panels<T> panels_;
};

}  // namespace

template <class T>
void run_matmul(std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink, ThreadPool& pool) {
  const Strided<T> a(operands[0], pool), b(operands[1], pool);
  const std::int64_t m = domain[-2], n = domain[-1], k = a.size(-1), batch = domain.size() / (m * n);
  const Product<T> straight{m, n, k, a.stride(-2), a.stride(-1), b.stride(-1), b.stride(-2), n, 1};
  const Product<T> turned{n, m, k, b.stride(-1), b.stride(-2), a.stride(-2), a.stride(-1), 1, n};
  const bool turn = cost(turned) < cost(straight);
  std::vector<Element<T>> elements;
  for (std::int64_t i = 0; i < batch; ++i) {
    std::int64_t rest = i, a_offset = 0, b_offset = 0;
    for (std::size_t axis = domain.sizes().size() - 2; axis-- > 0; rest /= domain.sizes()[axis]) {
      const std::int64_t at = rest % domain.sizes()[axis];
      a_offset += at * a.strides()[axis];
      b_offset += at * b.strides()[axis];
    }
    const T *left = a.data() + a_offset, *right = b.data() + b_offset;
    elements.push_back({turn ? right : left, turn ? left : right, reinterpret_cast<T*>(sink.result) + i * m * n});
  }
  BatchedProduct<T>(turn ? turned : straight, elements, sink, pool).run();
}

template void run_matmul<float>(std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_matmul<double>(std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);
template void run_matmul<Bits>(std::span<const BoundOperand>, const Shape&, const HeadSink&, ThreadPool&);

}  // namespace nixie::cpu
