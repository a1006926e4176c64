"""Cases of the rules of device configurations and sharding."""

from check_case import Case, float_type, graph_attribute, model, node, value
from wire import len_record

from onnxwire import NodeProto, from_text

_CONFIGURATION = 'configuration { name: "c" num_devices: 4 }'
_ENTRY_PATH = "graph.node[0].device_configurations[0]"
_SPEC_PATH = f"{_ENTRY_PATH}.sharding_spec[0]"
_DIM_PATH = f"{_SPEC_PATH}.sharded_dim[0]"
_SHARDING_PATH = f"{_DIM_PATH}.simple_sharding[0]"
_TYPE_OF_X = float_type('dim { dim_value: 6 } dim { dim_param: "n" }')


def _model_with_configurations(configurations: str) -> str:
    """Return a model with these device configurations."""
    return model(ir=11, fields=configurations)


def _model_with_entries(entries: str, configurations: str = _CONFIGURATION) -> str:
    """Return a model with an input x of shape [6, n], and a node that computes y from x.

    entries: the device configurations of the node, separated by `|`. configurations: those of the model.
    """
    fields = "".join(f"device_configurations {{ {entry} }}" for entry in entries.split("|"))
    return model(f"input {{ {value('x', _TYPE_OF_X)} }} {node('x', 'y', fields)}", 11, fields=configurations)


def _model_with_spec(spec: str) -> str:
    """Return the model of `_model_with_entries`; the only device configuration of its node has this sharding spec."""
    return _model_with_entries(f'configuration_id: "c" sharding_spec {{ {spec} }}')


def _model_with_shards(*dims: str, devices: str = "device: 0 device: 1") -> str:
    """Return the model of `_model_with_spec` in which x is split. dims: the fields of each sharded_dim."""
    return _model_with_spec(f'tensor_name: "x" {devices} ' + "".join(f"sharded_dim {{ {dim} }}" for dim in dims))


def _model_with_groups(device: str, *groups: str) -> str:
    """Return the model of `_model_with_spec` in which x is on devices and groups of devices.

    device: the field device. groups: the fields of each device group.
    """
    return _model_with_spec(
        f'tensor_name: "x" {device} ' + "".join(f"index_to_device_group_map {{ {group} }}" for group in groups)
    )


def _model_with_nested_node(axis: int) -> str:
    """Return a model in which a node of a nested graph splits a value of the outer graph."""
    dim = f"sharded_dim {{ axis: {axis} simple_sharding {{ num_shards: 2 }} }}"
    spec = f'sharding_spec {{ tensor_name: "x" device: [0, 1] {dim} }}'
    node_text = node("x", "t", f'device_configurations {{ configuration_id: "c" {spec} }}')
    return model(
        f"input {{ {value('x', _TYPE_OF_X)} }}" + node("x", "o", graph_attribute(node_text)), 11, fields=_CONFIGURATION
    )


def _node_with_sharding_bytes(sharding: bytes) -> bytes:
    """Return the bytes of a node whose SimpleShardedDimProto has these bytes."""
    for number in (2, 4, 2, 10):  # simple_sharding, sharded_dim, sharding_spec, device_configurations
        sharding = len_record(number, sharding)
    return from_text('op_type: "A"', NodeProto).SerializeToString() + sharding


_TWO_SHARDS = "simple_sharding { num_shards: 2 }"

CASES = {
    "device-config-name-present": Case(
        _model_with_configurations("configuration { num_devices: 1 }"),
        _model_with_configurations(_CONFIGURATION),
        ("configuration[0]",),
    ),
    "device-config-name-unique": Case(
        _model_with_configurations(_CONFIGURATION + _CONFIGURATION),
        _model_with_configurations(_CONFIGURATION + 'configuration { name: "d" num_devices: 4 }'),
        ("configuration[1]",),
    ),
    "device-config-num-devices": Case(
        _model_with_configurations('configuration { name: "c" } configuration { name: "d" num_devices: -1 }'),
        _model_with_configurations('configuration { name: "c" num_devices: 1 }'),
        ("configuration[0]", "configuration[1]"),
    ),
    "device-config-device-length": Case(
        _model_with_configurations('configuration { name: "c" num_devices: 2 device: "a" }'),
        _model_with_configurations('configuration { name: "c" num_devices: 2 device: "a" device: "b" }'),
        ("configuration[0]",),
    ),
    "device-node-config-id-present": Case(
        _model_with_entries("pipeline_stage: 1"),
        _model_with_entries('configuration_id: "c" pipeline_stage: 1'),
        (_ENTRY_PATH,),
    ),
    "device-node-config-id-known": Case(
        _model_with_entries('configuration_id: "d"'), _model_with_entries('configuration_id: "c"'), (_ENTRY_PATH,)
    ),
    "device-node-config-id-unique": Case(
        _model_with_entries('configuration_id: "c" | configuration_id: "c"'),
        _model_with_entries(
            'configuration_id: "c" | configuration_id: "d"', _CONFIGURATION + _CONFIGURATION.replace('"c"', '"d"')
        ),
        ("graph.node[0].device_configurations[1]",),
    ),
    "device-sharding-tensor-present": Case(
        _model_with_spec("device: 0"), _model_with_spec('tensor_name: "x" device: 0'), (_SPEC_PATH,)
    ),
    "device-sharding-tensor-in-node": Case(
        _model_with_spec('tensor_name: "z" device: 0'), _model_with_spec('tensor_name: "y" device: 0'), (_SPEC_PATH,)
    ),
    "device-sharding-tensor-unique": Case(
        _model_with_spec('tensor_name: "x" } sharding_spec { tensor_name: "x"'),
        _model_with_spec('tensor_name: "x" } sharding_spec { tensor_name: "y"'),
        (f"{_ENTRY_PATH}.sharding_spec[1]",),
    ),
    "device-sharding-device-known": Case(
        _model_with_groups("device: [-1, 3, 4, -2]", "key: -1 value: [0, 1]"),
        _model_with_groups("device: [-1, 3, 7]", "key: -1 value: [0, 1]", "key: 7 value: 2"),
        (f"{_SPEC_PATH}.device[2]", f"{_SPEC_PATH}.device[3]"),
    ),
    "device-sharding-device-present": Case(
        _model_with_spec('tensor_name: "x"'), _model_with_spec('tensor_name: "x" device: 0'), (_SPEC_PATH,)
    ),
    "device-group-key-unique": Case(
        _model_with_groups("device: -1", "key: -1 value: 0", "key: -1 value: 1"),
        _model_with_groups("device: [-1, -2]", "key: -1 value: 0", "key: -2 value: 1"),
        (f"{_SPEC_PATH}.index_to_device_group_map[1]",),
    ),
    "device-group-members-known": Case(
        _model_with_groups("device: -1", "key: -1 value: [0, 4, -1]"),
        _model_with_groups("device: -1", "key: -1 value: [0, 3]"),
        tuple(f"{_SPEC_PATH}.index_to_device_group_map[0].value[{i}]" for i in (1, 2)),
    ),
    "device-group-meaningful": Case(
        _model_with_groups("device: [-1, -3]", "key: -1", "key: -2 value: 0", "key: -3 value: [1, 0, 1]"),
        _model_with_groups("device: [-1, -3]", "key: -1 value: 0", "key: -3 value: [1, 0]"),
        tuple(f"{_SPEC_PATH}.index_to_device_group_map{path_end}" for path_end in ("[0]", "[1]", "[2].value[2]")),
    ),
    "device-sharded-axis-present": Case(
        _model_with_shards(_TWO_SHARDS), _model_with_shards(f"axis: 0 {_TWO_SHARDS}"), (_DIM_PATH,)
    ),
    "device-sharded-axis-range": Case(
        _model_with_nested_node(-3),
        _model_with_nested_node(-2),
        (_DIM_PATH.replace("graph.node[0]", "graph.node[0].attribute[0].g.node[0]"),),
    ),
    "device-sharded-axis-unique": Case(
        _model_with_shards(f"axis: 1 {_TWO_SHARDS}", f"axis: -1 {_TWO_SHARDS}"),
        _model_with_shards(f"axis: 1 {_TWO_SHARDS}", f"axis: -2 {_TWO_SHARDS}"),
        (f"{_SPEC_PATH}.sharded_dim[1]",),
    ),
    "device-simple-sharding-present": Case(
        _model_with_shards("axis: 0"), _model_with_shards(f"axis: 0 {_TWO_SHARDS}"), (_DIM_PATH,)
    ),
    "device-num-shards": Case(
        _model_with_shards("axis: 0 simple_sharding { dim_value: 6 }"),
        _model_with_shards("axis: 0 simple_sharding { dim_value: 6 num_shards: 1 }"),
        (_SHARDING_PATH,),
    ),
    # Only the wire format can represent two members of a oneof: dim_value 4 and dim_param "n". num_shards is 2.
    "device-shard-dim-oneof": Case(
        _node_with_sharding_bytes(b"\x08\x04\x12\x01n\x18\x02"),
        _node_with_sharding_bytes(b"\x12\x01n\x18\x02"),
        (_SHARDING_PATH.removeprefix("graph.node[0]."),),
        NodeProto,
    ),
    "device-shard-dim-value-nonnegative": Case(
        _model_with_shards("axis: 1 simple_sharding { dim_value: -1 num_shards: 2 }"),
        _model_with_shards("axis: 1 simple_sharding { dim_value: 0 num_shards: 2 }"),
        (_SHARDING_PATH,),
    ),
    "device-shard-dim-matches-tensor": Case(
        _model_with_shards(
            "axis: 0 simple_sharding { dim_value: 3 num_shards: 1 } simple_sharding { dim_value: 4 num_shards: 2 }"
        ),
        _model_with_shards(
            "axis: 0 simple_sharding { dim_value: 3 num_shards: 1 } simple_sharding { dim_value: 2 num_shards: 2 }"
        ),
        (_DIM_PATH,),
    ),
    "device-shard-count-matches-devices": Case(
        _model_with_shards(f"axis: 0 {_TWO_SHARDS}", f"axis: 1 {_TWO_SHARDS}"),
        _model_with_shards(f"axis: 0 {_TWO_SHARDS}", f"axis: 1 {_TWO_SHARDS}", devices="device: [0, 1, 2, 3]"),
        (_SPEC_PATH,),
    ),
    "device-shard-uneven": Case(
        _model_with_shards(
            "axis: 0 simple_sharding { num_shards: 4 }", "axis: 1 simple_sharding { dim_value: 5 num_shards: 2 }"
        ),
        _model_with_shards("axis: 0 simple_sharding { num_shards: 3 }", "axis: 1 simple_sharding { num_shards: 2 }"),
        (_SHARDING_PATH, f"{_SPEC_PATH}.sharded_dim[1].simple_sharding[0]"),
    ),
}
