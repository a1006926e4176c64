"""Cases of the rules of metadata."""

from check_case import FLOAT, Case, model, node, tensor, value

from onnxwire import GraphProto

_IMAGE_KEYS = ("Image.BitmapPixelFormat", "Image.ColorSpaceGamma", "Image.NominalPixelRange")
_IMAGE_VALUES = ("Bgr8", "SRGB", "NominalRange_0_255")


def _metadata(*entries: str) -> str:
    """Return entries of metadata, given as key=value."""
    pairs = (entry.partition("=")[::2] for entry in entries)
    return " ".join(f'metadata_props {{ key: "{key}" value: "{value}" }}' for key, value in pairs)


def _model(*entries: str, denotation: str = "IMAGE") -> str:
    """Return a model with these entries of metadata, and an input with this denotation."""
    type = f'{FLOAT.removesuffix("}")} denotation: "{denotation}" }}'
    return model(f"input {{ {value('x', type)} }}", fields=_metadata(*entries))


def _model_with_nested_metadata(*entries: str, ir: int = 10) -> str:
    """Return a model whose graph, node, value, tensor and function have these entries."""
    text = _metadata(*entries)
    graph = f"{text} {node('x', 'y', text)} input {{ {value('x')} {text} }} initializer {{ {tensor('t')} {text} }}"
    return model(graph, ir, fields=f'functions {{ name: "F" domain: "a.b" {text} }}')


def _nested_paths(i: int) -> tuple[str, ...]:
    """Return the paths of entry i in the five parts of the model of `_model_with_nested_metadata`."""
    owners = ("graph", "graph.initializer[0]", "functions[0]", "graph.input[0]", "graph.node[0]")
    return tuple(f"{owner}.metadata_props[{i}]" for owner in owners)


_IMAGE_ENTRIES = tuple(f"{key}={value}" for key, value in zip(_IMAGE_KEYS, _IMAGE_VALUES, strict=True))
_FIRST_ENTRY, _SECOND_ENTRY = "metadata_props[0]", "metadata_props[1]"

CASES = {
    "metadata-model-key-unique": Case(_model("a.b=1", "a.b=1"), _model("a.b=1", "A.b=1"), (_SECOND_ENTRY,)),
    "metadata-nested-key-unique": Case(
        _model_with_nested_metadata("k=1", "k=2"), _model_with_nested_metadata("k=1", "K=1"), _nested_paths(1)
    ),
    "metadata-key-present": Case(_model("=1"), _model("k="), (_FIRST_ENTRY,)),
    "metadata-before-ir10": Case(
        _model_with_nested_metadata("k=1", ir=9), model(ir=9, fields=_metadata("k=1")), _nested_paths(0)
    ),
    "metadata-key-qualified": Case(
        f'name: "g" {_metadata("namespace=1", "com.example.k=1", ".k=1")}',
        f'name: "g" {_metadata("com.example.k=1", "model_author=a", "author=a")}',
        (_FIRST_ENTRY, "metadata_props[2]"),
        GraphProto,
    ),
    "metadata-standard-author": Case(
        _model("model_author=Ann Lee, "), _model("model_author=Ann Lee, Example Inc."), (_FIRST_ENTRY,)
    ),
    "metadata-standard-license": Case(
        _model("model_license=ask me"), _model("model_license=https://example.com/license"), (_FIRST_ENTRY,)
    ),
    "metadata-early-names": Case(
        _model("license_url=https://example.com", "company=Example"),
        _model("model_author=Example"),
        (_FIRST_ENTRY, _SECOND_ENTRY),
    ),
    "metadata-image-present": Case(_model(*_IMAGE_ENTRIES[:2]), _model(*_IMAGE_ENTRIES), ("",)),
    "metadata-image-without-value": Case(
        _model(*_IMAGE_ENTRIES, denotation="TENSOR"),
        _model(*_IMAGE_ENTRIES),
        tuple(f"metadata_props[{i}]" for i in range(3)),
    ),
    "metadata-image-value-known": Case(
        _model("Image.BitmapPixelFormat=Rgb16"), _model("Image.bitmappixelformat=rgb8"), (_FIRST_ENTRY,)
    ),
    "metadata-image-case-insensitive": Case(
        _model("Image.ColorSpaceGamma=SRGB", "image.colorspacegamma=SRGB"),
        _model("Image.ColorSpaceGamma=SRGB", "Image.ColorSpaceGamma=SRGB"),
        (_SECOND_ENTRY,),
    ),
    "metadata-image-key-known": Case(
        _model("Image.Depth=8", "image.colorspacegamma=SRGB"), _model("com.example.Image.Depth=8"), (_FIRST_ENTRY,)
    ),
}
