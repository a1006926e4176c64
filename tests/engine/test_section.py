"""Threads that use one model concurrently read consistent values, and importing the package does not enable the GIL.

With the GIL, `onnxwire/engine/section.h` does nothing. Without the GIL (`make free-threaded`), it is tested by this
file, `test_threads.py` and `fuzz_edits.py`. `test_section_lint.py` tests that every function enters the section or has
a reason not to.
"""

import subprocess
import sys
import sysconfig
import threading

import pytest

import onnxwire


def test_readers_beside_an_editor_read_consistent_names():
    """Readers see either old or new names, and other models are not changed."""
    names = {f"{kind} {i}" for i in range(200) for kind in ("node", "new")}
    original_model = onnxwire.ModelProto()
    for i in range(200):
        original_model.graph.node.add(name=f"node {i}", op_type="Conv", input=[f"x{i}"]).attribute.add(
            name="k", ints=[1, i]
        )
    edited_model, unedited_model = (
        onnxwire.ModelProto.FromString(original_model.SerializeToString()) for _ in range(2)
    )
    inconsistent_reads, is_over = [], threading.Event()

    def read(model, expected):
        while not is_over.is_set():
            for i, node in enumerate(model.graph.node):
                attribute = node.attribute[0]
                if node.name not in expected or list(node.input) != [f"x{i}"] or list(attribute.ints) != [1, i]:
                    inconsistent_reads.append((i, node.name, list(node.input), list(attribute.ints)))

    readers = [threading.Thread(target=read, args=(edited_model, names)) for _ in range(2)]
    readers.append(
        threading.Thread(target=read, args=(unedited_model, {name for name in names if name.startswith("node")}))
    )
    for reader in readers:
        reader.start()
    for i, node in enumerate(edited_model.graph.node):
        node.name = f"new {i}"
    is_over.set()
    for reader in readers:
        reader.join()
    assert inconsistent_reads == []
    assert [node.name for node in edited_model.graph.node] == [f"new {i}" for i in range(200)]


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="this Python always has the GIL")
def test_importing_the_package_keeps_the_state_of_the_gil():
    """Importing the package does not turn the GIL on in a Python that runs without it."""
    code = "import sys, onnxwire, onnxwire.arrow, onnxwire.checker; print(sys._is_gil_enabled())"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == str(not sysconfig.get_config_var("Py_GIL_DISABLED"))
