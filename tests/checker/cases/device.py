from check_case import Case, holding, model, node, shaped, value
from wire import span

from onnxwire import NodeProto, from_text

_CONFIGURATION = 'configuration { name: "c" num_devices: 4 }'
_ENTRY_PATH = "graph.node[0].device_configurations[0]"
_SPEC = f"{_ENTRY_PATH}.sharding_spec[0]"
_DIM = f"{_SPEC}.sharded_dim[0]"
_PART = f"{_DIM}.simple_sharding[0]"
_SHAPE = shaped('dim { dim_value: 6 } dim { dim_param: "n" }')


def _configured(configurations: str) -> str:
    return model(ir=11, rest=configurations)


def _entries(entries: str, configurations: str = _CONFIGURATION) -> str:
    """Return a model with a node from x, of sizes 6 and n, to y, that has these entries."""
    rest = "".join(f"device_configurations {{ {entry} }}" for entry in entries.split("|"))
    return model(f"input {{ {value('x', _SHAPE)} }} {node('x', 'y', rest)}", 11, rest=configurations)


def _spec(spec: str) -> str:
    """Return such a model whose only entry has the configuration and a sharding."""
    return _entries(f'configuration_id: "c" sharding_spec {{ {spec} }}')


def _sharded(*dims: str, devices: str = "device: 0 device: 1") -> str:
    """Return such a model in which x is split."""
    return _spec(f'tensor_name: "x" {devices} ' + "".join(f"sharded_dim {{ {dim} }}" for dim in dims))


def _grouped(device: str, *groups: str) -> str:
    """Return such a model in which x is on devices and groups of devices."""
    return _spec(
        f'tensor_name: "x" {device} ' + "".join(f"index_to_device_group_map {{ {group} }}" for group in groups)
    )


def _inside(axis: int) -> str:
    """Return such a model with a node in a nested graph that splits a value of the outer graph."""
    dim = f"sharded_dim {{ axis: {axis} simple_sharding {{ num_shards: 2 }} }}"
    spec = f'sharding_spec {{ tensor_name: "x" device: [0, 1] {dim} }}'
    inner = node("x", "t", f'device_configurations {{ configuration_id: "c" {spec} }}')
    return model(f"input {{ {value('x', _SHAPE)} }}" + node("x", "o", holding(inner)), 11, rest=_CONFIGURATION)


def _part(part: bytes) -> bytes:
    """Return a model with a node whose SimpleShardedDimProto has these bytes."""
    for number in (2, 4, 2, 10):  # simple_sharding, sharded_dim, sharding_spec, device_configurations
        part = span(number, part)
    return from_text('op_type: "A"', NodeProto).SerializeToString() + part


_TWO_SHARDS = "simple_sharding { num_shards: 2 }"

CASES = {
    "device-config-name-present": Case(
        _configured("configuration { num_devices: 1 }"), _configured(_CONFIGURATION), ("configuration[0]",)
    ),
    "device-config-name-unique": Case(
        _configured(_CONFIGURATION + _CONFIGURATION),
        _configured(_CONFIGURATION + 'configuration { name: "d" num_devices: 4 }'),
        ("configuration[1]",),
    ),
    "device-config-num-devices": Case(
        _configured('configuration { name: "c" } configuration { name: "d" num_devices: -1 }'),
        _configured('configuration { name: "c" num_devices: 1 }'),
        ("configuration[0]", "configuration[1]"),
    ),
    "device-config-device-length": Case(
        _configured('configuration { name: "c" num_devices: 2 device: "a" }'),
        _configured('configuration { name: "c" num_devices: 2 device: "a" device: "b" }'),
        ("configuration[0]",),
    ),
    "device-node-config-id-present": Case(
        _entries("pipeline_stage: 1"), _entries('configuration_id: "c" pipeline_stage: 1'), (_ENTRY_PATH,)
    ),
    "device-node-config-id-known": Case(
        _entries('configuration_id: "d"'), _entries('configuration_id: "c"'), (_ENTRY_PATH,)
    ),
    "device-node-config-id-unique": Case(
        _entries('configuration_id: "c" | configuration_id: "c"'),
        _entries(
            'configuration_id: "c" | configuration_id: "d"', _CONFIGURATION + _CONFIGURATION.replace('"c"', '"d"')
        ),
        ("graph.node[0].device_configurations[1]",),
    ),
    "device-sharding-tensor-present": Case(_spec("device: 0"), _spec('tensor_name: "x" device: 0'), (_SPEC,)),
    "device-sharding-tensor-in-node": Case(
        _spec('tensor_name: "z" device: 0'), _spec('tensor_name: "y" device: 0'), (_SPEC,)
    ),
    "device-sharding-tensor-unique": Case(
        _spec('tensor_name: "x" } sharding_spec { tensor_name: "x"'),
        _spec('tensor_name: "x" } sharding_spec { tensor_name: "y"'),
        (f"{_ENTRY_PATH}.sharding_spec[1]",),
    ),
    "device-sharding-device-known": Case(
        _grouped("device: [-1, 3, 4, -2]", "key: -1 value: [0, 1]"),
        _grouped("device: [-1, 3, 7]", "key: -1 value: [0, 1]", "key: 7 value: 2"),
        (f"{_SPEC}.device[2]", f"{_SPEC}.device[3]"),
    ),
    "device-sharding-device-present": Case(_spec('tensor_name: "x"'), _spec('tensor_name: "x" device: 0'), (_SPEC,)),
    "device-group-key-unique": Case(
        _grouped("device: -1", "key: -1 value: 0", "key: -1 value: 1"),
        _grouped("device: [-1, -2]", "key: -1 value: 0", "key: -2 value: 1"),
        (f"{_SPEC}.index_to_device_group_map[1]",),
    ),
    "device-group-members-known": Case(
        _grouped("device: -1", "key: -1 value: [0, 4, -1]"),
        _grouped("device: -1", "key: -1 value: [0, 3]"),
        tuple(f"{_SPEC}.index_to_device_group_map[0].value[{i}]" for i in (1, 2)),
    ),
    "device-group-meaningful": Case(
        _grouped("device: [-1, -3]", "key: -1", "key: -2 value: 0", "key: -3 value: [1, 0, 1]"),
        _grouped("device: [-1, -3]", "key: -1 value: 0", "key: -3 value: [1, 0]"),
        tuple(f"{_SPEC}.index_to_device_group_map[{step}" for step in ("0]", "1]", "2].value[2]")),
    ),
    "device-sharded-axis-present": Case(_sharded(_TWO_SHARDS), _sharded(f"axis: 0 {_TWO_SHARDS}"), (_DIM,)),
    "device-sharded-axis-range": Case(
        _inside(-3), _inside(-2), (_DIM.replace("graph.node[0]", "graph.node[0].attribute[0].g.node[0]"),)
    ),
    "device-sharded-axis-unique": Case(
        _sharded(f"axis: 1 {_TWO_SHARDS}", f"axis: -1 {_TWO_SHARDS}"),
        _sharded(f"axis: 1 {_TWO_SHARDS}", f"axis: -2 {_TWO_SHARDS}"),
        (f"{_SPEC}.sharded_dim[1]",),
    ),
    "device-simple-sharding-present": Case(_sharded("axis: 0"), _sharded(f"axis: 0 {_TWO_SHARDS}"), (_DIM,)),
    "device-num-shards": Case(
        _sharded("axis: 0 simple_sharding { dim_value: 6 }"),
        _sharded("axis: 0 simple_sharding { dim_value: 6 num_shards: 1 }"),
        (_PART,),
    ),
    # Only the wire format can represent this: dim_value 4, then dim_param "n".
    "device-shard-dim-oneof": Case(
        _part(b"\x08\x04\x12\x01n\x18\x02"),
        _part(b"\x12\x01n\x18\x02"),
        (_PART.removeprefix("graph.node[0]."),),
        NodeProto,
    ),
    "device-shard-dim-value-nonnegative": Case(
        _sharded("axis: 1 simple_sharding { dim_value: -1 num_shards: 2 }"),
        _sharded("axis: 1 simple_sharding { dim_value: 0 num_shards: 2 }"),
        (_PART,),
    ),
    "device-shard-dim-matches-tensor": Case(
        _sharded(
            "axis: 0 simple_sharding { dim_value: 3 num_shards: 1 } simple_sharding { dim_value: 4 num_shards: 2 }"
        ),
        _sharded(
            "axis: 0 simple_sharding { dim_value: 3 num_shards: 1 } simple_sharding { dim_value: 2 num_shards: 2 }"
        ),
        (_DIM,),
    ),
    "device-shard-count-matches-devices": Case(
        _sharded(f"axis: 0 {_TWO_SHARDS}", f"axis: 1 {_TWO_SHARDS}"),
        _sharded(f"axis: 0 {_TWO_SHARDS}", f"axis: 1 {_TWO_SHARDS}", devices="device: [0, 1, 2, 3]"),
        (_SPEC,),
    ),
    "device-shard-uneven": Case(
        _sharded("axis: 0 simple_sharding { num_shards: 4 }", "axis: 1 simple_sharding { dim_value: 5 num_shards: 2 }"),
        _sharded("axis: 0 simple_sharding { num_shards: 3 }", "axis: 1 simple_sharding { num_shards: 2 }"),
        (_PART, f"{_SPEC}.sharded_dim[1].simple_sharding[0]"),
    ),
}
