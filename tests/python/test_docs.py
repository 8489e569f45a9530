"""The examples of docs/python.md and of every docstring, that every public name has one, and the type stubs."""

import ast
import doctest
import importlib
import inspect
import math
import pathlib
import re
import unittest

import nixie

PAGE = pathlib.Path(__file__).parents[2] / "docs/python.md"
MODULES = (nixie, nixie.linalg, nixie.models, nixie.nn, nixie.random, nixie.training)


def documented():
    """Public functions and classes, and what they are called."""
    for module in MODULES:
        for name in dir(module):
            found = getattr(module, name)
            if (not name.startswith("_") or name == "__array_namespace_info__") and callable(found) and not isinstance(found, nixie.dtype):
                yield f"{module.__name__}.{name}", found
    for name in ("get", "numpy", "tolist"):
        yield f"nixie.Array.{name}", getattr(nixie.Array, name)
    for method in (nixie.random.Key.named, nixie.models.Net.state, nixie.models.Net.load_state):
        yield f"nixie.{method.__qualname__}", method


class Docs(unittest.TestCase):
    def run_examples(self, text, name):
        test = doctest.DocTestParser().get_doctest(text, {"nixie": nixie, "math": math}, name, name, 0)
        report = []
        doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test, out=report.append)
        self.assertEqual("".join(report), "")
        return len(test.examples)

    def test_docstrings(self):
        classes = {"nixie.Error", "nixie.dtype"}
        for name, function in documented():
            with self.subTest(name):
                examples = self.run_examples(inspect.getdoc(function) or "", name)
                self.assertTrue(examples or name in classes, f"{name} has no example")

    def test_type_stubs(self):  # the build writes them
        for module in MODULES:
            text = pathlib.Path(module.__file__).with_suffix(".pyi").read_text()
            stubs = {each.name for each in ast.parse(text).body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
            functions = {name for name, found in vars(module).items() if inspect.isfunction(found) and name[0] != "_"}
            self.assertLessEqual(functions, stubs, module.__name__)
            self.assertTrue(functions, module.__name__)

    def test_modules(self):
        for name in ("cupy", "gnumpy", "nervanagpu", "pycuda"):
            module = importlib.import_module(f"nixie.compat.{name}")
            self.assertTrue(self.run_examples(module.__doc__, name), name)

    def test_page(self):
        text = re.sub(r"^```.*$", "", PAGE.read_text(), flags=re.MULTILINE)
        self.assertGreater(self.run_examples(text, "python.md"), 20)


if __name__ == "__main__":
    unittest.main()
