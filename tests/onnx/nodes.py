#!/usr/bin/env python3
"""Runs ONNX's node tests through nixie's ops and compares the results with those that ONNX expects.

  nodes.py RUNNER [--verbose]     RUNNER is the program onnx_nodes; `./dev onnx-nodes` builds it and calls this

A case that nixie cannot express is outside, with a reason. A case whose difference expected_differences.tsv lists (name, tab,
reason) may differ, and fails the check if it agrees now. Every other difference fails the check.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

TYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
         "int16": "i16", "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool"}
NUMPY = {ours: theirs for theirs, ours in TYPES.items() if theirs != "bfloat16"}
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
             "ConvInteger", "MatMulInteger")


class Outside(Exception):
    """The case has something that nixie has not."""


def array_of(value):
    """An input or output as an array, and nixie's name of its type."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray | np.generic):
        raise Outside("a sequence or an optional value")
    if value.dtype.name not in TYPES:
        raise Outside("strings" if value.dtype.kind in "OUS" else f"type {value.dtype.name}")
    return value, TYPES[value.dtype.name]


class Data:
    """The bytes of all arrays, in one file."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def add(self, value):
        value, dtype = array_of(value)
        array = np.asarray(value)
        entry = {"dtype": dtype, "shape": list(array.shape), "offset": self.file.tell()}
        self.file.write(np.ascontiguousarray(array).tobytes())
        return entry


def describe_node(node, opsets, data):
    """A node as the runner reads it."""
    if node.op_type in QUANTISED:
        raise Outside("quantised types")
    if node.domain == "ai.onnx.preview.training":
        raise Outside("an update rule: optimizers/ has its own, with their state")
    attributes, tensors = {}, {}
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise Outside("control flow")
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == AttributeProto.TENSOR:
            tensors[attribute.name] = data.add(numpy_helper.to_array(value))
        elif attribute.type in (AttributeProto.STRING, AttributeProto.INT, AttributeProto.FLOAT):
            attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
        elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            attributes[attribute.name] = list(value)
        else:
            raise Outside("strings")
    return {"op": node.op_type, "opset": opsets[node.domain], "inputs": list(node.input),
            "outputs": list(node.output), "attributes": attributes, "tensors": tensors}


def describe(case, data):
    """A case as the runner reads it."""
    graph = case.model.graph
    opsets = {entry.domain: entry.version for entry in case.model.opset_import}
    inputs, outputs = case.data_sets[0]
    arrays = {entry.name: data.add(value) for entry, value in zip(graph.input, inputs)}
    arrays |= {entry.name: data.add(numpy_helper.to_array(entry)) for entry in graph.initializer}
    for output in outputs:
        array_of(output)
    return {"name": case.name, "nodes": [describe_node(node, opsets, data) for node in graph.node], "arrays": arrays,
            "outputs": [entry.name for entry in graph.output]}


def read(entry, content):
    """An array of the runner's results."""
    count = int(np.prod(entry["shape"], dtype=np.int64))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16) if entry["dtype"] == "bf16" else np.dtype(
        NUMPY[entry["dtype"]])
    return np.frombuffer(content, dtype, count, entry["offset"]).reshape(entry["shape"])


def difference(case, entries, content):
    """What differs from the expected outputs, or an empty string."""
    for i, (expected, entry) in enumerate(zip(case.data_sets[0][1], entries)):
        expected, actual = np.asarray(array_of(expected)[0]), read(entry, content)
        if actual.dtype != expected.dtype:
            return f"output {i} is {actual.dtype}, expected {expected.dtype}"
        if actual.shape != expected.shape:
            return f"output {i} has shape {actual.shape}, expected {expected.shape}"
        wide = [x.astype(np.float64) if x.dtype.name in ("bfloat16", "float16") else x for x in (actual, expected)]
        if not np.allclose(*wide, rtol=case.rtol, atol=case.atol, equal_nan=True):
            with np.errstate(all="ignore"):
                away = np.abs(wide[0].astype(np.float64) - wide[1].astype(np.float64))
            worst = np.unravel_index(np.argmax(np.where(np.isnan(away), np.inf, away)), away.shape)
            return f"output {i} at {tuple(map(int, worst))} is {wide[0][worst]}, expected {wide[1][worst]}"
    return ""


def type_of(case):
    """The op type of a case; those of functions are expanded into several nodes in further cases."""
    nodes = case.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else "several nodes"


def main():
    """Prints a row for each op type and what fails the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runner")
    parser.add_argument("--verbose", action="store_true", help="print each case that is outside or differs")
    arguments = parser.parse_args()
    listed = {}
    for line in (pathlib.Path(__file__).parent / "expected_differences.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = line.split("\t")
            listed[name] = reason
    warnings.simplefilter("ignore")  # ONNX divides by zero on purpose
    cases = {case.name: case for case in collect_testcases(None)}
    outside, described = {}, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = Data(folder / "cases.bin")
        for case in cases.values():
            try:
                described.append(describe(case, data))
            except Outside as reason:
                outside[case.name] = str(reason)
        data.file.close()
        (folder / "cases.json").write_text(json.dumps(described))
        subprocess.run([arguments.runner, folder], check=True)
        results = json.loads((folder / "results.json").read_text())
        content = (folder / "results.bin").read_bytes()

    table = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(collections.Counter)
    failures = [f"{name}: no such case; take it off the list" for name in listed if name not in cases]
    for name, case in cases.items():
        result = results.get(name, {"outside": outside.get(name)})
        row = table[type_of(case)]
        if "outside" in result:
            found, kind = result["outside"], "outside"
            reasons[type_of(case)][found] += 1
        else:
            found = result["error"] if "error" in result else difference(case, result["outputs"], content)
            kind = "as listed" if found and name in listed else "differs" if found else "passed"
        row[kind] += 1
        if kind == "differs":
            failures.append(f"{name}: {found}")
        elif kind != "as listed" and name in listed:
            failures.append(f"{name}: {found or 'agrees now'}; take it off the list")
        if arguments.verbose and found:
            print(f"{name}: {kind}: {found}" + (f" ({listed[name]})" if name in listed else ""))

    print(f"{'op type':28}{'passed':>8}{'as listed':>11}{'differs':>9}{'outside':>9}")
    total = collections.Counter()
    for op in sorted(table):
        row = table[op]
        total += row
        why = "; ".join(reasons[op])
        print(f"{op:28}{row['passed']:8}{row['as listed']:11}{row['differs']:9}{row['outside']:9}  {why}".rstrip())
    print(f"{'all':28}{total['passed']:8}{total['as listed']:11}{total['differs']:9}{total['outside']:9}")
    for failure in failures:
        print(re.sub(r"\s+", " ", failure), file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
