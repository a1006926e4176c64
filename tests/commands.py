"""Commands that are run in this process, and what they print."""

from onnxwire.cli import main


def output(capsys, *words: object, status: int = 0) -> str:
    """The output of a command that ends with a status and does not complain."""
    assert main([*map(str, words)]) == status
    done = capsys.readouterr()
    assert done.err == ""
    return done.out


def complaint(capsys, *words: object) -> str:
    """The error of a command that does not succeed."""
    status = main([*map(str, words)])
    done = capsys.readouterr()
    assert (status, done.out) == (2, "")
    assert done.err.startswith("onnxwire: ") and done.err.count("\n") == 1
    return done.err
