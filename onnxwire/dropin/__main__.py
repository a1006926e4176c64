"""`python -m onnxwire.dropin`: run a program as python does, with `onnx` using onnxwire instead of protobuf."""

from __future__ import annotations

import sys

# `python -m` has put the working directory first in sys.path; nothing may be imported from there yet.
if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

import os

from onnxwire.dropin import install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

USAGE = """\
usage: python -m onnxwire.dropin [PYTHON OPTIONS] SCRIPT [ARGUMENTS]
       python -m onnxwire.dropin [PYTHON OPTIONS] -m MODULE [ARGUMENTS]
       python -m onnxwire.dropin [PYTHON OPTIONS] -c CODE [ARGUMENTS]
       python -m onnxwire.dropin [PYTHON OPTIONS] - [ARGUMENTS]

Run a program as python does, with `onnx` using the message classes of onnxwire. Child processes inherit
ONNXWIRE_DROPIN=1, so they use these classes too."""


def main(arguments: list[str]) -> None:
    """Run the program that the arguments name.

    Print the usage for -h and without arguments; exit with status 2 if no program is named.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    options, arguments = split_options(arguments)
    if arguments == [] or (arguments[0] in ("-m", "-c") and len(arguments) == 1):
        reason = f"{arguments[0]} needs an argument" if arguments else "there is no program to run"
        print(f"python -m onnxwire.dropin: {reason}", file=sys.stderr)
        sys.exit(2)
    if options:
        _restart_python(options, arguments)
    install()
    os.environ["ONNXWIRE_DROPIN"] = "1"
    program = arguments[0]
    if program == "-m":
        _insert_in_path(os.getcwd())
        sys.argv = ["-m", *arguments[2:]]
        _run_module(arguments[1], alter_argv=True)
    elif program == "-c":
        _insert_in_path("")
        sys.argv = ["-c", *arguments[2:]]
        _run_code(_make_main_module(), arguments[1], "<string>")
    elif program == "-":
        _insert_in_path("")
        sys.argv = arguments
        module = _make_main_module()
        module.__file__ = "<stdin>"
        module.__cached__ = None  # type: ignore[attr-defined]
        _run_code(module, sys.stdin.buffer.read(), "<stdin>")
    else:
        sys.argv = arguments
        _run_script(program)


def split_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a python command line into interpreter options and the program (-m, -c, - or a path) with its arguments."""
    options: list[str] = []
    remainder = list(arguments)
    while remainder and remainder[0].startswith("-") and remainder[0] not in ("-", "-m", "-c"):
        option = remainder.pop(0)
        if option.startswith("--"):
            options.append(option)
            if option == "--check-hash-based-pycs":
                options += remainder[:1]
                del remainder[:1]
            continue
        # Short options may be joined, the last one with its value: -um json.tool, -Werror.
        for position, letter in enumerate(option[1:], 1):
            if letter in "mc":
                options += [option[:position]] if position > 1 else []
                value = option[position + 1 :]
                return options, [f"-{letter}", *([value] if value else []), *remainder]
            if letter in "WX":
                options.append(option)
                if position == len(option) - 1:
                    options += remainder[:1]
                    del remainder[:1]
                break
        else:
            options.append(option)
    return options, remainder


def _restart_python(options: list[str], arguments: list[str]) -> None:
    """Run the program in a new interpreter with additional options. This function does not return."""
    # The options of this interpreter, and -m onnxwire.dropin.
    inherited = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv[1:])]
    command = [sys.executable, *options, *inherited, *arguments]
    if sys.platform == "win32":
        import subprocess

        sys.exit(subprocess.run(command, check=False).returncode)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command)


def _insert_in_path(folder: str) -> None:
    """Insert a folder first in sys.path, unless sys.flags.safe_path is set."""
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _make_main_module() -> ModuleType:
    """Replace the module `__main__` by an empty module, and return the new module."""
    import builtins
    from types import ModuleType

    module = sys.modules["__main__"] = ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    return module


def _run_code(module: ModuleType, code: str | bytes, name: str) -> None:
    """Run source code in a module. name: the name of the file in tracebacks."""
    exec(compile(code, name, "exec"), vars(module))


def _run_module(name: str, alter_argv: bool) -> None:
    """Run a module as `__main__`. alter_argv: whether sys.argv[0] becomes the path of the module."""
    import runpy

    _make_main_module()
    # Python itself calls this for -m, and for a folder or archive with a __main__.py.
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _run_script(path: str) -> None:
    """Run a source file, a compiled file, or a folder or archive with a __main__.py. Exit if it can't be read."""
    import zipfile

    absolute_path = os.path.join(os.getcwd(), path)
    try:
        is_folder = os.path.isdir(path)
        if is_folder or zipfile.is_zipfile(path):
            sys.path.insert(0, absolute_path)
            _run_module("__main__", alter_argv=False)
            return
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        reason = f"can't open file {absolute_path!r}: [Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: {reason}", file=sys.stderr)
        sys.exit(2)
    _insert_in_path(os.path.dirname(os.path.realpath(path)))
    from importlib import machinery, util

    # A compiled file begins with a magic number of 4 bytes, in a header of 16 bytes (PEP 552).
    is_compiled = data[:4] == util.MAGIC_NUMBER
    module = _make_main_module()
    module.__file__ = absolute_path
    loader = machinery.SourcelessFileLoader if is_compiled else machinery.SourceFileLoader
    module.__loader__ = loader("__main__", absolute_path)
    module.__cached__ = None  # type: ignore[attr-defined]
    if is_compiled:
        import marshal

        exec(marshal.loads(data[16:]), vars(module))
    else:
        _run_code(module, data, absolute_path)


if __name__ == "__main__":
    main(sys.argv[1:])
