from check_case import Case, node
from wire import number, span

from onnxwire import FunctionProto, OperatorProto, OperatorSetProto, from_text

_HEAD = 'magic: "ONNXOPSET" ir_version: 8'
_ABS = 'operator { op_type: "Abs" since_version: 6 status: STABLE }'


def _set(rest: str = "", domain: str = "com.example", head: str = _HEAD, version: int = 13) -> str:
    return f'{head} domain: "{domain}" opset_version: {version} {rest}'


def _function(name: str = "F", rest: str = "") -> str:
    body = f'output: "y" opset_import {{ version: 13 }} {node("", "y")}'
    return f'functions {{ name: "{name}" domain: "com.example" {rest} {body} }}'


def _with_status(status: int) -> bytes:
    """Make an operator set with an operator of a status, which the text form requires as a name."""
    operator = from_text('op_type: "Abs" since_version: 6', OperatorProto).SerializeToString() + number(3, status)
    return from_text(_set(_ABS), OperatorSetProto).SerializeToString() + span(8, operator)


def _with_version(version: int) -> bytes:
    """Return a set with operator Abs of version 6 and a function of this name with a version, as before IR 8."""
    function = from_text('name: "Abs" domain: "com.example"', FunctionProto).SerializeToString() + number(2, version)
    data = from_text(_set(_ABS + _function() + _function()), OperatorSetProto).SerializeToString()
    if version != 6:
        data = from_text(_set(_ABS + _function()), OperatorSetProto).SerializeToString()
    return data + span(9, function)


def _case(broken: str | bytes, sound: str | bytes, *at: str) -> Case:
    return Case(broken, sound, at or ("",), OperatorSetProto)


CASES = {
    "operator-set-magic": _case(_set(head='magic: "ONNX" ir_version: 8'), _set()),
    "operator-set-ir-version": _case(_set(head='magic: "ONNXOPSET"'), _set()),
    "operator-set-domain-present": _case(
        _set('operator { op_type: "Ab" since_version: 1 }', domain=""), _set(_ABS, domain="")
    ),
    "operator-set-domain-reverse-dns": _case(_set(domain="example"), _set()),
    "operator-set-version-positive": _case(_set(version=0), _set(version=1)),
    "operator-set-prerelease-format": _case(
        _set('ir_version_prerelease: "rc.01"'), _set('ir_version_prerelease: "rc.1" ir_build_metadata: "01.a-b"')
    ),
    "operator-op-type-present": _case(_set("operator { since_version: 1 }"), _set(_ABS), "operator[0]"),
    "operator-op-type-unique": _case(
        _set(_ABS + _ABS), _set(_ABS + _ABS.replace("6", "13") + _ABS.replace("Abs", "abs")), "operator[1]"
    ),
    "operator-since-version-present": _case(_set('operator { op_type: "Abs" }'), _set(_ABS), "operator[0]"),
    "operator-since-version-bound": _case(_set(_ABS, version=5), _set(_ABS, version=6), "operator[0]"),
    "operator-status-valid": _case(_with_status(2), _with_status(0), "operator[1]"),
    "operator-set-functions-unique": _case(_with_version(6), _with_version(7), "functions[1]", "functions[2]"),
    "operator-set-functions-valid": _case(
        _set(_function() + _function("")), _set(_function() + _function("G")), "functions[1]"
    ),
}
