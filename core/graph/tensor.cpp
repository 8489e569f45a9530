// Tensor: leaves of the graph and access to stored elements.
#include "nixie/core/graph/tensor.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#include "nixie/core/graph/storage.h"

namespace nixie {

Tensor Tensor::make(Op op, std::vector<Tensor> inputs, Shape shape, Dtype dtype) {
  static std::atomic<std::int64_t> count{0};
  static_cast<void>(size_of(dtype));  // throws for a number that is no Dtype
  return Tensor(std::make_shared<Node>(std::move(op), std::move(inputs), std::move(shape), dtype, ++count));
}

Node::Node(Op o, std::vector<Tensor> from, Shape sizes, Dtype type, std::int64_t count)
    : op(std::move(o)), inputs(std::move(from)), shape(std::move(sizes)), dtype(type), number(count) {}

Node::~Node() {
  std::vector<Tensor> last = std::move(inputs);
  while (!last.empty()) {
    const Tensor tensor = std::move(last.back());
    last.pop_back();
    if (!tensor.has_value() || tensor.handle().use_count() > 1) continue;
    // Another thread may have dropped the last other handle just now. To drop one more waits for what it did before.
    std::shared_ptr<const Node>(tensor.handle()).reset();
    // The node goes with this handle; nodes are made by Tensor::make, none of them const.
    std::vector<Tensor>& below = const_cast<Node&>(tensor.node()).inputs;
    std::move(below.begin(), below.end(), std::back_inserter(last));
    below.clear();
  }
}

Tensor::Tensor(double value, Dtype dtype) { *this = make(Constant{value, true}, {}, {}, dtype); }

void Tensor::fail_empty() { fail(Fault::usage, "an empty Tensor is used as a value"); }

Tensor::Tensor(const Array& array) {
  *this = make(Input{"", std::make_shared<Storage>(array)}, {}, array.shape(), array.dtype());
}

Array Tensor::array() const {
  if (const auto* constant = std::get_if<Constant>(&node().op)) {
    return Array::from(std::vector<double>(static_cast<std::size_t>(shape().size()), constant->value), shape())
        .to(dtype());
  }
  const auto* input = std::get_if<Input>(&node().op);
  check(input && input->storage, "the elements of a value that is not computed are read; evaluate it first");
  return input->storage->read();
}

}  // namespace nixie
