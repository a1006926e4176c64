"""Cases of the rules of the operator sets that a model imports."""

from check_case import OPSET, Case, model


def _model_with_imports(*entries: tuple[str, int], ir: int = 8) -> str:
    """Return a model that imports these domains and versions."""
    return model(
        opset=" ".join(f'opset_import {{ domain: "{domain}" version: {version} }}' for domain, version in entries),
        ir=ir,
    )


CASES = {
    "opset-import-required": Case(_model_with_imports(), _model_with_imports(("", 17))),
    "opset-import-absent-before-ir3": Case(_model_with_imports(("", 1), ir=2), _model_with_imports(ir=2)),
    "opset-import-domain-conflict": Case(
        _model_with_imports(("a.b", 1), ("a.b", 2)), _model_with_imports(("a.b", 1), ("a.c", 2)), ("opset_import[1]",)
    ),
    "opset-import-duplicate-entry": Case(
        _model_with_imports(("a.b", 1), ("a.b", 1)), _model_with_imports(("a.b", 1), ("a.b", 2)), ("opset_import[1]",)
    ),
    "opset-import-default-alias": Case(
        _model_with_imports(("", 17), ("ai.onnx", 17)), _model_with_imports(("ai.onnx", 17)), ("opset_import[1]",)
    ),
    "opset-import-version-positive": Case(
        _model_with_imports(("", 17), ("a.b", 0), ("a.c", 1 << 31)),
        _model_with_imports(("", 17), ("a.b", 1)),
        ("opset_import[1]", "opset_import[2]"),
    ),
    "opset-import-domain-reverse-dns": Case(
        _model_with_imports(("", 17), ("custom", 1)),
        _model_with_imports(("", 17), ("com.custom", 1)),
        ("opset_import[1]",),
    ),
    "opset-import-default-present": Case(_model_with_imports(("a.b", 1)), _model_with_imports(("ai.onnx", 1))),
    "opset-import-version-implies-ir": Case(
        model(ir=8, opset="opset_import { version: 19 }"), model(ir=8, opset=OPSET), ("opset_import[0]",)
    ),
}
