"""Cases of the rules of documents that define an operator set."""

from check_case import Case, node
from wire import len_record, varint_record

from onnxwire import FunctionProto, OperatorProto, OperatorSetProto, from_text

_HEAD = 'magic: "ONNXOPSET" ir_version: 8'
_ABS = 'operator { op_type: "Abs" since_version: 6 status: STABLE }'


def _operator_set(fields: str = "", domain: str = "com.example", head: str = _HEAD, version: int = 13) -> str:
    """Return the fields of an operator set."""
    return f'{head} domain: "{domain}" opset_version: {version} {fields}'


def _function(name: str = "F", fields: str = "") -> str:
    """Return a function of an operator set."""
    body = f'output: "y" opset_import {{ version: 13 }} {node("", "y")}'
    return f'functions {{ name: "{name}" domain: "com.example" {fields} {body} }}'


def _operator_set_with_status(status: int) -> bytes:
    """Return an operator set of two operators. The second has this status, which may have no name in the text form."""
    # 3 is the number of OperatorProto.status, 8 of OperatorSetProto.operator.
    operator = from_text('op_type: "Abs" since_version: 6', OperatorProto).SerializeToString() + varint_record(
        3, status
    )
    return from_text(_operator_set(_ABS), OperatorSetProto).SerializeToString() + len_record(8, operator)


def _operator_set_with_function_version(version: int) -> bytes:
    """Return an operator set with an operator Abs of version 6 and a function Abs.

    version: the since_version of the function Abs, a field that FunctionProto has until IR version 7. The set also has
    two equal functions F if `version` is 6, otherwise one function F.
    """
    # 2 is the number of FunctionProto.since_version, 9 of OperatorSetProto.functions.
    function = from_text('name: "Abs" domain: "com.example"', FunctionProto).SerializeToString() + varint_record(
        2, version
    )
    data = from_text(_operator_set(_ABS + _function() + _function()), OperatorSetProto).SerializeToString()
    if version != 6:
        data = from_text(_operator_set(_ABS + _function()), OperatorSetProto).SerializeToString()
    return data + len_record(9, function)


def _case(broken: str | bytes, valid: str | bytes, *paths: str) -> Case:
    """Return a case of operator sets."""
    return Case(broken, valid, paths or ("",), OperatorSetProto)


CASES = {
    "operator-set-magic": _case(_operator_set(head='magic: "ONNX" ir_version: 8'), _operator_set()),
    "operator-set-ir-version": _case(_operator_set(head='magic: "ONNXOPSET"'), _operator_set()),
    "operator-set-domain-present": _case(
        _operator_set('operator { op_type: "Ab" since_version: 1 }', domain=""), _operator_set(_ABS, domain="")
    ),
    "operator-set-domain-reverse-dns": _case(_operator_set(domain="example"), _operator_set()),
    "operator-set-version-positive": _case(_operator_set(version=0), _operator_set(version=1)),
    "operator-set-prerelease-format": _case(
        _operator_set('ir_version_prerelease: "rc.01"'),
        _operator_set('ir_version_prerelease: "rc.1" ir_build_metadata: "01.a-b"'),
    ),
    "operator-op-type-present": _case(
        _operator_set("operator { since_version: 1 }"), _operator_set(_ABS), "operator[0]"
    ),
    "operator-op-type-unique": _case(
        _operator_set(_ABS + _ABS),
        _operator_set(_ABS + _ABS.replace("6", "13") + _ABS.replace("Abs", "abs")),
        "operator[1]",
    ),
    "operator-since-version-present": _case(
        _operator_set('operator { op_type: "Abs" }'), _operator_set(_ABS), "operator[0]"
    ),
    "operator-since-version-bound": _case(
        _operator_set(_ABS, version=5), _operator_set(_ABS, version=6), "operator[0]"
    ),
    "operator-status-valid": _case(_operator_set_with_status(2), _operator_set_with_status(0), "operator[1]"),
    "operator-set-functions-unique": _case(
        _operator_set_with_function_version(6), _operator_set_with_function_version(7), "functions[1]", "functions[2]"
    ),
    "operator-set-functions-valid": _case(
        _operator_set(_function() + _function("")), _operator_set(_function() + _function("G")), "functions[1]"
    ),
}
