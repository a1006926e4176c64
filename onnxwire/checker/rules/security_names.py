"""Rules of security: names and texts that deceive a reader, or that are commands to programs which use them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from onnxwire.checker.confusables import ascii_skeleton, has_mixed_scripts, skeleton
from onnxwire.checker.facts import ASCII, UTF8, Facts, Finding, true_rows
from onnxwire.checker.operator_table import operators
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.text_bytes import NON_ASCII, TextBytes

# The columns of names, by type.
_COLUMNS = {
    "ModelProto": ("domain", "producer_name", "producer_version"),
    "GraphProto": ("name",),
    "NodeProto": ("name", "op_type", "domain", "overload"),
    "AttributeProto": ("name", "ref_attr_name"),
    "TensorProto": ("name",),
    "ValueInfoProto": ("name",),
    "FunctionProto": ("name", "domain", "overload"),
    "OperatorSetIdProto": ("domain",),
    "TensorShapeProto.Dimension": ("dim_param", "denotation"),
    "StringStringEntryProto": ("key",),
}
# The lists of names.
_LISTS = (
    "NodeProto.output", "NodeProto.input", "FunctionProto.input", "FunctionProto.output", "FunctionProto.attribute",
)  # fmt: skip
# The types with a doc_string that is searched.
_DOCUMENTED = (
    "ModelProto", "GraphProto", "NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto", "AttributeProto",
)  # fmt: skip
# The columns of texts, by type.
_TEXTS = dict.fromkeys(_DOCUMENTED, ("doc_string",)) | {"StringStringEntryProto": ("value",)}
_ASCII_CONTROLS = bytes(range(32)) + b"\x7f"
# Marks that change the direction of text.
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Control characters, and separators of lines and paragraphs.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Characters that are not displayed.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
# A pictogram with the joiners and selectors that belong to it.
_PICTOGRAM = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff][\u200d\ufe0e\ufe0f]+")
_MAX_NAME_CHARS = 4096  # longer names are reported; also the number of searched bytes of a value of metadata
_MAX_TEXT_CHARS = 1 << 14  # number of characters of a text that are searched with _PROMPT and _DOCUMENT_INJECTION
# The columns of names of values, by type, and the lists of such names.
_VALUE_COLUMNS = {"TensorProto": ("name",), "ValueInfoProto": ("name",)}
_VALUE_LISTS = ("NodeProto.output", "FunctionProto.input")
_SIMILAR = bytes.maketrans(b"I1|O", b"lll0")  # one representative for ASCII characters that look alike
_MIN_SIMILAR_BYTES, _MAX_SIMILAR_BYTES = 3, 128  # lengths of the names that are compared
_LOOK_ALIKE = "{!a} looks like {!r}, but is a different name; use the known name"
# Many combining marks in succession.
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff]{8}")
# Names with a special meaning in spreadsheets, shells, SQL, printf, str.format, paths, XML, HTML, JavaScript or
# Windows.
_INJECTION = re.compile(
    r"""^[=+@-][^()!|]*[(!|]|\$\(|`|['"]\s{0,4}\)?\s{0,4};\s{0,4}\w|(?:%[sxn]){2}|\{[^{}]{0,80}__\w{1,40}__|(?:^|[/\\])\.\.[/\\]|<!(?:DOCTYPE|ENTITY)\b"""
    r"""|["']\s[^<>]{0,40}\bon\w{1,20}\s?=|^__proto__$|<\w+[^<>]{0,80}\bon\w{1,20}\s*=|<script\b|\{\{.{0,80}\}\}|<%.{0,80}%>|\$\{[^}]{0,80}\}|["']\]?\s*;|[;}]\s*\w+\(["']|^/(?:etc|tmp|usr|dev|proc|root|bin|sbin|home|var)/|^(?:CON|PRN|AUX|NUL|COM\d|LPT\d)(?:\.\w+)?$""",
    re.I,
)
# Every match of _INJECTION has one of these characters, or begins with one of these words.
_INJECTION_CHARACTERS = b"(!|$`'\"%{}<;/\\"
_RESERVED = (b"con", b"prn", b"aux", b"nul", b"com", b"lpt", b"__p")
# Commands and paths in values of metadata. Quotes, braces and paths alone are usual there, unlike in names.
_TEXT_INJECTION = re.compile(
    r"""^\s*[=+@-](?:cmd\||[\w.]*\(|\d+[+*]\d)|^\s*@?\w{2,12}\([^)]{0,80}\)\s*$|\$\{\s*(?:jndi|\$\{|\w+:)|(?:%[sxn]){3}|__(?:globals|class|subclasses|proto|builtins|import)__"""
    r"""|<!(?:DOCTYPE\s+\w+\s*\[|ENTITY)|['"]?\)?\s*;\s*(?:drop|delete|insert|update|alter)\s+(?:table|from|into)\b|--(?:extra-)?index-url\b"""
    r"""|^(?:\.\.?[/\\]){2}|^\\\\[\w.]+\\|\bignore\s+(?:all\s+)?(?:the\s+)?(?:previous|prior|above)\s+instructions\b"""
    r"""|\brm\s+-[rf]{2}\s+[/~*]|\bpowershell(?:\.exe)?\s+-\w|\bchmod\s+\+x\b|\bLD_PRELOAD="""
    r"""|-----BEGIN [A-Z ]{0,20}PRIVATE KEY"""
    r"""|\bpip3?\s+install\s+(?:-\S+\s+){0,4}(?:git\+|https?:)|^git\+(?:https?|ssh):|^file://|^data:text/html|^\s*javascript:"""
    r"""|\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|https?://\d{1,3}(?:\.\d{1,3}){3}\b"""
    r"""|\b(?:https?|ftp)://[^\s"'<>]{1,400}\.(?:exe|sh|ps1|bat|dll|so|scr|msi|hta|jar|pkl)(?:$|[?#\s"'])"""
    r"""|['"]\s+or\s+\d+\s*=\s*\d+"""
    r"""|\bunion\s+(?:all\s+)?select\b|['"]\s{0,4}\)?\s{0,4}(?:or|and)\s{1,4}['"]?\w{1,20}['"]?\s{0,4}(?:=(?!=)|like\b)|\bxp_cmdshell\b"""
    r"""|\b(?:sleep\s?\(\s?\d|benchmark\s?\(\s?\d{4}|pg_sleep|load_file\s?\()|\bwaitfor\s+delay\b|\binto\s+(?:out|dump)file\b"""
    r"""|\binformation_schema\.|['"]\s{0,4};?\s{0,4}--\s{0,4}$|\{\{\s{0,4}(?:\d{1,8}\s?\*\s?\d|config\.items|self\.__|''\.__)"""
    r"""|\r?\n\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s+\[?(?:INFO|WARN|ERROR|DEBUG)""",
    re.I,
)
# Commands to a language model that reviews or converts the file, in documentation, metadata and names. Each match has
# one of _PROMPT_WORDS.
_PROMPT = re.compile(
    r"""\b(?:ignore|disregard|forget|override|bypass)[\W_]{1,3}(?:[^\W_]+[\W_]{1,3}){0,4}"""
    r"""(?:instructions?|prompts?|rules|guidelines|directions)(?![^\W_])"""
    r"""|(?:^|\n|\|>)[ \t]{0,8}(?:system|developer)\s{0,4}:?\s{0,4}\S.{0,400}"""
    r"""\b(?:ignore|disregard|do\s+not\s+(?:report|mention)|(?:report|answer|reply)\s+(?:only|that)|no\s+issues|verified)\b"""
    r"""|\byou\s+are\s+now\s+(?:an?\s+)?(?:\w+\s+)?(?:AI|assistant|model|chatbot|DAN|mode|allowed|free)\b"""
    r"""|\b(?:AI|LLM|language[\s-]model|automated)\s+(?:agents?|reviewers?|scanners?|auditors?)\b.{0,80}\b(?:must|should|please|shall|do\s+not)\b"""
    r"""|\b(?:do\s+not|don't|never)\s+(?:report|flag|mention|warn|alert|scan|analy[sz]e|reveal|disclose)\b.{0,80}\b(?:file|model|issue|finding|problem|user|malicious|this|node)"""
    r"""|\b(?:mark|report|classify|treat|approve|rate|label)\s+(?:this|it|the\s+(?:file|model))\b.{0,60}\b(?:safe|clean|benign|harmless|trusted|trustworthy|verified)\b"""
    r"""|\b(?:answer|respond|reply|say)\s+(?:only|exactly|just)\b"""
    r"""|\b(?:new|updated|hidden|system)\s+(?:instructions?|prompts?)\s{0,4}:""",
    re.I | re.S,
)
_PROMPT_WORDS = (
    b"instruction", b"prompt", b"rules", b"guidelines", b"directions", b"system", b"developer", b"now", b"agent",
    b"review", b"scan", b"auditor", b"report", b"flag", b"mention", b"warn", b"alert", b"analy", b"reveal", b"disclose",
    b"safe", b"clean", b"benign", b"harmless", b"trust", b"verified", b"answer", b"respond", b"reply", b"say",
)  # fmt: skip
# The part of _TEXT_INJECTION that is unusual in documentation, too. Each match has one of _DOCUMENT_WORDS.
_DOCUMENT_INJECTION = re.compile(
    r"""\$\{\s*(?:jndi|\$\{)|__(?:globals|subclasses|builtins|import)__|<!ENTITY|\bunion\s+(?:all\s+)?select\b|\bxp_cmdshell\b"""
    r"""|['"]?\)?\s*;\s*(?:drop|delete|insert|alter)\s+(?:table|from|into)\b|\binformation_schema\."""
    r"""|-----BEGIN [A-Z ]{0,20}PRIVATE KEY|\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\bLD_PRELOAD=""",
    re.I,
)
_DOCUMENT_WORDS = (
    b"${", b"__globals", b"__subclass", b"__builtins", b"__import", b"<!entity", b"select", b"cmdshell", b";",
    b"information_schema", b"private key", b"169.254", b"google.internal", b"ld_preload",
)  # fmt: skip
# Separators of lines and paragraphs, marks that change the direction of text, invisible tags, and control characters
# except tabs and line ends.
_TEXT_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]")


def _are_accepted(facts: Facts, accepts: Callable[[str], bool], candidates: Any) -> Any:
    """Return whether a predicate accepts each string of the document, by id; only candidates are tested."""
    is_accepted = np.zeros(facts.columns.text_count(), bool)
    # Texts that are not UTF-8 break the rule `model-strings-utf8`, and are not tested.
    for id in true_rows(candidates & (facts.traits & UTF8 != 0)).tolist():
        is_accepted[id] = accepts(facts.text(id))
    return is_accepted


def _are_non_ascii(facts: Facts) -> Any:
    """Return whether each string, by id, is not ASCII."""
    return facts.traits & ASCII == 0


def _may_have_controls(facts: Facts) -> Any:
    """Return whether each string, by id, has a control character of ASCII, or a character that is not ASCII."""
    return facts.derive(TextBytes).have(_ASCII_CONTROLS + NON_ASCII)


def _at_names(
    facts: Facts, is_reported: Any, template: str, columns: Mapping[str, tuple[str, ...]]
) -> Iterator[Finding]:
    """Yield findings about the reported names in some columns.

    is_reported: whether each string, by id, is reported. template: the message, in which {text} is the name. columns:
    the columns by type; for _COLUMNS and _VALUE_COLUMNS, names in lists are also reported.
    """
    if not is_reported.any():
        return
    for type_name, fields in columns.items():
        if type_name in facts.present:
            sheet = facts[type_name]
            for field in fields:
                ids = getattr(sheet, field)
                yield sheet.at(is_reported[ids], template, text=sheet.texts(ids))
    if columns is _COLUMNS or columns is _VALUE_COLUMNS:
        for name in _LISTS if columns is _COLUMNS else _VALUE_LISTS:
            if name in facts.present:
                elements = facts.lists(name)
                is_reported_element = is_reported[elements.value]
                if name == "NodeProto.input" and "NodeProto.output" in facts.present:
                    # A value is reported where it is produced, not at each use.
                    is_produced = np.zeros(len(is_reported), bool)
                    is_produced[facts.lists("NodeProto.output").value] = True
                    is_reported_element &= ~is_produced[elements.value]
                yield elements.at(is_reported_element, template, text=elements.texts(elements.value))


@rule("security-name-control")
def control(facts: Facts) -> Iterator[Finding]:
    """Yield names with control characters."""
    is_reported = _are_accepted(facts, lambda text: _CONTROL.search(text) is not None, facts.derive(_may_have_controls))
    template = "the name {text!r} has a control character, which can control a terminal or end a string in C; rename it"
    yield from _at_names(facts, is_reported, template, _COLUMNS)


@rule("security-name-direction")
def direction(facts: Facts) -> Iterator[Finding]:
    """Yield names with marks that change the direction of text."""
    is_reported = _are_accepted(facts, lambda text: _BIDI.search(text) is not None, _are_non_ascii(facts))
    template = (
        "the name {text!a} has a mark that changes the direction of text, so another name is displayed; rename it"
    )
    yield from _at_names(facts, is_reported, template, _COLUMNS)


def _is_partly_invisible(text: str) -> bool:
    """Return whether a name has white space at an end, or a character that is invisible, unassigned or private."""
    if text != text.strip():
        return True
    if text.isascii():
        return False
    return _INVISIBLE.search(_PICTOGRAM.sub("", text)) is not None or any(
        unicodedata.category(letter) in ("Cn", "Co") for letter in text[:_MAX_NAME_CHARS]
    )


@rule("security-name-invisible")
def invisible(facts: Facts) -> Iterator[Finding]:
    """Yield names with white space at an end, or with characters that are invisible, unassigned or private."""
    has_space = facts.derive(TextBytes).have(b" ")  # other white space of ASCII consists of control characters
    is_reported = _are_accepted(facts, _is_partly_invisible, facts.derive(_may_have_controls) | has_space)
    template = "the name {text!a} has an invisible character, so that different names can look alike; rename it"
    yield from _at_names(facts, is_reported, template, _COLUMNS)


@rule("security-name-look-alike")
def look_alike(facts: Facts) -> Iterator[Finding]:
    """Yield names that look like an operator, a domain, or another name of the model."""
    names = {name for _, name in operators().versions}
    known_names = names | {"ai.onnx", "com.microsoft"} | set(operators().domain_names)

    def is_alike(text: str) -> bool:
        composed = unicodedata.normalize("NFC", text)
        plain_text = skeleton(text)
        is_known = plain_text != text and (plain_text in known_names or facts.find(plain_text) > 0)
        return is_known or (composed != text and facts.find(composed) > 0)

    is_reported = _are_accepted(facts, is_alike, _are_non_ascii(facts))
    template = "the name {text!a} looks like {shown!r}, but is a different name; rename it"
    for finding in _at_names(facts, is_reported, template, _COLUMNS):
        texts = finding.columns["text"]
        finding.columns["shown"] = lambda row, texts=texts: _shown_as(texts[row])
        yield finding


def _shown_as(text: str) -> str:
    """Return the name that a name looks like: its composed form in Unicode if that differs, otherwise its skeleton."""
    composed = unicodedata.normalize("NFC", text)
    return skeleton(text) if composed == text else composed


@rule("security-name-similar")
def similar(facts: Facts) -> Iterator[Finding]:
    """Yield names of values that differ from that of another value only in ASCII characters that look alike."""
    is_value = np.zeros(facts.columns.text_count(), bool)
    for field in _VALUE_LISTS:
        if field in facts.present:
            is_value[facts.lists(field).value] = True
    for type_name in _VALUE_COLUMNS:
        if type_name in facts.present:
            is_value[facts[type_name].name] = True
    texts = facts.derive(TextBytes)
    is_value &= (texts.lengths >= _MIN_SIMILAR_BYTES) & (texts.lengths <= _MAX_SIMILAR_BYTES)
    ids = true_rows(is_value)
    hashes = texts.hashes(ids, _SIMILAR, _MAX_SIMILAR_BYTES)
    order = np.argsort(hashes, kind="stable")
    is_same = hashes[order[1:]] == hashes[order[:-1]]
    is_reported = np.zeros(len(is_value), bool)
    similar_names: dict[str, str] = {}
    for i in true_rows(is_same).tolist():
        name, next_name = (facts.columns.raw_text(int(ids[order[k]])) for k in (i, i + 1))
        if name.translate(_SIMILAR) == next_name.translate(_SIMILAR):
            is_reported[ids[order[i + 1]]] = True
            similar_names[next_name.decode("utf-8", "replace")] = name.decode("utf-8", "replace")
    template = "the name {text!r} looks like {other!r} in many fonts, but names another value"
    for finding in _at_names(facts, is_reported, template, _VALUE_COLUMNS):
        names = finding.columns["text"]
        finding.columns["other"] = lambda row, names=names: similar_names.get(names[row], "")
        yield finding


@rule("security-name-domain", "NodeProto")
def domain_look_alike(facts: Facts) -> Iterator[Finding]:
    """Yield the first node of each domain, and of each operator, whose name looks like a known name.

    Imports of such domains are also reported.
    """
    nodes = facts.NodeProto
    known_domains = {"", "ai.onnx", "com.microsoft", *operators().domain_names}
    domains = {ascii_skeleton(name): name for name in ("ai.onnx", "com.microsoft", *operators().domain_names) if name}
    operator_names = {ascii_skeleton(name): name for _, name in operators().versions}
    functions = facts.derive(Calls).function  # a function of the model may have an operator's name in another case
    messages: dict[int, str] = {}
    for column, known_names in ((nodes.domain, domains), (nodes.op_type, operator_names)):
        ids, rows = np.unique(column, return_index=True)
        for id, row in zip(ids.tolist(), rows.tolist(), strict=True):
            text = facts.text(id)
            known_name = known_names.get(ascii_skeleton(text)) or (
                _near_domain(text, domains) if known_names is domains else None
            )
            is_own = functions[row] >= 0 and known_name is not None and text.lower() == known_name.lower()
            if text and known_name is not None and text not in known_names.values() and not is_own:
                messages[row] = _LOOK_ALIKE.format(text, known_name)
    yield nodes.each(messages)
    if "OperatorSetIdProto" in facts.present:
        imports = facts.OperatorSetIdProto
        texts = {row: facts.text(id) for row, id in enumerate(imports.domain.tolist())}
        yield imports.each(
            {
                row: _LOOK_ALIKE.format(text, known_name)
                for row, text in texts.items()
                if text not in known_domains
                and (known_name := domains.get(ascii_skeleton(text)) or _near_domain(text, domains))
            }
        )


def _near_domain(text: str, domains: Mapping[str, str]) -> str | None:
    """Return the domain from which a text differs by case, dots at the ends, or one additional character; or None."""
    lower_text = text.lower().strip(".")
    for domain in domains.values():
        if lower_text == domain and text != domain:
            return domain
        is_longer = len(lower_text) == len(domain) + 1 and "." not in lower_text[len(domain) - 1 :]
        if is_longer and any(lower_text[:i] + lower_text[i + 1 :] == domain for i in range(len(lower_text))):
            return domain
    return None


@rule("security-name-length")
def length(facts: Facts) -> Iterator[Finding]:
    """Yield names that are too long to show, or have many combining marks in succession."""
    candidates = (facts.derive(TextBytes).lengths > _MAX_NAME_CHARS) | _are_non_ascii(facts)
    is_reported = _are_accepted(
        facts, lambda text: len(text) > _MAX_NAME_CHARS or _MARKS.search(text) is not None, candidates
    )
    template = (
        f"the name has more than {_MAX_NAME_CHARS:,} characters, or many combining marks in succession; rename it"
    )
    yield from _at_names(facts, is_reported, template, _COLUMNS)


@rule("security-name-injection")
def injection(facts: Facts) -> Iterator[Finding]:
    """Yield names and texts that programs can interpret as commands, formulas, format strings or paths.

    Names and texts with private keys or suspicious addresses are also reported.
    """
    texts = facts.derive(TextBytes)
    # Reserved names have three characters, or a fourth one as in CON.txt, COM1 and __proto__.
    is_reserved = texts.begin_like(_RESERVED) & ((texts.lengths == 3) | texts.have_at(3, b".rR0123456789"))
    candidates = texts.have(_INJECTION_CHARACTERS + NON_ASCII) | is_reserved
    is_reported = _are_accepted(
        facts, lambda text: len(text) <= _MAX_NAME_CHARS and _INJECTION.search(text) is not None, candidates
    )
    template = "programs can interpret the name {text!a} as a command, formula, format string or path; rename it"
    yield from _at_names(facts, is_reported, template, _COLUMNS)
    if "StringStringEntryProto" in facts.present:
        entries = facts.StringStringEntryProto
        values = {id: facts.columns.raw_text(id)[:_MAX_NAME_CHARS] for id in np.unique(entries.value).tolist()}
        reported_ids = [id for id, value in values.items() if _TEXT_INJECTION.search(value.decode("utf-8", "replace"))]
        yield entries.at(
            np.isin(entries.value, reported_ids),
            "the value of {key!r} contains a command, formula, format string, path, address or private key; remove it",
        )
    is_reported = _are_accepted(
        facts, lambda text: _PROMPT.search(text[:_MAX_TEXT_CHARS]) is not None, texts.contain(_PROMPT_WORDS)
    )
    template = "the text contains a command to a language model that reads it; remove it"
    yield from _at_names(facts, is_reported, template, _TEXTS)
    yield from _at_names(facts, is_reported, template, _COLUMNS)
    candidates = texts.contain(_DOCUMENT_WORDS)
    is_reported = _are_accepted(
        facts, lambda text: _DOCUMENT_INJECTION.search(text[:_MAX_TEXT_CHARS]) is not None, candidates
    )
    template = "the text contains a command or address for programs, or a private key; remove it"
    yield from _at_names(facts, is_reported, template, dict.fromkeys(_DOCUMENTED, ("doc_string",)))
    yield from _at_names(facts, is_reported, template, _COLUMNS)


@rule("security-name-script")
def mixed_script(facts: Facts) -> Iterator[Finding]:
    """Yield names that mix Latin letters with letters that look like them, or have other forms of ASCII characters."""
    is_reported = _are_accepted(facts, lambda text: has_mixed_scripts(text) or _is_styled(text), _are_non_ascii(facts))
    template = (
        "the name {text!a} mixes scripts whose letters look alike, or has other forms of ASCII characters, such as "
        "full-width ones; rename it"
    )
    yield from _at_names(facts, is_reported, template, _COLUMNS)


def _is_styled(text: str) -> bool:
    """Return whether a name has compatibility forms of ASCII, such as full-width letters, and otherwise only ASCII."""
    return not text.isascii() and unicodedata.normalize("NFKC", text[:_MAX_NAME_CHARS]).isascii()


@rule("security-name-text")
def text_control(facts: Facts) -> Iterator[Finding]:
    """Yield texts with control characters, marks that change the direction of text, or invisible tags."""
    is_reported = _are_accepted(
        facts, lambda text: _TEXT_CONTROL.search(text) is not None, facts.derive(_may_have_controls)
    )
    template = (
        "the text has control characters, marks of direction or invisible tags, so that the screen does not show what "
        "is stored; remove them"
    )
    yield from _at_names(facts, is_reported, template, _TEXTS)
