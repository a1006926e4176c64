"""`onnxwire git`: diff and merge drivers for models in git."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from onnxwire.cli import git_repository
from onnxwire.cli.git_repository import run_git
from onnxwire.cli.options import add_command
from onnxwire.cli.terminal import safe_text
from onnxwire.errors import DecodeError, SaveError, SourceError, count_text
from onnxwire.io.atomic_file import AtomicFile
from onnxwire.io.save import save

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.messages import ModelProto

_DESCRIPTION = """\
Make git compare and merge models. `install` sets up three drivers for *.onnx: `git diff` and `git log -p` print models
as text, with a digest of each tensor in place of its elements; `git difftool -t onnxwire` opens both versions in the
browser; `git merge` merges changes to different nodes, tensors and metadata. Versions in Git LFS are read from the
local store of Git LFS.
"""
_EXAMPLES = """\
`textconv`, `difftool` and `merge` are the drivers, which git calls. `merge` writes the merged model over OURS; its exit
status is 1 after conflicts, which it lists, and OURS is then unchanged.

examples:
  onnxwire git install                  for this clone: .git/config and .git/info/attributes
  onnxwire git install --global         for all repositories: ~/.gitconfig and git's file of attributes
  onnxwire git uninstall
  onnxwire git merge base.onnx ours.onnx theirs.onnx
"""
_ARGUMENT_COUNTS = {"install": 0, "uninstall": 0, "textconv": 1, "difftool": 2, "merge": 3}
"""The number of files by action. `merge` also accepts the path of the model in the repository."""
# The line in the file of attributes, which selects the drivers for models.
_ATTRIBUTES = "*.onnx diff=onnxwire merge=onnxwire"
_SETTINGS = {
    "diff.onnxwire.textconv": "{program} git textconv --",
    "difftool.onnxwire.cmd": '{program} git difftool -- "$LOCAL" "$REMOTE"',
    "merge.onnxwire.name": "merge of ONNX models",
    "merge.onnxwire.driver": "{program} git merge -- %O %A %B %P",
    # A conflict of two merge bases must not be resolved silently.
    "merge.onnxwire.recursive": "binary",
}
"""The values of git's settings; {program} is the command that runs onnxwire."""
_MERGED, _CONFLICTS, _UNREADABLE = 0, 1, 2  # exit statuses of `merge`


def add_parser(commands: Any) -> None:
    """Add the command to the parser's `commands`."""
    parser = add_command(commands, "git", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("action", metavar="ACTION", choices=list(_ARGUMENT_COUNTS), help=", ".join(_ARGUMENT_COUNTS))
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="textconv FILE; difftool A B; merge BASE OURS THEIRS [NAME]"
    )
    scopes = parser.add_mutually_exclusive_group()
    scopes.add_argument("--local", action="store_true", help="install or uninstall for this clone (default)")
    scopes.add_argument(
        "--global", dest="is_global", action="store_true", help="install or uninstall for all repositories of the user"
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Install, uninstall, or run a driver; returns the exit status."""
    action, files = options.action, options.files
    count = _ARGUMENT_COUNTS[action]
    if not (len(files) == count or (action == "merge" and len(files) == count + 1)):
        accepted_count = "3 or 4 arguments" if action == "merge" else count_text(count, "file") if count else "no files"
        options.parser.error(f"{action} takes {accepted_count}, not {len(files)}")
    if count and (options.local or options.is_global):
        options.parser.error("--local and --global are for install and uninstall")
    if action == "textconv":
        return _print_text(files[0])
    if action == "difftool":
        from onnxwire.cli import main

        return main(["view", *map(git_repository.resolve_pointer, files)])
    if action == "merge":
        return _merge(*files)
    return _set_up(action == "install", options.is_global)


def _set_up(is_install: bool, is_global: bool) -> int:
    """Write or remove the settings and the attributes; returns the exit status."""
    if not is_global:
        git_repository.require_repository(os.getcwd())
    scope = "--global" if is_global else "--local"
    path = git_repository.find_attributes_file(is_global)
    if is_install:
        _install(scope)
    # The attributes are written last and removed first: without the settings they would make git merge models as text.
    git_repository.edit_line(path, _ATTRIBUTES, is_present=is_install)
    if not is_install:
        _uninstall(scope)
    verb = "compares and merges" if is_install else "no longer compares and merges"
    print(f"git {verb} *.onnx with onnxwire in {'all repositories' if is_global else 'this clone'} ({path})")
    return 0


def _install(scope: str) -> None:
    """Write the settings. Raises SaveError if a setting has a value that `install` did not write."""
    settings = {name: git_repository.read_setting(scope, name) for name in _SETTINGS}
    for name, values in settings.items():
        for value in values:
            if not _is_from_install(name, value):
                reason = f"{value!r} is set; to replace it, first run `git config {scope} --unset-all {name}`"
                raise SaveError(None, reason, name)
    program = _program_command()
    for name, template in _SETTINGS.items():
        # git replaces %P in the command of a merge driver, so each % in the program's path is doubled.
        is_driver = name.endswith(".driver")
        value = template.replace("{program}", program.replace("%", "%%") if is_driver else program)
        if settings[name] != [value]:
            git_repository.write_setting(scope, "--replace-all", name, value)


def _uninstall(scope: str) -> None:
    """Remove the values of settings that `install` wrote."""
    for name, template in _SETTINGS.items():
        if not _is_set(scope, name):
            continue
        # git expects a regular expression. Of its special characters, the templates contain only $.
        pattern = template.replace("{program}", "").replace("$", "[$]")
        git_repository.write_setting(scope, "--unset-all", name, f"{pattern}$")


def _is_set(scope: str, name: str) -> bool:
    """Return whether a setting has a value that `install` wrote."""
    return any(_is_from_install(name, value) for value in git_repository.read_setting(scope, name))


def _is_from_install(name: str, value: str) -> bool:
    """Return whether `install` wrote a value, in this or another environment."""
    template = _SETTINGS[name]
    if "{program}" not in template:
        return value == template
    return value.endswith(template.removeprefix("{program}"))


def _program_command() -> str:
    """Return the command that runs onnxwire, for a shell.

    It is the script beside this Python, else the script that the shell finds, else `python -I -m onnxwire`. Without -I,
    Python would import modules from the repository in which git runs it.
    """
    script = Path(sys.executable).with_name("onnxwire.exe" if os.name == "nt" else "onnxwire")
    if script.is_file():
        return shlex.quote(script.as_posix())
    path = shutil.which("onnxwire")
    return shlex.quote(path) if path else f"{shlex.quote(Path(sys.executable).as_posix())} -I -m onnxwire"


def _print_text(path: str) -> int:
    """Print a version of a model as text with digests, or one line with the error; returns the exit status."""
    from onnxwire.analysis.payload_summary import payload_summary
    from onnxwire.engine.verify import verify_document
    from onnxwire.text.text_writer import to_text

    git_repository.read_pointer(path)  # an absent file is an error
    try:
        with git_repository.load_version(path) as model:
            verify_document(model._document, type(model))
            to_text(model, sys.stdout, as_protoc=True, summary=payload_summary)
    except (DecodeError, SourceError) as error:
        # An exit status of 2 would end `git log -p` at this version.
        print(safe_text(f"onnxwire: {str(error).replace(path, 'this version')}"))
    return 0


def _load_versions(shown_name: str, base: str, ours: str, theirs: str) -> list[ModelProto] | None:
    """Load three versions of a model. If one cannot be used, print the error and return None.

    Only the base version can be absent; git then passes an empty file. The other versions are damaged if they are
    empty.
    """
    from onnxwire.engine.verify import verify_document

    models = []
    for path, version in ((base, "the base"), (ours, "our version"), (theirs, "their version")):
        fault = ""
        try:
            model = git_repository.load_version(path)
            verify_document(model._document, type(model))
            models.append(model)
            if path is not base and not model.ByteSize():
                fault = "is empty"
        except (DecodeError, SourceError) as error:
            fault = f"cannot be read: {str(error).removeprefix(f'{path}: ')}"
        if fault:
            print(f"{shown_name}: {version} {safe_text(fault)}", file=sys.stderr)
            return None
    return models


def _merge(base: str, ours: str, theirs: str, name: str | None = None) -> int:
    """Merge three versions of a model and write the result over ours, unless there are conflicts.

    name: the path of the model in the repository, for messages and for Git LFS. Returns the exit status.
    """
    from onnxwire.transforms.merge_changes import merge_changes

    shown_name = safe_text(name or ours)
    models = _load_versions(shown_name, base, ours, theirs)
    if models is None:
        return _UNREADABLE
    merged, conflicts = merge_changes(*models)
    for conflict in conflicts:
        print(f"{shown_name}: {safe_text(str(conflict))}", file=sys.stderr)
    if conflicts:
        advice = "the file is our version, unchanged; compare the versions with `onnxwire diff`"
        print(f"{shown_name}: {count_text(len(conflicts), 'conflict')}; {advice}", file=sys.stderr)
        return _CONFLICTS
    if git_repository.read_pointer(ours) is None:
        save(merged, ours)
        return _MERGED
    # Git LFS writes the model to its store; git commits the pointer.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merged.onnx"
        save(merged, path)
        with open(path, "rb") as model:
            pointer = run_git("lfs", "clean", "--", name or ours, file=model)
    with AtomicFile(ours) as out:
        out.write(f"{pointer}\n".encode())
    return _MERGED
