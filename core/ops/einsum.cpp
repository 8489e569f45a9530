// Sums of products over named axes: each pair of operands becomes one matrix product.
#include <algorithm>
#include <cctype>
#include <map>

#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// An array whose axes have names, one letter each.
struct Labelled {
  Tensor value;
  std::string labels;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// The axes in the order of `labels`, each of which the array has.
Tensor ordered(const Labelled& x, const std::string& labels) {
  Axes order;
  for (char label : labels) order.push_back(static_cast<int>(x.labels.find(label)));
  return permute(x.value, order);
}

// A sum of the type that products have: those of i64 are refused.
Tensor sum_over(const Tensor& x, const Axes& axes) { return retype(sum(x, axes, false), product_dtype(x.dtype())); }

// A label twice in one operand is its diagonal.
Labelled without_repeats(Labelled x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    std::size_t j;
    while ((j = x.labels.find(x.labels[i], i + 1)) != std::string::npos) {
      const Shape& shape = x.value.shape();
      const int a = static_cast<int>(i), b = static_cast<int>(j);
      x.value = sum_over(where(coordinate(shape, a) == coordinate(shape, b), x.value, 0), {b});
      x.labels.erase(j, 1);
    }
  }
  return x;
}

// Sums over the labels that nothing else has.
Labelled summed(const Labelled& x, const std::string& needed) {
  Axes axes;
  std::string left;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (has(needed, x.labels[i]))
      left += x.labels[i];
    else
      axes.push_back(static_cast<int>(i));
  }
  return axes.empty() ? x : Labelled{sum_over(x.value, axes), left};
}

Labelled product(const Labelled& a, const Labelled& b, const std::string& needed) {
  std::string batch, inner, rows, columns;
  for (char label : a.labels) (!has(b.labels, label) ? rows : has(needed, label) ? batch : inner) += label;
  for (char label : b.labels)
    if (!has(a.labels, label)) columns += label;
  const auto sizes_of = [](const Labelled& x, const std::string& labels) {
    std::vector<std::int64_t> sizes;
    for (char label : labels) sizes.push_back(x.value.shape()[static_cast<int>(x.labels.find(label))]);
    return sizes;
  };
  const auto count = [&](const Labelled& x, const std::string& labels) { return Shape(sizes_of(x, labels)).size(); };
  const std::int64_t batches = count(a, batch), k = count(a, inner);
  const Tensor left = reshape(ordered(a, batch + rows + inner), {batches, count(a, rows), k});
  const Tensor right = reshape(ordered(b, batch + inner + columns), {batches, k, count(b, columns)});
  std::vector<std::int64_t> sizes = sizes_of(a, batch + rows);
  const std::vector<std::int64_t> last = sizes_of(b, columns);
  sizes.insert(sizes.end(), last.begin(), last.end());
  return {reshape(matmul(left, right), sizes), batch + rows + columns};
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& axes_a, const Axes& axes_b) {
  check(axes_a.size() == axes_b.size(), "tensordot: ", axes_a.size(), " axes of ", a.shape(), " and ", axes_b.size(),
        " of ", b.shape());
  check(a.rank() + b.rank() <= 50, "tensordot: ", a.shape(), " and ", b.shape(), " have more than 50 axes together");
  a.shape().normal_axes(axes_a);
  b.shape().normal_axes(axes_b);
  std::string left, right;
  for (int i = 0; i < a.rank(); ++i) left += static_cast<char>(i < 25 ? 'a' + i : 'A' + i - 25);
  for (int i = 0; i < b.rank(); ++i)
    right += static_cast<char>(i + a.rank() < 25 ? 'a' + i + a.rank() : 'A' + i + a.rank() - 25);
  std::string summed;
  for (std::size_t i = 0; i < axes_a.size(); ++i) {
    const char label = left[static_cast<std::size_t>(a.shape().normal_axis(axes_a[i]))];
    right[static_cast<std::size_t>(b.shape().normal_axis(axes_b[i]))] = label;
    summed += label;
  }
  std::string result;
  for (char label : left + right)
    if (!has(summed, label)) result += label;
  return einsum(left + "," + right + "->" + result, {a, b});
}

Tensor einsum(const std::string& subscripts, const std::vector<Tensor>& operands) {
  std::string text = subscripts;
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  std::vector<Labelled> terms(1);
  for (char c : text.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back().labels += c;
  }
  check(terms.size() == operands.size(), "einsum: \"", subscripts, "\" names ", terms.size(), " operands, there are ",
        operands.size());
  std::map<char, std::int64_t> sizes, uses;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i].value = operands[i];
    const Shape& shape = operands[i].shape();
    check(terms[i].labels.size() == static_cast<std::size_t>(shape.rank()), "einsum: \"", terms[i].labels,
          "\" names an operand of shape ", shape);
    for (std::size_t axis = 0; axis < terms[i].labels.size(); ++axis) {
      const char label = terms[i].labels[axis];
      check(std::isalpha(static_cast<unsigned char>(label)) != 0, "einsum: \"", subscripts, "\" has a '", label,
            "', expected letters");
      const std::int64_t size = shape[static_cast<int>(axis)];
      const std::int64_t known = sizes.emplace(label, size).first->second;
      check(known == size, "einsum: axis ", label, " has sizes ", known, " and ", size);
      ++uses[label];
    }
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = text.substr(arrow + 2);
  } else {  // as numpy: the labels that appear once, in order
    for (const auto& [label, count] : uses)
      if (count == 1) result += label;
  }
  for (char label : result)
    check(sizes.contains(label) && std::count(result.begin(), result.end(), label) == 1, "einsum: the result of \"",
          subscripts, "\" has an axis '", label, "' that no operand has, or twice");
  // What the result and the operands still to come need.
  const auto needed_after = [&](std::size_t i) {
    std::string needed = result;
    for (std::size_t later = i + 1; later < terms.size(); ++later) needed += terms[later].labels;
    return needed;
  };
  Labelled total = without_repeats(terms[0]);
  total = summed(total, needed_after(0));
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const Labelled next = without_repeats(terms[i]);
    total = product(total, summed(next, needed_after(i) + total.labels), needed_after(i));
    total = summed(total, needed_after(i));
  }
  return ordered(total, result);
}

}  // namespace nixie
