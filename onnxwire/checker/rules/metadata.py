"""Rules of the metadata of models, graphs, nodes, functions, values and tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, Sheet, repeats, true_rows
from onnxwire.checker.registry import rule

if TYPE_CHECKING:
    from onnxwire.checker.facts import Rows

_MODEL_FIELD = "ModelProto.metadata_props"
_NESTED_FIELDS = tuple(
    f"{name}.metadata_props" for name in ("GraphProto", "NodeProto", "FunctionProto", "ValueInfoProto", "TensorProto")
)

_STANDARD_KEYS = ("model_author", "model_license")
# Obsolete keys and their replacements; the replacement of the last key is a field of the model.
_FORMER_KEYS = {
    "author": "model_author",
    "company": "model_author",
    "license": "model_license",
    "license_url": "model_license",
    "converted_from": "producer_name",
}
# Patterns are strings, which are compiled when a text is tested for the first time. A prefix is a name before a dot.
_PREFIX = r"[A-Za-z][A-Za-z0-9_-]*\.[A-Za-z0-9_-]"

# Keys and values for images; their case is ignored.
_IMAGE_PREFIX = "image."
_IMAGE_VALUES = {
    "Image.BitmapPixelFormat": ("Gray8", "Rgb8", "Bgr8", "Rgba8", "Bgra8"),
    "Image.ColorSpaceGamma": ("Linear", "SRGB"),
    "Image.NominalPixelRange": ("NominalRange_0_255", "Normalized_0_1", "Normalized_1_1", "NominalRange_16_235"),
}
_IMAGE_KEYS = {key.lower(): key for key in _IMAGE_VALUES}

_URL = r"(?i:[a-z][a-z0-9+.-]*://\S+)"
# Prefixes of well-known license names, in the spelling of the SPDX list and in common spellings.
_LICENSE = (
    r"(?i:\W*(the\s+)?(0BSD|AFL|AGPL|Apache|Artistic|APSL|BSD|Boost|BSL|CC0|CC[ -]?BY|CDLA|CeCILL|CPL|Creative Commons|"
    r"ECL|EPL|Eclipse|EUPL|FreeBSD|GFDL|GPL|GNU|ISC|LGPL|LicenseRef-|Llama|Gemma|Open ?RAIL|BigScience|MIT|Mozilla|"
    r"MPL|MS-PL|MS-RL|Microsoft|NCSA|ODbL|ODC|OFL|OSL|PDDL|PostgreSQL|proprietary|public domain|Python|PSF|SIL|"
    r"Unlicense|UPL|WTFPL|X11|zlib)(?![a-z]))"
)

RULES = {
    "StringStringEntryProto": {
        "metadata-model-key-unique": (
            lambda entry: repeats(entry.key, where=entry.under(_MODEL_FIELD)),
            "the model has the key {key!r} more than once; keep one of the entries",
        ),
        "metadata-nested-key-unique": (
            lambda entry: repeats(entry.parent_field, entry.parent, entry.key, where=entry.under(*_NESTED_FIELDS)),
            "metadata_props has the key {key!r} more than once; keep one of the entries",
        ),
        "metadata-key-present": (
            lambda entry: (entry.key == EMPTY) & entry.under(_MODEL_FIELD, *_NESTED_FIELDS),
            "the entry has no key; set one or remove the entry",
        ),
        "metadata-before-ir10": (
            lambda entry: entry.under(*_NESTED_FIELDS),
            "metadata of parts of a model needs IR version 10, but the IR version is {facts.ir_version}; "
            "raise ir_version or move the entry to the model",
        ),
        # `metadata-image-key-known` reports unknown keys of images.
        "metadata-key-qualified": (
            lambda entry: _unqualified_keys(entry),
            "the key {key!r} is not a standard key and has no prefix; write it like com.example.{key}",
        ),
        "metadata-standard-author": (
            lambda entry: _wrong_values(entry, "model_author", _is_list),
            "model_author is {value!r}; list names of people or organisations, separated by single commas",
        ),
        # A license is recognized by the prefix of its name.
        "metadata-standard-license": (
            lambda entry: _wrong_values(entry, "model_license", _is_license),
            "model_license {value!r} is neither a well-known name nor a URL; give one, such as Apache-2.0",
        ),
        "metadata-early-names": (
            lambda entry: entry.under(_MODEL_FIELD) & entry.facts.are_among(entry.key, _FORMER_KEYS),
            "the key {key!r} is obsolete; use {later}",
            {"later": lambda entry: lambda row: _FORMER_KEYS[entry.cell("key", row)]},
        ),
        "metadata-image-without-value": (
            lambda entry: [] if entry.derive(_has_image) else entry.derive(_image_entries)[0],
            "the key {key!r} is about images, but no value has the denotation IMAGE; set the denotation or remove the "
            "entry",
        ),
    },
}


def _unqualified_keys(entries: Sheet) -> Rows:
    """Return the entries of metadata whose key is not empty, standard or obsolete, and has no prefix."""
    facts = entries.facts
    is_custom = entries.under(_MODEL_FIELD, *_NESTED_FIELDS) & ~facts.are_among(
        entries.key, ("", *_STANDARD_KEYS, *_FORMER_KEYS)
    )
    rows = true_rows(is_custom)
    return rows[~facts.matching(lambda key: re.match(_PREFIX, key) is not None, entries.key[rows])]


def _wrong_values(entries: Sheet, key: str, accepts: Callable[[str], bool]) -> Rows:
    """Return the entries of the model with the key `key` and a value that `accepts` rejects."""
    rows = true_rows(entries.under(_MODEL_FIELD) & entries.facts.are_among(entries.key, [key]))
    return rows[~entries.facts.matching(accepts, entries.value[rows])]


def _is_list(text: str) -> bool:
    """Return whether a text is a list of names separated by commas, without semicolons and line feeds."""
    return all(name.strip() for name in text.split(",")) and not re.search(r"[;\n]", text)


def _is_license(text: str) -> bool:
    """Return whether a text is a URL or begins with a well-known license name."""
    return re.fullmatch(_URL, text.strip()) is not None or re.match(_LICENSE, text) is not None


def _image_entries(facts: Facts) -> tuple[Rows, list[str]]:
    """Return the entries of the model whose keys are about images, and the keys in lower case."""
    entries = facts.StringStringEntryProto
    rows = true_rows(entries.under(_MODEL_FIELD))
    rows = rows[facts.matching(lambda key: key[: len(_IMAGE_PREFIX)].lower() == _IMAGE_PREFIX, entries.key[rows])]
    return rows, [facts.text(id).lower() for id in entries.key[rows].tolist()]


def _has_image(facts: Facts) -> bool:
    """Return whether any value is an image."""
    image_id = facts.find("IMAGE")
    return image_id >= 0 and bool((facts.TypeProto.denotation == image_id).any())


@rule("metadata-image-present", "ModelProto", "TypeProto")
def image_present(facts: Facts) -> Iterator[Finding]:
    """Yield the model if a value is an image and metadata_props lacks a key of `_IMAGE_VALUES`."""
    if facts.derive(_has_image):
        present_keys = set(facts.derive(_image_entries)[1])
        missing_keys = [key for lower_key, key in _IMAGE_KEYS.items() if lower_key not in present_keys]
        if missing_keys:
            models = facts.ModelProto
            yield models.at(
                models.rows,
                f"a value is an image, and metadata_props lacks {', '.join(missing_keys)}; add each missing key",
            )


@rule("metadata-image-value-known", "StringStringEntryProto")
def image_value_known(facts: Facts) -> Iterator[Finding]:
    """Yield entries whose key is in `_IMAGE_VALUES` and whose value is not listed there. Case is ignored."""
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_image_entries)
    messages = {}
    for row, lower_key in zip(rows.tolist(), keys, strict=True):
        key = _IMAGE_KEYS.get(lower_key)
        value = facts.text(entries.value[row])
        if key and value.lower() not in (allowed.lower() for allowed in _IMAGE_VALUES[key]):
            messages[row] = f"{key} is {value!r}; use {' or '.join(_IMAGE_VALUES[key])}"
    yield entries.each(messages)


@rule("metadata-image-case-insensitive", "StringStringEntryProto")
def image_case_insensitive(facts: Facts) -> Iterator[Finding]:
    """Yield keys of images that differ only in case from an earlier key.

    `metadata-model-key-unique` reports equal keys.
    """
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_image_entries)
    numbers = {lower_key: number for number, lower_key in enumerate(dict.fromkeys(keys))}
    key_numbers = np.array([numbers[key] for key in keys], np.int64)
    yield entries.at(
        rows[repeats(key_numbers) & ~repeats(entries.key[rows])],
        "the key {key!r} differs from an earlier one only in case, which is ignored; remove one of the entries",
    )


@rule("metadata-image-key-known", "StringStringEntryProto")
def image_key_known(facts: Facts) -> Iterator[Finding]:
    """Yield entries whose key begins with "Image." and is not in `_IMAGE_VALUES`. Case is ignored."""
    entries = facts.StringStringEntryProto
    rows, keys = facts.derive(_image_entries)
    yield entries.at(
        rows[np.array([key not in _IMAGE_KEYS for key in keys], bool)],
        f"the key {{key!r}} is not one of {', '.join(_IMAGE_VALUES)}; correct it or give it a prefix of your own",
    )
