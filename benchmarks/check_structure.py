"""Check models against every rule of the IR: one of 100,000 nodes, and one of more than 4 GiB."""

from collections.abc import Callable

from benchmarks import info_command, valid_structure
from benchmarks.row import Row


def ours() -> Callable[[], object]:
    import onnxwire

    onnxwire.check(onnxwire.ModelProto(ir_version=8))  # imports the rules, as `import onnx` does the checker
    return lambda: onnxwire.check(str(valid_structure.PATH))


def official() -> Callable[[], object]:
    import onnx

    return lambda: onnx.checker.check_model(str(valid_structure.PATH))


def ours_big() -> Callable[[], object]:
    import onnxwire

    onnxwire.check(onnxwire.ModelProto(ir_version=8))
    return lambda: onnxwire.check(str(info_command.PATH))


ROWS = [
    Row(
        "check 100,000 nodes, all rules",
        prepare=valid_structure.prepare,
        ours=ours,
        official=official,
        goal=2,
        repeats=15,
    ),
    Row(
        "check a file of more than 4 GiB, all rules",
        prepare=info_command.prepare,
        ours=ours_big,
        official=None,
        memory_goal=50e6,
        note="can't: over 2 GiB",
    ),
]
