"""`diff`: the differences of two models, whose nodes are paired by name or by structure."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

from onnxwire.analysis.comparison import Comparison
from onnxwire.engine.message import Message
from onnxwire.errors import FieldTypeError
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal

    from onnxwire.analysis.comparison import Difference
    from onnxwire.io.source import Source


def diff(
    old: Source | ModelProto,
    new: Source | ModelProto,
    *,
    weights: bool = True,
    match: Literal["auto", "name", "structure"] = "auto",
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[Difference]:
    """Yield the differences of two models.

    old, new: models, or sources for `load`. weights: whether to compare the values of tensors, too, not only their
    other fields. progress: called with the number of compared bytes of `old`'s tensors, and with the total.
    match: "name" pairs nodes by name, else by the values that they produce. "structure" pairs them by operators,
    attributes, weights and connections, regardless of their names, and reports new names as one difference. If nodes
    were renamed, "auto" works like "structure", but pairs nodes of the same name first; otherwise like "name".
    All other elements are paired by name, key or index. These are not differences: the order of nodes, tensors,
    attributes and entries; an absent field instead of its default value, except in a oneof; the field or file that
    stores a tensor's elements. With "name", payloads are compared block by block, first as bytes, and payloads at the
    same offset of the same file are not read. With "structure", each payload is read once, and each that differs once
    more. A few blocks are in memory at a time. If both sources are one address and the server reports the same strong
    ETag for both, there are no differences, and only the first bytes of the file are read. Two files on the Hugging
    Face Hub with the same SHA-256 have no differences either, unless they have external data in different folders.
    Raises the errors of `load`, DecodeError and TensorError for damage, SourceError and ExternalDataError for files
    that cannot be read, FieldTypeError for messages other than ModelProto, and ValueError for any other `match`.
    """
    from onnxwire.io.load import load

    if match not in ("auto", "name", "structure"):
        raise ValueError(f"match is 'auto', 'name' or 'structure', not {match!r}")
    with ExitStack() as stack:
        models: list[ModelProto] = []
        for source in (old, new):
            if isinstance(source, Message) and not isinstance(source, ModelProto):
                raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(source).__name__}")
            models.append(source if isinstance(source, ModelProto) else stack.enter_context(load(source)))
        if not any(isinstance(source, Message) for source in (old, new)) and _is_one_version(*models):
            return
        if match == "structure" or (match == "auto" and _has_renamed_nodes(*models)):
            from onnxwire.analysis.structure_diff import structure_diff

            yield from structure_diff(*models, weights=weights, by_name=match == "auto", progress=progress)
        else:
            yield from Comparison(models[0], weights, progress).compare(*models)


def _is_one_version(old: ModelProto, new: ModelProto) -> bool:
    """Return whether two models are one version of a file on a server, or two files with the same SHA-256.

    Two files that have external data in different folders do not count.
    """
    old_file, new_file = (getattr(model._document.memory, "source", None) for model in (old, new))
    if old_file is None or new_file is None or not old_file.version.is_strong:
        return False
    if old_file.origin.address == new_file.origin.address:
        return old_file.version == new_file.version  # type: ignore[no-any-return]
    # Other servers may send one ETag for two files of different contents, and MD5 (S3) has known collisions.
    if not (old_file.has_sha256 and new_file.has_sha256 and old_file.version.is_same(new_file.version)):
        return False
    is_one_folder = old_file.origin.shown_folder == new_file.origin.shown_folder
    return is_one_folder or not any(is_external(tensor) for _, tensor in find_tensors(old))


def _has_renamed_nodes(old: ModelProto, new: ModelProto) -> bool:
    """Return whether both main graphs have a node of the same operator without a partner by name or output."""
    node_counts = [
        Counter((node.name, tuple(node.output), node.op_type) for node in model.graph.node) for model in (old, new)
    ]
    unmatched_nodes = node_counts[0] - node_counts[1], node_counts[1] - node_counts[0]
    if not unmatched_nodes[0] or not unmatched_nodes[1]:
        return False
    node_names = [{name for name, _, _ in nodes if name} for nodes in unmatched_nodes]
    output_names = [{output for _, outputs, _ in nodes for output in outputs if output} for nodes in unmatched_nodes]
    common_names, common_outputs = node_names[0] & node_names[1], output_names[0] & output_names[1]
    operators = [
        {
            operator
            for name, outputs, operator in nodes
            if name not in common_names and not common_outputs.intersection(outputs)
        }
        for nodes in unmatched_nodes
    ]
    return not operators[0].isdisjoint(operators[1])
