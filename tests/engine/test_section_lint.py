"""A lint of the sources: every function that Python can call enters the section, or is listed with a reason.

Calls of the functions do not reveal an omission, so the test reads the sources. With the GIL, the section
(`onnxwire/engine/section.h`) does nothing. Without the GIL, a function that does not enter it fails only in rare
interleavings, for which `test_threads.py` and `fuzz_edits.py` search on a build without the GIL.
"""

import re
from pathlib import Path

import pytest

import onnxwire

ROOT = Path(onnxwire.__file__).parent
SOURCES = sorted(ROOT.rglob("*.pyx"))
# A def or cpdef at the top level of a module or a class, with its decorators.
FUNCTION = re.compile(
    r"^(?P<decorators>(?: *@.*\n)*)(?P<indent> {0,4})(?:cp)?def (?:\w+ )?(?P<name>\w+)\(", re.MULTILINE
)
# Reasons why functions are not decorated with @critical_section.
OWN_MEMORY = "frees its own memory"
ENTERS_SECTION = "enters the section in its body, or calls one function that does"
STATELESS = "uses its arguments only"
GENERATOR = "a generator, which can't stay in the section; the functions that it calls enter it"
NEW_OBJECT = "uses an object that no other thread references yet"
CONSTANT_NUMBERS = "reads numbers of its object, which never change"
ONE_CALL = "uses objects that no other thread references; the function that it calls enters the section"
# Module → function → reason.
EXEMPT_FUNCTIONS = {
    "_varint": {"packed_levels": STATELESS, "decode_packed": STATELESS},
    "analysis._sums": {"sum_block": STATELESS},
    "analysis.structure_match": {
        "__cinit__": NEW_OBJECT,
        "__dealloc__": OWN_MEMORY,
        "__getitem__": CONSTANT_NUMBERS,
        "rewired_vertices": CONSTANT_NUMBERS,
        "new_names": CONSTANT_NUMBERS,
        "unequal_vertices": CONSTANT_NUMBERS,
        "has_equal_label": CONSTANT_NUMBERS,
        "match_unique": STATELESS,
    },
    "analysis.flat_graph": {"__cinit__": NEW_OBJECT, "__dealloc__": OWN_MEMORY, "changed_types": CONSTANT_NUMBERS},
    "arrow._program": {"__dealloc__": OWN_MEMORY},
    "arrow._types": {"tensor_type": STATELESS},
    "checker._facts": {"__dealloc__": OWN_MEMORY},
    "checker._scopes": {"__dealloc__": OWN_MEMORY},
    "index.names": {"__dealloc__": OWN_MEMORY, "__cinit__": NEW_OBJECT, "definitions_of": STATELESS},
    "index.producers": {
        "__dealloc__": OWN_MEMORY,
        "__iter__": CONSTANT_NUMBERS,
        "keys": CONSTANT_NUMBERS,
        "items": CONSTANT_NUMBERS,
    },
    "dropin.audit": {"watch_opening": "this module turns the GIL on"},
    "engine.classes": {"__dealloc__": OWN_MEMORY},
    "engine.document": {"__cinit__": NEW_OBJECT, "__dealloc__": "of Spans: " + OWN_MEMORY},
    "engine.encoder": {"__dealloc__": OWN_MEMORY},
    "engine.file_writer": {"__dealloc__": OWN_MEMORY, "copy_range": STATELESS, "write_buffer": STATELESS},
    "engine.mapping": {"__dealloc__": OWN_MEMORY, "map_file": STATELESS, "skip_access_times": STATELESS},
    "engine.numbers": {"__next__": ENTERS_SECTION},
    "engine.overlay": {"__dealloc__": "of Numbers: " + OWN_MEMORY},
    "engine.overlay_index": {"__dealloc__": "of RecentOverlays: " + OWN_MEMORY},
    "engine.repeated": {"__cinit__": NEW_OBJECT},
    "engine.repeated_span": {"__next__": ENTERS_SECTION},
    "engine.scan": {"of": STATELESS, "select_messages": GENERATOR, "strings_of": GENERATOR},
    "engine.foreign_thread": {
        "refuse_threads": "sets one atomic number",
        "reset_entered_threads": "runs only in a forked child, which has one thread",
    },
    "engine.search": {"__cinit__": "of Paths: " + NEW_OBJECT, "__dealloc__": OWN_MEMORY},
    "engine.section": {"unlock_section": "runs only in a forked child, which has one thread"},
    "engine.table": {"__cinit__": NEW_OBJECT, "__dealloc__": OWN_MEMORY},
    "engine.text_form": {"__dealloc__": OWN_MEMORY},
    "engine.view": {"count_views": ENTERS_SECTION},
    "engine.write": {"chunks_of": GENERATOR},
    "tensor.bits": {"unpack": STATELESS, "pack": STATELESS},
    "tensor.dlpack": {"to_capsule": STATELESS},
    "tensor.payload_layout": {
        "__cinit__": NEW_OBJECT,
        "data_type": CONSTANT_NUMBERS,
        "nbytes": CONSTANT_NUMBERS,
        "is_external": CONSTANT_NUMBERS,
        "is_ambiguous": CONSTANT_NUMBERS,
        "offset": CONSTANT_NUMBERS,
        "length": CONSTANT_NUMBERS,
        "layout_of": STATELESS,
        "count_elements": STATELESS,
        "plain_number": STATELESS,
        "element_column": STATELESS,
        "byte_column": STATELESS,
    },
    "text._json_parser": {"decoded_pieces": GENERATOR, "parse_json": ONE_CALL},
    "text._text_parser": {"parse_text": ONE_CALL},
    "text._tokenizer": {"__cinit__": NEW_OBJECT, "pieces": GENERATOR},
    "viewer._column_ids": {"__dealloc__": OWN_MEMORY},
}


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_functions_enter_the_section_or_are_exempt(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    exempt_functions = EXEMPT_FUNCTIONS.get(module, {})
    functions = list(FUNCTION.finditer(path.read_text(encoding="utf-8")))
    undecorated_functions = {match["name"] for match in functions if "@critical_section" not in match["decorators"]}
    assert undecorated_functions <= set(exempt_functions), (
        "decorate the function with @critical_section, or list it in EXEMPT_FUNCTIONS with a reason"
    )
    assert set(exempt_functions) <= undecorated_functions, "a function of EXEMPT_FUNCTIONS is decorated or absent"
