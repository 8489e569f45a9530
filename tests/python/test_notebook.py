"""The notebook of the examples, where jupyter's client, scikit-learn and matplotlib are installed."""

import importlib.util
import pathlib
import re
import unittest

NEEDED = ("nbclient", "nbformat", "ipykernel", "sklearn", "matplotlib")
NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "apps/python/examples/digits.ipynb"


@unittest.skipUnless(all(map(importlib.util.find_spec, NEEDED)), f"one of {', '.join(NEEDED)} is missing")
class Notebook(unittest.TestCase):
    def test_runs(self):
        import nbclient
        import nbformat

        notebook = nbformat.read(NOTEBOOK, 4)
        nbclient.NotebookClient(notebook, timeout=120).execute()
        outputs = [each for cell in notebook.cells if cell.cell_type == "code" for each in cell.outputs]
        text = "".join(each.text for each in outputs if each.output_type == "stream")
        self.assertGreater(float(re.search(r"accuracy ([0-9.]+)", text)[1]), 0.95)
        self.assertRegex(text, "predicted [0-9] is [0-9]")
        self.assertEqual(sum("image/png" in each.get("data", {}) for each in outputs), 2)


if __name__ == "__main__":
    unittest.main()
