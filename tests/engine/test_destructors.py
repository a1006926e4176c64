"""Destructors and the garbage collector run edits at the moments at which the engine has pointers to the edited memory.

Each program runs in a child process whose allocator detects writes beyond the end of a block, and uses of freed memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# `action` is the code of the destructor of a Memory; Memory(b) is a buffer that a document shares.
START = """
import gc, sys
import onnxwire as ow

class Memory(bytearray):
    def __del__(self):
        action()

class Finalizer:
    # An object in a cycle, so that the garbage collector calls its destructor.
    def __init__(self):
        self.self_reference = self

    def __del__(self):
        action()

def collect_at_next_allocation(count=1):
    Finalizer()
    gc.disable()
    global lists
    lists = [[] for _ in range(200)]  # the free list of lists is empty then
    gc.set_threshold(count, 10**6, 10**6)
    gc.enable()

def type_in_memory():
    source = ow.TypeProto()
    source.tensor_type.elem_type = 1
    source.tensor_type.shape.dim.add(dim_param="n" * 100)
    return ow.load(Memory(source.SerializeToString()), ow.TypeProto)

def value_and_merged():
    value = ow.ValueInfoProto()
    value.type.tensor_type.CopyFrom(type_in_memory().tensor_type)
    merged = ow.ValueInfoProto()
    merged.type.sequence_type.elem_type.tensor_type.elem_type = 2
    for _ in range(3):
        value.metadata_props.add(key="old")
        merged.metadata_props.add(key="merged")
    return value, merged
"""

PROGRAMS = {
    "a merge releases another member of a oneof, and elements are added": """
def action():
    for _ in range(9):
        value.metadata_props.add(key="added")

value, merged = value_and_merged()
value.MergeFrom(merged)
assert [entry.key for entry in value.metadata_props] == ["old"] * 3 + ["merged"] * 3 + ["added"] * 9
""",
    "a merge releases another member of a oneof, and a field is cleared": """
def action():
    value.ClearField("metadata_props")

value, merged = value_and_merged()
value.MergeFrom(merged)
assert len(value.metadata_props) == 0 and b"merged" not in value.SerializeToString()
""",
    "a message becomes present, and is read meanwhile": """
from onnxwire.engine.view import keep_identity

def action():
    results.append(sequence_type.HasField("elem_type"))

keep_identity(True)
results = []
value = ow.TypeProto()
value.tensor_type.CopyFrom(type_in_memory().tensor_type)
sequence_type = value.sequence_type
sequence_type.SetInParent()
assert results == [False] and value.HasField("sequence_type") and not value.HasField("tensor_type")
""",
    "the document is closed before its strings are listed": """
def action():
    node.close()

open(sys.argv[1], "wb").write(ow.NodeProto(name="n", input=["x" * 20] * 300).SerializeToString())
node = ow.load(sys.argv[1], ow.NodeProto)
strings = node.input
collect_at_next_allocation()
try:
    strings._payloads()
except ow.ClosedError:
    pass
else:
    raise AssertionError("the document was not closed")
""",
    "a search leaves a document, and the next one is closed": """
from onnxwire.engine.search import Search

def action():
    model.close()

def nodes(count):
    return [ow.NodeProto(name="x" * 300)] * count

functions = [ow.FunctionProto(name="f", node=nodes(2)), ow.FunctionProto(name="g", node=nodes(2000))]
open(sys.argv[1], "wb").write(ow.ModelProto(functions=functions).SerializeToString())
model = ow.load(sys.argv[1])
source = ow.load(Memory(ow.FunctionProto(node=nodes(20)).SerializeToString()), ow.FunctionProto)
model.functions[0].CopyFrom(source)
del source
search = Search(model, [ow.TensorProto, ow.FunctionProto])
assert [next(search)[0], next(search)[0]] == ["functions[0]", "functions[1]"]
model.functions[0].Clear()
try:
    list(search)
except ow.ClosedError:
    pass
else:
    raise AssertionError("the document was not closed")
""",
    "the list of tensors leaves a document, and the next one is closed": """
from onnxwire.io._tensor_rows import TensorRows
from onnxwire.io.tensor_list import _fields_of as describe

def action():
    model.close()

entry = {"key": "location", "value": "w" * 60}
external = ow.TensorProto(name="t", data_type=1, dims=[1], data_location=1, external_data=[entry])
open(sys.argv[1], "wb").write(ow.ModelProto(graph={"name": "g", "initializer": [external]}).SerializeToString())
model = ow.load(sys.argv[1])
external = model.graph.initializer[0]
inline = ow.TensorProto(name="x", data_type=1, dims=[1], raw_data=b"abcd")
tensor = ow.load(Memory(inline.SerializeToString()), ow.TensorProto)
rows = TensorRows(describe)
rows.add(tensor)
del tensor
rows.add(external)
assert rows[1][-1] == "w" * 60
""",
    "a message is edited before it is encoded in pieces": """
from onnxwire.engine.write import encode_pieces

def action():
    if is_armed:
        graph.node[5].name = "a longer name"

for count in range(1, 7):
    is_armed = False
    source = ow.GraphProto(node=[ow.NodeProto(name="n" * 10)] * 50)
    graph = ow.GraphProto.FromString(source.SerializeToString())
    graph.node[3].name = "e"
    is_armed = True
    collect_at_next_allocation(count)
    size, pieces = encode_pieces(graph, False, None)
    gc.disable()
    encoding = b"".join(piece if isinstance(piece, bytes) else bytes(piece.payload) for piece in pieces)
    assert len(encoding) == size
    assert len(ow.GraphProto.FromString(encoding).node) == 50
    gc.collect()
is_armed = False
""",
    "a subclass of an array has more dimensions in its shape than in its ndim": """
import numpy as np
from onnxwire.tensor.dlpack import to_capsule

class Array(np.ndarray):
    shape = (1,) * 40
    strides = (4,) * 40

try:
    to_capsule(np.zeros(8, np.float32).view(Array), max_version=(1, 1))
except BufferError:
    pass
else:
    raise AssertionError("the array was accepted")
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_other_code_that_runs_in_the_middle_of_an_operation_is_harmless(program: str, tmp_path: Path) -> None:
    code = START + program
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    if "ASAN_OPTIONS" not in environment:
        environment["PYTHONMALLOC"] = "debug"
    command = [sys.executable, "-X", "faulthandler", "-c", code, str(tmp_path / "model.onnx")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
