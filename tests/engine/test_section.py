"""What Python calls runs in the section, which does without the GIL what the GIL does (`onnxwire/engine/section.h`).

That it keeps threads apart is tested where the GIL is: by `test_threads.py` and `fuzz_edits.py`, run without it.
"""

import re
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import pytest

import onnxwire

ROOT = Path(onnxwire.__file__).parent
SOURCES = sorted(ROOT.rglob("*.pyx"))
FUNCTION = re.compile(
    r"^(?P<decorators>(?: *@.*\n)*)(?P<indent> {0,4})(?:cp)?def (?:\w+ )?(?P<name>\w+)\(", re.MULTILINE
)
# What needs no section, and why.
OWN_MEMORY = "frees what is its own"
CHOOSES = "reads together with other threads, or enters the section itself"
STATELESS = "looks at its arguments only"
OWN = "reads numbers of its own, which never change"
APART = {
    "_varint": {"packed_levels": STATELESS, "decode_packed": STATELESS},
    "arrow._program": {"__dealloc__": OWN_MEMORY},
    "arrow._types": {"tensor_type": STATELESS},
    "checker._facts": {"__dealloc__": OWN_MEMORY},
    "checker._scopes": {"__dealloc__": OWN_MEMORY},
    "index.names": {"__dealloc__": OWN_MEMORY, "__cinit__": STATELESS, "definitions_of": STATELESS},
    "dropin.audit": {"watch_opening": "this module turns the GIL on"},
    "engine.classes": {"__dealloc__": OWN_MEMORY},
    "engine.document": {"__dealloc__": "of Spans: " + OWN_MEMORY},
    "engine.encode": {"__dealloc__": OWN_MEMORY},
    "engine.file_writer": {"__dealloc__": OWN_MEMORY, "copy_range": STATELESS, "write_buffer": STATELESS},
    "engine.message": {"HasField": CHOOSES},
    "engine.numbers": {"__len__": CHOOSES, "__iter__": CHOOSES, "__next__": CHOOSES},
    "engine.overlay": {"__dealloc__": "of Numbers: " + OWN_MEMORY},
    "engine.overlay_index": {"__dealloc__": OWN_MEMORY},
    "engine.repeated": {"__len__": CHOOSES, "__iter__": CHOOSES, "__next__": CHOOSES},
    "engine.section": {"after_fork": "a new process has one thread"},
    "engine.table": {"__dealloc__": OWN_MEMORY},
    "engine.text_form": {"__dealloc__": OWN_MEMORY},
    "engine.view": {"count_views": CHOOSES},
    "engine.write": {"chunks_of": "a generator, which can't stay in it; what it calls enters"},
    "tensor.bits": {"unpack": STATELESS, "pack": STATELESS},
    "tensor.dlpack": {"to_capsule": STATELESS},
    "tensor.payload_layout": {
        "__cinit__": STATELESS,
        "data_type": OWN,
        "nbytes": OWN,
        "is_external": OWN,
        "is_ambiguous": OWN,
        "offset": OWN,
        "length": OWN,
        "layout_of": STATELESS,
        "count_elements": STATELESS,
        "plain_number": STATELESS,
        "element_column": STATELESS,
        "byte_column": STATELESS,
    },
    "viewer._column_ids": {"__dealloc__": OWN_MEMORY},
}


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_functions_enter_the_section(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    apart = APART.get(module, {})
    functions = list(FUNCTION.finditer(path.read_text(encoding="utf-8")))
    outside = {found["name"] for found in functions if "@critical_section" not in found["decorators"]}
    assert outside <= set(apart), "decorate it with @critical_section, or say above why it needs no section"
    assert set(apart) <= outside, "what is said to need no section enters it"


def test_readers_and_an_editor():
    """Readers see old or new names, whole, and other models are not touched."""
    names = {f"{kind} {i}" for i in range(200) for kind in ("node", "new")}
    original = onnxwire.ModelProto()
    for i in range(200):
        original.graph.node.add(name=f"node {i}", op_type="Conv", input=[f"x{i}"]).attribute.add(name="k", ints=[1, i])
    edited, other = (onnxwire.ModelProto.FromString(original.SerializeToString()) for _ in range(2))
    wrong, over = [], threading.Event()

    def read(model, expected):
        while not over.is_set():
            for i, node in enumerate(model.graph.node):
                attribute = node.attribute[0]
                if node.name not in expected or list(node.input) != [f"x{i}"] or list(attribute.ints) != [1, i]:
                    wrong.append((i, node.name, list(node.input), list(attribute.ints)))

    readers = [threading.Thread(target=read, args=(edited, names)) for _ in range(2)]
    readers.append(threading.Thread(target=read, args=(other, {name for name in names if name.startswith("node")})))
    for reader in readers:
        reader.start()
    for i, node in enumerate(edited.graph.node):
        node.name = f"new {i}"
    over.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert [node.name for node in edited.graph.node] == [f"new {i}" for i in range(200)]


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="a Python that always has the GIL")
def test_gil_stays_off():
    """Importing the package does not turn the GIL on in a Python that runs without it."""
    code = "import sys, onnxwire, onnxwire.arrow, onnxwire.checker; print(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(not sysconfig.get_config_var("Py_GIL_DISABLED"))
