"""With the switch of `onnxwire.dropin`, programs change the files of models that they have loaded.

The switch makes `import onnx` use the classes of onnxwire. A change of the file has no effect on the loaded model, or
later reads of the file raise an error. Also tests the size limit above which files are mapped, and the use of memory
and of file descriptors.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import wire
from switched import INSTALL_SWITCH, ROOT, run_python


@pytest.fixture
def large_path(tmp_path):
    """Return the path of a model of 40 MiB, which the loader maps instead of reading it."""
    model = onnx.ModelProto(ir_version=8)
    model.graph.initializer.add(
        name="w", data_type=onnx.TensorProto.UINT8, dims=[40 << 20], raw_data=bytes(range(256)) * (40 << 12)
    )
    path = tmp_path / "large.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# Statements of a program that change the file of a loaded model, or open it for writing.
CHANGES_BY_PROGRAM = {
    "serialized": "with open(path, 'wb') as file: file.write(model.SerializeToString())",
    "saved": "onnx.save(model, path)",
    "opened for appending": "with open(path, 'ab') as file: file.write(b'')",
    "changed": "with open(path, 'r+b') as file: file.write(bytes(1000))",
    "truncated": "os.truncate(path, 10)",
    "opened and truncated": "os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))",
    "by another name": "os.symlink(path, path + '.link'); open(path + '.link', 'wb').close()",
}


def code_of_change(change, before="", after=""):
    """Return code that loads a model, changes its file, and compares the weights. `before` is run before the load, and
    `after` at the end."""
    return INSTALL_SWITCH + (
        "import onnx, os, sys, hashlib\n"
        "path = sys.argv[1]\n"
        f"{before}\n"
        "model = onnx.load(path)\n"
        "onnx.load(path)\n"  # a second mapping, which is released at once
        "array = onnx.numpy_helper.to_array(model.graph.initializer[0])\n"
        "digest = hashlib.sha256(model.graph.initializer[0].raw_data).digest()\n"
        f"{change}\n"
        "assert hashlib.sha256(model.graph.initializer[0].raw_data).digest() == digest\n"
        "assert hashlib.sha256(array).digest() == digest\n"
        f"{after}"
    )


# A program that runs other programs in one process, each on a file of the same name in its own folder. Arguments:
# whether the path of the file is absolute ("" if not), then folders and programs alternately.
RUN_IN_FOLDERS = """
import os, sys
is_absolute, *words = sys.argv[1:]
for folder, code in zip(words[::2], words[1::2], strict=True):
    os.chdir(folder)
    sys.argv[1:] = [os.path.abspath("large.onnx") if is_absolute else "large.onnx"]
    exec(code, {"__name__": "__main__"})
"""


@pytest.mark.parametrize("is_absolute", [True, False], ids=["absolute path", "name"])
def test_a_loaded_model_is_unaffected_by_changes_to_its_file(is_absolute, large_path, tmp_path):
    size = large_path.stat().st_size
    words, expected_lines = [], []
    for change, statement in CHANGES_BY_PROGRAM.items():
        folder = tmp_path / change
        folder.mkdir()
        shutil.copy(large_path, folder)
        code = code_of_change(
            statement,
            before="os.chmod(path, 0o640)",
            after="assert os.stat(path).st_mode & 0o777 == 0o640\n"
            f"print({change!r}, os.path.getsize(path), len(os.listdir(os.path.dirname(os.path.abspath(path)))))",
        )
        words += [folder, code]
        expected_size = {"truncated": 10, "opened and truncated": 0, "by another name": 0}.get(change, size)
        n_files = 2 if change == "by another name" else 1  # the model and a link
        expected_lines.append(f"{change} {expected_size} {n_files}")
    assert run_python("-c", RUN_IN_FOLDERS, "absolute" if is_absolute else "", *words).splitlines() == expected_lines


# Changes through a file that was opened before the model was loaded.
CHANGES_BY_OPEN_FILE = {
    "a file that was open": "writer.truncate(0)",
    "a descriptor that was open": "os.ftruncate(writer.fileno(), 0)",
    "a file that was open, written over": "writer.write(bytes(1 << 22)); writer.flush()",
}


@pytest.mark.parametrize("change", CHANGES_BY_OPEN_FILE)
def test_a_loaded_model_is_unaffected_by_changes_through_a_file_opened_before(change, large_path):
    run_python("-c", code_of_change(CHANGES_BY_OPEN_FILE[change], before="writer = open(path, 'r+b')"), large_path)


@pytest.fixture
def structured_path(tmp_path):
    """Return the path of a model of 45 MB whose structure is stored before, between and after its weights."""
    model = onnx.ModelProto(ir_version=8, producer_name="before", opset_import=[onnx.helper.make_opsetid("", 17)])
    for number in range(20):
        node = model.graph.node.add(op_type="Identity", name=f"node {number}", doc_string="d" * 5000)
        node.input.append(f"w{number}")
        node.output.append(f"y{number}")
        model.graph.initializer.add(
            name=f"w{number}", data_type=onnx.TensorProto.UINT8, dims=[2 << 20], raw_data=bytes([number]) * (2 << 20)
        )
        model.graph.value_info.add(name=f"v{number}")
    model.graph.initializer.add(
        name="last", data_type=onnx.TensorProto.INT64, dims=[1 << 20], int64_data=range(1 << 20)
    )
    model.metadata_props.add(key="after", value="x" * 100_000)
    path = tmp_path / "structured.onnx"
    path.write_bytes(model.SerializeToString())
    return path


# Programs that change the file whose path is their argument.
CHANGES_BY_PROCESS = {
    "truncated": "open(sys.argv[1], 'wb').close()",
    "cut": "import os; os.truncate(sys.argv[1], 5000)",
    "zeroed": "open(sys.argv[1], 'r+b').write(bytes(48 << 20))",
}


@pytest.mark.normal_build
@pytest.mark.skipif(sys.platform == "win32", reason="mapped files can't be truncated")
@pytest.mark.parametrize("change", CHANGES_BY_PROCESS)
def test_after_a_change_by_another_process_only_the_structure_can_be_read(change, structured_path):
    code = INSTALL_SWITCH + (
        "import onnx, subprocess, sys\n"
        "path = sys.argv[1]\n"
        "model = onnx.load(path)\n"
        f"subprocess.run([sys.executable, '-c', 'import sys; ' + {CHANGES_BY_PROCESS[change]!r}, path], check=True)\n"
        "for number in range(20):\n"
        "    node = model.graph.node[number]\n"
        "    assert node.name == f'node {number}' and len(node.doc_string) == 5000\n"
        "    tensor = model.graph.initializer[number]\n"
        "    assert (tensor.name, list(tensor.dims), tensor.data_type) == (f'w{number}', [2 << 20], 2)\n"
        "    assert model.graph.value_info[number].name == f'v{number}'\n"
        "assert model.producer_name == 'before' and model.metadata_props[0].key == 'after'\n"
        "for read in (lambda: model.graph.initializer[0].raw_data, lambda: model.graph.initializer[20].int64_data[0],\n"
        "             lambda: onnx.numpy_helper.to_array(model.graph.initializer[1]), model.SerializeToString,\n"
        "             lambda: model.metadata_props[0].value, lambda: onnx.save(model, path + '.new')):\n"
        "    try:\n        read()\n        print('no error')\n"
        "    except onnxwire.SourceError as error:\n"
        "        assert 'since' in str(error) and 'load it again' in str(error)\n"
        "    except onnxwire.Error as error:\n        print(type(error), error)\n"
    )
    assert run_python("-c", code, structured_path) == ""


def test_a_loaded_model_is_not_saved_after_shape_inference_in_place(structured_path):
    code = INSTALL_SWITCH + (
        "import onnx, sys\n"
        "path, out = sys.argv[1:]\n"
        "model = onnx.load(path)\n"
        "onnx.save(model, out)\n"
        "onnx.shape_inference.infer_shapes_path(path)\n"
        "before = open(out, 'rb').read()\n"
        "try:\n    onnx.save(model, out)\n    print('no error')\n"
        "except onnxwire.SourceError as error:\n"
        "    print('written to since it was opened' in str(error) or 'truncated' in str(error))\n"
        "assert open(out, 'rb').read() == before\n"
    )
    assert run_python("-c", code, structured_path, structured_path.with_name("out.onnx")) == "True\n"


@pytest.mark.parametrize("option", ["variable", "argument"])
def test_files_below_the_limit_are_read_into_memory(option, structured_path):
    switch_code = (
        INSTALL_SWITCH if option == "variable" else INSTALL_SWITCH.replace("install()", "install(map_above=1 << 30)")
    )
    code = switch_code + (
        "import onnx, os, subprocess, sys\n"
        "model = onnx.load(sys.argv[1])\n"
        "expected = model.SerializeToString()\n"
        "cut = 'import sys; open(sys.argv[1], \"wb\").close()'\n"
        "subprocess.run([sys.executable, '-c', cut, sys.argv[1]], check=True)\n"
        "assert model.SerializeToString() == expected and model.graph.initializer[3].raw_data[-1] == 3"
    )
    run_python(
        "-c", code, structured_path, **({"ONNXWIRE_DROPIN_MAP_ABOVE": str(1 << 30)} if option == "variable" else {})
    )


def test_a_limit_that_is_not_a_number_is_reported():
    stderr_text = run_python("-c", INSTALL_SWITCH, status=1, ONNXWIRE_DROPIN_MAP_ABOVE="1GB")
    assert "ONNXWIRE_DROPIN_MAP_ABOVE must be a number of bytes, such as 16777216, not '1GB'" in stderr_text


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the descriptors in /proc")
def test_more_files_of_external_data_than_descriptors_are_loaded(tmp_path):
    # The program loads a model with 700 files three times, and may have 1,024 descriptors.
    model = onnx.ModelProto(ir_version=8)
    for number in range(700):
        tensor = model.graph.initializer.add(
            name=f"w{number}", data_type=onnx.TensorProto.UINT8, dims=[4096], data_location=onnx.TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value=f"w{number}.bin")
        (tmp_path / f"w{number}.bin").write_bytes(number.to_bytes(2, "little") * 2048)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    code = (
        "from resource import *\nsetrlimit(RLIMIT_NOFILE, (1024, getrlimit(RLIMIT_NOFILE)[1]))\n"
        + INSTALL_SWITCH.replace("install()", "install(map_above=1000)")
        + "import onnx, os, sys\n"
        "model = onnx.load(sys.argv[1])\n"
        "for number, tensor in enumerate(model.graph.initializer):\n"
        "    assert onnx.numpy_helper.to_array(tensor)[:2].tolist() == list(number.to_bytes(2, 'little'))\n"
        "assert len(os.listdir('/proc/self/fd')) < 600\n"
        "others = [onnx.load(sys.argv[1]) for _ in range(2)]\n"
    )
    run_python("-c", code, tmp_path / "model.onnx")


def test_truncating_a_file_of_the_same_name_elsewhere_has_no_effect(large_path, monkeypatch):
    monkeypatch.chdir(large_path.parent)
    size = large_path.stat().st_size
    code = INSTALL_SWITCH + (
        "import onnx, os, sys\n"
        "path = sys.argv[1]\n"
        "os.mkdir('other'); open('other/' + path, 'w').write('text')\n"
        "model = onnx.load(path)\n"
        "os.close(os.open(path, os.O_WRONLY | os.O_TRUNC, dir_fd=os.open('other', os.O_RDONLY)))\n"
        "print(os.path.getsize(path), os.path.getsize('other/' + path))"
    )
    assert run_python("-c", code, large_path.name).split() == [str(size), "0"]


def test_loaded_small_models_have_no_open_files():
    code = INSTALL_SWITCH + (
        "import onnx, os, sys\n"
        "models = [onnx.load(sys.argv[1]) for _ in range(300)]\n"
        "print(len(os.listdir('/proc/self/fd')))"
    )
    if Path("/proc/self/fd").exists():
        assert int(run_python("-c", code, ROOT / "examples" / "digits_cnn.onnx")) < 50


def test_a_save_is_visible_through_a_file_that_is_open(tmp_path):
    code = INSTALL_SWITCH + (
        "import onnx, sys, tempfile\n"
        "with tempfile.NamedTemporaryFile(dir=sys.argv[1]) as file:\n"
        "    onnx.save(onnx.ModelProto(producer_name='p'), file.name)\n"
        "    print(onnx.load(file).producer_name)"
    )
    assert run_python("-c", code, tmp_path) == "p\n"


def test_arrays_of_large_models_are_not_copied(large_path):
    code = INSTALL_SWITCH + (
        "import onnx, sys\nfrom onnx import numpy_helper\n"
        "arrays = [numpy_helper.to_array(onnx.load(sys.argv[1]).graph.initializer[0]) for _ in range(30)]\n"
        "assert all(array.shape == (40 << 20,) and array[257] == 1 for array in arrays)\n"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]))"
    )
    assert int(run_python("-c", code, large_path)) < 30 * (40 << 10)  # KiB of 30 arrays


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc and files with holes")
def test_five_gigabytes_are_loaded_changed_and_saved_in_little_memory(tmp_path):
    # The fields are name (8), data_type (2), dims (1) and raw_data (9) of the tensor; initializer (5) of the graph;
    # ir_version (1) and graph (7) of the model.
    size = 5 << 30
    tensor_head = (
        wire.len_record(8, b"w")
        + wire.varint_record(2, 2)
        + wire.varint_record(1, size)
        + wire.tag(9, 2)
        + wire.varint(size)
    )
    graph = wire.tag(5, 2) + wire.varint(len(tensor_head) + size) + tensor_head
    head = wire.varint_record(1, 8) + wire.tag(7, 2) + wire.varint(len(graph) + size) + graph
    path = tmp_path / "big.onnx"
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + size)
    code = (
        "import onnx\n"
        "model = onnx.load('big.onnx')\n"
        "model.producer_name = 'changed'\n"
        "model.graph.node.append(onnx.helper.make_node('Relu', ['a'], ['b']))\n"
        "onnx.save(model, 'out.onnx')\n"
        "saved = onnx.load('out.onnx')\n"
        "assert saved.graph.node[0].op_type == 'Relu' and saved.ByteSize() > 5 << 30\n"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]))"
    )
    command = [sys.executable, "-m", "onnxwire.dropin", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 200 << 10  # KiB
    assert (tmp_path / "out.onnx").stat().st_blocks * 512 < 1 << 30, "the hole was filled"
