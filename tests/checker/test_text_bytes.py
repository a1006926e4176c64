"""Tests of TextBytes, and that rules about texts skip only strings that their regular expressions cannot match."""

from __future__ import annotations

import random
import re

import numpy as np
from each import each

import onnxwire
from onnxwire.checker.facts import Facts
from onnxwire.checker.rules import security_names, security_payloads
from onnxwire.checker.text_bytes import TextBytes
from onnxwire.engine.document import Document

# Strings that the rules' regular expressions match, strings that they almost match, and ordinary strings.
_PARTS = [
    "=", "+", "@", "(", "!", "|", "$(", "`", "'", '"', ";", "%s", "%n", "{", "}", "{{", "}}", "${", "..", "/", "\\",
    "<", "<!ENTITY", "<script", "on", "on1=", "__class__", "__proto__", "__PROTO__", "/etc/", "/tmp/", "CON", "con",
    "PrN", "aux", "NUL", "COM1", "com", "lpt9", "Lpt", "COM\u0661", ".txt", ".", " ", "\t", "\n", "\x00", "\x7f",
    "\x1c", "\x85", "\u00a0", "\u200b", "\u202e", "\u0301" * 8, "\u017fcript", "a", "M", "Z", "_", "-", "0",
    "7f454c46", "4d5a9000", "504b0304", "f0VMRg", "TVqQAAMA", "UEsDBA", "H4sIA", "KLUv", "070701", "MSCF", "hsqs",
    "KDMV", "eval(", "os.system", "javascript:", "powershell -e", "subprocess.", "DownloadString", "/bin/sh",
    "/dev/tcp/", "<?php", "x" * 30, "ignore all", " instructions", "system: ", "do  not ", "report this model",
    "you\tare now ", "an AI", "AI scanners ", "must", "mark it as ", "safe", "reply only", "hidden prompt:", "${jndi",
    "verified", "; drop table", "union  select", "bias_l", "bias_1", "bias_I", "xO", "x0",
]  # fmt: skip


def _texts():
    """Return the parts, random combinations of them and a few other strings, sorted."""
    rng = random.Random(5)
    texts = {"".join(rng.choices(_PARTS, k=rng.randrange(1, 4))) for _ in range(20_000)}
    return sorted({*texts, *_PARTS, "x" * 5000, "CON", "con", "conv", "comb", "com1", "nul."})


TEXTS = _texts()


def _facts(texts):
    """Return the Facts of a model with nodes whose names and documentation are these texts."""
    model = onnxwire.ModelProto(ir_version=8)
    for text in texts:
        model.graph.node.add(name=text, doc_string=text, op_type="Relu")
    return Facts(Document(model.SerializeToString()), onnxwire.ModelProto)


def test_results_for_all_strings_at_once_equal_results_for_each_string():
    texts = ["", "A", "Ab", "aa", "a", "ab", "b\x00", "Ab.c", "é", "..", "a" * 1000]
    facts = _facts(texts)
    column, ids = facts.derive(TextBytes), facts.NodeProto.name
    encoded = [text.encode() for text in texts]
    assert column.lengths[ids].tolist() == [len(text) for text in encoded]
    assert column.have(b"b\xc3")[ids].tolist() == [any(byte in text for byte in b"b\xc3") for text in encoded]
    for index in range(3):
        assert column.have_at(index, b"ab.")[ids].tolist() == [
            text[index : index + 1] in b"a b .".split() for text in encoded
        ]
    assert column.begin_like([b"ab", b"."])[ids].tolist() == [
        text.lower().startswith((b"ab", b".")) for text in encoded
    ]
    upper = bytes.maketrans(b"a", b"A")
    hashes = column.hashes(ids, upper, 1000).tolist()
    assert [hashes.index(number) for number in hashes] == [
        [other.translate(upper) for other in encoded].index(text.translate(upper)) for text in encoded
    ]
    words = [b"ab", b".", b"b.c", b"a" * 999]
    assert column.contain(words)[ids].tolist() == [any(word in text.lower() for word in words) for text in encoded]
    assert not column.begin_like([])[ids].any() and not column.have(b"").any()


def test_a_document_without_strings_has_one_empty_string():
    facts = Facts(Document(b""), onnxwire.ModelProto)
    column = facts.derive(TextBytes)
    assert column.lengths.tolist() == [0]
    assert not column.contain([b"a"]).any()
    assert not (column.have(b"a") | column.have_at(0, b"a") | column.begin_like([b"a"])).any()


@each(
    "rule",
    [
        "control",
        "direction",
        "invisible",
        "look_alike",
        "length",
        "injection",
        "mixed_script",
        "text_control",
    ],
)
def test_a_rule_of_names_reports_the_same_rows_if_all_strings_are_tested(rule, monkeypatch):
    facts = _facts(TEXTS)

    def reported_rows():
        """Return the type and the rows of each finding of the rule."""
        return [(finding.table.type_name, finding.rows.tolist()) for finding in getattr(security_names, rule)(facts)]

    expected = reported_rows()
    are_accepted = security_names._are_accepted
    monkeypatch.setattr(
        security_names,
        "_are_accepted",
        lambda facts, accepts, candidates: are_accepted(facts, accepts, np.ones_like(candidates)),
    )
    assert reported_rows() == expected
    assert expected


def test_the_reported_texts_are_those_in_which_a_search_of_each_text_finds_a_program():
    facts = _facts(TEXTS)
    reported = next(
        finding for finding in security_payloads.text_payload(facts) if finding.table.type_name == "NodeProto"
    )
    texts = [text.encode()[: security_payloads._MAX_TEXT_BYTES] for text in TEXTS]
    identifier = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
    expected = [
        row
        for row, text in enumerate(texts)
        if (
            security_payloads._decoded_signature(text)
            if identifier.fullmatch(text)
            else security_payloads.text_signature(text)
        )
    ]
    assert reported.rows.tolist() == expected
    assert len(expected) > 100


def test_the_checks_of_character_and_length_accept_every_match_of_first_digits():
    # `_divided_names` searches only strings whose first character and length pass these two checks.
    for text in TEXTS:
        if security_payloads._FIRST_DIGITS.match(text.encode()[:16]):
            assert text.encode()[0] in security_payloads._FIRST_DIGITS_BEGIN
            assert len(text.encode()) >= security_payloads._MIN_FIRST_DIGITS
