"""Run a command in this process and check its output."""

from onnxwire.cli import main


def output(capsys, *words: object, status: int = 0) -> str:
    """Run a command; assert its exit status and that stderr is empty; return its stdout."""
    assert main([*map(str, words)]) == status
    out, err = capsys.readouterr()
    assert err == ""
    return out


def error_line(capsys, *words: object) -> str:
    """Run a command; assert that its status is 2 and that it prints only one line, on stderr; return that line.

    The line must start with "onnxwire: ".
    """
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("onnxwire: ") and err.count("\n") == 1
    return err
