// nixie._core: the C++ library as Python sees it, and its errors as Python's.
#include "nixie/apps/python/arguments.h"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
  using nixie::Fault;
  static py::exception<nixie::Error>& error =
      *new py::exception<nixie::Error>(module, "Error", PyExc_RuntimeError);  // outlives C++'s static objects
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const nixie::Error& found) {
      PyObject* kind = found.fault() == Fault::usage    ? PyExc_ValueError
                       : found.fault() == Fault::memory ? PyExc_MemoryError
                                                        : error.ptr();
      PyErr_SetString(kind, found.what());
    }
  });
  nixie::python::bind_values(module);
  nixie::python::bind_ops(module);
  nixie::python::bind_exchange(module);
  nixie::python::bind_functions(module);
  nixie::python::bind_external_plans(module);
  nixie::python::bind_models(module);
  nixie::python::bind_trainer(module);
  module.attr("__version__") = NIXIE_VERSION;
}
