"""Rules of metadata: of the model, and of what it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.registry import rule

if TYPE_CHECKING:
    from onnxwire.checker.facts import Rows

_MODEL = "ModelProto.metadata_props"
_NESTED = tuple(
    f"{name}.metadata_props" for name in ("GraphProto", "NodeProto", "FunctionProto", "ValueInfoProto", "TensorProto")
)

_STANDARD = ("model_author", "model_license")
# The first vocabulary, and what replaced each key; the producer's fields do for the last one.
_EARLY = {
    "author": "model_author",
    "company": "model_author",
    "license": "model_license",
    "license_url": "model_license",
    "converted_from": "producer_name",
}
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z0-9_-]")

# Of images; keys and values count without case.
_IMAGE = "image."
_IMAGE_VALUES = {
    "Image.BitmapPixelFormat": ("Gray8", "Rgb8", "Bgr8", "Rgba8", "Bgra8"),
    "Image.ColorSpaceGamma": ("Linear", "SRGB"),
    "Image.NominalPixelRange": ("NominalRange_0_255", "Normalized_0_1", "Normalized_1_1", "NominalRange_16_235"),
}
_IMAGE_KEYS = {key.lower(): key for key in _IMAGE_VALUES}

_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)
# How the names of licenses that many know begin: those of the SPDX list, and as people write them.
_LICENSE = re.compile(
    r"\W*(the\s+)?(0BSD|AFL|AGPL|Apache|Artistic|APSL|BSD|Boost|BSL|CC0|CC[ -]?BY|CDLA|CeCILL|CPL|Creative Commons|"
    r"ECL|EPL|Eclipse|EUPL|FreeBSD|GFDL|GPL|GNU|ISC|LGPL|LicenseRef-|Llama|Gemma|Open ?RAIL|BigScience|MIT|Mozilla|"
    r"MPL|MS-PL|MS-RL|Microsoft|NCSA|ODbL|ODC|OFL|OSL|PDDL|PostgreSQL|proprietary|public domain|Python|PSF|SIL|"
    r"Unlicense|UPL|WTFPL|X11|zlib)(?![a-z])",
    re.IGNORECASE,
)


def _entries(facts: Facts, *fields: str) -> Rows:
    """The rows of the entries that stand in the fields."""
    return np.flatnonzero(facts.StringStringEntryProto.under(*fields))


def _model_entries(facts: Facts) -> Rows:
    """Those of the model."""
    return _entries(facts, _MODEL)


def _all_entries(facts: Facts) -> Rows:
    """Those of the model and of what it is made of."""
    return _entries(facts, _MODEL, *_NESTED)


@rule("metadata-model-key-unique")
def model_key_unique(facts: Facts) -> Iterator[Finding]:
    """The model has a key once."""
    entries, rows = facts.StringStringEntryProto, facts.derive(_model_entries)
    yield entries.at(
        rows[repeats(entries.key[rows])],
        "the model has the key {0!r} before; remove one of the entries",
        entries.texts(entries.key),
    )


@rule("metadata-nested-key-unique")
def nested_key_unique(facts: Facts) -> Iterator[Finding]:
    """A graph, node, function, value or tensor has a key once."""
    entries, rows = facts.StringStringEntryProto, _entries(facts, *_NESTED)
    yield entries.at(
        rows[repeats(entries.edge[rows], entries.parent[rows], entries.key[rows])],
        "the key {0!r} stands in this list before; remove one of the entries",
        entries.texts(entries.key),
    )


@rule("metadata-key-present")
def key_present(facts: Facts) -> Iterator[Finding]:
    """An entry has a key."""
    entries, rows = facts.StringStringEntryProto, facts.derive(_all_entries)
    yield entries.at(rows[entries.key[rows] == EMPTY], "the entry has no key; set one or remove the entry")


@rule("metadata-before-ir10")
def before_ir10(facts: Facts) -> Iterator[Finding]:
    """Only the model has metadata yet."""
    entries = facts.StringStringEntryProto
    yield entries.at(
        _entries(facts, *_NESTED),
        f"metadata of less than the model needs IR version 10, and the model has {facts.ir_version}; "
        "raise ir_version or move the entry to the model",
    )


@rule("metadata-key-qualified")
def key_qualified(facts: Facts) -> Iterator[Finding]:
    """A key that the standard does not have says whose it is; of Image keys `metadata-image-key-known` speaks."""
    entries, rows = facts.StringStringEntryProto, facts.derive(_all_entries)
    rows = rows[entries.key[rows] != EMPTY]
    known = [facts.find(key) for key in (*_STANDARD, *_EARLY)]
    rows = rows[~np.isin(entries.key[rows], known)]
    yield entries.at(
        rows[~facts.matching(lambda key: _PREFIX.match(key) is not None, entries.key[rows])],
        "the key {0!r} is not of the standard and has no prefix; write it like com.example.{0}",
        entries.texts(entries.key),
    )


def _values_of(facts: Facts, key: str) -> Rows:
    """The entries of the model that have a key."""
    rows: Rows = facts.derive(_model_entries)
    is_meant: Rows = facts.StringStringEntryProto.key[rows] == facts.find(key)
    return rows[is_meant]


def _is_list(text: str) -> bool:
    """Whether a text is names with commas between."""
    return all(name.strip() for name in text.split(",")) and not re.search(r"[;\n]", text)


@rule("metadata-standard-author")
def standard_author(facts: Facts) -> Iterator[Finding]:
    """Authors are listed with commas between."""
    entries, rows = facts.StringStringEntryProto, _values_of(facts, "model_author")
    yield entries.at(
        rows[~facts.matching(_is_list, entries.value[rows])],
        "model_author is {0!r}; list names of people or organisations with single commas between",
        entries.texts(entries.value),
    )


def _is_license(text: str) -> bool:
    return _URL.fullmatch(text.strip()) is not None or _LICENSE.match(text) is not None


@rule("metadata-standard-license")
def standard_license(facts: Facts) -> Iterator[Finding]:
    """The license is one that is well known, or a URL says which; a name counts by how it begins."""
    entries, rows = facts.StringStringEntryProto, _values_of(facts, "model_license")
    yield entries.at(
        rows[~facts.matching(_is_license, entries.value[rows])],
        "model_license {0!r} is neither a well-known name nor a URL; give one, such as Apache-2.0",
        entries.texts(entries.value),
    )


@rule("metadata-early-names")
def early_names(facts: Facts) -> Iterator[Finding]:
    """Keys of the first vocabulary have others instead."""
    entries, rows = facts.StringStringEntryProto, facts.derive(_model_entries)
    later = {facts.find(key): other for key, other in _EARLY.items()}
    ids = entries.key
    yield entries.at(
        rows[np.isin(ids[rows], list(later))],
        "the key {0} is of the first vocabulary; {1} replaced it",
        entries.texts(ids),
        lambda row: later[int(ids[row])],
    )


def _folded(facts: Facts) -> tuple[Rows, list[str]]:
    """The entries of the model whose keys are about images, and the keys in small letters."""
    entries, rows = facts.StringStringEntryProto, facts.derive(_model_entries)
    rows = rows[facts.matching(lambda key: key[: len(_IMAGE)].lower() == _IMAGE, entries.key[rows])]
    return rows, [facts.text(id).lower() for id in entries.key[rows].tolist()]


def _has_image(facts: Facts) -> bool:
    """Whether any value is an image."""
    image = facts.find("IMAGE")
    return image >= 0 and bool((facts.TypeProto.denotation == image).any())


@rule("metadata-image-present")
def image_present(facts: Facts) -> Iterator[Finding]:
    """A model with images says what their pixels are."""
    if facts.derive(_has_image):
        there = set(facts.derive(_folded)[1])
        missing = [key for folded, key in _IMAGE_KEYS.items() if folded not in there]
        if missing:
            models = facts.ModelProto
            yield models.at(models.rows, f"a value is an image, and {', '.join(missing)} not in metadata_props; add it")


@rule("metadata-image-without-value")
def image_without_value(facts: Facts) -> Iterator[Finding]:
    """A model without images says nothing of their pixels."""
    entries = facts.StringStringEntryProto
    if not facts.derive(_has_image):
        yield entries.at(
            facts.derive(_folded)[0],
            "{0} is about images, and no value has the denotation IMAGE; set it or remove the entry",
            entries.texts(entries.key),
        )


@rule("metadata-image-value-known")
def image_value_known(facts: Facts) -> Iterator[Finding]:
    """A statement about pixels is of the vocabulary."""
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_folded)
    found = {}
    for row, folded in zip(rows.tolist(), keys, strict=True):
        key = _IMAGE_KEYS.get(folded)
        value = facts.text(entries.value[row])
        if key and value.lower() not in (known.lower() for known in _IMAGE_VALUES[key]):
            found[row] = f"{key} is {value!r}; write {' or '.join(_IMAGE_VALUES[key])}"
    yield entries.each(found)


@rule("metadata-image-case-insensitive")
def image_case_insensitive(facts: Facts) -> Iterator[Finding]:
    """Keys of images differ in more than case; of equal ones `metadata-model-key-unique` speaks."""
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_folded)
    numbers = {folded: number for number, folded in enumerate(dict.fromkeys(keys))}
    folded = np.array([numbers[key] for key in keys], np.int64)
    yield entries.at(
        rows[repeats(folded) & ~repeats(entries.key[rows])],
        "the key {0!r} stands here before in other case, and case does not count; remove one of the entries",
        entries.texts(entries.key),
    )


@rule("metadata-image-key-known")
def image_key_known(facts: Facts) -> Iterator[Finding]:
    """Keys of images are of the vocabulary."""
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_folded)
    yield entries.at(
        rows[np.array([key not in _IMAGE_KEYS for key in keys], bool)],
        f"the key {{0!r}} is not one of {', '.join(_IMAGE_VALUES)}; correct it or give it a prefix of your own",
        entries.texts(entries.key),
    )
