"""Tests of rules of types, devices and operator sets in unusual documents: other roots, functions, large numbers."""

import onnxwire
from onnxwire import GraphProto, ModelProto, OperatorSetProto, ShardingSpecProto, TypeProto

_CONFIGURATION = 'configuration { name: "c" num_devices: 2 }'


def _rules_and_paths(text, type=ModelProto, select="error"):
    """Return the rule and path of each problem of a message in text form."""
    problems = onnxwire.check(onnxwire.from_text(text, type).SerializeToString(), type, select=select)
    return [(problem.rule, problem.path) for problem in problems]


def _sharded_node(dims):
    """Return a node that splits x among two devices. dims: the entries of sharded_dim."""
    spec = f'sharding_spec {{ tensor_name: "x" device: [0, 1] {dims} }}'
    return f'node {{ op_type: "A" input: "x" device_configurations {{ configuration_id: "c" {spec} }} }}'


def _value_info(sizes):
    """Return the value_info of x with these sizes."""
    dims = " ".join(f"dim {{ dim_value: {size} }}" for size in sizes)
    return f'value_info {{ name: "x" type {{ tensor_type {{ elem_type: 1 shape {{ {dims} }} }} }} }}'


def test_an_operator_set_without_ir_version_is_checked():
    text = 'magic: "ONNXOPSET" opset_version: 1 operator { op_type: "Abs" }'
    assert _rules_and_paths(text, OperatorSetProto) == [
        ("operator-set-ir-version", ""),
        ("operator-since-version-present", "operator[0]"),
    ]


def test_an_operator_set_with_a_function_of_a_custom_domain_needs_a_domain():
    text = 'functions { name: "F" domain: "%s" }'
    assert _rules_and_paths(text % "com.example", OperatorSetProto, "operator-set-domain-present")
    assert not _rules_and_paths(text % "ai.onnx", OperatorSetProto, "operator-set-domain-present")


def test_an_axis_is_compared_with_the_rank_of_a_value_in_a_function():
    body = _sharded_node("sharded_dim { axis: 1 simple_sharding { num_shards: 2 } }")
    text = f'ir_version: 12 {_CONFIGURATION} functions {{ name: "F" input: "x" {_value_info([4])} {body} }}'
    problems = _rules_and_paths(text, select="device-sharded-axis-range")
    assert [path for _, path in problems] == [
        "functions[0].node[0].device_configurations[0].sharding_spec[0].sharded_dim[0]"
    ]


def test_an_axis_is_not_compared_with_an_outer_value_that_an_inner_value_hides():
    body = _sharded_node("sharded_dim { axis: 1 simple_sharding { num_shards: 2 } }")
    outer_input = 'input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 4 } } } } }'
    rule = "device-sharded-axis-range"
    for branch_fields, count in ((f'node {{ op_type: "B" output: "x" }} {body}', 0), (body, 1)):
        if_node = f'node {{ op_type: "If" attribute {{ name: "g" type: GRAPH g {{ {branch_fields} }} }} }}'
        text = f"ir_version: 12 {_CONFIGURATION} graph {{ {outer_input} {if_node} }}"
        assert len(_rules_and_paths(text, select=rule)) == count


def test_products_above_64_bits_do_not_wrap_around():
    sharding = "simple_sharding { dim_value: 4294967296 num_shards: 4294967296 }"
    graph = f"graph {{ {_value_info([0])} {_sharded_node(f'sharded_dim {{ axis: 0 {sharding} {sharding} }}')} }}"
    for rule in ("device-shard-dim-matches-tensor", "device-shard-count-matches-devices"):
        assert len(_rules_and_paths(f"ir_version: 12 {_CONFIGURATION} {graph}", select=rule)) == 1


def test_only_rules_that_need_no_model_apply_to_other_documents():
    graph = _sharded_node("sharded_dim { axis: 0 simple_sharding { num_shards: 2 } }")
    assert not any(rule.startswith("device") for rule, _ in _rules_and_paths(graph, GraphProto))
    assert _rules_and_paths('tensor_name: "x" device: [5, -1]', ShardingSpecProto) == [
        ("device-sharding-device-known", "device[1]")
    ]
    assert _rules_and_paths("sequence_type { elem_type { } }", TypeProto) == [
        ("type-value-case-set", "sequence_type.elem_type"),
        ("type-nested-valid", ""),
    ]
