"""Four threads read a model while another edits it: they read only values that were present, and no edit is lost.

Another test checks that importing the package does not enable the GIL.
"""

import os
import subprocess
import sys
import threading
from random import Random

import numpy as np
import onnx
import pytest
import wire

import onnxwire

N_READERS = 4
N_EDITS = 400
# A run of the numbers 0 to N_NUMBERS - 1 has more than 64 KiB. It is decoded without the GIL, while other threads run.
N_NUMBERS = 40000


def encode_model() -> bytes:
    """Encode a model of 60 nodes with subgraphs, and 60 tensors: three of N_NUMBERS numbers, the others of 5."""
    graph = onnx.GraphProto(name="main")
    for i in range(60):
        node = graph.node.add(name=f"node {i}", op_type="Conv", input=[f"x {i}", f"w {i}"], output=[f"y {i}"])
        node.attribute.add(name="kernel_shape", type=7, ints=[3, 3])
        node.attribute.add(name="body", type=5).g.node.add(name=f"node {i}", op_type="Relu", input=[f"x {i}"])
        graph.initializer.add(name=f"w {i}", data_type=7, dims=[N_NUMBERS], int64_data=range(N_NUMBERS if i < 3 else 5))
    return onnx.ModelProto(ir_version=13, graph=graph, producer_name="node 0").SerializeToString()


DATA = encode_model()


def make_random_edit(model, step: int, rng: Random) -> None:
    """Make one edit with methods that both runtimes have. step: a number for new names."""
    nodes = model.graph.node
    node = rng.choice(nodes)
    tensor = model.graph.initializer[rng.randrange(3)]
    match rng.randrange(14):
        case 0:
            node.name = f"node {step}"
        case 1:
            node.input.append(f"x {step}")
        case 2:
            node.input[:] = [f"w {step}"] * rng.randrange(4)
        case 3:
            nodes.add(name=f"node {step}", op_type="Conv").attribute.add(name="body").g.name = "main"
        case 4:
            del nodes[len(nodes) // 2]
        case 5:
            node.CopyFrom(type(node)(name=f"node {step}", op_type="Relu", output=["y 1"]))
        case 6:
            node.ClearField("attribute")
        case 7:
            node.MergeFrom(nodes[0])
        case 8:
            nodes.insert(0, nodes[-1])
        case 9:
            nodes.reverse()
        case 10:
            tensor.int64_data.append(7)
        case 11:
            tensor.int64_data[:] = range(N_NUMBERS)
        case 12:
            tensor.CopyFrom(model.graph.initializer[2])
        case 13:
            tensor.ParseFromString(tensor.SerializeToString())


def make_random_edits(model, seed: int) -> None:
    """Make N_EDITS edits, which depend on the seed only."""
    rng = Random(seed)
    for step in range(N_EDITS):
        make_random_edit(model, step, rng)


def is_name(name: str) -> bool:
    """Return whether a text is empty, or has the form of the names in the model and its edits: a word and a number."""
    kind, _, number = name.partition(" ")
    return name == "" or (kind in ("node", "x", "w", "y") and number.isdigit())


# --- reads; each returns whether all values were correct


def read_fields(model) -> bool:
    """Read names and numbers of nodes and of nodes in subgraphs."""
    names = []
    for node in model.graph.node:
        names += [node.name, *node.input, *node.output]
        for attribute in node.attribute:
            names += [inner_node.name for inner_node in attribute.g.node]
            if not set(attribute.ints) <= {3}:
                return False
    return all(map(is_name, names))


def read_kept_views(model) -> bool:
    """Read fields through views and sequences that are kept while other threads run."""
    nodes = list(model.graph.node)
    inputs = [node.input for node in nodes]
    return all(is_name(node.name) and node.op_type in ("Conv", "Relu", "") for node in reversed(nodes)) and all(
        is_name(name) for names in inputs for name in names
    )


def read_numbers(model) -> bool:
    """Read the numbers of tensors as arrays and by index."""
    for tensor in model.graph.initializer[:3]:
        array = np.asarray(tensor.int64_data)
        if len(array) and array[-1] not in (N_NUMBERS - 1, 7):
            return False
        if len(tensor.int64_data) > 2 and tensor.int64_data[1] != 1:
            return False
    return True


def read_encoding(model) -> bool:
    return read_fields(onnxwire.ModelProto.FromString(model.SerializeToString()))


def read_complete_model(model) -> bool:
    """Copy, compare and print the model."""
    copy = onnxwire.ModelProto()
    copy.CopyFrom(model)
    return isinstance(copy == model, bool) and str(model).startswith("ir_version: 13\n")


READ_FUNCTIONS = [read_fields, read_kept_views, read_numbers, read_encoding, read_complete_model]


def test_importing_the_package_does_not_enable_the_gil():
    """The GIL keeps its initial state, which is disabled on free-threaded Pythons."""
    is_gil_enabled = "getattr(sys, '_is_gil_enabled', lambda: True)()"
    code = (
        f"import sys; before = {is_gil_enabled}; import onnxwire, onnxwire.checker; print(before == {is_gil_enabled})"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert process.stdout == "True\n"


@pytest.mark.parametrize("seed", range(3))
def test_concurrent_readers_read_existing_values_and_do_not_disturb_an_editor(seed):
    model = onnxwire.load(DATA)
    is_over = threading.Event()
    failures: list[object] = []
    counts = dict.fromkeys(READ_FUNCTIONS, 0)

    def read_repeatedly(first_function: int) -> None:
        """Call all READ_FUNCTIONS in turn until the editor has finished and each function has returned at least once.

        first_function: index of the function to call first.
        """
        try:
            while not (is_over.is_set() and all(counts.values())):
                for read in READ_FUNCTIONS[first_function:] + READ_FUNCTIONS[:first_function]:
                    try:
                        if not read(model):
                            failures.append(read)
                        counts[read] += 1
                    except onnxwire.errors.ChangedError:
                        pass  # elements were added or removed during the read
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    readers = [threading.Thread(target=read_repeatedly, args=(i,)) for i in range(N_READERS)]
    try:
        for reader in readers:
            reader.start()
        make_random_edits(model, seed)
    finally:
        is_over.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert failures == []
    assert all(counts.values())
    if not wire.IS_UPB:
        return  # the Python implementation of protobuf refuses to merge a message into itself
    official = onnx.ModelProto.FromString(DATA)
    make_random_edits(official, seed)
    assert onnx.ModelProto.FromString(model.SerializeToString()) == official
