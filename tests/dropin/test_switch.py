"""Programs written for `onnx` find the same with onnxwire in place of protobuf, in processes of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import wire

import onnxwire

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(onnxwire.__file__).parent.parent
# Hides the package protobuf from a process, as where it is not installed.
HIDE_PROTOBUF = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = classmethod(lambda cls, name, *rest: None if name.startswith("google") else find(name, *rest))
"""
SWITCH = "import onnxwire.dropin; onnxwire.dropin.install()\n"
RUN = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')\n"


def python(*arguments, status=0, **environment):
    """The output of a process; its errors where it is to fail."""
    environment = {"PYTHONPATH": str(ROOT)} | os.environ | environment
    command = [sys.executable, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == status, result.stderr[-2000:]
    return result.stderr if status else result.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The program's output with protobuf."""
    return python(PROGRAM, tmp_path_factory.mktemp("protobuf"))


@pytest.mark.parametrize("before", ["", HIDE_PROTOBUF], ids=["beside protobuf", "without protobuf"])
def test_a_program_finds_the_same(expected, before, tmp_path):
    assert python("-c", before + SWITCH + RUN, PROGRAM, tmp_path) == expected


def test_the_program_is_run_by_ours(tmp_path):
    code = "import onnx, onnxwire; print(onnx.ModelProto is onnxwire.ModelProto is onnx.onnx_ml_pb2.ModelProto)"
    assert python("-m", "onnxwire.dropin", "-c", code) == "True\n"


# --- python -m onnxwire.dropin


@pytest.mark.parametrize("way", ["script", "module", "code"])
def test_what_is_run_sees_the_command_line_of_python(way, tmp_path):
    code = "import sys, onnx, onnxwire; print(sys.argv[1:], __name__, onnx.ModelProto is onnxwire.ModelProto)"
    (tmp_path / "told.py").write_text(code + "\nimport beside\n")
    (tmp_path / "beside.py").write_text("")
    arguments = {"script": [tmp_path / "told.py"], "module": ["-m", "told"], "code": ["-c", code]}[way]
    path = os.pathsep.join([str(ROOT), str(tmp_path)]) if way == "module" else str(ROOT)
    printed = python("-m", "onnxwire.dropin", *arguments, "-x", "y", PYTHONPATH=path)
    assert printed == "['-x', 'y'] __main__ True\n"


def test_a_program_that_fails_fails():
    assert "ZeroDivisionError" in python("-m", "onnxwire.dropin", "-c", "1 / 0", status=1)
    python("-m", "onnxwire.dropin", "-c", "raise SystemExit(7)", status=7)


def test_nothing_to_run_is_told():
    assert "usage" in python("-m", "onnxwire.dropin", status=2)
    assert "takes an argument" in python("-m", "onnxwire.dropin", "-m", status=2)
    assert "usage" in python("-m", "onnxwire.dropin", "--help")


# --- the environment

START = "import site, sys; site.addsitedir(sys.argv[1]); import onnx; print('onnxwire' in sys.modules)"


@pytest.mark.parametrize(("value", "is_on"), [("1", "True"), ("0", "False"), ("", "False"), (None, "False")])
def test_the_variable_turns_it_on_and_nothing_else_does(value, is_on, tmp_path, monkeypatch):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    monkeypatch.delenv("ONNXWIRE_DROPIN", raising=False)
    environment = {} if value is None else {"ONNXWIRE_DROPIN": value}
    assert python("-c", START, tmp_path, **environment).strip() == is_on


def test_the_line_in_site_packages_imports_nothing_without_the_variable(tmp_path, monkeypatch):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    monkeypatch.delenv("ONNXWIRE_DROPIN", raising=False)
    code = "import site, sys; site.addsitedir(sys.argv[1]); print('onnxwire' in sys.modules, 'onnx' in sys.modules)"
    assert python("-S", "-c", code, tmp_path) == "False False\n"


def test_what_a_program_starts_has_the_variable():
    code = "import os; print(os.environ['ONNXWIRE_DROPIN'])"
    assert python("-m", "onnxwire.dropin", "-c", code) == "1\n"


# --- on and off


def test_too_late_is_an_error_that_says_so():
    assert "onnx is imported already" in python("-c", "import onnx\n" + SWITCH, status=1)


def test_off_again_gives_the_classes_of_protobuf():
    code = SWITCH + (
        "import onnx as ours, onnxwire, sys\n"
        "model = ours.ModelProto(producer_name='p')\n"
        "onnxwire.dropin.uninstall(); onnxwire.dropin.uninstall()\n"
        "import onnx, google.protobuf.message as message\n"
        "assert onnx is not ours and onnx.ModelProto is not onnxwire.ModelProto\n"
        "assert onnx.ModelProto.FromString(model.SerializeToString()).producer_name == 'p'\n"
        "onnx.checker.check_tensor(onnx.helper.make_tensor('t', 1, [1], [1.0]))\n"
        "assert not isinstance(model, message.Message)\n"
        "assert repr(model) == \"ModelProto(producer_name='p')\" and type(model).__module__ == 'onnxwire'\n"
        "assert onnxwire.TensorProto(dims=[2]).shape == (2,)\n"
        "first, second = model.graph, model.graph\n"
        "assert first is not second and not onnxwire.dropin.is_installed()\n"
    )
    python("-c", code)


def test_twice_is_once():
    code = SWITCH + SWITCH + "onnxwire.dropin.uninstall(); import onnx; print(onnx.ModelProto is onnxwire.ModelProto)"
    assert python("-c", code) == "False\n"


@pytest.mark.parametrize(
    ("version", "is_new"), [("1.23.9", False), ("1.24.0", True), ("2.0", True), ("unknown", False)]
)
def test_a_newer_onnx_is_warned_of(version, is_new):
    code = (
        "import importlib.metadata as metadata, warnings\n"
        f"metadata.version = lambda name: {version!r}\n{SWITCH}"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import onnx\n"
        "print([str(w.message) for w in seen if w.category is onnxwire.dropin.UnknownOnnxWarning])"
    )
    assert (f"onnx {version} is newer" in python("-c", code)) == is_new


def test_errors_are_those_that_programs_catch():
    code = SWITCH + (
        "import onnx\n"
        "from google.protobuf import json_format, message, text_format\n"
        "for parse, kind in [(onnx.ModelProto.FromString, message.DecodeError),\n"
        "                    (lambda data: text_format.Parse(data, onnx.ModelProto()), text_format.ParseError),\n"
        "                    (lambda data: json_format.Parse(data, onnx.ModelProto()), json_format.ParseError)]:\n"
        "    try:\n        parse(b'graph: {')\n        print('no error')\n"
        "    except kind as error:\n        print(type(error).__name__)\n"
    )
    for before in "", HIDE_PROTOBUF:
        assert python("-c", before + code).split() == ["DecodeError", "ParseError", "ParseError"]


def test_text_and_json_of_protobuf_take_and_fill_ours():
    code = SWITCH + (
        "import onnx, sys\n"
        "from google.protobuf import json_format, text_format\n"
        "model = onnx.load(sys.argv[1])\n"
        "text = text_format.MessageToString(model)\n"
        "for made in [text_format.Parse(text, onnx.ModelProto()), text_format.Merge(text, onnx.ModelProto()),\n"
        "             json_format.Parse(json_format.MessageToJson(model), onnx.ModelProto()),\n"
        "             json_format.ParseDict(json_format.MessageToDict(model), onnx.ModelProto())]:\n"
        "    assert made == model and type(made) is onnxwire.ModelProto\n"
        "assert text == onnxwire.to_text(model)\n"
    )
    python("-c", code, ROOT / "examples" / "digits_cnn.onnx")


def test_text_of_protobuf_shows_unknown_fields():
    # A number, bytes, a message, a group, and a value that a closed enum does not have.
    data = wire.number(99, 7) + wire.span(100, b"\xff") + wire.span(101, wire.number(3, 4)) + b"\x83\x07\x84\x07"
    data += wire.span(7, wire.span(1, wire.number(98, 1)) + wire.span(5, wire.number(14, 9)))
    code = (
        "import onnx\n"
        "from google.protobuf import text_format, unknown_fields\n"
        f"model = onnx.ModelProto.FromString({data!r})\n"
        "print(len(unknown_fields.UnknownFieldSet(model)))\n"
        "print(text_format.MessageToString(model, print_unknown_fields=True))"
    )
    off = "onnxwire.dropin.uninstall()\n"
    assert python("-c", SWITCH + code) == python("-c", code) == python("-c", SWITCH + off + code)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "dropin.md").read_text(), re.S))
def test_the_code_of_the_docs_runs(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    python("-c", code)


# --- files


@pytest.fixture
def large(tmp_path):
    """A model of 40 MB, which is mapped and not read."""
    model = onnx.ModelProto(ir_version=8)
    model.graph.initializer.add(name="w", data_type=2, dims=[40 << 20], raw_data=bytes(range(256)) * (40 << 12))
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    return path


OVERWRITES = {
    "serialized": "with open(path, 'wb') as file: file.write(model.SerializeToString())",
    "saved": "onnx.save(model, path)",
    "appended": "with open(path, 'ab') as file: file.write(b'')",
    "changed": "with open(path, 'r+b') as file: file.write(bytes(1000))",
    "truncated": "os.truncate(path, 10)",
    "opened": "os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))",
    "by another name": "os.symlink(path, path + '.link'); open(path + '.link', 'wb').close()",
}


@pytest.mark.parametrize("is_absolute", [True, False], ids=["whole path", "name"])
@pytest.mark.parametrize("way", OVERWRITES)
def test_a_model_outlives_what_is_done_to_its_file(way, is_absolute, large, monkeypatch):
    if not is_absolute:
        monkeypatch.chdir(large.parent)
    code = SWITCH + (
        "import onnx, os, sys, hashlib\n"
        "path = sys.argv[1]\n"
        "model = onnx.load(path)\n"
        "onnx.load(path)\n"  # which is let go of at once
        "whole = hashlib.sha256(model.graph.initializer[0].raw_data).digest()\n"
        "os.chmod(path, 0o640)\n"
        f"{OVERWRITES[way]}\n"
        "assert hashlib.sha256(model.graph.initializer[0].raw_data).digest() == whole\n"
        "assert os.stat(path).st_mode & 0o777 == 0o640\n"
        "print(os.path.getsize(path), len(os.listdir(os.path.dirname(os.path.abspath(path)))))"
    )
    size = large.stat().st_size
    left = {"truncated": 10, "opened": 0, "by another name": 0}.get(way, size)
    path = large if is_absolute else large.name
    assert python("-c", code, path).split() == [str(left), "2" if "name" in way else "1"]


def test_a_model_keeps_its_file_when_one_of_that_name_is_cut_in_another_folder(large, monkeypatch):
    monkeypatch.chdir(large.parent)
    size = large.stat().st_size
    code = SWITCH + (
        "import onnx, os, sys\n"
        "path = sys.argv[1]\n"
        "os.mkdir('other'); open('other/' + path, 'w').write('text')\n"
        "model = onnx.load(path)\n"
        "os.close(os.open(path, os.O_WRONLY | os.O_TRUNC, dir_fd=os.open('other', os.O_RDONLY)))\n"
        "print(os.path.getsize(path), os.path.getsize('other/' + path))"
    )
    assert python("-c", code, large.name).split() == [str(size), "0"]


def test_small_models_keep_no_file_open():
    code = SWITCH + (
        "import onnx, os, sys\n"
        "models = [onnx.load(sys.argv[1]) for _ in range(300)]\n"
        "print(len(os.listdir('/proc/self/fd')))"
    )
    if Path("/proc/self/fd").exists():
        assert int(python("-c", code, ROOT / "examples" / "digits_cnn.onnx")) < 50


def test_whoever_has_the_file_open_sees_what_is_saved(tmp_path):
    code = SWITCH + (
        "import onnx, sys, tempfile\n"
        "with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file:\n"
        "    onnx.save(onnx.ModelProto(producer_name='p'), file.name)\n"
        "    print(onnx.load(file).producer_name)"
    )
    assert python("-c", code, tmp_path) == "p\n"


def test_arrays_of_large_models_share_their_bytes(large):
    code = SWITCH + (
        "import onnx, sys\nfrom onnx import numpy_helper\n"
        "arrays = [numpy_helper.to_array(onnx.load(sys.argv[1]).graph.initializer[0]) for _ in range(30)]\n"
        "assert all(array.shape == (40 << 20,) and array[257] == 1 for array in arrays)\n"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]))"
    )
    assert int(python("-c", code, large)) < 30 * (40 << 10)


@pytest.mark.skipif(not Path("/proc").exists(), reason="files with holes")
def test_five_gigabytes_are_loaded_changed_and_saved_in_little_memory(tmp_path):
    size = 5 << 30
    inner = wire.span(8, b"w") + wire.number(2, 2) + wire.number(1, size) + wire.tag(9, 2) + wire.varint(size)
    graph = wire.tag(5, 2) + wire.varint(len(inner) + size) + inner
    head = wire.number(1, 8) + wire.tag(7, 2) + wire.varint(len(graph) + size) + graph
    path = tmp_path / "big.onnx"
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    code = (
        "import onnx\n"
        "m = onnx.load('big.onnx')\n"
        "m.producer_name = 'changed'\n"
        "m.graph.node.append(onnx.helper.make_node('Relu', ['a'], ['b']))\n"
        "onnx.save(m, 'out.onnx')\n"
        "again = onnx.load('out.onnx')\n"
        "assert again.graph.node[0].op_type == 'Relu' and again.ByteSize() > 5 << 30\n"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]))"
    )
    command = [sys.executable, "-m", "onnxwire.dropin", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 200 << 10
    assert (tmp_path / "out.onnx").stat().st_blocks * 512 < 1 << 30, "the hole was filled"
