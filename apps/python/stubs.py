"""Writes the type stubs *.pyi of the built package from its signatures: `stubs.py FOLDER`. The build does it."""

import inspect
import pathlib
import re
import sys

import nixie

HEAD = '''# Written from the signatures of the package.
import builtins
from typing import Any, Callable, Iterator, Literal, Sequence

'''
TYPES = '''_Dtype = dtype
Operand = Array | bool | int | float | Sequence[Any]
Device = Literal["cpu", "cuda"]
DtypeLike = dtype | str | type
Shape = int | Sequence[int]
Axis = int | Sequence[int] | None
'''
SUBMODULES = "from . import linalg as linalg, models as models, nn as nn, random as random, training as training\n\n"
IMPORT = "from . import Array, Axis, Device, DtypeLike, Operand, Shape\n\n"
# The types of parameters, by name; FUNCTION.NAME where a function means another thing by it.
PARAMETERS = {
    "__getitem__.key": "Any", "__setitem__.key": "Any", "bernoulli.p": "Operand", "load_state.arrays": "dict[str, Any]", "save.optimizer": "Optimizer | None", "load.optimizer": "Optimizer | None", "__init__.net": "Net", "compile.function": "Callable[..., Any] | None",  "where.x": "Array",
    "expand_dims.axis": "int | Sequence[int]", "squeeze.axis": "Axis", "tensordot.axes": "int | Sequence[Sequence[int]]",
    "full.fill_value": "Operand", "array": "Any", "arrays": "Sequence[Array]", "axes": "Sequence[int]", "axis": "Axis", "args": "Any",
    "others": "Any", "argnums": "int | Sequence[int]", "copy": "bool | None", "correction": "float", "descending": "bool",
    "device": "Device | None", "dtype": "DtypeLike | None", "endpoint": "bool", "function": "Callable[..., Any]", "has_aux": "bool",
    "indexing": 'Literal["xy", "ij"]', "indices": "Operand", "key": "Key | int", "keepdims": "bool", "kind": "Any", "obj": "Any",
    "operands": "Array", "precision": "str", "repetitions": "Shape", "repeats": "Any", "shape": "Shape", "shapes": "Sequence[int]",
    "side": 'Literal["left", "right"]', "stable": "bool", "step": "Operand", "subscripts": "str", "tree": "Any", "type": "Any", "x": "Array",
    "x1": "Operand", "x2": "Operand", "a": "Operand", "b": "Operand", "rtol": "float", "atol": "float", "equal_nan": "bool", "ddof": "float", "condition": "Operand", "name": "str", "seed": "int", "other": "Any", "self": "",
}
# The types of results other than Array.
RESULTS = {
    "__array_namespace_info__": "Any", "broadcast_arrays": "list[Array]", "broadcast_shapes": "tuple[int, ...]", "allclose": "bool", "can_cast": "bool",
    "compile": "Any", "compute": "Any", "finfo": "Any", "grad": "Callable[..., Any]", "iinfo": "Any", "isdtype": "bool",
    "meshgrid": "list[Array]", "result_type": "_Dtype", "topk": "tuple[Array, Array]", "tree_map": "Any", "unstack": "tuple[Array, ...]",
    "value_and_grad": "Callable[..., Any]", "__iter__": "Iterator[Array]", "numpy": "Any", "tolist": "Any", "__array__": "Any",
    "__array_namespace__": "Any", "__reduce__": "Any", "__setitem__": "None", "__str__": "str", "__repr__": "str", "__format__": "str", "__contains__": "bool", "__divmod__": "tuple[Array, Array]", "__rdivmod__": "tuple[Array, Array]", "fill": "None", "item": "bool | int | float", "named": "Key", "state": "dict[str, Array]", "load_state": "None",
    "save": "None", "load": "None", "load_trained": "Net", "synchronize": "None", "get": "Any", "train": "bool", "stop": "None", "resume": "Trainer",
    "evaluate": "dict[str, float]", "figures": "str", "step_ends": "None", "interval_ends": "None", "evaluation_ends": "None",
    "batches": "Iterator[tuple[Any, Any]]", "fit": "Any", "predict": "Any", "predict_proba": "Any", "decision_function": "Any", "score": "float",
    "get_params": "dict[str, Any]", "set_params": "Any", "init_from": "str", "minimize": "None",
    "__init__": "None", "__eq__": "Any", "__hash__": "int",
}
PROPERTIES = {"shape": "tuple[int, ...]", "ndim": "int", "size": "int", "itemsize": "int", "nbytes": "int", "dtype": "_Dtype",
              "device": "Device", "count": "Array", "T": "Array", "mT": "Array", "name": "str",
              "net": "Net", "config": "str", "step": "int", "total_steps": "int"}
NATIVE = {"compute": "def compute(self) -> Array: ...", "__len__": "def __len__(self) -> int: ...",
          "to_device": "def to_device(self, device: Device, /, *, stream: int | None = None) -> Array: ...",
          "__dlpack__": "def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any: ...",
          "__dlpack_device__": "def __dlpack_device__(self) -> tuple[int, int]: ...",
          **{f"__{kind}__": f"def __{kind}__(self) -> {kind}: ..." for kind in ("bool", "int", "float", "complex")},
          "__index__": "def __index__(self) -> int: ...",
          **{f"__{kind}__": f"def __{kind}__(self) -> Array: ..." for kind in ("neg", "abs", "invert")}}


def function_stub(name, function, indent=""):
    """A line for a function of Python, by its signature."""
    parameters = []
    for each in inspect.signature(function).parameters.values():
        kind = PARAMETERS.get(f"{name}.{each.name}", PARAMETERS.get(each.name, "Any"))
        default = "..." if callable(each.default) else repr(each.default)
        parameters.append(each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))
        text = f"{'*' if each.kind is each.VAR_POSITIONAL else '**' if each.kind is each.VAR_KEYWORD else ''}{each.name}"
        text += f": {kind}" if kind else ""
        parameters[-1] = (each.kind, text + ("" if each.default is each.empty else f" = {default}"))
    out, last = [], None
    for kind, text in parameters:
        if last is inspect.Parameter.POSITIONAL_ONLY and kind is not last:
            out.append("/")
        if kind is inspect.Parameter.KEYWORD_ONLY and last not in (kind, inspect.Parameter.VAR_POSITIONAL):
            out.append("*")
        out.append(text)
        last = kind
    if last is inspect.Parameter.POSITIONAL_ONLY:
        out.append("/")
    return f"{indent}def {name}({', '.join(out)}) -> {RESULTS.get(name, 'Array')}: ...\n"


def class_stub(cls):
    lines = [f"class {cls.__name__}:\n"]
    private = [vars(base) for base in cls.__mro__[1:] if base.__name__.startswith("_")]
    for name, member in sorted({**dict(each for base in private for each in base.items()), **vars(cls)}.items()):
        if isinstance(member, (classmethod, staticmethod)) and not name.startswith("_"):
            lines.append("    @staticmethod\n" + function_stub(name, member.__func__, "    "))
        elif name.startswith("_") and not name.startswith("__"):
            continue
        elif name in ("__buffer__", "__release_buffer__"):  # Python 3.12 shows them, older ones have them all the same
            continue
        elif isinstance(member, property):
            lines.append(f"    @property\n    def {name}(self) -> {PROPERTIES[name]}: ...\n")
        elif name in NATIVE:
            lines.append(f"    {NATIVE[name]}\n")
        elif inspect.isfunction(member):
            lines.append(function_stub(name, member, "    "))
        elif cls is nixie.Array and callable(member) and name.strip("_").lstrip("ri") and name.startswith("__") and name not in ("__new__", "__init__", "__hash__"):
            of_object = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            lines.append(f"    def {name}(self, other: Any, /) -> Array: ...{of_object}\n")
    return "".join(lines)


def stub_of(module):
    functions, classes, constants = [], [], []
    for name, member in sorted(vars(module).items()):
        if name.startswith("_") and name not in ("__array_namespace_info__", "__array_api_version__", "__version__") or inspect.ismodule(member):
            continue
        if inspect.isfunction(member):
            functions.append(function_stub(name, member))
        elif inspect.isclass(member) and (module is not nixie or member.__module__ == "nixie._core"):
            classes.append("class Error(RuntimeError): ...\n" if name == "Error" else class_stub(member))
        else:
            if not inspect.isclass(member):
                constants.append(f"{name}: {type(member).__name__.replace('NoneType', 'None')}\n")
    if hasattr(module, "__getattr__"):  # names that it makes when they are asked for
        functions.append("def __getattr__(name: str) -> Callable[..., Net]: ...\n")
    text = "".join([*classes, *([TYPES] if module is nixie else []), *constants, *functions])
    text = re.sub(r"\bbool\b(?!: dtype|__|\()", "builtins.bool", text)  # nixie.bool is an element type
    if module is nixie:
        return HEAD + SUBMODULES + "from .training import Classifier as Classifier, Regressor as Regressor, Trainer as Trainer\n\n" + text
    return HEAD + IMPORT + ("from .models import Net\n\n" if module is nixie.training else "") + text


def stubs():
    """File names and texts."""
    modules = {"__init__": nixie, "linalg": nixie.linalg, "models": nixie.models, "nn": nixie.nn, "random": nixie.random, "training": nixie.training}
    return {f"{name}.pyi": stub_of(module) for name, module in modules.items()}


if __name__ == "__main__":
    for name, text in stubs().items():
        path = pathlib.Path(sys.argv[1]) / name
        path.unlink(missing_ok=True)  # it may be a link
        path.write_text(text)
