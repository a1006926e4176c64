"""Rules of security: operators that run code or load files, unknown operators and versions, functions with the names of
operators, settings of runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from onnxwire.checker.confusables import ascii_skeleton
from onnxwire.checker.facts import Facts, Finding, true_rows
from onnxwire.checker.operator_table import operators
from onnxwire.checker.registry import read_table, rule
from onnxwire.checker.rules.function import shadowing_functions
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.small_constants import SmallConstants
from onnxwire.errors import count_text

# Domains in which every operator is treated as one that runs code that the model names.
_CODE_DOMAINS = ("org.pytorch.aten", "aten", "org.pytorch", "org.pytorch._caffe2", "trt.plugins", "ai.onnx.contrib.py")
# Operators that run code, load programs or send data to servers, in any domain.
_CODE_OPERATORS = (
    "PyOp", "PyCustomOp", "PythonOp", "PythonOpGrad", "PyFunc", "PyCall", "EagerPyFunc", "ATen", "ATenOp", "TritonOp",
    "TorchScript", "ExternalGradient", "CustomEntryPoint", "CustomOp", "TVM", "Snpe", "SNPE", "TRT_PluginV2",
    "PluginV2", "OpenAIAudioToText", "AzureTextToText", "AzureAudioToText", "AzureTritonInvoker", "HttpGet", "Exec",
    "System", "Shell", "Eval", "LoadLibrary",
)  # fmt: skip


def _normalized_name(name: str) -> str:
    """Return an operator's name in lower case and without underscores."""
    return name.replace("_", "").lower()


_NORMALIZED_CODE_OPERATORS = frozenset(map(_normalized_name, _CODE_OPERATORS))
# Operators that read or write a file of the machine.
_FILE_OPERATORS = ("ReadFile", "ImageReader", "LoadImage", "WriteFile", "FileReader", "AudioReader", "LoadFile")
# Words in the name of an attribute whose value may be the name of a file or an address.
_FILE_WORDS = ("file", "path", "filename", "library", "lib", "dll", "module", "url", "uri", "plugin", "script")
# Operators that contain or load a program for a device.
_COMPILED_OPERATORS = ("EPContext", "TRTEngine", "TRT_Engine", "TensorRTEngine", "NcnnModel", "RknnOp")
# Domains of operators of onnxruntime and its extensions, and of functions that PyTorch's exporter writes.
_KNOWN_DOMAINS = (
    "com.microsoft", "com.microsoft.nchwc", "com.microsoft.extensions", "com.ms.internal.nhwc", "ai.onnx.contrib",
    "pkg.onnxscript.torch_lib", "pkg.onnxscript.torch_lib.common", "com.microsoft.experimental", "com.microsoft.dml",
    "com.microsoft.cuda",
)  # fmt: skip
# Keys of metadata that runtimes read as settings.
_SETTING = re.compile(
    r"ort_config|(?:ep|ort|trt|tensorrt|cuda|rocm|migraphx|openvino|ov|qnn|dml|coreml|nnapi|session|provider|rt_info)[._]"
    r"|onnxruntime\.session|.*\b(?:cache|library|plugin|engine|custom_op)[._]?(?:path|dir|file)",
    re.I,
)
_MAX_FUTURE_VERSIONS = 8  # number of versions accepted after the last known version of an operator set
# Domains that begin like those of ONNX and onnxruntime, after `ascii_skeleton` has replaced letters that look alike.
_LIKE_ONNX = re.compile(r"(?:ai|al|com|org)?[._-]*(?:onnx(?:runtime|rt)?|ort|microsoft)(?:[._-]|\Z)")
# The beginning of a path or an address.
_PATH = re.compile(r"/[\w.-]+/|~/|\.\.?[/\\]|[A-Za-z]:[/\\]|\\\\|[a-z][a-z0-9+]{1,9}://", re.S)


def _is_foreign(facts: Facts) -> Any:
    """Return whether each node has an operator of a domain that is not one of ONNX, and calls no function."""
    nodes = facts.NodeProto
    return ~facts.are_among(nodes.domain, ("", "ai.onnx", *operators().domain_names)) & (
        facts.derive(Calls).function < 0
    )


@rule("security-code-operator", "NodeProto")
def code_operator(facts: Facts) -> Iterator[Finding]:
    """Yield nodes that run code or send data to a server."""
    nodes = facts.NodeProto
    is_code = facts.matching(lambda name: _normalized_name(name) in _NORMALIZED_CODE_OPERATORS, nodes.op_type) & (
        facts.derive(Calls).function < 0
    )
    is_code |= facts.are_among(nodes.domain, _CODE_DOMAINS) & _is_foreign(facts)
    yield nodes.at(
        is_code,
        "{op_type!r} of domain {domain!r} runs code that the model names, or sends data to a server; do not run the "
        "model",
    )


@rule("security-code-file", "NodeProto")
def code_file(facts: Facts) -> Iterator[Finding]:
    """Yield nodes outside the domains of ONNX that use a file, or whose attribute may name a file or an address."""
    nodes, constants = facts.NodeProto, facts.derive(SmallConstants)
    is_foreign = _is_foreign(facts)
    messages: dict[int, str] = {}
    for row in true_rows(is_foreign).tolist():
        op_type = facts.text(nodes.op_type[row])
        if op_type in _FILE_OPERATORS:
            verb = "writes" if op_type == "WriteFile" else "reads"
            messages[row] = f"{op_type!r} {verb} a file of the machine that runs it; do not run the model"
            continue
        attributes = constants.attributes(row)
        context = attributes.get("ep_cache_context")
        mode = attributes.get("embed_mode")
        if context is not None and mode is not None and mode.i == 0:
            path = context.s.decode("utf-8", "replace")[:200]
            messages[row] = f"{op_type!r} loads the program at {path!r}, which no check of the model covers"
            continue
        for name, attribute in attributes.items():
            words = name.lower().replace(".", "_").split("_")
            text = attribute.s.decode("utf-8", "replace")
            if _PATH.match(text) or (attribute.s and not set(words).isdisjoint(_FILE_WORDS)):
                messages[row] = (
                    f"attribute {name!r} of {op_type!r} is {text[:200]!r}, which may name a file or an address; do "
                    "not run the model"
                )
    yield nodes.each(messages)


@rule("security-code-compiled", "NodeProto")
def compiled(facts: Facts) -> Iterator[Finding]:
    """Yield nodes that contain or load a program for a device."""
    nodes = facts.NodeProto
    yield nodes.at(
        facts.are_among(nodes.op_type, _COMPILED_OPERATORS),
        "{op_type!r} contains or loads a program for a device, which no check covers; compile it from a graph yourself",
    )


@rule("security-code-domain", "NodeProto")
def unknown_domain(facts: Facts) -> Iterator[Finding]:
    """Yield the first node of each domain whose operators are not known."""
    nodes = facts.NodeProto
    user_domains = facts.operators.domain_names if facts.operators is not operators() else ()
    rows = true_rows(_is_foreign(facts) & ~facts.are_among(nodes.domain, (*_KNOWN_DOMAINS, *user_domains)))
    first_rows = rows[np.sort(np.unique(nodes.domain[rows], return_index=True)[1])] if len(rows) else rows
    counts = np.bincount(nodes.domain[rows], minlength=1)
    yield nodes.at(
        first_rows,
        "the operators of domain {domain!r} ({count}) have no known signature: a library that you install runs them; "
        "make sure that it expects hostile inputs, or describe the operators with --operators",
        count=lambda row: count_text(int(counts[nodes.domain[row]]), "node"),
    )


@cache
def _contrib_operators() -> frozenset[str]:
    """Return the names of the operators of com.microsoft in onnxruntime 1.32."""
    return frozenset(row[0] for row in read_table("contrib_operators.tsv"))


@rule("security-code-contrib", "NodeProto.domain")
def unknown_contrib(facts: Facts) -> Iterator[Finding]:
    """Yield the first node of each operator of com.microsoft that onnxruntime does not have.

    Yields none of the operators that run code or are compiled programs, which other rules report, and none if
    `facts.operators` describes com.microsoft.
    """
    nodes = facts.NodeProto
    user_domains = facts.operators.domain_names if facts.operators is not operators() else ()
    if "com.microsoft" in user_domains:
        return
    rows = true_rows(_is_foreign(facts) & (nodes.domain == facts.find("com.microsoft")))
    ids, first_positions = np.unique(nodes.op_type[rows], return_index=True)
    is_unknown = [
        facts.text(id) not in (*_contrib_operators(), *_CODE_OPERATORS, *_COMPILED_OPERATORS) for id in ids.tolist()
    ]
    yield nodes.at(
        np.sort(rows[first_positions[is_unknown]]),
        "onnxruntime has no operator {op_type!r} of com.microsoft, so a library of your own runs it; make sure that it "
        "expects hostile inputs",
    )


@rule("security-code-shadow", "FunctionProto")
def shadow(facts: Facts) -> Iterator[Finding]:
    """Yield functions that have the name of an operator of ONNX or com.microsoft, and the domain of the operator or one
    that looks like one of ONNX or onnxruntime."""
    functions = facts.FunctionProto
    is_contrib = functions.domain == facts.find("com.microsoft")
    is_contrib &= facts.matching(_contrib_operators().__contains__, functions.name)
    yield functions.at(
        [*shadowing_functions(facts), *true_rows(is_contrib).tolist()],
        "function {name!r} replaces an operator of that name in some runtimes, and is ignored by others; rename it",
    )
    yield functions.at(
        _namesakes(facts) & facts.matching(_is_like_onnx, functions.domain),
        "function {name!r} has the name of a standard operator, and its domain {domain!a} looks like one of ONNX; "
        "rename both",
    )


def _is_like_onnx(domain: str) -> bool:
    """Return whether a domain is not one of ONNX or onnxruntime, but begins like one."""
    if domain in ("", "ai.onnx", *operators().domain_names, *_KNOWN_DOMAINS):
        return False
    return _LIKE_ONNX.match(ascii_skeleton(domain)) is not None


def _namesakes(facts: Facts) -> Any:
    """Return whether each function has the name of an operator of ONNX or com.microsoft, but is in neither domain."""
    functions = facts.FunctionProto
    operator_names = {name for _, name in operators().versions} | _contrib_operators()
    is_standard_domain = facts.are_among(functions.domain, ("", "ai.onnx", "com.microsoft", *operators().domain_names))
    return facts.matching(operator_names.__contains__, functions.name) & ~is_standard_domain


@rule("security-code-namesake", "FunctionProto")
def namesake(facts: Facts) -> Iterator[Finding]:
    """Yield functions of other domains that have the name of an operator of ONNX or com.microsoft."""
    functions = facts.FunctionProto
    yield functions.at(
        _namesakes(facts) & ~facts.matching(_is_like_onnx, functions.domain),
        "function {name!r} of domain {domain!r} has the name of a standard operator, and may compute something else",
    )


@rule("security-code-setting", "StringStringEntryProto")
def setting(facts: Facts) -> Iterator[Finding]:
    """Yield metadata that runtimes read as settings."""
    entries = facts.StringStringEntryProto
    yield entries.at(
        entries.under("ModelProto.metadata_props")
        & facts.matching(lambda key: _SETTING.match(key) is not None, entries.key),
        "runtimes read settings from metadata such as {key!r}; remove it",
    )


@rule("security-code-opset", "OperatorSetIdProto")
def unknown_opset(facts: Facts) -> Iterator[Finding]:
    """Yield imports of operator sets of ONNX in versions that are too high to exist."""
    entries = facts.OperatorSetIdProto
    for domain in dict.fromkeys(("", *operators().domain_names)):
        steps = operators().steps(domain)
        # A set may get a version without a new operator; a few more may be published after this library.
        latest = max(steps, default=0) + _MAX_FUTURE_VERSIONS
        aliases = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
        yield entries.at(
            facts.are_among(entries.domain, aliases) & (entries.version > latest) & bool(steps),
            f"version {{version:,}} of operator set {domain or 'ai.onnx'} does not exist, and readers disagree about "
            "its meaning",
        )
