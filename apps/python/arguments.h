// What functions take from Python and give back: arrays, numbers, types, axes and shapes.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>
#include <utility>

#include "nixie/apps/python/value.h"

namespace nixie::python {

namespace py = pybind11;

struct DtypeArgument {
  Dtype dtype = Dtype::f32;
};
/// An array or a number, which has no device.
struct Operand {
  Tensor tensor;
  Device* device = nullptr;
};
/// True for the classes that Python sees. Their methods raise TypeError for an object of __new__ alone, as that of a
/// subclass is until its __init__ calls the base's; pybind11 would hand them memory that holds nothing.
template <class T>
inline constexpr bool is_class_of_python = false;
template <>
inline constexpr bool is_class_of_python<Value> = true;
[[noreturn]] void fail_without_init(py::handle object);
/// The array that an object of Python is, null for other objects; without pybind11's look-up of the type.
Value* array_of(py::handle object);
/// From a Value, a number or nested lists of Python, or another library's array or number, which is copied; none for
/// other objects.
std::optional<Operand> operand(py::handle object);
/// Numbers beyond 2^53, which are arrays, become elements of the 64-bit integers beside them.
void fit_large_numbers(const std::vector<Operand*>& operands);
/// The device of all operands; throws Fault::usage if two differ.
Device& common_device(const std::vector<const Operand*>& operands);

inline std::unique_ptr<Value> make_value(Tensor tensor, Device& device) {
  return std::make_unique<Value>(std::move(tensor), device);
}
/// The type by its name in Python: float64, ..., bool.
Dtype dtype_named_in_python(const std::string& name);
std::optional<Dtype> find_dtype(const std::string& name);
std::string_view name_in_python(Dtype dtype);
/// From a nixie.dtype, its name, numpy's type, or float, int and bool of Python.
std::optional<Dtype> dtype_of(py::handle object);
/// bf_getbuffer of nixie.Array: a read-only view of the elements on the host, which outlives the array's later values;
/// without a copy where the host can read the memory.
int get_buffer(PyObject* self, Py_buffer* view, int flags);
/// A Value of a copied array or number of numpy, or of what numpy makes an array of.
std::unique_ptr<Value> from_numpy(py::handle object, std::optional<Dtype> dtype, Device& device);
/// A Value in the memory of an array that has __dlpack__, or of a copy; the type is for elements that only numpy has.
std::unique_ptr<Value> from_dlpack_object(const py::object& object, std::optional<bool> copy,
                                          std::optional<DtypeArgument> dtype = {});
/// Whether another library's array is of numpy, or has __dlpack__ alone.
inline bool is_of_numpy(py::handle object) { return PyObject_HasAttrString(object.ptr(), "__array_interface__"); }
bool has_dlpack_alone(py::handle object);

/// One axis or several.
struct AxesArgument {
  Axes axes = {};
};
/// One number or several: a shape, a stride.
template <class T>
struct NumbersArgument {
  std::vector<T> numbers = {};
};
/// Appends a whole number, or those of a sequence, beyond T its limit: the op says what it found. False for others.
template <class T>
bool append_numbers(std::vector<T>& numbers, py::handle object) {
  const auto add = [&](py::handle each) {
    int overflow = 0;
    const auto index =
        py::reinterpret_steal<py::object>(PyIndex_Check(each.ptr()) ? PyNumber_Index(each.ptr()) : nullptr);
    const long long number = index ? PyLong_AsLongLongAndOverflow(index.ptr(), &overflow) : 0;
    using Limits = std::numeric_limits<T>;
    if (index)
      numbers.push_back(overflow != 0 || !std::in_range<T>(number)
                            ? (overflow < 0 || number < 0 ? Limits::min() : Limits::max())
                            : static_cast<T>(number));
    PyErr_Clear();  // an array of several numbers is no index
    return bool(index);
  };
  if (add(object)) return true;
  const auto all =
      py::reinterpret_steal<py::object>(PySequence_Check(object.ptr()) ? PySequence_Tuple(object.ptr()) : nullptr);
  PyErr_Clear();
  if (!all) return false;
  for (const py::handle each : py::tuple(all))
    if (!add(each)) return false;
  return true;
}

void bind_values(py::module_& module);
void bind_ops(py::module_& module);
void bind_exchange(py::module_& module);
void bind_functions(py::module_& module);
void bind_external_plans(py::module_& module);
void bind_models(py::module_& module);
void bind_trainer(py::module_& module);

}  // namespace nixie::python

namespace pybind11::detail {

template <class T>
class caster_after_init : public type_caster_base<T> {
 public:
  bool load(handle source, bool convert) {
    const type_info* type = this->typeinfo;
    if (type && PyObject_TypeCheck(source.ptr(), type->type) &&
        !reinterpret_cast<instance*>(source.ptr())->get_value_and_holder(type).holder_constructed())
      nixie::python::fail_without_init(source);
    return type_caster_base<T>::load(source, convert);
  }
};
template <class T>
requires nixie::python::is_class_of_python<T>
class type_caster<T> : public caster_after_init<T> {
};
template <>  // beside pybind11 3's own for every enum
class type_caster<nixie::Dtype> : public caster_after_init<nixie::Dtype> {};
template <>
struct type_caster<nixie::python::Operand> {
  PYBIND11_TYPE_CASTER(nixie::python::Operand, const_name("nixie.Array"));
  bool load(handle source, bool) {
    auto found = nixie::python::operand(source);
    if (found) value = std::move(*found);
    return found.has_value();
  }
};
template <>
struct type_caster<nixie::python::DtypeArgument> {
  PYBIND11_TYPE_CASTER(nixie::python::DtypeArgument, const_name("nixie.dtype"));
  bool load(handle source, bool) {
    const auto found = nixie::python::dtype_of(source);
    if (found) value.dtype = *found;
    return found.has_value();
  }
};
template <>
struct type_caster<nixie::python::AxesArgument> {
  PYBIND11_TYPE_CASTER(nixie::python::AxesArgument, const_name("int | tuple[int, ...]"));
  bool load(handle source, bool) {
    std::vector<int> axes;
    const bool is_right = nixie::python::append_numbers(axes, source);
    for (const int axis : axes) value.axes.push_back(std::clamp(axis, -1000000, 1000000));
    return is_right;
  }
};
template <class T>
struct type_caster<nixie::python::NumbersArgument<T>> {
  PYBIND11_TYPE_CASTER(nixie::python::NumbersArgument<T>, const_name("int | tuple[int, ...]"));
  bool load(handle source, bool) { return nixie::python::append_numbers(value.numbers, source); }
};

}  // namespace pybind11::detail
