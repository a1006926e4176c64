"""`onnxwire git` installs drivers in git, and is the program that the drivers run. No two tests share a repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxwire
from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Return a function that runs git in a new repository, which is the working directory and has the drivers.

    The function asserts the exit status of git and returns its stdout and stderr in one string.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "home").mkdir()
    folder = tmp_path / "a repository's folder"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*arguments, status=0):
        result = subprocess.run(["git", *arguments], capture_output=True, text=True)
        assert result.returncode == status, result.stderr
        return result.stdout + result.stderr

    run("init", "-q", "-b", "main")
    run("config", "user.name", "a")
    run("config", "user.email", "a@example.org")
    assert main(["git", "install"]) == 0
    # `install` sets the path of a script, which may belong to another installation than the modules under test.
    program = f"'{sys.executable}' -P -m onnxwire git"
    for name in ("diff.onnxwire.textconv", "difftool.onnxwire.cmd", "merge.onnxwire.driver"):
        action = run("config", name).strip().partition(" git ")[2]
        run("config", name, f"{program} {action}")
    return run


def commit(git, model, text="model", path="m.onnx"):
    """Write a model to a path, and commit all changes in the repository. text: the message of the commit."""
    Path(path).write_bytes(model.SerializeToString())
    git("add", ".")
    git("commit", "-qm", text)


def make_two_branches(git, change_ours, change_theirs):
    """Commit the model DIGITS on main and a changed version on each of the branches "theirs" and "ours".

    change_ours, change_theirs: functions that modify a model. "ours" is checked out at the end.
    """
    base = onnx.load(DIGITS)
    commit(git, base)
    for name, change in (("theirs", change_theirs), ("ours", change_ours)):
        git("checkout", "-qb", name, "main")
        model = onnx.load(DIGITS)
        change(model)
        commit(git, model, name)


def test_a_diff_is_text_with_a_digest_of_each_changed_tensor(git):
    model = onnx.load(DIGITS)
    commit(git, model)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    model.graph.node[1].doc_string = "new"
    Path("m.onnx").write_bytes(model.SerializeToString())
    lines = [line for line in git("diff").splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line.split(",")[0] for line in lines] == [
        '+    doc_string: "new"',
        "-    # FLOAT 16x1x3x3",
        "+    # FLOAT 16x1x3x3",
    ]
    assert "576 bytes, xxh3 " in lines[1]


def test_moving_weights_to_a_file_does_not_change_the_diff(git):
    commit(git, onnx.load(DIGITS))
    assert main(["unpack", "m.onnx", "-o", "m.onnx", "--threshold", "0", "--no-progress"]) == 0
    assert onnx.load("m.onnx", load_external_data=False).graph.initializer[0].data_location == 1
    assert git("diff") == ""


def test_textconv_prints_the_same_text_as_dump_with_digests(git, capsys):
    assert main(["dump", str(DIGITS), "--digests"]) == 0
    text = capsys.readouterr().out
    assert main(["git", "textconv", str(DIGITS)]) == 0
    assert capsys.readouterr().out == text
    assert "# FLOAT 16x1x3x3, 576 bytes, xxh3 " in text


def test_digests_are_rejected_with_json(capsys):
    with pytest.raises(SystemExit):
        main(["dump", str(DIGITS), "--digests", "--json"])
    assert "--digests is for text" in capsys.readouterr().err


def test_changes_of_different_elements_are_merged(git):
    make_two_branches(
        git,
        lambda model: model.metadata_props.add(key="author", value="me"),
        lambda model: model.graph.initializer[1].CopyFrom(
            numpy_helper.from_array(np.ones(8, np.float32), model.graph.initializer[1].name)
        ),
    )
    git("merge", "-q", "-m", "both", "theirs")
    model = onnx.load("m.onnx")
    assert model.metadata_props[-1].value == "me"
    assert numpy_helper.to_array(model.graph.initializer[1]).tolist() == [1] * 8
    assert git("status", "--short") == ""


def test_changes_of_one_element_are_a_conflict_that_keeps_our_side(git):
    def change(text):
        return lambda model: setattr(model.graph.node[2], "doc_string", text)

    make_two_branches(git, change("one"), change("two"))
    contents_before = Path("m.onnx").read_bytes()
    report = git("merge", "theirs", status=1)
    assert "m.onnx: node node_conv2d in graph: changed by both sides, in different ways" in report
    assert git("status", "--short") == "UU m.onnx\n"
    assert Path("m.onnx").read_bytes() == contents_before


def test_different_models_that_both_sides_added_are_a_conflict(git):
    Path("readme").write_text("x")
    git("add", ".")
    git("commit", "-qm", "base")
    for name in ("theirs", "ours"):
        git("checkout", "-qb", name, "main")
        model = onnx.load(DIGITS)
        model.producer_name = name
        commit(git, model)
    git("merge", "theirs", status=1)
    assert git("status", "--short") == "AA m.onnx\n"


def pointer_to(data):
    """Return the text of the Git LFS pointer to some bytes."""
    return (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(data).hexdigest()}\nsize {len(data)}\n"
    )


def test_the_model_of_a_git_lfs_pointer_is_read_from_the_local_store(git):
    data = DIGITS.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    Path("m.onnx").write_text(pointer_to(data))
    git("add", ".")
    assert "+onnxwire: this version: a Git LFS pointer to" in git("diff", "--cached")
    object_path = Path(".git/lfs/objects", digest[:2], digest[2:4], digest)
    object_path.parent.mkdir(parents=True)
    object_path.write_bytes(data)
    assert "+    # FLOAT 16x1x3x3, 576 bytes, xxh3 " in git("diff", "--cached")
    object_path.write_bytes(data[:-1])
    assert "is not in the local store" in git("diff", "--cached")


@pytest.mark.parametrize(
    "text",
    ["oid sha256:../../../../etc/passwd\nsize 5\n", "oid sha256:" + "A" * 64 + "\nsize 5\n", "oid sha256:\nsize -1\n"],
)
def test_an_invalid_pointer_is_an_error_in_the_diff(git, text):
    Path("m.onnx").write_text("version https://git-lfs.github.com/spec/v1\n" + text)
    git("add", ".")
    assert "+onnxwire: " in git("diff", "--cached")
    assert "passwd" not in git("diff", "--cached").replace("oid sha256:../../../../etc/passwd", "")


def test_a_damaged_model_is_one_line_in_a_diff_and_a_conflict_in_a_merge(git):
    commit(git, onnx.load(DIGITS))
    git("checkout", "-qb", "theirs", "main")
    # A length beyond the end. Its last byte, ESC, is also the first byte of a color sequence.
    Path("m.onnx").write_bytes(b"\x0a\xff\xff\x1b[31m")
    git("commit", "-qam", "damaged")
    assert "+onnxwire: " in git("show")
    assert "\x1b" not in git("show")
    git("checkout", "-qb", "ours", "main")
    model = onnx.load(DIGITS)
    model.producer_name = "x"
    commit(git, model)
    contents_before = Path("m.onnx").read_bytes()
    git("merge", "theirs", status=1)
    assert Path("m.onnx").read_bytes() == contents_before


@pytest.mark.parametrize("name", ["-o.onnx", "a b'$(touch x)\".onnx", "--help.onnx", "\u202e.onnx"])
def test_file_names_are_not_used_as_options_or_commands(git, name):
    model = onnx.load(DIGITS)
    commit(git, model, path=name)
    for branch, field in (("theirs", "producer_name"), ("ours", "producer_version")):
        git("checkout", "-qb", branch, "main")
        edited_model = onnx.load(DIGITS)
        setattr(edited_model, field, "new")
        commit(git, edited_model, path=name)
    assert '+producer_version: "new"' in git("show")
    git("merge", "-q", "-m", "both", "theirs")
    assert onnxwire.load(name).producer_name == onnxwire.load(name).producer_version == "new"
    assert sorted(os.listdir()) == sorted([".git", name])


def test_difftool_passes_both_versions_to_view(git, monkeypatch):
    view_options = []
    monkeypatch.setattr("onnxwire.cli.cmd_view.run", lambda options: view_options.append(options) or 0)
    data = DIGITS.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    object_path = Path(".git/lfs/objects", digest[:2], digest[2:4], digest)
    object_path.parent.mkdir(parents=True)
    object_path.write_bytes(data)
    Path("old.onnx").write_text(pointer_to(data))
    assert main(["git", "difftool", "old.onnx", str(DIGITS)]) == 0
    assert (view_options[0].file, view_options[0].other) == (str(object_path), str(DIGITS))


def test_install_and_uninstall_change_only_their_own_settings(git, capsys):
    path = Path(".git/info/attributes")
    path.write_text("*.txt text\n" + path.read_text())
    assert main(["git", "install", "--local"]) == 0
    assert path.read_text() == "*.txt text\n*.onnx diff=onnxwire merge=onnxwire\n"
    assert main(["git", "uninstall"]) == 0
    assert path.read_text() == "*.txt text\n"
    assert "onnxwire" not in git("config", "--local", "--list")
    assert main(["git", "uninstall"]) == 0
    assert "git no longer compares" in capsys.readouterr().out


@pytest.mark.parametrize("attributes", [None, b"", b"*.txt text", b"a text\r\nb -text\r\n", b"\n\n"])
def test_install_and_uninstall_keep_every_other_byte(git, attributes):
    path, config = Path(".git/info/attributes"), Path(".git/config")
    assert main(["git", "uninstall"]) == 0
    path.unlink(missing_ok=True)
    config.write_bytes(config.read_bytes() + b'[diff "onnxwire"]\n\tcachetextconv = true # mine\n')
    if attributes:
        path.write_bytes(attributes)
    contents_before = config.read_bytes()
    for _ in range(2):
        assert main(["git", "install"]) == 0
    assert b"*.onnx diff=onnxwire" in path.read_bytes()
    assert main(["git", "uninstall"]) == 0
    assert config.read_bytes() == contents_before
    assert (path.read_bytes() if path.exists() else None) == (attributes or None)


def test_a_setting_of_the_user_is_kept(git, capsys):
    assert main(["git", "uninstall"]) == 0
    git("config", "merge.onnxwire.driver", "mine %A")
    contents_before = Path(".git/config").read_bytes()
    assert main(["git", "install"]) == 2
    assert "merge.onnxwire.driver: 'mine %A' is set; to replace it, first run `git config" in capsys.readouterr().err
    assert main(["git", "uninstall"]) == 0
    assert Path(".git/config").read_bytes() == contents_before
    git("config", "--unset", "merge.onnxwire.driver")
    assert main(["git", "install"]) == 0
    git("config", "--add", "merge.onnxwire.driver", "mine %A")
    assert main(["git", "uninstall"]) == 0
    assert git("config", "--get-all", "merge.onnxwire.driver") == "mine %A\n"


def test_installs_and_uninstalls_at_the_same_time_all_succeed(git):
    program = [sys.executable, "-c", "import sys; from onnxwire.cli import main; sys.exit(main(sys.argv[1:]))", "git"]
    actions = ["install", "uninstall"] * 2
    processes = [subprocess.Popen([*program, action], stderr=subprocess.PIPE, text=True) for action in actions]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 4


def test_a_locked_configuration_file_of_git_is_an_error(git, monkeypatch, capsys):
    monkeypatch.setattr("onnxwire.cli.git_repository._MAX_LOCK_SECONDS", 0)
    Path(".git/config.lock").touch()
    assert main(["git", "uninstall"]) == 2
    assert "could not lock config file" in capsys.readouterr().err
    assert "*.onnx" not in Path(".git/info/attributes").read_text() if Path(".git/info/attributes").exists() else True


def test_a_pipe_in_place_of_the_attributes_is_rejected(git, capsys):
    path = Path(".git/info/attributes")
    path.unlink()
    os.mkfifo(path)
    assert main(["git", "install"]) == 2
    assert "attributes: not a regular file" in capsys.readouterr().err


def test_a_percent_sign_in_the_path_of_the_program_is_kept(git, tmp_path, monkeypatch):
    scripts = tmp_path / "100%A %P"
    scripts.mkdir()
    (scripts / "onnxwire").touch()
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    assert main(["git", "install"]) == 0
    assert git("config", "merge.onnxwire.driver").startswith(f"'{tmp_path}/100%%A %%P/onnxwire' git merge")
    assert git("config", "diff.onnxwire.textconv").startswith(f"'{tmp_path}/100%A %P/onnxwire' git")


def test_a_conflict_of_two_merge_bases_is_not_resolved_silently(git):
    def commit_producer(name):
        model = onnx.load(DIGITS)
        model.producer_name = name
        Path("m.onnx").write_bytes(model.SerializeToString())
        git("commit", "-qam", name)

    commit(git, onnx.load(DIGITS))
    for name in "ab":
        git("checkout", "-qb", name, "main")
        commit_producer(name)
    # b merges a, and a merges the first commit of b, so that the first commits of a and of b are both merge bases.
    for name, merged_commit in (("b", "a"), ("a", "b~1")):
        git("checkout", "-q", name)
        git("merge", "-q", merged_commit, status=1)
        commit_producer(name)
    git("merge", "b", status=1)
    git("reset", "-q", "--hard")
    git("checkout", "-q", "b")
    git("merge", "a", status=1)


# An empty file, a length without its last byte, and a tag without a value.
@pytest.mark.parametrize("damage", [b"", b"\x0a\xff\xff", b"x"])
def test_an_unreadable_version_is_named_and_ours_is_not_changed(tmp_path, damage, capsys):
    paths = [tmp_path / name for name in ("base", "ours", "theirs")]
    for path in paths:
        path.write_bytes(DIGITS.read_bytes())
    paths[2].write_bytes(damage)
    assert main(["git", "merge", *map(str, paths), "m.onnx"]) == 2
    report = capsys.readouterr().err
    assert report.startswith("m.onnx: their version ")
    assert str(tmp_path) not in report
    assert paths[1].read_bytes() == DIGITS.read_bytes()


def test_drivers_are_installed_for_all_repositories(git, tmp_path):
    assert main(["git", "uninstall"]) == 0
    assert main(["git", "install", "--global"]) == 0
    attributes = tmp_path / "home" / ".config" / "git" / "attributes"
    assert attributes.read_text() == "*.onnx diff=onnxwire merge=onnxwire\n"
    assert "onnxwire git textconv" in git("config", "--global", "diff.onnxwire.textconv")
    git("config", "--global", "core.attributesFile", str(tmp_path / "other"))
    assert main(["git", "install", "--global"]) == 0
    assert (tmp_path / "other").read_text() == attributes.read_text()


def test_outside_a_repository_install_is_rejected(git, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert main(["git", "install"]) == 2
    assert "not in a git repository; change into one, or use --global" in capsys.readouterr().err


def test_textconv_imports_no_module_from_the_repository(git):
    Path("onnxwire.py").write_text("open('imported', 'w')")
    Path("xxhash.py").write_text("open('imported', 'w')")
    assert main(["git", "install"]) == 0
    commit(git, onnx.load(DIGITS))
    git("show")
    assert not Path("imported").exists()


@pytest.mark.parametrize(
    "arguments", [["textconv"], ["merge", "a", "b"], ["install", "x"], ["textconv", "x", "--global"]]
)
def test_a_wrong_number_of_files_or_a_scope_for_a_driver_is_an_error(arguments, capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["git", *arguments])
    assert excinfo.value.code == 2
    assert "onnxwire git --help" in capsys.readouterr().err
