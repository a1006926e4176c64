"""Run a command in this process and return its output."""

from onnxwire.cli import main


def output(capsys, *words: object, status: int = 0) -> str:
    """Run a command; assert its exit status and that stderr is empty; return its stdout."""
    assert main([*map(str, words)]) == status
    done = capsys.readouterr()
    assert done.err == ""
    return done.out


def complaint(capsys, *words: object) -> str:
    """Run a command; assert that it exits with 2 and prints nothing but one line on stderr; return that line."""
    status = main([*map(str, words)])
    done = capsys.readouterr()
    assert (status, done.out) == (2, "")
    assert done.err.startswith("onnxwire: ") and done.err.count("\n") == 1
    return done.err
