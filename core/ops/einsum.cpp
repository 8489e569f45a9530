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

// A sum of the type that products have, of integers modulo 2^bits like these.
Tensor sum_over(const Tensor& x, const Axes& axes) {
  const Tensor y = sum(x, axes, false);
  const Dtype dtype = product_dtype(x.dtype());
  return is_floating(dtype) ? retype(y, dtype) : wrapped(y, dtype);
}

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

// The axes that `...` means, numbered from the last one as shapes are aligned; no letter is one of them.
std::string labels_of_dots(int count) {
  std::string labels;
  for (int i = count; i-- > 0;) labels += static_cast<char>(-1 - i);
  return labels;
}

// A sum of products: operands of one type with labelled axes, and the labels of the result.
struct Subscripts {
  std::vector<Labelled> terms = {};
  std::string result = {};
};

std::vector<std::string> texts_of_terms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (char c : text) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  return terms;
}

// An operand whose `...` means `count` axes, of which `dots` are all operands' broadcast: an axis of size 1 is
// dropped where another operand's is larger.
Labelled with_dots(const std::string& text, const Tensor& x, int count, const Shape& dots) {
  const std::size_t at = text.find("...");
  if (at == std::string::npos) return {x, text};
  const std::string own = labels_of_dots(count);
  Axes dropped;
  std::string kept;
  for (int i = 0; i < count; ++i) {
    const int axis = static_cast<int>(at) + i;
    if (x.shape()[axis] == dots[i - count])
      kept += own[static_cast<std::size_t>(i)];
    else
      dropped.push_back(axis);
  }
  return {dropped.empty() ? x : squeeze(x, dropped), std::string(text).replace(at, 3, kept)};
}

// The operands with a label for each axis; `dots` becomes the number of axes that `...` means.
std::vector<Labelled> labelled(const std::string& subscripts, const std::vector<std::string>& texts,
                               const std::vector<Tensor>& operands, int& dots) {
  std::vector<int> counts(texts.size(), 0);
  Shape all;  // of the axes of `...`
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Shape& shape = operands[i].shape();
    const std::size_t at = texts[i].find("...");
    const std::string letters = at == std::string::npos ? texts[i] : texts[i].substr(0, at) + texts[i].substr(at + 3);
    for (char c : letters)
      check(std::isalpha(static_cast<unsigned char>(c)) != 0, "einsum: \"", subscripts, "\" has a '", c,
            "', expected letters, and `...` once for an operand at most");
    counts[i] = shape.rank() - static_cast<int>(letters.size());
    check(at == std::string::npos ? counts[i] == 0 : counts[i] >= 0, "einsum: \"", texts[i],
          "\" names an operand of shape ", shape);
    if (counts[i] == 0) continue;
    const auto first = shape.begin() + static_cast<std::ptrdiff_t>(at);
    all = broadcast(all, Shape(std::vector<std::int64_t>(first, first + counts[i])));
  }
  dots = all.rank();
  std::vector<Labelled> terms;
  for (std::size_t i = 0; i < texts.size(); ++i) terms.push_back(with_dots(texts[i], operands[i], counts[i], all));
  return terms;
}

Subscripts parsed(const std::string& subscripts, const std::vector<Tensor>& operands) {
  std::string text = subscripts;
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> texts = texts_of_terms(text.substr(0, arrow));
  check(texts.size() == operands.size(), "einsum: \"", subscripts, "\" names ", texts.size(), " operands, there are ",
        operands.size());
  int dot_count = 0;
  Subscripts parsed{.terms = labelled(subscripts, texts, operands, dot_count)};
  std::map<char, std::int64_t> sizes, uses;
  for (const Labelled& term : parsed.terms)
    for (std::size_t axis = 0; axis < term.labels.size(); ++axis) {
      const char label = term.labels[axis];
      const std::int64_t size = term.value.shape()[static_cast<int>(axis)];
      const std::int64_t known = sizes.emplace(label, size).first->second;
      check(known == size, "einsum: axis ", label, " has sizes ", known, " and ", size);
      ++uses[label];
    }
  std::string& result = parsed.result;
  const std::string dots = labels_of_dots(dot_count);
  if (arrow != std::string::npos) {
    result = text.substr(arrow + 2);
    const std::size_t at = result.find("...");
    check(at != std::string::npos || dots.empty(), "einsum: \"", subscripts,
          "\" leaves the axes of `...` out of the result; put `...` there, and sum them afterwards");
    if (at != std::string::npos) result.replace(at, 3, dots);
  } else {  // as numpy: the axes of `...`, then the letters that appear once, in order
    result = dots;
    for (const auto& [label, count] : uses)
      if (count == 1 && !has(dots, label)) result += label;
  }
  for (char label : result)
    check(sizes.contains(label) && std::ranges::count(result, label) == 1, "einsum: the result of \"", subscripts,
          "\" has an axis '", label, "' that no operand has, or twice");
  return parsed;
}

// Decided by all operands at once: a product of some of them is not rounded to a narrower type than the result's.
Dtype dtype_of(const std::vector<Tensor>& operands) {
  Dtype dtype = operands[0].dtype();
  for (const Tensor& x : operands) dtype = promote(dtype, x.dtype());
  return product_dtype(dtype);
}

}  // namespace

Tensor outer(const Tensor& a, const Tensor& b) { return reshape(a, {-1, 1}) * reshape(b, {1, -1}); }

Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& axes_a, const Axes& axes_b) {
  check(axes_a.size() == axes_b.size(), "tensordot: ", axes_a.size(), " axes of ", a.shape(), " and ", axes_b.size(),
        " of ", b.shape());
  check(a.rank() + b.rank() <= 50, "tensordot: ", a.shape(), " and ", b.shape(), " have more than 50 axes together");
  a.shape().normal_axes(axes_a);
  b.shape().normal_axes(axes_b);
  std::string left, right, summed;
  for (int i = 0; i < a.rank() + b.rank(); ++i)
    (i < a.rank() ? left : right) += static_cast<char>(i < 25 ? 'a' + i : 'A' + i - 25);
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
  const auto [terms, result] = parsed(subscripts, operands);
  const Dtype dtype = dtype_of(operands);
  // Labels that the result or a later operand needs.
  const auto needed_after = [&terms = terms, &result = result](std::size_t i) {
    std::string needed = result;
    for (std::size_t later = i + 1; later < terms.size(); ++later) needed += terms[later].labels;
    return needed;
  };
  const auto operand = [&terms = terms, dtype](std::size_t i) {
    return without_repeats({retype(terms[i].value, dtype), terms[i].labels});
  };
  Labelled total = summed(operand(0), needed_after(0));
  for (std::size_t i = 1; i < terms.size(); ++i) {
    total = product(total, summed(operand(i), needed_after(i) + total.labels), needed_after(i));
    total = summed(total, needed_after(i));
  }
  return ordered(total, result);
}

}  // namespace nixie
