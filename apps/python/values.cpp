// nixie.Array and nixie.dtype: attributes, conversion to numbers of Python, operators.
#include <fmt/format.h>

#include <array>

#include "nixie/apps/python/arguments.h"
#include "nixie/core/base/print.h"
#include "nixie/core/ops/ops.h"

namespace nixie::python {
namespace {

// numpy's, and of what numpy lacks ml_dtypes'.
constexpr std::array<std::string_view, kDtypeCount> kDtypeNames{
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32",
    "int16",   "int8",    "uint64",  "uint32",   "uint16",        "uint8",       "bool"};

constexpr std::int64_t kExact = std::int64_t{1} << 53;  // up to here a double holds every whole number

Operand whole_number(py::handle object) {
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow > 0) {
    const std::uint64_t large = PyLong_AsUnsignedLongLong(object.ptr());
    if (!PyErr_Occurred()) return {Array::from(std::vector{large}, {}), nullptr};
    PyErr_Clear();
  }
  check(overflow == 0, "the number ", std::string(py::str(object)), " is beyond 64 bits");
  if (value >= -kExact && value <= kExact) return {Tensor(value), nullptr};
  return {Array::from(std::vector<std::int64_t>{value}, {}), nullptr};
}

py::object item(Value& value) {
  const Array array = value.stored().array();
  check(array.size() == 1, "an array of shape ", array.shape(), " is no single number");
  return visit_dtype(array.dtype(), [&](auto type) -> py::object {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, bool>)
      return py::bool_(array.data<T>()[0]);
    else if constexpr (std::is_integral_v<T>)
      return py::int_(array.data<T>()[0]);
    else
      return py::float_(static_cast<double>(
          static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(array.data<T>()[0])));
  });
}

bool both_bool(const Tensor& a, const Tensor& b) { return a.dtype() == Dtype::boolean && b.dtype() == Dtype::boolean; }

bool is_integer(const Tensor& x) { return !is_floating(x.dtype()) && x.dtype() != Dtype::boolean; }

// A whole number of Python beside an array of integers must be one of its type, or the array becomes `wide`, of
// integers the number's own type.
void fit(Operand& number, Operand& array, std::optional<Dtype> wide) {
  if (number.device || !array.device || !is_integer(number.tensor) || !is_integer(array.tensor)) return;
  const auto* constant = std::get_if<Constant>(&number.tensor.node().op);
  const Array given =
      constant ? Array::from(std::vector{static_cast<std::int64_t>(constant->value)}, {}) : number.tensor.array();
  const Array there = given.to(array.tensor.dtype()), back = there.to(given.dtype());
  if (std::equal(given.bytes(), given.bytes() + given.size_bytes(), back.bytes())) {
    if (!constant) number.tensor = there;
    return;
  }
  check(wide.has_value(), "the number ", to_string(given), " does not fit ", name_in_python(array.tensor.dtype()));
  array.tensor = cast(array.tensor, is_floating(*wide) ? *wide : given.dtype());
}

// numpy's matmul, of the operands' type also for integers: matmul gives i32 of narrow ones and refuses wide ones, whose
// products are summed one by one.
Tensor product(const Tensor& a, const Tensor& b) {
  const Dtype dtype = promote(a.dtype(), b.dtype());
  if (is_floating(dtype) || product_dtype(dtype) == Dtype::i32) {
    const Tensor result = matmul(a, b);
    return result.dtype() == dtype ? result : dtype == Dtype::boolean ? cast(result, dtype) : wrapped(result, dtype);
  }
  matmul(cast(a, Dtype::f32), cast(b, Dtype::f32));  // checks the shapes
  const Tensor rows = a.rank() == 1 ? expand_dims(a, {0}) : a, columns = b.rank() == 1 ? expand_dims(b, {1}) : b;
  const Tensor sums = sum(expand_dims(rows, {-1}) * expand_dims(columns, {-3}), {-2}, false);
  Axes single;
  if (a.rank() == 1) single.push_back(-2);
  if (b.rank() == 1) single.push_back(-1);
  return wrapped(squeeze(sums, single), dtype);
}

// x ** 2 is one product, with the same rounding.
Tensor power(const Tensor& a, const Tensor& b) {
  const auto* number = std::get_if<Constant>(&b.node().op);
  check(!number || number->value >= 0 || is_floating(a.dtype()) || is_floating(b.dtype()), "an integer to the power ",
        static_cast<std::int64_t>(number ? number->value : 0), " is no integer; use a fraction, as in x ** -1.0");
  const bool keeps_type = is_floating(a.dtype()) || (a.dtype() != Dtype::boolean && !is_floating(b.dtype()));
  return number && number->value == 2 && keeps_type ? square(a) : pow(a, b);
}

[[noreturn]] void fail_minus_of_bool() { throw py::type_error("bool has no minus; use ^ or ~"); }

Tensor difference(const Tensor& a, const Tensor& b) {
  if (both_bool(a, b)) fail_minus_of_bool();
  return a - b;
}

// numpy's order of kinds: an array takes the results of its own kind and of lower ones in place.
int kind(Dtype dtype) { return is_floating(dtype) ? 3 : dtype == Dtype::boolean ? 0 : is_unsigned(dtype) ? 1 : 2; }

// Every binary operator: its method in Python without underscores, and the op.
struct Binary {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  bool reflects = true;            ///< has __rNAME__ and __iNAME__
  std::optional<Dtype> wide = {};  ///< of integers beside a number that is none of their type
};
#define OPERATOR(expression) [](const Tensor& a, const Tensor& b) -> Tensor { return expression; }
const Binary kBinary[] = {
    {"add", OPERATOR(a + b)},
    {"sub", &difference},
    {"mul", OPERATOR(a* b)},
    {"truediv", OPERATOR(a / b), true, Dtype::f32},
    {"floordiv", OPERATOR(floor_divide(a, b))},
    {"mod", OPERATOR(remainder(a, b))},
    {"pow", &power},
    {"matmul", &product},
    {"and", OPERATOR(both_bool(a, b) ? a&& b : a& b)},
    {"or", OPERATOR(both_bool(a, b) ? a || b : a | b)},
    {"xor", OPERATOR(both_bool(a, b) ? a != b : a ^ b)},
    {"lshift", OPERATOR(a << b)},
    {"rshift", OPERATOR(a >> b)},
    {"eq", OPERATOR(a == b), false, Dtype::i64},
    {"ne", OPERATOR(a != b), false, Dtype::i64},
    {"lt", OPERATOR(a < b), false, Dtype::i64},
    {"le", OPERATOR(a <= b), false, Dtype::i64},
    {"gt", OPERATOR(a > b), false, Dtype::i64},
    {"ge", OPERATOR(a >= b), false, Dtype::i64},
};
#undef OPERATOR

py::object apply(const Binary& binary, py::handle x, py::handle y) {
  auto a = operand(x), b = operand(y);
  if (!a || !b) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  fit(*a, *b, binary.wide);
  fit(*b, *a, binary.wide);
  Device& device = common_device({&*a, &*b});
  return py::cast(make_value(binary.op(a->tensor, b->tensor), device));
}

// `x += y`: the handle takes the sum, of its own type.
py::object apply_in_place(const Binary& binary, py::object x, py::handle y) {
  py::object result = apply(binary, x, y);
  if (result.is(py::handle(Py_NotImplemented))) return result;
  auto &self = x.cast<Value&>(), &other = result.cast<Value&>();
  check(other.shape() == self.shape(), "an array of shape ", self.shape(), " cannot hold the result of shape ",
        other.shape());
  if (self.dtype() != other.dtype()) {
    if (kind(other.dtype()) > kind(self.dtype()))
      throw py::type_error(fmt::format("an array of {} cannot hold the result, which is {}; use astype",
                                       name_in_python(self.dtype()), name_in_python(other.dtype())));
    other.rebind((is_floating(self.dtype()) ? cast : wrapped)(other.tensor(), self.dtype()));
  }
  self.rebind(other.tensor());
  return x;
}

// Whether only the running expression holds the object, so that a change of it is lost.
bool is_temporary(PyObject* object) {
#if PY_VERSION_HEX >= 0x030E0000
  return PyUnstable_Object_IsUniqueReferencedTemporary(object);
#else
  return Py_REFCNT(object) == 1;
#endif
}

// x[key] = value, by the method _set.
int set_item(PyObject* self, PyObject* key, PyObject* value) try {
  array_of(self);
  if (!value) throw py::value_error("no element is deleted from an array; x[mask] takes others");
  if (is_temporary(self))
    throw py::value_error(
        "x[i][j] = value changes nothing, since x[i] is no view but an array of its own; write x[i, j] = value");
  py::handle(self).attr("_set")(py::handle(key), py::handle(value));
  return 0;
} catch (py::error_already_set& error) {
  error.restore();
  return -1;
} catch (const py::builtin_exception& error) {
  error.set_error();
  return -1;
}

}  // namespace

void fail_without_init(py::handle object) {
  throw py::type_error(
      fmt::format("this {} has no value yet: its __init__ was not called", Py_TYPE(object.ptr())->tp_name));
}

Value* array_of(py::handle object) {
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::type::of<Value>().ptr());
  if (!PyObject_TypeCheck(object.ptr(), type)) return nullptr;
  void* value = reinterpret_cast<py::detail::instance*>(object.ptr())->get_value_and_holder().value_ptr();
  if (!value) fail_without_init(object);
  return static_cast<Value*>(value);
}

std::optional<Operand> operand(py::handle object) {
  if (Value* value = array_of(object)) return Operand{value->tensor(), &value->device()};
  if (PyBool_Check(object.ptr())) return Operand{Tensor(object.ptr() == Py_True), nullptr};
  if (PyFloat_Check(object.ptr())) return Operand{Tensor(PyFloat_AS_DOUBLE(object.ptr())), nullptr};
  if (PyLong_Check(object.ptr())) return whole_number(object);
  if (has_dlpack_alone(object)) {
    const auto value = from_dlpack_object(py::reinterpret_borrow<py::object>(object), /*copy=*/true);
    return Operand{value->tensor(), &value->device()};
  }
  if (is_of_numpy(object)) {
    const auto value = from_numpy(object, {}, Device::standard());
    return Operand{value->tensor(), &value->device()};
  }
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()))
    return operand(py::module_::import("nixie").attr("asarray")(object));
  return {};
}

void fit_large_numbers(const std::vector<Operand*>& operands) {
  for (Operand* number : operands)
    for (Operand* array : operands)
      if (!number->device && !std::holds_alternative<Constant>(number->tensor.node().op) &&
          size_of(array->tensor.dtype()) == 8)
        fit(*number, *array, {});
}

Device& common_device(const std::vector<const Operand*>& operands) {
  Device* device = nullptr;
  for (const Operand* each : operands) {
    if (!each->device) continue;
    check(!device || device == each->device, "one array is on ", device ? device->name() : "", ", another on ",
          each->device->name(), "; move one by to_device");
    device = each->device;
  }
  return device ? *device : Device::standard();
}

std::string_view name_in_python(Dtype dtype) { return kDtypeNames[static_cast<std::size_t>(dtype)]; }

std::optional<Dtype> find_dtype(const std::string& name) {
  for (std::size_t i = 0; i < kDtypeNames.size(); ++i)
    if (kDtypeNames[i] == name) return static_cast<Dtype>(i);
  return {};
}

Dtype dtype_named_in_python(const std::string& name) {
  if (const auto found = find_dtype(name)) return *found;
  fail(Fault::usage, "dtype ", name, " is unknown, expected one of ", fmt::format("{}", fmt::join(kDtypeNames, ", ")));
}

std::optional<Dtype> dtype_of(py::handle object) {
  if (py::isinstance<Dtype>(object)) return object.cast<Dtype>();
  if (PyUnicode_Check(object.ptr())) return dtype_named_in_python(object.cast<std::string>());
  if (PyType_Check(object.ptr())) {
    const std::string name = object.attr("__name__").cast<std::string>();
    return dtype_named_in_python(name == "float" ? "float32" : name == "int" ? "int32" : name);
  }
  if (!py::hasattr(object, "itemsize")) return {};
  if (py::hasattr(object, "name")) return dtype_named_in_python(object.attr("name").cast<std::string>());
  const std::string text = py::str(object);  // torch.float32
  return dtype_named_in_python(text.substr(text.rfind('.') + 1));
}

void bind_values(py::module_& module) {
  py::class_<Dtype> dtype(module, "dtype", "An element type: nixie.float32 and the others.");
  dtype.def_property_readonly("name", [](Dtype self) { return name_in_python(self); })
      .def_property_readonly("itemsize", [](Dtype self) { return size_of(self); })
      .def("__repr__", [](Dtype self) { return fmt::format("nixie.{}", name_in_python(self)); })
      .def("__str__", [](Dtype self) { return name_in_python(self); })
      .def("__hash__", [](Dtype self) { return static_cast<int>(self); })
      .def("__reduce__", [](Dtype self) { return name_in_python(self); })
      .def("__call__",
           [](Dtype self, py::handle object) {
             return py::module_::import("nixie").attr("asarray")(object, py::arg("dtype") = self);
           })
      .def("__eq__", [](Dtype self, py::handle other) {  // also of a name and of numpy's types, as numpy has it
        try {
          return dtype_of(other) == self;
        } catch (const Error&) {
          return false;
        }
      });
  for (int i = 0; i < kDtypeCount; ++i)
    module.attr(kDtypeNames[static_cast<std::size_t>(i)].data()) = py::cast(static_cast<Dtype>(i));

  py::class_<Value> array(module, "Array", py::custom_type_setup([](PyHeapTypeObject* type) {
                            type->ht_type.tp_as_buffer = &type->as_buffer;
                            type->as_buffer.bf_getbuffer = &get_buffer;
                            type->as_mapping.mp_ass_subscript = &set_item;
                          }));
  array  // another handle to the same array, for classes of Python that are arrays
      .def(py::init([](Value& other) { return make_value(other.tensor(), other.device()); }))
      .def_property_readonly("shape",
                             [](const Value& self) {
                               py::tuple sizes(self.shape().rank());
                               for (int i = 0; i < self.shape().rank(); ++i)
                                 sizes[static_cast<std::size_t>(i)] = self.shape()[i];
                               return sizes;
                             })
      .def_property_readonly("ndim", [](const Value& self) { return self.shape().rank(); })
      .def_property_readonly("size", [](const Value& self) { return self.shape().size(); })
      .def_property_readonly("itemsize", [](const Value& self) { return size_of(self.dtype()); })
      .def_property_readonly("nbytes", [](const Value& self) { return self.shape().size() * size_of(self.dtype()); })
      .def_property_readonly("dtype", &Value::dtype)
      .def_property_readonly("device", [](const Value& self) { return self.device().name(); })
      .def("item", &item)
      .def("compute",
           [](py::object self) {
             self.cast<Value&>().stored();
             return self;
           })
      .def("_rebind", [](Value& self, Value& other) { self.rebind(other.tensor()); })
      .def(
          "to_device",
          [](Value& self, const std::string& device, py::handle) {
            Device& to = Device::named(device);
            to.backend();
            return make_value(&to == &self.device() ? self.tensor() : self.stored(), to);
          },
          py::arg("device"), py::pos_only(), py::kw_only(), py::arg("stream") = py::none())
      .def("__len__",
           [](const Value& self) {
             if (self.shape().rank() == 0) throw py::type_error("len() of an array of no axes");
             return self.shape()[0];
           })
      .def("__bool__", [](Value& self) { return py::bool_(item(self)); })
      .def("__int__", [](Value& self) { return py::int_(item(self)); })
      .def("__float__", [](Value& self) { return py::float_(item(self)); })
      .def("__complex__",
           [](Value& self) {
             return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(py::float_(item(self)), 0));
           })
      .def("__index__",
           [](Value& self) {
             if (is_floating(self.dtype()) || self.dtype() == Dtype::boolean || self.shape().size() != 1)
               throw py::type_error(
                   fmt::format("an array of {} {} is no index", name_in_python(self.dtype()), self.shape()));
             return item(self);
           })
      .def("__neg__",
           [](Value& self) {
             if (self.dtype() == Dtype::boolean) fail_minus_of_bool();
             return make_value(-self.tensor(), self.device());
           })
      .def("__abs__", [](Value& self) { return make_value(abs(self.tensor()), self.device()); })
      .def("__invert__", [](Value& self) {
        return make_value(self.dtype() == Dtype::boolean ? !self.tensor() : ~self.tensor(), self.device());
      });
  module.def("is_stored", [](Value& self) { return is_stored(self.tensor()); });
  module.def("alias", [](Value& self) { return make_value(self.tensor(), self.device()); });
  module.def("has_device", [](const std::string& name) {
    try {
      Device::named(name).backend();
      return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::device) throw;
      return false;
    }
  });
  array.attr("__hash__") = py::none();
  for (const Binary& binary : kBinary) {
    const std::string name = binary.name;
    array.def(("__" + name + "__").c_str(), [&binary](py::handle a, py::handle b) { return apply(binary, a, b); });
    if (!binary.reflects) continue;
    array.def(("__r" + name + "__").c_str(), [&binary](py::handle a, py::handle b) { return apply(binary, b, a); });
    array.def(("__i" + name + "__").c_str(),
              [&binary](py::object a, py::handle b) { return apply_in_place(binary, std::move(a), b); });
  }
}

}  // namespace nixie::python
