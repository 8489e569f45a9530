// numpy's rules for printing arrays: one width for all elements, shortest digits, dots where there are too many.
#include "nixie/core/base/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <ostream>

#include "nixie/core/base/integer_math.h"

namespace nixie {
namespace {

constexpr std::int64_t kMostElements = 1000, kEdge = 3;
constexpr std::size_t kLineWidth = 75;
constexpr int kPrecision = 8;

/// The type in which a number computes: float for halves.
template <class T>
using FloatOf = std::conditional_t<std::is_floating_point_v<T>, T, float>;

// A number before and after its point: `-12`, `5`; after it perhaps an exponent: `e-05`.
struct Digits {
  std::string whole, fraction, exponent;
};

Digits split(const std::string& text) {
  Digits digits;
  const std::size_t e = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), e);
  digits.whole = text.substr(0, point);
  if (point < e) digits.fraction = text.substr(point + 1, e - point - 1);
  digits.exponent = text.substr(e);
  return digits;
}

template <class Float>
std::string text_of(Float value, std::chars_format format, int precision = -1) {
  char text[512];
  const auto end = precision < 0 ? std::to_chars(text, text + sizeof(text), value, format).ptr
                                 : std::to_chars(text, text + sizeof(text), value, format, precision).ptr;
  return {text, end};
}

// The fewest digits that name a value among those of its type. A half is looked at as the float it is.
template <class T>
std::string shortest(T value, std::chars_format format) {
  if constexpr (std::is_floating_point_v<T>) {
    return text_of(value, format);
  } else {
    const float wide = static_cast<float>(value);
    for (int precision = 0; precision < 9; ++precision) {
      const float near = std::stof(text_of(wide, std::chars_format::scientific, precision));
      if (T(near).bits == value.bits) return text_of(near, format);
    }
    return text_of(wide, format);
  }
}

template <class T>
Digits digits_of(T value, bool scientific) {
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  Digits digits = split(shortest(value, format));
  if (digits.fraction.size() > at(kPrecision)) {
    digits = split(text_of(static_cast<double>(static_cast<FloatOf<T>>(value)), format, kPrecision));
    digits.fraction.erase(digits.fraction.find_last_not_of('0') + 1);
  }
  return digits;
}

std::string pad_left(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// How floating elements that are printed look, all alike.
template <class T>
std::function<std::string(T)> floating_format(const std::vector<T>& shown) {
  const auto number = [](T value) { return static_cast<FloatOf<T>>(value); };
  double largest = 0, smallest = INFINITY;
  std::size_t special = 0;  // width of what is no finite number
  for (T value : shown) {
    const double size = std::abs(static_cast<double>(number(value)));
    if (!std::isfinite(size)) {
      special = std::max<std::size_t>(special, number(value) < 0 ? 4 : 3);
    } else if (size > 0) {
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
  }
  const bool scientific = largest > 0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
  std::size_t left = 0, right = 0, exponent = 0;
  for (T value : shown) {
    if (!std::isfinite(number(value))) continue;
    const Digits digits = digits_of(value, scientific);
    left = std::max(left, digits.whole.size());
    right = std::max(right, digits.fraction.size());
    exponent = std::max(exponent, digits.exponent.size());
  }
  const std::size_t width = std::max(special, left == 0 ? 0 : left + 1 + right + exponent);
  return [=](T value) {
    if (std::isnan(number(value))) return pad_left("nan", width);
    if (std::isinf(number(value))) return pad_left(number(value) < 0 ? "-inf" : "inf", width);
    Digits digits = digits_of(value, scientific);
    digits.fraction += std::string(right - digits.fraction.size(), scientific ? '0' : ' ');
    if (scientific) digits.exponent.insert(2, exponent - digits.exponent.size(), '0');  // after `e+`
    return pad_left(digits.whole + "." + digits.fraction + digits.exponent, width);
  };
}

template <class T>
std::string whole_text(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "True" : "False";
  else
    return std::to_string(value);
}

// One number, as Python prints it.
template <class T>
std::string scalar_text(T value) {
  if constexpr (std::is_integral_v<T>) {
    return whole_text(value);
  } else {
    const double number = static_cast<double>(static_cast<FloatOf<T>>(value)), size = std::abs(number);
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
    const std::string text = shortest(value, scientific ? std::chars_format::scientific : std::chars_format::fixed);
    return scientific || text.find('.') != std::string::npos ? text : text + ".0";
  }
}

template <class T>
std::function<std::string(T)> format_of(const std::vector<T>& shown) {
  if constexpr (!std::is_integral_v<T>) {
    return floating_format(shown);
  } else {
    std::size_t width = 0;
    for (T value : shown) width = std::max(width, whole_text(value).size());
    return [=](T value) { return pad_left(whole_text(value), width); };
  }
}

// The positions that are printed along an axis; -1 means dots.
std::vector<std::int64_t> shown_positions(std::int64_t size, bool summary) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < size; ++i) {
    if (summary && size > 2 * kEdge && i == kEdge) {
      positions.push_back(-1);
      i = size - kEdge;
    }
    positions.push_back(i);
  }
  return positions;
}

template <class T>
class Printer {
 public:
  Printer(const std::vector<T>& values, const Shape& shape)
      : values_(values), shape_(shape), strides_(shape.row_major()), summary_(shape.size() > kMostElements) {
    std::vector<T> shown;
    collect(0, 0, shown);
    format_ = format_of(shown);
  }

  std::string text(int axis = 0, std::int64_t offset = 0) const {
    const auto part = [&](std::int64_t i) { return i < 0 ? "..." : text(axis + 1, offset + i * strides_[at(axis)]); };
    if (axis == shape_.rank()) return format_(values_[at(offset)]);
    const std::string indent(at(axis) + 1, ' ');
    std::string out, line = indent;
    for (std::int64_t i : shown_positions(shape_[axis], summary_)) {
      if (axis + 1 < shape_.rank()) {
        if (!out.empty()) out += std::string(at(shape_.rank() - axis - 1), '\n');
        out += indent + part(i);
        continue;
      }
      const std::string word = part(i);
      if (line.size() > indent.size()) {
        if (line.size() + 1 + word.size() > kLineWidth - at(shape_.rank())) {
          out += line + "\n";
          line = indent;
        } else {
          line += ' ';
        }
      }
      line += word;
    }
    if (axis + 1 == shape_.rank()) out += line;
    return "[" + out.substr(indent.size()) + "]";
  }

 private:
  void collect(int axis, std::int64_t offset, std::vector<T>& shown) const {
    if (axis == shape_.rank()) return shown.push_back(values_[at(offset)]);
    for (std::int64_t i : shown_positions(shape_[axis], summary_))
      if (i >= 0) collect(axis + 1, offset + i * strides_[at(axis)], shown);
  }

  const std::vector<T>& values_;
  Shape shape_;
  Strides strides_;
  bool summary_;
  std::function<std::string(T)> format_;
};

}  // namespace

std::string to_string(const Array& array) {
  if (array.size() == 0) return "[]";
  return visit_dtype(array.dtype(), [&](auto type) {
    using Element = decltype(type);
    constexpr bool is_letter = std::is_integral_v<Element> && sizeof(Element) == 1 && !std::is_same_v<Element, bool>;
    using T = std::conditional_t<is_letter, std::int32_t, Element>;
    const std::vector<T> values = array.to_vector<T>();
    return array.shape().rank() == 0 ? scalar_text(values[0]) : Printer(values, array.shape()).text();
  });
}

std::ostream& operator<<(std::ostream& out, const Array& array) { return out << to_string(array); }

}  // namespace nixie
