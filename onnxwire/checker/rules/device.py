"""Rules of device configurations, and of the sharding of tensors over devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import CLASH, EMPTY, Facts, Finding, repeats, true_rows
from onnxwire.checker.payload_values import products
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes

if TYPE_CHECKING:
    from onnxwire.checker.facts import List, Rows, Sheet

RULES = {
    "DeviceConfigurationProto": {
        "device-config-name-present": (
            lambda configuration: configuration.name == EMPTY,
            "the device configuration has no name; give it one",
        ),
        "device-config-name-unique": (
            lambda configuration: (configuration.name != EMPTY) & repeats(configuration.name),
            "another device configuration has the same name, {name!r}; rename one of them",
        ),
        "device-config-num-devices": (
            lambda configuration: configuration.num_devices < 1,
            "device configuration {name!r} has {num_devices} devices; set num_devices to 1 or more",
        ),
        "device-config-device-length": (
            lambda configuration: (
                (configuration.device > 0)
                & (configuration.num_devices > 0)
                & (configuration.device != configuration.num_devices)
            ),
            "the length of `device` of configuration {name!r} is {named}, but num_devices is {total}; name all "
            "devices or none",
            {
                "named": lambda configuration: configuration.device,
                "total": lambda configuration: configuration.num_devices,
            },
        ),
    },
    "NodeDeviceConfigurationProto": {
        "device-node-config-id-present": (
            lambda entry: entry.configuration_id == EMPTY,
            "the entry has no configuration_id; name a device configuration of the model",
        ),
        # The configurations of a model are known, but not those that a standalone graph or node refers to.
        "device-node-config-id-known": (
            lambda entry: (
                (entry.facts.root == "ModelProto")
                & (entry.configuration_id != EMPTY)
                & ~np.isin(entry.configuration_id, entry.facts.DeviceConfigurationProto.name)
            ),
            "the model has no device configuration {configuration_id!r}; add it or correct configuration_id",
        ),
        "device-node-config-id-unique": (
            lambda entry: (entry.configuration_id != EMPTY) & repeats(entry.parent, entry.configuration_id),
            "the node already has an entry for device configuration {configuration_id!r}; merge the two",
        ),
    },
    "ShardingSpecProto": {
        "device-sharding-tensor-present": (
            lambda spec: spec.tensor_name == EMPTY,
            "the sharding has no tensor_name; name an input or output of the node",
        ),
        "device-sharding-tensor-in-node": (
            lambda spec: _is_unused(spec),
            "{tensor_name!r} is neither input nor output of the node; correct tensor_name or remove the sharding",
        ),
        "device-sharding-tensor-unique": (
            lambda spec: (spec.tensor_name != EMPTY) & repeats(spec.parent, spec.tensor_name),
            "the device configuration of the node already has a sharding of {tensor_name!r}; keep one of the two",
        ),
        "device-sharding-device-present": (
            lambda spec: spec.device == 0,
            "the sharding of {tensor_name!r} lists no device; list the devices that store its parts",
        ),
    },
    "ShardedDimProto": {
        "device-sharded-axis-present": (
            lambda dim: ~dim.has("axis"),
            "the sharded dimension has no axis; set the axis that is split",
        ),
        "device-sharded-axis-range": (
            lambda dim: dim.derive(Shardings).is_outside,
            "{value!r} of rank {rank} has no axis {axis}; an axis is a number from -rank to rank - 1",
            {
                "value": lambda dim: dim.texts(_spec_column(dim, dim.facts.ShardingSpecProto.tensor_name, EMPTY)),
                "rank": lambda dim: _spec_column(dim, dim.derive(Shardings).rank, -1),
            },
        ),
        # If the rank is known, a negative axis is the same axis as its nonnegative equivalent.
        "device-sharded-axis-unique": (
            lambda dim: repeats(dim.parent, dim.derive(Shardings).axis, where=dim.has("axis")),
            "axis {axis} is also the axis of an earlier sharded dimension; merge the two",
        ),
        "device-simple-sharding-present": (
            lambda dim: dim.simple_sharding == 0,
            "the sharded dimension of axis {axis} has no simple_sharding; add one with num_shards",
        ),
    },
    "SimpleShardedDimProto": {
        "device-num-shards": (lambda split: split.num_shards < 1, "num_shards is {num_shards}; set it to 1 or more"),
        "device-shard-uneven": (
            lambda split: (
                (split.num_shards >= 1)
                & (_divided_sizes(split) >= 0)
                & (_divided_sizes(split) % np.maximum(split.num_shards, 1) != 0)
            ),
            "a size of {size} is divided into {num_shards} parts, which cannot be equal; the backend decides how they "
            "differ",
            {"size": lambda split: _divided_sizes(split)},
        ),
        "device-shard-dim-oneof": (
            lambda split: split.flags & CLASH != 0,
            "the dimension has both dim_value and dim_param; remove one",
        ),
        "device-shard-dim-value-nonnegative": (
            lambda split: split.dim_value < 0,
            "dim_value {dim_value} is negative; leave an unknown size unset",
        ),
    },
    "ShardingSpecProto.device": {
        "device-sharding-device-known": (
            lambda device: _is_unknown_device(device),
            "the entry {value} is neither a device of the configuration nor the key of a group; correct it or add the "
            "group",
        ),
    },
    "IntIntListEntryProto": {
        "device-group-key-unique": (
            lambda group: repeats(
                group.parent, group.key, where=group.under("ShardingSpecProto.index_to_device_group_map")
            ),
            "the sharding already has a group {key}; merge the two or change a key",
        ),
    },
    "IntIntListEntryProto.value": {
        "device-group-members-known": (
            lambda member: _is_unknown_member(member),
            "{value} is not a device of the configuration; members of groups are numbers from 0 to num_devices - 1",
        ),
    },
}


class Shardings:
    """Columns for ShardingSpecProto and ShardedDimProto. `facts.derive(Shardings)` returns the object.

    For each ShardingSpecProto: node: the row of the node that contains it, or -1. devices: num_devices of the
    configuration, -1 if unknown. rank: the rank of the tensor, -1 if unknown.
    For each ShardedDimProto: axis: the axis, made nonnegative if the tensor has it and the rank is known. is_outside:
    whether the rank is known and the tensor does not have the axis. size: the size of the axis, -1 if unknown.
    """

    def __init__(self, facts: Facts) -> None:
        specs, entries, dims = facts.ShardingSpecProto, facts.NodeDeviceConfigurationProto, facts.ShardedDimProto
        entry_of_spec = specs.parent_under("NodeDeviceConfigurationProto.sharding_spec")
        nodes = entries.parent_under("NodeProto.device_configurations")
        self.node = np.append(nodes, -1)[entry_of_spec]
        self.devices = np.append(_device_counts(facts), -1)[entry_of_spec]
        self.rank, first_dims, sizes = _shapes(facts, self.node, specs.tensor_name)
        spec_of_dim = dims.parent_under("ShardingSpecProto.sharded_dim")
        ranks, first_dims = np.append(self.rank, -1)[spec_of_dim], np.append(first_dims, 0)[spec_of_dim]
        self.axis = np.where((dims.axis < 0) & (dims.axis >= -ranks), dims.axis + ranks, dims.axis)
        self.is_outside = dims.has("axis") & (ranks >= 0) & ((self.axis < 0) | (self.axis >= ranks))
        is_known = dims.has("axis") & (ranks >= 0) & ~self.is_outside
        self.size = np.full(dims.n, -1, np.int64)
        self.size[is_known] = sizes[(first_dims + self.axis)[is_known]]


def _device_counts(facts: Facts) -> Rows:
    """Return num_devices of the configuration that each NodeDeviceConfigurationProto names.

    -1 if the model does not have the configuration, or num_devices is not positive.
    """
    entries, configurations = facts.NodeDeviceConfigurationProto, facts.DeviceConfigurationProto
    positions = facts.join(
        (np.zeros(entries.n, np.int64), entries.configuration_id),
        (np.zeros(configurations.n, np.int64), configurations.name),
    )
    counts = np.where(configurations.num_devices > 0, configurations.num_devices, -1)
    return np.append(counts, -1)[np.where(entries.configuration_id != EMPTY, positions, -1)]


def _shapes(facts: Facts, nodes: Rows, names: Rows) -> tuple[Rows, Rows, Rows]:
    """Return the known shapes of the values names[i], as seen from the nodes nodes[i]: (ranks, first dims, sizes).

    ranks: the rank of each value, -1 if unknown. first dims: the index in `sizes` of each value's first dim. sizes: the
    dims of all shapes, tensors and sparse tensors of the document, -1 for an unknown dim. A shape is looked up by name
    in the ValueInfoProtos and initializers of the graph or function that defines the value.
    """
    ranks_of_names, first_dims = np.full(len(nodes), -1, np.int64), np.zeros(len(nodes), np.int64)
    if not len(nodes):
        return ranks_of_names, first_dims, np.empty(0, np.int64)
    infos, tensors, sparse = facts.ValueInfoProto, facts.TensorProto, facts.SparseTensorProto
    declared, n_graphs = facts.derive(DeclaredTypes), facts.GraphProto.n
    shapes, dims = facts.TensorShapeProto, facts["TensorShapeProto.Dimension"]
    dense_sizes, sparse_sizes = facts.lists("TensorProto.dims").value, facts.lists("SparseTensorProto.dims").value
    sizes = np.concatenate([np.where(dims.has("dim_value"), dims.dim_value, -1), dense_sizes, sparse_sizes])
    # Functions are also scopes; they are numbered after the graphs.
    scope = np.where(infos.under("FunctionProto.value_info"), infos.parent + n_graphs, declared.graph)
    infos_with_shape = true_rows((scope >= 0) & (declared.shape >= 0))
    dense_rows = true_rows(tensors.under("GraphProto.initializer"))
    sparse_rows = true_rows(sparse.under("GraphProto.sparse_initializer") & (sparse.values >= 0))
    definitions = (
        np.concatenate([scope[infos_with_shape], tensors.parent[dense_rows], sparse.parent[sparse_rows]]),
        np.concatenate(
            [infos.name[infos_with_shape], tensors.name[dense_rows], tensors.name[sparse.values[sparse_rows]]]
        ),
    )
    is_requested = np.zeros(facts.columns.text_count(), bool)
    is_requested[names] = True
    is_requested_definition = is_requested[definitions[1]]
    definitions = definitions[0][is_requested_definition], definitions[1][is_requested_definition]
    known_ranks = np.concatenate(
        [shapes.dim[declared.shape[infos_with_shape]], tensors.dims[dense_rows], sparse.dims[sparse_rows]]
    )[is_requested_definition]
    known_first_dims = np.concatenate(
        [
            shapes.first("dim")[declared.shape[infos_with_shape]],
            tensors.first("dims")[dense_rows] + dims.n,
            sparse.first("dims")[sparse_rows] + dims.n + len(dense_sizes),
        ]
    )[is_requested_definition]
    positions = facts.join((_defining_scopes(facts, nodes, names), names), definitions)
    has_shape = (positions >= 0) & (names != EMPTY)
    ranks_of_names[has_shape] = known_ranks[positions[has_shape]]
    first_dims[has_shape] = known_first_dims[positions[has_shape]]
    return ranks_of_names, first_dims, sizes


def _defining_scopes(facts: Facts, nodes: Rows, names: Rows) -> Rows:
    """Return the graph or function that defines the value names[i] of the node nodes[i], for each i.

    They are numbered as in `Scopes.defining_scopes`. A name that no graph or function defines, or that is neither input
    nor output of the node, gets the graph or function that contains the node.
    """
    scopes, sheet = facts.derive(Scopes), facts.NodeProto
    node_scopes = np.where(sheet.under("FunctionProto.node"), sheet.parent + facts.GraphProto.n, scopes.node_graph)
    default_scopes: Rows = np.append(node_scopes, -1)[nodes]
    is_sharded = np.zeros(sheet.n + 1, bool)
    is_sharded[nodes] = True
    inputs = facts.lists("NodeProto.input")
    sharded_inputs = true_rows(is_sharded[inputs.parent])
    positions = facts.join((np.maximum(nodes, 0), names), (inputs.parent[sharded_inputs], inputs.value[sharded_inputs]))
    defining_scopes = np.append(scopes.defining_scopes[sharded_inputs], -1)[positions]
    return np.where((nodes >= 0) & (defining_scopes >= 0), defining_scopes, default_scopes)


def _are_listed(left: tuple[Rows, Rows], right: tuple[Rows, Rows]) -> Rows:
    """Return whether each pair of row and number in `left` is in `right`."""
    count = len(left[0])
    if not count or not len(right[0]):
        return np.zeros(count, bool)
    _, numbers = np.unique(np.concatenate([left[1], right[1]]), return_inverse=True)
    pairs = np.concatenate([left[0], right[0]]).astype(np.int64) * (len(numbers) + 1) + numbers
    # np.isin takes several times as long.
    listed_pairs = np.sort(pairs[count:])
    positions = np.minimum(np.searchsorted(listed_pairs, pairs[:count]), len(listed_pairs) - 1)
    is_listed: Rows = listed_pairs[positions] == pairs[:count]
    return is_listed


def _all_of(parents: Rows, meets_condition: Rows, n: int) -> Rows:
    """Return whether each of n parents has children that all meet a condition. parents: the parent of each child."""
    result = np.zeros(n, bool)
    result[parents] = True
    result[parents[~meets_condition]] = False
    return result


def _products(n: int, parents: Rows, factors: Rows) -> Rows:
    """Return the product of the factors of each of n parents; -1 if it is 2**63 or more, or a factor is negative."""
    counts = np.bincount(parents, minlength=n).astype(np.int32)
    result: Rows = products(
        counts, np.cumsum(counts, dtype=np.int32) - counts, factors[np.argsort(parents, kind="stable")]
    )
    return result


def _rows_in(sheet: Sheet, field: str) -> Rows:
    """Return the rows that are elements of a field."""
    return true_rows(sheet.under(field))


def _group_keys(facts: Facts) -> tuple[Rows, Rows]:
    """Return the groups of all shardings: rows of ShardingSpecProto, keys."""
    groups = facts.IntIntListEntryProto
    rows = _rows_in(groups, "ShardingSpecProto.index_to_device_group_map")
    return groups.parent[rows], groups.key[rows]


@rule("device-group-meaningful", "IntIntListEntryProto")
def group_meaningful(facts: Facts) -> Iterator[Finding]:
    """Yield groups without members, unused groups, and repeated members."""
    groups, members = facts.IntIntListEntryProto, facts.lists("IntIntListEntryProto.value")
    rows = _rows_in(groups, "ShardingSpecProto.index_to_device_group_map")
    yield groups.at(groups.value == 0, "group {key} has no members; list its devices or remove it")
    devices = facts.lists("ShardingSpecProto.device")
    is_used = _are_listed((groups.parent[rows], groups.key[rows]), (devices.parent, devices.value))
    yield groups.at(rows[~is_used], "group {key} is not in the device list; list its key there or remove the group")
    yield members.at(
        repeats(members.parent, members.value), "device {value} is in the group more than once; list it once"
    )


def _spec_column(dims: Sheet, column: Rows, missing: int) -> Rows:
    """Return a column of ShardingSpecProto for the rows of ShardedDimProto; `missing` for a row without a spec."""
    result: Rows = np.append(column, missing)[dims.parent_under("ShardingSpecProto.sharded_dim")]
    return result


def _is_unused(specs: Sheet) -> Rows:
    """Return whether the tensor of each sharding is neither input nor output of the node."""
    facts, nodes = specs.facts, specs.derive(Shardings).node
    is_sharded = np.zeros(facts.NodeProto.n + 1, bool)
    is_sharded[nodes] = True
    owners, names = [], []
    for field in ("NodeProto.input", "NodeProto.output"):
        elements = facts.lists(field)
        is_in_sharded_node = is_sharded[elements.parent]
        owners.append(elements.parent[is_in_sharded_node])
        names.append(elements.value[is_in_sharded_node])
    positions = facts.join((np.maximum(nodes, 0), specs.tensor_name), (np.concatenate(owners), np.concatenate(names)))
    is_unused: Rows = (nodes >= 0) & (specs.tensor_name != EMPTY) & (positions < 0)
    return is_unused


def _is_unknown_device(elements: List) -> Rows:
    """Return whether each entry of a device list is neither a device of the configuration nor the key of a group.

    If num_devices is unknown, every nonnegative number counts as a device.
    """
    devices = elements.derive(Shardings).devices[elements.parent]
    is_device = (elements.value >= 0) & ((devices < 0) | (elements.value < devices))
    is_group = _are_listed((elements.parent, elements.value), elements.derive(_group_keys))
    is_unknown: Rows = ~is_device & ~is_group
    return is_unknown


def _is_unknown_member(members: List) -> Rows:
    """Return whether each member of a group is not a device of the configuration.

    If num_devices is unknown, every nonnegative number counts as a device.
    """
    specs = members.facts.IntIntListEntryProto.parent_under("ShardingSpecProto.index_to_device_group_map")
    devices = np.append(members.derive(Shardings).devices, -1)[specs][members.parent]
    is_unknown: Rows = (members.value < 0) | ((devices >= 0) & (members.value >= devices))
    return is_unknown


def _divided_sizes(splits: Sheet) -> Rows:
    """Return the size that each SimpleShardedDimProto divides, -1 where it is unknown.

    A message without dim_value divides the size of the axis, if no other message divides the axis.
    """
    dims = splits.facts.ShardedDimProto
    axis_sizes = np.append(np.where(dims.simple_sharding == 1, splits.derive(Shardings).size, -1), -1)
    axis_sizes_of_splits = axis_sizes[splits.parent_under("ShardedDimProto.simple_sharding")]
    sizes: Rows = np.where(splits.has("dim_value"), splits.dim_value, axis_sizes_of_splits)
    return sizes


@rule("device-shard-dim-matches-tensor", "SimpleShardedDimProto")
def shard_dim_matches_tensor(facts: Facts) -> Iterator[Finding]:
    """Yield axes of known size whose dim_values are all known and have another product than that size."""
    dims, splits = facts.ShardedDimProto, facts.SimpleShardedDimProto
    rows = _rows_in(splits, "ShardedDimProto.simple_sharding")
    parents, dim_values = splits.parent[rows], splits.dim_value[rows]
    is_known = _all_of(parents, splits.has("dim_value")[rows] & (dim_values >= 0), dims.n)
    product = _products(dims.n, parents, np.maximum(dim_values, 0))
    size = facts.derive(Shardings).size
    yield dims.at(
        is_known & (size >= 0) & (product != size),
        "the product of the dim_values of axis {axis} is not its size, which is {size}; correct or omit the dim_values",
        size=size,
    )


@rule("device-shard-count-matches-devices", "SimpleShardedDimProto")
def shard_count_matches_devices(facts: Facts) -> Iterator[Finding]:
    """Yield shardings whose number of parts differs from the number of entries in the device list."""
    specs, dims, splits = facts.ShardingSpecProto, facts.ShardedDimProto, facts.SimpleShardedDimProto
    rows = _rows_in(splits, "ShardedDimProto.simple_sharding")
    counts = np.maximum(splits.num_shards[rows], 0)
    parts_per_axis = _products(dims.n, splits.parent[rows], counts)
    is_axis_complete = _all_of(splits.parent[rows], counts > 0, dims.n)
    axes = _rows_in(dims, "ShardingSpecProto.sharded_dim")
    parts_per_spec = _products(specs.n, dims.parent[axes], parts_per_axis[axes])
    is_known = _all_of(dims.parent[axes], is_axis_complete[axes], specs.n)
    yield specs.at(
        is_known & (specs.device > 0) & (parts_per_spec != specs.device),
        "the number of parts of {tensor_name!r} differs from the length of its device list, {device}; correct "
        "num_shards or the list",
    )
