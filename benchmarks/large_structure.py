"""List tensors, rename, save, extract and compare by structure, with models of up to 1,000,000 nodes."""

from __future__ import annotations

from benchmarks import chain
from benchmarks.data import FOLDER
from benchmarks.index_tensors import tensors_of
from benchmarks.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from benchmarks.row import Side

OUTPUT = FOLDER / "chain_output.onnx"


def ours_tensors(path: Path) -> Side:
    """Return a side that lists the tensors of a file."""

    def side() -> Callable[[], object]:
        import onnxwire

        onnxwire.tensors(str(chain.SMALL))  # does lazy imports
        return lambda: [(info.name, info.data_type, list(info.shape)) for info in onnxwire.tensors(str(path))]

    return side


def official_tensors(path: Path) -> Side:
    """Return a side that loads a file and lists its tensors."""

    def side() -> Callable[[], object]:
        import onnx

        return lambda: [
            (tensor.name, tensor.data_type, list(tensor.dims)) for tensor in tensors_of(onnx.load(str(path)).graph)
        ]

    return side


def rename_all(load: Callable[[str], Any], save: Callable[[Any, str], object]) -> None:
    """Load chain.LARGE, rename every node, and save the model."""
    model = load(str(chain.LARGE))
    for node in model.graph.node:
        node.name += "_renamed"
    save(model, str(OUTPUT))


def ours_rename_all() -> Callable[[], object]:
    """Return an operation that renames all nodes with onnxwire."""
    import onnxwire

    return lambda: rename_all(onnxwire.load, onnxwire.save)


def official_rename_all() -> Callable[[], object]:
    """Return an operation that renames all nodes with onnx."""
    import onnx

    return lambda: rename_all(onnx.load, onnx.save)


def rename_one(model: Any) -> None:
    """Rename a node, or an initializer if the model has only one node."""
    (model.graph.node if len(model.graph.node) > 1 else model.graph.initializer)[5].name = "renamed"


def ours_save_one(path: Path) -> Side:
    """Return a side that loads a model and renames one element; its operation saves the model."""

    def side() -> Callable[[], object]:
        import onnxwire

        model = onnxwire.load(str(path))
        rename_one(model)
        save = onnxwire.save
        return lambda: save(model, str(OUTPUT))

    return side


def official_save_one(path: Path) -> Side:
    """Return a side that does the same as `ours_save_one` with onnx."""

    def side() -> Callable[[], object]:
        import onnx

        model = onnx.load(str(path))
        rename_one(model)
        return lambda: onnx.save(model, str(OUTPUT))

    return side


def ours_rename_value(path: Path) -> Side:
    """Return a side that renames one value of a loaded model."""

    def side() -> Callable[[], object]:
        import onnxwire

        model = onnxwire.load(str(path))
        return lambda: onnxwire.rename_values(model, {"v5": "renamed"})

    return side


def ours_extract() -> Callable[[], object]:
    """Return an operation that extracts ten nodes of a loaded model."""
    import onnxwire

    model = onnxwire.load(str(chain.LARGE))
    return lambda: len(onnxwire.extract(model, ["v10"], ["v20"]).graph.node)


def ours_diff(new_path: Path) -> Side:
    """Return a side that compares chain.MEDIUM with the model at `new_path` by structure. Loading is not measured."""

    def side() -> Callable[[], object]:
        import onnxwire

        old, new = onnxwire.load(str(chain.MEDIUM)), onnxwire.load(str(new_path))
        return lambda: len(list(onnxwire.diff(old, new, match="structure")))

    return side


def delete_output(_: object) -> None:
    """Delete the output. The result of the operation is ignored."""
    OUTPUT.unlink()


def _make_row_without_official(
    work: str, ours: Side, memory_goal: float | None = None, note: str = "no such call"
) -> Row:
    """Return a row without an official side. memory_goal, note: as in Row."""
    return Row(work, prepare=chain.prepare, ours=ours, official=None, memory_goal=memory_goal, repeats=3, note=note)


ROWS = [
    Row(
        "list the tensors of 1,000,000 nodes and one tensor",
        prepare=chain.prepare,
        ours=ours_tensors(chain.LARGE),
        official=official_tensors(chain.LARGE),
        fingerprint=sorted,
        repeats=3,
    ),
    Row(
        "list 100,000 tensors of one element",
        prepare=chain.prepare,
        ours=ours_tensors(chain.TENSORS),
        official=official_tensors(chain.TENSORS),
        fingerprint=sorted,
        repeats=3,
    ),
    Row(
        "rename all of 1,000,000 nodes, load to saved (ours with fsync)",
        prepare=chain.prepare,
        ours=ours_rename_all,
        official=official_rename_all,
        fingerprint=delete_output,
        memory_goal=250e6,
        repeats=3,
    ),
    *(
        Row(
            work,
            prepare=chain.prepare,
            inputs=(path,),
            ours=ours_save_one(path),
            official=official_save_one(path),
            fingerprint=delete_output,
            repeats=7,
            cpu_time=True,
        )
        for work, path in (
            ("save 1,000,000 nodes after an edit of one, processor time (ours with fsync)", chain.LARGE),
            ("the same, 100,000 tensors of one element", chain.TENSORS),
        )
    ),
    _make_row_without_official("rename one value of 1,000,000 nodes", ours_rename_value(chain.LARGE)),
    _make_row_without_official("the same, of 100,000 nodes", ours_rename_value(chain.MEDIUM)),
    _make_row_without_official("extract 10 of 1,000,000 nodes", ours_extract, note="not compared"),
    _make_row_without_official(
        "compare 100,000 nodes with renamed nodes by structure", ours_diff(chain.RENAMED), 300e6
    ),
    _make_row_without_official("the same, with themselves", ours_diff(chain.MEDIUM), 300e6),
]
