"""`python -m onnxwire.dropin` runs a program as python does, with onnxwire in place of protobuf under `onnx`."""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

from onnxwire.dropin import install

USAGE = """\
usage: python -m onnxwire.dropin SCRIPT [ARGUMENTS]
       python -m onnxwire.dropin -m MODULE [ARGUMENTS]
       python -m onnxwire.dropin -c CODE [ARGUMENTS]

Runs a program as python does, with the messages of `onnx` being those of onnxwire. Programs that it starts have
ONNXWIRE_DROPIN=1 in their environment, and so the same."""


def main(arguments: list[str]) -> None:
    """Run what the arguments name; exits with status 2 where they name nothing."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    kind, rest = arguments[0], arguments[1:]
    if kind in ("-m", "-c") and not rest:
        print(f"python -m onnxwire.dropin: {kind} takes an argument", file=sys.stderr)
        sys.exit(2)
    install()
    os.environ["ONNXWIRE_DROPIN"] = "1"
    # `python -m` has put the working directory first, which is what -m and -c have there too.
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(module))
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.realpath(kind))
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
