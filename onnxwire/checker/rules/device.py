"""Rules of device configurations, and of how nodes spread their tensors over devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.declared_types import Values
from onnxwire.checker.facts import CLASH, EMPTY, Facts, Finding, repeats
from onnxwire.checker.payload_values import products
from onnxwire.checker.registry import rule
from onnxwire.checker.scopes import Scopes

if TYPE_CHECKING:
    from onnxwire.checker.facts import Rows, Sheet


class Shardings:
    """Columns beside those of ShardingSpecProto and ShardedDimProto; take them with `facts.derive(Shardings)`.

    node: of each spec, the row of its node, -1 where it stands in none. devices: num_devices of its configuration, -1
    where that is not known. rank: of its tensor, -1 where that is not known. axis: of each sharded dimension, counted
    from the front where the rank is known. size: of that axis, -1 where it is not known.
    """

    def __init__(self, facts: Facts) -> None:
        specs, entries, dims = facts.ShardingSpecProto, facts.NodeDeviceConfigurationProto, facts.ShardedDimProto
        entry = np.where(specs.under("NodeDeviceConfigurationProto.sharding_spec"), specs.parent, -1)
        nodes = np.where(entries.under("NodeProto.device_configurations"), entries.parent, -1)
        self.node = np.append(nodes, -1)[entry]
        self.devices = np.append(_device_counts(facts), -1)[entry]
        self.rank, first, sizes = _shapes(facts, self.node, specs.tensor_name)
        spec = np.where(dims.under("ShardingSpecProto.sharded_dim"), dims.parent, -1)
        rank, first = np.append(self.rank, -1)[spec], np.append(first, 0)[spec]
        self.axis = np.where((dims.axis < 0) & (dims.axis >= -rank), dims.axis + rank, dims.axis)
        self.is_outside = dims.has("axis") & (rank >= 0) & ((self.axis < 0) | (self.axis >= rank))
        is_known = dims.has("axis") & (rank >= 0) & ~self.is_outside
        self.size = np.full(dims.n, -1, np.int64)
        self.size[is_known] = sizes[(first + self.axis)[is_known]]


def _device_counts(facts: Facts) -> Rows:
    """num_devices of the configuration that each NodeDeviceConfigurationProto names, -1 where there is none."""
    entries, configurations = facts.NodeDeviceConfigurationProto, facts.DeviceConfigurationProto
    found = facts.join(
        (np.zeros(entries.n, np.int64), entries.configuration_id),
        (np.zeros(configurations.n, np.int64), configurations.name),
    )
    counts = np.where(configurations.num_devices > 0, configurations.num_devices, -1)
    return np.append(counts, -1)[np.where(entries.configuration_id != EMPTY, found, -1)]


def _shapes(facts: Facts, nodes: Rows, names: Rows) -> tuple[Rows, Rows, Rows]:
    """The known shapes of values that nodes use: ranks or -1, indices of first dimensions, all sizes or -1.

    A value is described in the graph or function that defines it.
    """
    rank, first = np.full(len(nodes), -1, np.int64), np.zeros(len(nodes), np.int64)
    if not len(nodes):
        return rank, first, np.empty(0, np.int64)
    infos, tensors, sparse = facts.ValueInfoProto, facts.TensorProto, facts.SparseTensorProto
    values, graphs = facts.derive(Values), facts.GraphProto.n
    shapes, dims = facts.TensorShapeProto, facts["TensorShapeProto.Dimension"]
    dense_sizes, sparse_sizes = facts.lists("TensorProto.dims").value, facts.lists("SparseTensorProto.dims").value
    sizes = np.concatenate([np.where(dims.has("dim_value"), dims.dim_value, -1), dense_sizes, sparse_sizes])
    # Functions are scopes, too, and are counted on after the graphs.
    scope = np.where(infos.under("FunctionProto.value_info"), infos.parent + graphs, values.graph)
    shaped = np.flatnonzero((scope >= 0) & (values.shape >= 0))
    dense = np.flatnonzero(tensors.under("GraphProto.initializer"))
    rare = np.flatnonzero(sparse.under("GraphProto.sparse_initializer") & (sparse.values >= 0))
    described = (
        np.concatenate([scope[shaped], tensors.parent[dense], sparse.parent[rare]]),
        np.concatenate([infos.name[shaped], tensors.name[dense], tensors.name[sparse.values[rare]]]),
    )
    is_asked = np.zeros(facts.columns.text_count(), bool)
    is_asked[names] = True
    asked = is_asked[described[1]]
    described = described[0][asked], described[1][asked]
    ranks = np.concatenate([shapes.dim[values.shape[shaped]], tensors.dims[dense], sparse.dims[rare]])[asked]
    firsts = np.concatenate(
        [
            shapes.first("dim")[values.shape[shaped]],
            tensors.first("dims")[dense] + dims.n,
            sparse.first("dims")[rare] + dims.n + len(dense_sizes),
        ]
    )[asked]
    found = facts.join((_homes(facts, nodes, names), names), described)
    is_found = (found >= 0) & (names != EMPTY)
    rank[is_found], first[is_found] = ranks[found[is_found]], firsts[found[is_found]]
    return rank, first, sizes


def _homes(facts: Facts, nodes: Rows, names: Rows) -> Rows:
    """The graphs, or functions counted on after them, that define values which nodes take or make; as `Scopes.homes`.

    Of a name that no scope defines, or that is none of the node's: the node's own.
    """
    scopes, sheet = facts.derive(Scopes), facts.NodeProto
    own = np.where(sheet.under("FunctionProto.node"), sheet.parent + facts.GraphProto.n, scopes.node_graph)
    homes: Rows = np.append(own, -1)[nodes]
    is_meant = np.zeros(sheet.n + 1, bool)
    is_meant[nodes] = True
    inputs = facts.lists("NodeProto.input")
    taken = np.flatnonzero(is_meant[inputs.parent])
    found = facts.join((np.maximum(nodes, 0), names), (inputs.parent[taken], inputs.value[taken]))
    there = np.append(scopes.homes[taken], -1)[found]
    return np.where((nodes >= 0) & (there >= 0), there, homes)


def _are_listed(left: tuple[Rows, Rows], right: tuple[Rows, Rows]) -> Rows:
    """Whether each pair of row and number on the left is on the right."""
    count = len(left[0])
    if not count or not len(right[0]):
        return np.zeros(count, bool)
    _, numbers = np.unique(np.concatenate([left[1], right[1]]), return_inverse=True)
    pairs = np.concatenate([left[0], right[0]]).astype(np.int64) * (len(numbers) + 1) + numbers
    # np.isin takes several times as long.
    there = np.sort(pairs[count:])
    nearest = np.minimum(np.searchsorted(there, pairs[:count]), len(there) - 1)
    is_listed: Rows = there[nearest] == pairs[:count]
    return is_listed


def _all_of(parents: Rows, is_so: Rows, n: int) -> Rows:
    """Whether all children of each of n parents are so, and there is one."""
    result = np.zeros(n, bool)
    result[parents] = True
    result[parents[~is_so]] = False
    return result


def _any_of(parents: Rows, is_so: Rows, n: int) -> Rows:
    """Whether some child of each of n parents is so."""
    result = np.zeros(n, bool)
    result[parents[is_so]] = True
    return result


def _products(n: int, parents: Rows, factors: Rows) -> Rows:
    """The product of the factors of each of n parents; -1 where that is 2**63 or more, or a factor is negative."""
    counts = np.bincount(parents, minlength=n).astype(np.int32)
    result: Rows = products(
        counts, np.cumsum(counts, dtype=np.int32) - counts, factors[np.argsort(parents, kind="stable")]
    )
    return result


def _children(sheet: Sheet, field: str) -> Rows:
    """The rows that stand in a field."""
    return np.flatnonzero(sheet.under(field))


@rule("device-config-name-present")
def config_name_present(facts: Facts) -> Iterator[Finding]:
    """A configuration has a name."""
    configurations = facts.DeviceConfigurationProto
    yield configurations.at(configurations.name == EMPTY, "the device configuration has no name; give it one")


@rule("device-config-name-unique")
def config_name_unique(facts: Facts) -> Iterator[Finding]:
    """Configurations have different names."""
    configurations = facts.DeviceConfigurationProto
    yield configurations.at(
        (configurations.name != EMPTY) & repeats(configurations.name),
        "another device configuration is named {0!r}, too; rename one of them",
        configurations.texts(configurations.name),
    )


@rule("device-config-num-devices")
def config_num_devices(facts: Facts) -> Iterator[Finding]:
    """A configuration has a device."""
    configurations = facts.DeviceConfigurationProto
    yield configurations.at(
        configurations.num_devices < 1,
        "device configuration {0!r} has {1} devices; set num_devices to 1 or more",
        configurations.texts(configurations.name),
        configurations.num_devices,
    )


@rule("device-config-device-length")
def config_device_length(facts: Facts) -> Iterator[Finding]:
    """All devices are named or none."""
    configurations = facts.DeviceConfigurationProto
    named, wanted = configurations.device, configurations.num_devices
    yield configurations.at(
        (named > 0) & (wanted > 0) & (named != wanted),
        "device configuration {0!r} names {1} of {2} devices; name all or none",
        configurations.texts(configurations.name),
        named,
        wanted,
    )


@rule("device-node-config-id-present")
def node_config_id_present(facts: Facts) -> Iterator[Finding]:
    """An entry of a node says of which configuration it is."""
    entries = facts.NodeDeviceConfigurationProto
    yield entries.at(
        entries.configuration_id == EMPTY, "the entry has no configuration_id; name a device configuration of the model"
    )


@rule("device-node-config-id-known")
def node_config_id_known(facts: Facts) -> Iterator[Finding]:
    """The model has the configuration that a node names."""
    entries, configurations = facts.NodeDeviceConfigurationProto, facts.DeviceConfigurationProto
    if facts.root != "ModelProto":
        return  # the configurations are elsewhere
    yield entries.at(
        (entries.configuration_id != EMPTY) & ~np.isin(entries.configuration_id, configurations.name),
        "the model has no device configuration {0!r}; add it or correct configuration_id",
        entries.texts(entries.configuration_id),
    )


@rule("device-node-config-id-unique")
def node_config_id_unique(facts: Facts) -> Iterator[Finding]:
    """A node has one entry for a configuration."""
    entries = facts.NodeDeviceConfigurationProto
    yield entries.at(
        (entries.configuration_id != EMPTY) & repeats(entries.parent, entries.configuration_id),
        "the node has an entry for device configuration {0!r} before; merge them",
        entries.texts(entries.configuration_id),
    )


@rule("device-sharding-tensor-present")
def sharding_tensor_present(facts: Facts) -> Iterator[Finding]:
    """A sharding is of a tensor."""
    specs = facts.ShardingSpecProto
    yield specs.at(specs.tensor_name == EMPTY, "the sharding has no tensor_name; name an input or output of the node")


@rule("device-sharding-tensor-in-node")
def sharding_tensor_in_node(facts: Facts) -> Iterator[Finding]:
    """The tensor is one of the node's."""
    specs = facts.ShardingSpecProto
    if not specs.n:
        return
    node = facts.derive(Shardings).node
    is_meant = np.zeros(facts.NodeProto.n + 1, bool)
    is_meant[node] = True
    owners, names = [], []
    for field in ("NodeProto.input", "NodeProto.output"):
        elements = facts.lists(field)
        some = is_meant[elements.parent]
        owners.append(elements.parent[some])
        names.append(elements.value[some])
    found = facts.join((np.maximum(node, 0), specs.tensor_name), (np.concatenate(owners), np.concatenate(names)))
    yield specs.at(
        (node >= 0) & (specs.tensor_name != EMPTY) & (found < 0),
        "{0!r} is neither input nor output of the node; correct tensor_name or remove the sharding",
        specs.texts(specs.tensor_name),
    )


@rule("device-sharding-tensor-unique")
def sharding_tensor_unique(facts: Facts) -> Iterator[Finding]:
    """A tensor has one sharding in an entry."""
    specs = facts.ShardingSpecProto
    yield specs.at(
        (specs.tensor_name != EMPTY) & repeats(specs.parent, specs.tensor_name),
        "the entry has a sharding of {0!r} before; keep one of them",
        specs.texts(specs.tensor_name),
    )


def _group_keys(facts: Facts) -> tuple[Rows, Rows]:
    """The groups of all shardings: rows of ShardingSpecProto, keys."""
    groups = facts.IntIntListEntryProto
    rows = _children(groups, "ShardingSpecProto.index_to_device_group_map")
    return groups.parent[rows], groups.key[rows]


@rule("device-sharding-device-known")
def sharding_device_known(facts: Facts) -> Iterator[Finding]:
    """An entry of the device list is a device of the configuration or a group."""
    elements = facts.lists("ShardingSpecProto.device")
    if not elements.n:
        return
    devices = facts.derive(Shardings).devices[elements.parent]
    is_device = (elements.value >= 0) & ((devices < 0) | (elements.value < devices))
    is_group = _are_listed((elements.parent, elements.value), facts.derive(_group_keys))
    yield elements.at(
        ~is_device & ~is_group,
        "{0} is neither a device of the configuration nor the key of a group; correct it or add the group",
        elements.value,
    )


@rule("device-sharding-device-present")
def sharding_device_present(facts: Facts) -> Iterator[Finding]:
    """A sharding lists devices."""
    specs = facts.ShardingSpecProto
    yield specs.at(
        specs.device == 0,
        "the sharding of {0!r} lists no device; list those that hold parts of it",
        specs.texts(specs.tensor_name),
    )


@rule("device-group-key-unique")
def group_key_unique(facts: Facts) -> Iterator[Finding]:
    """A sharding has one group of a key."""
    groups = facts.IntIntListEntryProto
    rows = _children(groups, "ShardingSpecProto.index_to_device_group_map")
    yield groups.at(
        rows[repeats(groups.parent[rows], groups.key[rows])],
        "the sharding has a group {0} before; merge them or change a key",
        groups.key,
    )


@rule("device-group-members-known")
def group_members_known(facts: Facts) -> Iterator[Finding]:
    """Members of groups are devices of the configuration."""
    groups, members = facts.IntIntListEntryProto, facts.lists("IntIntListEntryProto.value")
    spec = np.where(groups.under("ShardingSpecProto.index_to_device_group_map"), groups.parent, -1)
    devices = np.append(facts.derive(Shardings).devices, -1)[spec][members.parent]
    yield members.at(
        (members.value < 0) | ((devices >= 0) & (members.value >= devices)),
        "{0} is not a device of the configuration; members of groups are numbers from 0 to below num_devices",
        members.value,
    )


@rule("device-group-meaningful")
def group_meaningful(facts: Facts) -> Iterator[Finding]:
    """A group has members, each once, and is used."""
    groups, members = facts.IntIntListEntryProto, facts.lists("IntIntListEntryProto.value")
    rows = _children(groups, "ShardingSpecProto.index_to_device_group_map")
    yield groups.at(groups.value == 0, "group {0} has no members; list its devices or remove it", groups.key)
    used = facts.lists("ShardingSpecProto.device")
    is_used = _are_listed((groups.parent[rows], groups.key[rows]), (used.parent, used.value))
    yield groups.at(
        rows[~is_used], "group {0} is not in the device list; list its key there or remove the group", groups.key
    )
    yield members.at(
        repeats(members.parent, members.value), "device {0} is in the group before; list it once", members.value
    )


@rule("device-sharded-axis-present")
def sharded_axis_present(facts: Facts) -> Iterator[Finding]:
    """A sharded dimension has an axis."""
    dims = facts.ShardedDimProto
    yield dims.at(~dims.has("axis"), "the sharded dimension has no axis; set the axis that is split")


def _spec_column(facts: Facts, column: Rows, missing: int) -> Rows:
    """A column of ShardingSpecProto as one of ShardedDimProto."""
    dims = facts.ShardedDimProto
    return np.append(column, missing)[np.where(dims.under("ShardingSpecProto.sharded_dim"), dims.parent, -1)]


@rule("device-sharded-axis-range")
def sharded_axis_range(facts: Facts) -> Iterator[Finding]:
    """The tensor has the axis."""
    dims, shardings = facts.ShardedDimProto, facts.derive(Shardings)
    yield dims.at(
        shardings.is_outside,
        "{0!r} of rank {1} has no axis {2}; an axis is a number from -rank to rank - 1",
        dims.texts(_spec_column(facts, facts.ShardingSpecProto.tensor_name, EMPTY)),
        _spec_column(facts, shardings.rank, -1),
        dims.axis,
    )


@rule("device-sharded-axis-unique")
def sharded_axis_unique(facts: Facts) -> Iterator[Finding]:
    """An axis is split once; numbers from the back count as those from the front where the rank is known."""
    dims = facts.ShardedDimProto
    rows = np.flatnonzero(dims.has("axis"))
    yield dims.at(
        rows[repeats(dims.parent[rows], facts.derive(Shardings).axis[rows])],
        "axis {0} is listed before; merge the entries",
        dims.axis,
    )


@rule("device-simple-sharding-present")
def simple_sharding_present(facts: Facts) -> Iterator[Finding]:
    """A sharded dimension says into how many parts it is cut."""
    dims = facts.ShardedDimProto
    yield dims.at(
        dims.simple_sharding == 0,
        "the sharded dimension of axis {0} has no simple_sharding; add one with num_shards",
        dims.axis,
    )


@rule("device-num-shards")
def num_shards(facts: Facts) -> Iterator[Finding]:
    """A dimension is cut into one part or more."""
    parts = facts.SimpleShardedDimProto
    yield parts.at(parts.num_shards < 1, "num_shards is {0}; set it to 1 or more", parts.num_shards)


@rule("device-shard-dim-oneof")
def shard_dim_oneof(facts: Facts) -> Iterator[Finding]:
    """A dimension has a value or a variable."""
    parts = facts.SimpleShardedDimProto
    yield parts.at(parts.flags & CLASH != 0, "the dimension has both dim_value and dim_param; remove one")


@rule("device-shard-dim-value-nonnegative")
def shard_dim_value_nonnegative(facts: Facts) -> Iterator[Finding]:
    """A size is not negative."""
    parts = facts.SimpleShardedDimProto
    yield parts.at(
        parts.dim_value < 0, "dim_value {0} is negative; leave a size that is not known unset", parts.dim_value
    )


@rule("device-shard-dim-matches-tensor")
def shard_dim_matches_tensor(facts: Facts) -> Iterator[Finding]:
    """The sizes that an axis is made of give the size of the axis, where all of them are known."""
    dims, parts = facts.ShardedDimProto, facts.SimpleShardedDimProto
    if not parts.n:
        return
    rows = _children(parts, "ShardedDimProto.simple_sharding")
    parents, given = parts.parent[rows], parts.dim_value[rows]
    is_known = _all_of(parents, parts.has("dim_value")[rows] & (given >= 0), dims.n)
    product = _products(dims.n, parents, np.maximum(given, 0))
    size = facts.derive(Shardings).size
    yield dims.at(
        is_known & (size >= 0) & (product != size),
        "the dim_values of axis {0} do not make up its size, which is {1}; correct them or leave them out",
        dims.axis,
        size,
    )


@rule("device-shard-count-matches-devices")
def shard_count_matches_devices(facts: Facts) -> Iterator[Finding]:
    """There are as many parts as entries in the device list."""
    specs, dims, parts = facts.ShardingSpecProto, facts.ShardedDimProto, facts.SimpleShardedDimProto
    if not parts.n:
        return
    rows = _children(parts, "ShardedDimProto.simple_sharding")
    counts = np.maximum(parts.num_shards[rows], 0)
    of_axis = _products(dims.n, parts.parent[rows], counts)
    is_cut = _all_of(parts.parent[rows], counts > 0, dims.n)
    axes = _children(dims, "ShardingSpecProto.sharded_dim")
    of_spec = _products(specs.n, dims.parent[axes], of_axis[axes])
    is_known = _all_of(dims.parent[axes], is_cut[axes], specs.n)
    yield specs.at(
        is_known & (specs.device > 0) & (of_spec != specs.device),
        "the parts of {0!r} are not as many as the {1} entries in its device list; correct num_shards or the list",
        specs.texts(specs.tensor_name),
        specs.device,
    )


@rule("device-shard-uneven")
def shard_uneven(facts: Facts) -> Iterator[Finding]:
    """The parts are equally large; the size of the axis counts where it is cut once and no other is given."""
    dims, parts = facts.ShardedDimProto, facts.SimpleShardedDimProto
    if not parts.n:
        return
    alone = np.append(np.where(dims.simple_sharding == 1, facts.derive(Shardings).size, -1), -1)
    of_axis = alone[np.where(parts.under("ShardedDimProto.simple_sharding"), parts.parent, -1)]
    size: Any = np.where(parts.has("dim_value"), parts.dim_value, of_axis)
    yield parts.at(
        (size >= 0) & (parts.num_shards >= 1) & (size % np.maximum(parts.num_shards, 1) != 0),
        "{0} elements are cut into {1} parts, which cannot be equally large; how they differ is left to the backend",
        size,
        parts.num_shards,
    )
