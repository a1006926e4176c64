"""Check models by all rules of the IR: models of one node, of 100,000 nodes, of more than 4 GiB, and an example."""

from __future__ import annotations

from pathlib import Path

from benchmarks import chain, info_command, installed, valid_structure
from benchmarks.installed import run_python
from benchmarks.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.row import Side

EXAMPLE_MODEL = Path(__file__).parents[1] / "examples" / "digits_cnn.onnx"
N_CALLS = 100


def warm_up() -> None:
    """Check a model with a node, so that the rules are imported, as `import onnx` imports the checker of onnx."""
    import onnxwire

    model = onnxwire.ModelProto(ir_version=8)
    model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
    onnxwire.check(model)


def ours(path: Path, n_calls: int = 1) -> Side:
    """Return a side that checks a file `n_calls` times with onnxwire."""

    def side() -> Callable[[], object]:
        import onnxwire

        warm_up()
        return lambda: [len(onnxwire.check(str(path))) for _ in range(n_calls)]

    return side


def ours_first() -> Callable[[], object]:
    """Return an operation that checks the model of one node, as the first check in the process."""
    import onnxwire

    check = onnxwire.check  # imports numpy
    return lambda: check(str(chain.SMALL))


def official(path: Path, n_calls: int = 1) -> Side:
    """Return a side that checks a file `n_calls` times with the official checker."""

    def side() -> Callable[[], object]:
        import onnx

        def operation() -> None:
            for _ in range(n_calls):
                onnx.checker.check_model(str(path))

        return operation

    return side


ROWS = [
    Row(
        "check 100,000 nodes, all rules",
        prepare=valid_structure.prepare,
        ours=ours(valid_structure.PATH),
        official=official(valid_structure.PATH),
        goal=2,
        repeats=15,
    ),
    Row(
        "the same, of a chain of 100,000 nodes without value_info",
        prepare=chain.prepare,
        ours=ours(chain.MEDIUM),
        official=official(chain.MEDIUM),
        goal=2,
    ),
    Row(
        "check a model of one node, first call", prepare=chain.prepare, ours=ours_first, official=official(chain.SMALL)
    ),
    Row(
        f"check one node, {N_CALLS} later calls",
        prepare=chain.prepare,
        ours=ours(chain.SMALL, N_CALLS),
        official=official(chain.SMALL, N_CALLS),
    ),
    Row(
        f"the same, of a model of {EXAMPLE_MODEL.stat().st_size // 1000} kB",
        ours=ours(EXAMPLE_MODEL, N_CALLS),
        official=official(EXAMPLE_MODEL, N_CALLS),
    ),
    Row(
        "`onnxwire check` on a model of one node, beside a process that calls onnx.checker",
        prepare=lambda: installed.prepare(chain.prepare),
        ours=run_python("-m", "onnxwire", "check", str(chain.SMALL)),
        official=run_python("-c", f"import onnx; onnx.checker.check_model({str(chain.SMALL)!r})"),
        in_child=True,
        goal=1,
        repeats=15,
    ),
    Row(
        "check a file of more than 4 GiB, all rules",
        prepare=info_command.prepare,
        ours=ours(info_command.PATH),
        official=None,
        memory_goal=50e6,
        note="can't: over 2 GiB",
    ),
]
