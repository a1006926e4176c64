"""onnxwire.save with external=: the files that it creates or replaces, and those that remain after kills and errors."""

import errno
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import numpy_helper
from test_save_faults import DROP_PRIVILEGES, failing_call, needs_linux, public_folder  # noqa: F401  (a fixture)

import onnxwire

N_ELEMENTS = 3000  # elements of a weight

# The options of the save of the old model, and those of the save of the new one.
LAYOUTS = {
    "inline to one file": ({}, {"external": "w.data"}),
    "one file to another": ({"external": "v.data"}, {"external": "d/w.data"}),
    "one file to inline": ({"external": "v.data"}, {"external": None}),
    "one file to shards": ({"external": "w.data"}, {"external": "w.data", "shard_size": 1}),
    "one file to itself": ({"external": "w.data"}, {"external": "w.data"}),
    "a file per tensor to the same": ({"external": "{name}"}, {"external": "{name}"}),
    "shards to the same": ({"external": "w", "shard_size": 1}, {"external": "w", "shard_size": 1}),
}
EVERY_LAYOUT = pytest.mark.parametrize(("old_options", "new_options"), LAYOUTS.values(), ids=LAYOUTS)
# The names of the layouts in which both saves write files of the same names, and those of the other layouts.
SAME_FILES_LAYOUTS = [name for name in LAYOUTS if name.endswith(("itself", "same"))]
OTHER_FILES_LAYOUTS = [name for name in LAYOUTS if name not in SAME_FILES_LAYOUTS]


def make_model(value, names="ab"):
    """Return a model with weights of these names, full of `value`, which is also the name of the graph."""
    weights = [onnxwire.from_array(np.full(N_ELEMENTS, value, np.float32), name) for name in names]
    return onnxwire.ModelProto(ir_version=10, graph={"name": f"{value}", "initializer": weights})


def value_of(path):
    """Return the value of a model. Assert that onnx and onnxwire read it for all elements, and that the graph has it as
    its name."""
    official, folder = onnx.load(path, load_external_data=False), os.path.dirname(path)
    values = {int(official.graph.name)}
    for weight in official.graph.initializer:
        values |= set(numpy_helper.to_array(weight, folder).tolist())
    with onnxwire.load(path) as model:
        for weight in model.graph.initializer:
            values |= set(weight.numpy().tolist())
    assert len(values) == 1, f"a mix of {values}"
    return values.pop()


def tree(folder):
    """Return the bytes of each file, the target of each link, and None for each folder, by path below a folder."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        contents[str(path.relative_to(folder))] = content
    return contents


def save_model(folder, value, options):
    """Save `make_model(value)` in a folder. Return its path. options: as for `save`."""
    path = folder / "m.onnx"
    onnxwire.save(make_model(value), path, **options)
    return path


# --- overwritten files


def test_a_file_that_is_not_the_models_is_replaced_only_with_overwrite(tmp_path):
    path = tmp_path / "m.onnx"
    (tmp_path / "b").write_bytes(b"precious")
    tree_before = tree(tmp_path)
    for external in ("b", "{name}", "./b"):
        with pytest.raises(onnxwire.SaveError, match="overwrite=True") as error_info:
            onnxwire.save(make_model(1), path, external=external)
        assert error_info.value.errno == errno.EEXIST
        assert tree(tmp_path) == tree_before
    onnxwire.save(make_model(1), path, external="{name}", overwrite=True)
    assert value_of(path) == 1


@EVERY_LAYOUT
def test_the_models_own_files_are_replaced(tmp_path, old_options, new_options):
    path = save_model(tmp_path, 1, old_options)
    model = onnxwire.load(path)
    arrays = [weight.numpy() for weight in model.graph.initializer]
    onnxwire.save(make_model(2), path, **new_options)  # the files belong to the old model at this path
    assert value_of(path) == 2
    if old_options:
        # In some layouts the new model does not own the old files.
        onnxwire.save(model, path, **old_options, overwrite=True)
        assert value_of(path) == 1
    assert all((array == 1).all() for array in arrays)
    assert not [name for name in tree(tmp_path) if "tmp" in name]


def test_a_damaged_model_owns_no_files(tmp_path):
    path = save_model(tmp_path, 1, {"external": "w.data"})
    path.write_bytes(path.read_bytes()[:-10])
    tree_before = tree(tmp_path)
    with pytest.raises(onnxwire.SaveError, match="overwrite=True"):
        onnxwire.save(make_model(2), path, external="w.data")
    assert tree(tmp_path) == tree_before


def test_a_file_with_the_name_of_a_data_file_in_another_folder_is_not_replaced(tmp_path):
    (tmp_path / "other").mkdir()
    save_model(tmp_path / "other", 1, {"external": "w.data"})
    path = save_model(tmp_path, 2, {"external": "v.data"})
    (tmp_path / "w.data").write_bytes(b"precious")
    tree_before = tree(tmp_path)
    with pytest.raises(onnxwire.SaveError, match="overwrite=True"):
        onnxwire.save(onnxwire.load(tmp_path / "other" / "m.onnx"), path, external="w.data")
    assert tree(tmp_path) == tree_before


@pytest.mark.parametrize(("name", "data"), [("d", b"precious"), ("d/w.data/x", b"precious")], ids=["file", "folder"])
def test_a_file_and_a_folder_do_not_replace_each_other(tmp_path, name, data):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(data)
    tree_before = tree(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(onnxwire.SaveError):
            onnxwire.save(make_model(1), tmp_path / "m.onnx", external="d/w.data", overwrite=overwrite)
        assert tree(tmp_path) == tree_before


# --- names


HOSTILE_NAMES = [
    "", "a", "A", "a_2", "a/b", "a\\b", "..", "../a", "/a", ".", "-", " ", "a\0b", "a\nb", "ä", "\u00e9", "e\u0301",
    "ß", "SS", "\u017f", "K", "\u212a", "\u202e", "n" * 500, "𝄞" * 100, "a.", ".a", "CON", "{name}", "tensor",
    "graph.initializer[0]", "graph.initializer_0_", "0..0", "a...b",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(HOSTILE_NAMES) | st.text(max_size=5), max_size=30),
    st.sampled_from(["{name}", "d/{name}.bin"]),
)
@example(HOSTILE_NAMES * 2, "{name}")
def test_every_tensor_gets_a_separate_file_regardless_of_its_name(tmp_path, monkeypatch, names, pattern):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # it would be called for hundreds of files
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    weights = [onnxwire.from_array(np.full(300, number, np.float32), name) for number, name in enumerate(names)]
    model = onnxwire.ModelProto(graph={"initializer": weights})
    onnxwire.save(model, folder / "the model", external=pattern)
    data_files = [name for name, data in tree(folder).items() if data is not None and name != "the model"]
    assert len({name.casefold() for name in data_files}) == len(names)
    assert all(name.isascii() and name.isprintable() and not name.startswith(".") for name in data_files)
    for number, weight in enumerate(onnx.load(folder / "the model").graph.initializer):
        assert (weight.name, numpy_helper.to_array(weight)[7]) == (names[number], number)


COLLIDING_LOCATIONS = [("w", "./w"), ("d/w", "d//w"), ("d/w", "d/./w"), ("w", "W"), ("w", "w/w"), ("w/w", "w")]
COLLIDING_LOCATIONS += [("s.data", "s.data", "s-00001-of-00002.data"), ("s-00002-of-00002.data", "s.data", "s.data")]


@pytest.mark.parametrize("locations", COLLIDING_LOCATIONS)
def test_colliding_locations_lose_no_data(tmp_path, locations):
    path, remaining_locations = tmp_path / "m.onnx", iter(locations)
    weights = [
        onnxwire.from_array(np.full(N_ELEMENTS, number, np.float32), f"{number}") for number in range(len(locations))
    ]
    model = onnxwire.ModelProto(graph={"initializer": weights})
    try:
        onnxwire.save(model, path, external=lambda info: next(remaining_locations), shard_size=4 * N_ELEMENTS)
    except onnxwire.Error:
        assert tree(tmp_path) == {}
        return
    elements = [numpy_helper.to_array(weight)[0] for weight in onnx.load(path).graph.initializer]
    assert elements == [*range(len(locations))]


# --- writes outside of the folder; see CVE-2025-51480, in which the model chose the written file

REFUSED_LOCATIONS = [
    "../w", "d/../../w", "d/../w", "/w", "//w", "..", ".", "", "d/", "C:w", "c:\\w", "..\\w", "d\\..\\..\\w",
    "\\\\host\\w", "a\0b", "a\nb", "#w", "*/_ORT_MEM_ADDR_/*", "w" * 300, "\ud800",
    "folder/w", "folder/../w", "file", "dangling", "circle", "within", "folder", "d/up/w", "m.onnx", "./m.onnx",
]  # fmt: skip


@pytest.fixture
def folder_with_links(tmp_path):
    """Make a folder for the model, with links, most of which lead out of it; files outside must not change."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_bytes(b"precious")
    folder = tmp_path / "model"
    (folder / "d").mkdir(parents=True)
    links = {"folder": "../victim", "file": "../victim/file", "dangling": "../victim/new", "circle": "circle"}
    for name, target in (links | {"within": "d/new", "d/up": "../.."}).items():
        (folder / name).symlink_to(target)
    return folder


@pytest.mark.parametrize("location", REFUSED_LOCATIONS, ids=ascii)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_location_that_is_not_a_data_file_in_the_folder_is_refused_and_nothing_is_created(
    folder_with_links, location, overwrite
):
    tree_before = tree(folder_with_links.parent)
    location = str(folder_with_links.parent / "victim" / "file") if location == "/w" else location
    for external in (location, lambda info: location):
        with pytest.raises(onnxwire.Error):
            onnxwire.save(make_model(1), folder_with_links / "m.onnx", external=external, overwrite=overwrite)
        assert tree(folder_with_links.parent) == tree_before


def test_the_names_and_locations_in_a_model_cause_no_write_outside_of_the_folder(folder_with_links):
    tree_before = tree(folder_with_links.parent)
    model = make_model(1, ["../victim/file", "folder/file"])
    for weight in model.graph.initializer:
        # The location is unused, since the data is inline; the official writer wrote to it.
        weight.external_data.add(key="location", value="../victim/file")
    for external in (lambda info: info.name, lambda info: "folder/file"):
        with pytest.raises(onnxwire.EditError, match=r"symbolic link|may lead out"):
            onnxwire.save(model, folder_with_links / "m.onnx", external=external, overwrite=True)
    assert tree(folder_with_links.parent) == tree_before
    for options in ({}, {"external": None}, {"external": "w.data"}, {"external": "{name}", "overwrite": True}):
        onnxwire.save(model, folder_with_links / "m.onnx", **options)
        new_names = {name for name in tree(folder_with_links.parent) if name not in tree_before}
        assert all(name.startswith("model/") for name in new_names)
        assert {
            name: data for name, data in tree(folder_with_links.parent).items() if name in tree_before
        } == tree_before
    assert value_of(folder_with_links / "m.onnx") == 1


@pytest.mark.parametrize("location", ["../victim/file", "file", "folder/file", "/etc/passwd"])
def test_data_that_may_not_be_read_is_not_copied_into_a_new_file(folder_with_links, location):
    model, entry = make_model(1), {"key": "location", "value": location}
    model.graph.initializer.add(
        name="stolen",
        dims=[8],
        data_type=onnx.TensorProto.UINT8,
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[entry],
    )
    (folder_with_links / "m.onnx").write_bytes(model.SerializeToString())
    tree_before = tree(folder_with_links.parent)
    for external, threshold in itertools.product([None, "w.data"], [1, 1024]):
        with pytest.raises(onnxwire.ExternalDataError, match="stolen"):
            onnxwire.save(
                onnxwire.load(folder_with_links / "m.onnx"),
                folder_with_links / "m.onnx",
                external=external,
                threshold=threshold,
            )
        assert tree(folder_with_links.parent) == tree_before


# --- kills

KILLED_PROGRAM = """
import json, os, shutil, signal, sys
import numpy as np
import onnxwire
template, options = sys.argv[1], json.loads(sys.argv[2])
for moment in range(1000):
    folder = f"{template}-{moment}"
    shutil.copytree(template, folder)
    if os.fork() == 0:
        n_calls_left = moment
        def count_calls(function):
            def call(*arguments, **keywords):
                global n_calls_left
                if n_calls_left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                n_calls_left -= 1
                return function(*arguments, **keywords)
            return call
        for name in ("mkdir", "link", "fsync", "fchmod", "replace", "unlink"):
            setattr(os, name, count_calls(getattr(os, name)))
        model = onnxwire.load(folder + "/m.onnx")
        model.graph.name = "2"
        for weight in model.graph.initializer:
            weight.CopyFrom(onnxwire.from_array(np.full(weight.shape, 2, np.float32), weight.name))
        onnxwire.save(model, folder + "/m.onnx", progress=count_calls(lambda *call: None), **options)
        os._exit(0)
    if os.wait()[1] == 0:
        break
print(moment)
"""


def kill_at_every_moment(folder, old_options, new_options):
    """Return the folders in which a save was killed before the first, second, … call that KILLED_PROGRAM counts."""
    template = folder / "killed"
    template.mkdir()
    save_model(template, 1, old_options)
    command = [sys.executable, "-c", KILLED_PROGRAM, template, json.dumps(new_options)]
    n_moments = int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert value_of(folder / f"killed-{n_moments}" / "m.onnx") == 2  # the last save was not killed
    return [folder / f"killed-{moment}" for moment in range(n_moments)]


def check_leftovers_are_removed(folder, options):
    """Assert that the next save to the same paths removes leftover files."""
    save_model(folder, 3, {**options, "overwrite": True})
    assert value_of(folder / "m.onnx") == 3
    assert not [name for name in tree(folder) if "tmp" in name]


@needs_linux
@pytest.mark.parametrize("name", OTHER_FILES_LAYOUTS)
def test_a_kill_at_any_moment_leaves_the_old_model_or_the_new_one(tmp_path, name):
    folders = kill_at_every_moment(tmp_path, *LAYOUTS[name])
    values = [value_of(folder / "m.onnx") for folder in folders]
    assert values == sorted(values)
    assert {*values} == {1, 2}
    for folder in folders:
        check_leftovers_are_removed(folder, LAYOUTS[name][1])


def value_if_complete(folder):
    """Return the value of a model, or None if an element has another value or the data is missing."""
    with onnxwire.load(folder / "m.onnx") as model:
        value = int(model.graph.name)
        try:
            return value if all((weight.numpy() == value).all() for weight in model.graph.initializer) else None
        except onnxwire.SourceError:
            assert list(folder.glob(".*.old"))  # the old data is in such a file instead
            return None


@needs_linux
@pytest.mark.xfail(reason="two files can't be replaced in one step", strict=True)
@pytest.mark.parametrize("name", SAME_FILES_LAYOUTS)
def test_a_kill_while_files_of_the_same_names_are_replaced_leaves_no_mix(tmp_path, name):
    assert None not in [value_if_complete(folder) for folder in kill_at_every_moment(tmp_path, *LAYOUTS[name])]


@needs_linux
@pytest.mark.parametrize("name", SAME_FILES_LAYOUTS)
def test_checksums_reveal_a_kill_while_files_of_the_same_names_are_replaced(tmp_path, name):
    old_options, new_options = ({**options, "checksum": True} for options in LAYOUTS[name])
    folders = kill_at_every_moment(tmp_path, old_options, new_options)
    states = [value for value, _ in itertools.groupby(map(value_if_complete, folders))]
    assert states == [1, None, 2]
    for folder in folders:
        if value_if_complete(folder) is not None:
            onnxwire.verify(folder / "m.onnx", checksums=True)
        else:
            with pytest.raises((onnxwire.ExternalDataError, onnxwire.SourceError), match=r"SHA-1|No such file"):
                onnxwire.verify(folder / "m.onnx", checksums=True)
        check_leftovers_are_removed(folder, new_options)


@needs_linux
@pytest.mark.parametrize("name", SAME_FILES_LAYOUTS)
def test_other_tools_read_each_complete_model_that_a_killed_save_leaves(tmp_path, name):
    refusals = []
    for folder in kill_at_every_moment(tmp_path, *LAYOUTS[name]):
        try:
            assert value_if_complete(folder) is None or value_of(folder / "m.onnx")
        except onnx.checker.ValidationError as error:
            refusals.append((folder.name, str(error)))
    assert refusals == []


@needs_linux
def test_a_kill_at_a_random_time_leaves_the_old_model_or_the_new_one(tmp_path):
    code = (
        "import numpy as np, onnxwire, sys\n"
        "for i in range(10**6):\n"
        "    weight = onnxwire.from_array(np.full(4 << 20, i % 100, np.float32), 'w')\n"
        "    model = onnxwire.ModelProto(graph={'name': str(i % 100), 'initializer': [weight]})\n"
        "    onnxwire.save(model, sys.argv[1], external=f'{i % 2}.data', overwrite=True)\n"
        "    if i == 1: print('now', flush=True)\n"
    )
    rng, path = random.Random(5), tmp_path / "m.onnx"
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"now\n"
            time.sleep(rng.random() / 5)
            process.kill()
        model = onnx.load(path)
        assert (numpy_helper.to_array(model.graph.initializer[0]) == int(model.graph.name)).all()


# --- failing system calls


class FailingCalls:
    """Replaces system calls: the call with the given index, counted from 0, raises `error()`.

    Calls of `unlink` and `rmdir`, which only clean up, are not counted. failed_call: the name of the call that failed,
    or None.
    """

    def __init__(self, monkeypatch, index, error):
        self.remaining_calls, self.error, self.failed_call = index, error, None
        for name in ("mkdir", "link", "fsync", "fchmod", "replace"):
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name)))

    def wrap(self, name, system_call):
        """Return a function that counts a call, and then fails or calls the system."""

        def call(*arguments, **keywords):
            self.remaining_calls -= 1
            if self.remaining_calls == -1:
                self.failed_call = name
                raise self.error()
            return system_call(*arguments, **keywords)

        return call


ERRORS = {"error": lambda: OSError(errno.EIO, os.strerror(errno.EIO)), "interrupt": KeyboardInterrupt}


@needs_linux
@EVERY_LAYOUT
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_after_any_failed_call_either_no_file_changed_or_the_new_model_is_complete(
    tmp_path, old_options, new_options, error
):
    faults = []
    for index in itertools.count():
        folder = tmp_path / f"{index}"
        folder.mkdir()
        path, exception = save_model(folder, 1, old_options), None
        tree_before = tree(folder)
        with pytest.MonkeyPatch.context() as patch:
            failing_calls = FailingCalls(patch, index, error)
            try:
                onnxwire.save(make_model(2), path, overwrite=True, **new_options)
            except BaseException as fault:
                exception = fault
        if failing_calls.failed_call is None:
            break
        tree_after = tree(folder)
        try:
            assert exception is None or isinstance(exception, (onnxwire.SaveError, KeyboardInterrupt)), repr(exception)
            assert not [name for name in tree_after if "tmp" in name]
            if exception is None or tree_after["m.onnx"] != tree_before["m.onnx"]:
                assert value_of(path) == 2
            else:
                assert tree_after == tree_before
        except Exception as fault:
            faults.append(
                f"call {index}, {failing_calls.failed_call}: {[*tree_after]}: {str(fault).splitlines()[0][:200]}"
            )
    assert index > 5
    assert faults == []


@needs_linux
@pytest.mark.parametrize("has_links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("target", ["m.onnx", "a", "b"])
def test_a_file_that_can_not_be_renamed_into_place_leaves_all_old_files(tmp_path, monkeypatch, target, has_links):
    path = save_model(tmp_path, 1, {"external": "{name}"})
    tree_before, system_replace = tree(tmp_path), os.replace

    def replace(source, path, **folders):
        if path == target and tree_before[target] != (tmp_path / source).read_bytes():
            failing_call(errno.EIO)()
        system_replace(source, path, **folders)

    monkeypatch.setattr(os, "replace", replace)
    if not has_links:
        monkeypatch.setattr(os, "link", failing_call(errno.EPERM))
    with pytest.raises(onnxwire.SaveError):
        onnxwire.save(make_model(2), path, external="{name}")
    monkeypatch.undo()
    assert tree(tmp_path) == tree_before
    assert value_of(path) == 1


@needs_linux
def test_all_bytes_are_on_the_disk_before_the_first_rename_and_the_model_is_last(tmp_path, monkeypatch):
    path = save_model(tmp_path, 1, {"external": "{name}"})
    synced_inodes, renames, system_replace, system_fsync = [], [], os.replace, os.fsync

    def fsync(descriptor):
        synced_inodes.append(os.fstat(descriptor).st_ino)
        system_fsync(descriptor)

    def replace(source, target, **folders):
        if not target.endswith(".old"):
            renames.append((target, os.stat(tmp_path / source).st_ino, set(synced_inodes)))
        system_replace(source, target, **folders)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    onnxwire.save(make_model(2), path, external="{name}")
    assert sorted(name for name, *_ in renames) == ["a", "b", "m.onnx"]
    assert renames[-1][0] == "m.onnx"
    assert {inode for _, inode, _ in renames} <= renames[0][2]


def test_an_exception_of_progress_ends_the_save_and_changes_no_file(tmp_path):
    path = save_model(tmp_path, 1, {"external": "w.data"})
    tree_before, count = tree(tmp_path), itertools.count()
    onnxwire.save(make_model(1), path, external="w.data", progress=lambda *call: next(count))
    for number, external in itertools.product(range(next(count)), ["w.data", "new/deep/{name}"]):
        moments = itertools.count()

        def progress(*call, moments=moments, number=number):
            if next(moments) == number:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            onnxwire.save(make_model(2), path, external=external, progress=progress)
        assert tree(tmp_path) == tree_before


# --- lack of space, permissions and descriptors

# attempt: save tensors of these sizes in bytes and a doc_string of `text` characters; print the SaveError, if any.
LIMITED_PROGRAM = """
import os, resource, shutil, sys
import numpy as np
import onnxwire, onnxwire.io.external_save
def attempt(path, *sizes, **options):
    model = onnxwire.ModelProto(doc_string="x" * options.pop("text", 0), graph={"name": "2"})
    for name, size in zip("abcdefgh", sizes):
        model.graph.initializer.append(onnxwire.from_array(np.full(size, 2, np.uint8), name))
    try:
        onnxwire.save(model, path, **options)
    except onnxwire.SaveError as error:
        print(error)
"""


def run_limited(code, *arguments, prefix=()):
    """Return the output of a new interpreter that runs LIMITED_PROGRAM and then the code, for up to 100 seconds.

    prefix: the words before the interpreter in the command.
    """
    command = [*prefix, sys.executable, "-c", LIMITED_PROGRAM + code, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert process.returncode == 0, process.stderr
    return process.stdout


# Arguments of `attempt` after the path.
TOO_LONG_FILES = ["300_000, external='w.data'", "10, 300_000, external='{name}'", "300_000, external='d/{name}'"]
TOO_LONG_FILES += [f"5000, external={external!r}, text=300_000" for external in ("w.data", "{name}")]
EXCESSIVE_PAYLOADS = ["5 << 20, external='w'", "5000, external='w', text=5 << 20", "*[300_000] * 8, external='{name}'"]


@needs_linux
@pytest.mark.parametrize("arguments", TOO_LONG_FILES)
def test_a_save_beyond_the_limit_of_file_size_changes_no_file(tmp_path, arguments):
    path = save_model(tmp_path, 1, {"external": "w.data"})
    tree_before = tree(tmp_path)
    code = "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); attempt(sys.argv[1], {})"
    assert "File too large" in run_limited(code.format(arguments), path)
    assert tree(tmp_path) == tree_before


@needs_linux
@pytest.mark.parametrize("arguments", EXCESSIVE_PAYLOADS)
def test_a_full_disk_changes_no_file(tmp_path, arguments):
    namespace_command = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    mount = (*namespace_command, 'mount -t tmpfs -o size=1m none "$0" && exec "$@"', str(tmp_path))
    if not shutil.which("unshare") or subprocess.run([*mount, sys.executable, "-V"], capture_output=True).returncode:
        pytest.skip("can't mount a file system")
    code = (
        "path = sys.argv[1] + '/m.onnx'\n"
        "attempt(path, 5000, 5000, external='w')\n"
        f"attempt(path, {arguments})\n"
        "weights = onnxwire.load(path).graph.initializer\n"
        "print(sorted(os.listdir(sys.argv[1])), [int(weight.numpy().sum()) for weight in weights])\n"
        "attempt(path, 900_000, external='w'); print(os.path.getsize(sys.argv[1] + '/w'))"
    )
    error, listing, size_of_second_save = run_limited(code, tmp_path, prefix=mount).splitlines()
    assert "No space left on device" in error
    assert listing == "['m.onnx', 'w'] [10000, 10000]"
    assert size_of_second_save == "900000"


@needs_linux
@pytest.mark.parametrize("location", ["locked/w.data", "locked/deep/w.data"])
def test_a_folder_without_write_permission_is_named_and_nothing_changes(public_folder, location):  # noqa: F811
    (public_folder / "locked").mkdir()
    path = save_model(public_folder, 1, {"external": "locked/w.data"})
    tree_before = tree(public_folder)
    for name in ("m.onnx", "locked/w.data"):
        (public_folder / name).chmod(0o666)
    public_folder.chmod(0o777)
    (public_folder / "locked").chmod(0o555)
    code = DROP_PRIVILEGES + "attempt(sys.argv[1], 5000, external=sys.argv[2], overwrite=True)"
    output = run_limited(code, path, location)
    (public_folder / "locked").chmod(0o755)
    assert "Permission denied" in output
    assert str(public_folder / "locked") in output
    assert tree(public_folder) == tree_before
    assert value_of(path) == 1


@needs_linux
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path, overwrite):
    path = save_model(tmp_path, 1, {"external": "w.data"})
    (tmp_path / "w.data").unlink()
    os.mkfifo(tmp_path / "w.data")
    assert "w.data" in run_limited(f"attempt(sys.argv[1], 5000, external='w.data', overwrite={overwrite})", path)


@needs_linux
def test_more_files_than_descriptors_are_written(tmp_path):
    code = (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "weights = [onnxwire.from_array(np.full(300, n, np.float32), f'w{n}') for n in range(200)]\n"
        "model = onnxwire.ModelProto(graph={'initializer': weights})\n"
        "onnxwire.save(model, sys.argv[1], external='{name}')\n"
    )
    run_limited(code, tmp_path / "m.onnx")
    weights = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(weight)[0] for weight in weights] == [*range(200)]


@needs_linux
@pytest.mark.parametrize("is_mapped", [True, False])
def test_data_that_was_truncated_meanwhile_is_an_error_and_changes_no_file(tmp_path, is_mapped):
    path = save_model(tmp_path, 1, {"external": "w.data"})
    for external in (None, "w.data", "{name}"):
        onnxwire.save(make_model(1), path, external="w.data", overwrite=True)
        with onnxwire.load(path, mmap=is_mapped) as model:
            assert model.graph.initializer[1].numpy()[0] == 1
            os.truncate(tmp_path / "w.data", 5000)
            tree_before = tree(tmp_path)
            with pytest.raises(onnxwire.SourceError, match="truncated"):
                onnxwire.save(model, path, external=external)
            assert tree(tmp_path) == tree_before
