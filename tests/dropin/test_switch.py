"""Programs written for `onnx` behave with the switch as with protobuf. Each runs in a separate process.

The switch, a part of `onnxwire.dropin`, makes `import onnx` use the classes of onnxwire.
"""

import os
import py_compile
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import wire
from switched import HIDE_PROTOBUF, INSTALL_SWITCH, ROOT, run_python

PROGRAM = Path(__file__).with_name("program.py")
# A program that runs the program whose path is the first argument.
RUN_PROGRAM = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')\n"


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the program's output with protobuf."""
    return run_python(PROGRAM, tmp_path_factory.mktemp("protobuf"))


@pytest.mark.parametrize("prelude", ["", HIDE_PROTOBUF], ids=["beside protobuf", "without protobuf"])
def test_a_program_prints_the_same_output_with_the_switch(expected, prelude, tmp_path):
    assert run_python("-c", prelude + INSTALL_SWITCH + RUN_PROGRAM, PROGRAM, tmp_path) == expected


def test_a_program_with_the_switch_uses_the_classes_of_onnxwire():
    code = "import onnx, onnxwire; print(onnx.ModelProto is onnxwire.ModelProto is onnx.onnx_ml_pb2.ModelProto)"
    assert run_python("-m", "onnxwire.dropin", "-c", code) == "True\n"


# --- python -m onnxwire.dropin


@pytest.mark.parametrize("program_kind", ["script", "module", "code"])
def test_scripts_modules_and_code_receive_their_arguments(program_kind, tmp_path):
    code = "import sys, onnx, onnxwire; print(sys.argv[1:], __name__, onnx.ModelProto is onnxwire.ModelProto)"
    (tmp_path / "program.py").write_text(code + "\nimport other_module\n")
    (tmp_path / "other_module.py").write_text("")
    arguments = {"script": [tmp_path / "program.py"], "module": ["-m", "program"], "code": ["-c", code]}[program_kind]
    path = os.pathsep.join([str(ROOT), str(tmp_path)]) if program_kind == "module" else str(ROOT)
    output = run_python("-m", "onnxwire.dropin", *arguments, "-x", "y", PYTHONPATH=path)
    assert output == "['-x', 'y'] __main__ True\n"


def test_the_exit_status_of_a_failing_program_is_preserved():
    assert "ZeroDivisionError" in run_python("-m", "onnxwire.dropin", "-c", "1 / 0", status=1)
    run_python("-m", "onnxwire.dropin", "-c", "raise SystemExit(7)", status=7)


def test_a_missing_program_is_reported_and_help_shows_the_usage():
    assert "usage" in run_python("-m", "onnxwire.dropin", status=2)
    assert "needs an argument" in run_python("-m", "onnxwire.dropin", "-m", status=2)
    assert "usage" in run_python("-m", "onnxwire.dropin", "--help")


PRINTING_PROGRAM = """
import os, sys
names = {name for name in globals() if name.startswith("__")} - {"__annotations__"}
print([os.path.basename(arg) for arg in sys.argv], globals().get("__file__"), __name__, sys.path[0], sys.flags.optimize)
print(sys.warnoptions, sorted(names), type(__builtins__).__name__)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["show.py", "x"],
        ["./inner/../show.py"],
        ["inner"],
        ["archive.zip", "-q"],
        ["compiled.pyc", "x"],
        ["-m", "show", "x"],
        ["-mshow"],
        ["-c", PRINTING_PROGRAM, "-x", "y"],
        ["-", "x"],
        ["-W", "error", "-O", "show.py", "-W"],
        ["-Werror", "-bb", "-m", "show"],
        ["-X", "utf8", "-Om", "show", "-c"],
        ["-P", "show.py"],
    ],
    ids=lambda arguments: " ".join(arguments).partition("\n")[0],
)
def test_a_program_runs_as_python_runs_it(arguments, tmp_path, monkeypatch):
    (tmp_path / "show.py").write_text(PRINTING_PROGRAM)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__main__.py").write_text(PRINTING_PROGRAM)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", PRINTING_PROGRAM)
    py_compile.compile(tmp_path / "show.py", tmp_path / "compiled.pyc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    outputs = []
    for dropin_words in ([], ["-m", "onnxwire.dropin"]):
        command = [sys.executable, *dropin_words, *arguments]
        result = subprocess.run(command, input=PRINTING_PROGRAM, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    assert outputs[0] == outputs[1]


def test_a_script_that_is_absent_fails_with_the_status_of_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "can't open file" in run_python("-m", "onnxwire.dropin", "absent.py", status=2)
    assert "can't open file" in run_python("absent.py", status=2)


def test_a_traceback_names_the_script(tmp_path):
    (tmp_path / "fails.py").write_text("def f():\n    1 / 0\n\n\nf()\n")
    for dropin_words in ([], ["-m", "onnxwire.dropin"]):
        stderr_text = run_python(*dropin_words, tmp_path / "fails.py", status=1)
        assert f'File "{tmp_path / "fails.py"}", line 2, in f\n    1 / 0' in stderr_text


def test_nothing_is_imported_from_the_working_directory(tmp_path, monkeypatch):
    # The working directory has modules with the names of modules that the switch or the script may import.
    names = [
        "google",
        "numpy",
        "onnx",
        "onnxwire_dropin",
        "weakref",
        "ml_dtypes",
        "threading",
        "resource",
        "zipfile",
    ]
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the working directory was imported')")
    (tmp_path / "google").mkdir()
    (tmp_path / "google" / "__init__.py").write_text("raise SystemExit('google of the working directory was imported')")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text("import sys, onnx, onnxwire; print(onnx.ModelProto is onnxwire.ModelProto, sys.path[0])")
    monkeypatch.chdir(tmp_path)
    assert run_python("-m", "onnxwire.dropin", "elsewhere/script.py") == f"True {script.parent}\n"


# --- the environment

# A program that runs the .pth files of the folder that is its argument, and prints whether `import onnx` then imports
# onnxwire.
START_PROGRAM = "import site, sys; site.addsitedir(sys.argv[1]); import onnx; print('onnxwire' in sys.modules)"


@pytest.mark.normal_build
@pytest.mark.parametrize(
    ("value", "expected_output"),
    [("1", "True"), ("yes", "True"), (None, "False")]
    + [(value, "False") for value in ("0", "", "false", "False", "no", "OFF", " 0 ")],
)
def test_the_variable_installs_the_switch_unless_its_value_means_no(value, expected_output, tmp_path, monkeypatch):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    monkeypatch.delenv("ONNXWIRE_DROPIN", raising=False)
    environment = {} if value is None else {"ONNXWIRE_DROPIN": value}
    assert run_python("-c", START_PROGRAM, tmp_path, **environment).strip() == expected_output


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_pth_file_imports_no_package_before_onnx_is_imported(value, tmp_path):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    code = (
        "import os, site, sys\n"
        "site.addsitedir(sys.argv[1])\n"  # imports the modules that addsitedir needs, if any
        "sys.modules.pop('onnxwire_dropin', None)\n"
        "before = set(sys.modules)\n"
        "site.addsitedir(sys.argv[2])\n"
        "import json, decimal\n"
        "names = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names & {'onnxwire', 'onnx', 'google', 'numpy'}))"
    )
    (tmp_path / "empty").mkdir()
    assert run_python("-S", "-c", code, tmp_path / "empty", tmp_path, ONNXWIRE_DROPIN=value) == "[]\n"


@pytest.mark.normal_build
def test_protobuf_itself_is_imported_in_an_environment_that_inherits_packages(tmp_path):
    # In a virtual environment with --system-site-packages, the folder of protobuf comes after that of the .pth file.
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    code = HIDE_PROTOBUF + (
        "import site, sys\n"
        "site.addsitedir(sys.argv[1])\n"
        "PathFinder.find_spec = find\n"
        "from google.protobuf import descriptor_pb2, message\n"
        "assert not hasattr(message, 'IS_SUBSTITUTE') and 'onnxwire' not in sys.modules\n"
        "import onnx, onnxwire\n"
        "print(onnx.ModelProto is onnxwire.ModelProto, issubclass(onnx.ModelProto, message.Message))"
    )
    assert run_python("-c", code, tmp_path, ONNXWIRE_DROPIN="1") == "True True\n"


# With the flags -I and -E, Python ignores the variables PYTHON*, and the switch ignores ONNXWIRE_DROPIN.
@pytest.mark.normal_build
@pytest.mark.parametrize(("flag", "expected_output"), [("-I", "False"), ("-E", "False"), ("-s", "True")])
def test_the_variable_has_no_effect_with_flags_that_ignore_variables(flag, expected_output, tmp_path):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + START_PROGRAM.replace(
        "import site, sys; ", "import site; "
    )
    assert run_python(flag, "-c", code, tmp_path, ONNXWIRE_DROPIN="1").strip() == expected_output


def test_uninstalling_before_onnx_is_imported_cancels_the_variable(tmp_path):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    code = "import site, sys, onnxwire.dropin; site.addsitedir(sys.argv[1]); onnxwire.dropin.uninstall()\n"
    code += "import onnx, onnxwire; print(onnx.ModelProto is onnxwire.ModelProto)"
    assert run_python("-c", code, tmp_path, ONNXWIRE_DROPIN="1") == "False\n"


@pytest.mark.normal_build
def test_other_threads_may_import_modules_during_the_installation(tmp_path):
    (tmp_path / "onnxwire_dropin.pth").symlink_to(ROOT / "onnxwire_dropin.pth")
    modules = ["decimal", "fractions", "csv", "wave", "mailbox", "sqlite3", "xmlrpc.client", "ftplib", "tabnanny"]
    code = (
        "import importlib, site, sys, threading\n"
        "site.addsitedir(sys.argv[1])\n"
        "failed = []\n"
        "def work(name):\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except Exception as error:\n        failed.append(error)\n"
        f"threads = [threading.Thread(target=work, args=(name,)) for name in {['onnx', *modules]!r}]\n"
        "for thread in threads:\n    thread.start()\n"
        "for thread in threads:\n    thread.join()\n"
        "import onnx, onnxwire; print(failed, onnx.ModelProto is onnxwire.ModelProto)"
    )
    assert run_python("-c", code, tmp_path, ONNXWIRE_DROPIN="1") == "[] True\n"


def test_the_variable_is_set_for_child_processes():
    code = "import os; print(os.environ['ONNXWIRE_DROPIN'])"
    assert run_python("-m", "onnxwire.dropin", "-c", code) == "1\n"


# --- installing and uninstalling


def test_installing_after_onnx_was_imported_is_an_error():
    assert "onnx is already imported" in run_python("-c", "import onnx\n" + INSTALL_SWITCH, status=1)


def test_uninstalling_restores_the_classes_of_protobuf():
    code = INSTALL_SWITCH + (
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
    run_python("-c", code)


def test_a_second_installation_has_no_effect():
    code = (
        INSTALL_SWITCH
        + INSTALL_SWITCH
        + "onnxwire.dropin.uninstall(); import onnx; print(onnx.ModelProto is onnxwire.ModelProto)"
    )
    assert run_python("-c", code) == "False\n"


@pytest.mark.parametrize(
    ("version", "is_new"), [("1.23.9", False), ("1.24.0", True), ("2.0", True), ("unknown", False)]
)
def test_only_a_newer_onnx_causes_a_warning(version, is_new):
    code = (
        "import importlib.metadata as metadata, warnings\n"
        f"metadata.version = lambda name: {version!r}\n{INSTALL_SWITCH}"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import onnx\n"
        "print([str(w.message) for w in caught if w.category is onnxwire.dropin.UnknownOnnxWarning])"
    )
    assert (f"onnx {version} is newer" in run_python("-c", code)) == is_new


def test_errors_are_those_that_programs_catch():
    code = INSTALL_SWITCH + (
        "import onnx\n"
        "from google.protobuf import json_format, message, text_format\n"
        "for parse, kind in [(onnx.ModelProto.FromString, message.DecodeError),\n"
        "                    (lambda data: text_format.Parse(data, onnx.ModelProto()), text_format.ParseError),\n"
        "                    (lambda data: json_format.Parse(data, onnx.ModelProto()), json_format.ParseError)]:\n"
        "    try:\n        parse(b'graph: {')\n        print('no error')\n"
        "    except kind as error:\n        print(type(error).__name__)\n"
    )
    for prelude in "", HIDE_PROTOBUF:
        assert run_python("-c", prelude + code).split() == ["DecodeError", "ParseError", "ParseError"]


def test_text_and_json_of_protobuf_work_on_our_messages():
    code = INSTALL_SWITCH + (
        "import onnx, sys\n"
        "from google.protobuf import json_format, text_format\n"
        "model = onnx.load(sys.argv[1])\n"
        "text = text_format.MessageToString(model)\n"
        "for parsed in [text_format.Parse(text, onnx.ModelProto()), text_format.Merge(text, onnx.ModelProto()),\n"
        "             json_format.Parse(json_format.MessageToJson(model), onnx.ModelProto()),\n"
        "             json_format.ParseDict(json_format.MessageToDict(model), onnx.ModelProto())]:\n"
        "    assert parsed == model and type(parsed) is onnxwire.ModelProto\n"
        "assert text == onnxwire.to_text(model)\n"
    )
    run_python("-c", code, ROOT / "examples" / "digits_cnn.onnx")


def test_text_of_protobuf_shows_unknown_fields():
    # The data has a number, bytes, a message and a group in unknown fields, an unknown field of a node, and an unknown
    # value of data_location (14) of an initializer (5).
    data = (
        wire.varint_record(99, 7)
        + wire.len_record(100, b"\xff")
        + wire.len_record(101, wire.varint_record(3, 4))
        + b"\x83\x07\x84\x07"
    )
    data += wire.len_record(
        7, wire.len_record(1, wire.varint_record(98, 1)) + wire.len_record(5, wire.varint_record(14, 9))
    )
    code = (
        "import onnx\n"
        "from google.protobuf import text_format, unknown_fields\n"
        f"model = onnx.ModelProto.FromString({data!r})\n"
        "print(len(unknown_fields.UnknownFieldSet(model)))\n"
        "print(text_format.MessageToString(model, print_unknown_fields=True))"
    )
    uninstall_code = "onnxwire.dropin.uninstall()\n"
    assert (
        run_python("-c", INSTALL_SWITCH + code)
        == run_python("-c", code)
        == run_python("-c", INSTALL_SWITCH + uninstall_code + code)
    )


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "dropin.md").read_text(), re.S))
def test_the_code_of_the_page_dropin_runs(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    run_python("-c", code)


# --- numpy


def test_arrays_of_numbers_are_those_of_protobuf():
    # Short, long and empty lists, with each of several dtypes and without a dtype.
    code = (
        "import numpy as np, onnx\n"
        "values = {'float_data': [[], [1.5, -2], [0.1] * 3000], 'double_data': [[1e300]],\n"
        "          'int64_data': [[], [1 << 40, -1]], 'int32_data': [[1, -5], [300]],\n"
        "          'uint64_data': [[5], [1 << 63], [1, 1 << 63]], 'dims': [[], [2, 3]]}\n"
        "for field, lists in values.items():\n"
        "    for numbers in lists:\n"
        "        tensor = onnx.TensorProto(**{field: numbers})\n"
        "        for dtype in (None, np.float32, np.float64, np.int64, np.int8, np.uint8, np.bool_, object, str):\n"
        "            for make in (np.array, np.asarray, np.ascontiguousarray):\n"
        "                try:\n"
        "                    array = make(getattr(tensor, field), dtype=dtype)\n"
        "                    result = array.dtype.str, array.dtype.char, array.tolist()[:9], array.flags.writeable\n"
        "                except Exception as error:\n"
        "                    result = type(error).__mro__[-4].__name__\n"  # the base class below Exception
        "                print(field, len(numbers), dtype, make.__name__, result)\n"
        "try:\n    memoryview(onnx.TensorProto(dims=[1]).dims)\n"
        "except TypeError as error:\n    print('no buffer')\n"
        "tensor = onnx.helper.make_tensor('t', 1, [3], [1, 2, 3])\n"
        "array = np.asarray(tensor.float_data, dtype=np.float32)\n"
        "array[0] = 9\n"
        "print(list(tensor.float_data), onnx.numpy_helper.to_array(tensor).tolist())\n"
    )
    assert run_python("-c", INSTALL_SWITCH + code) == run_python("-c", code)


# --- protobuf's own modules


def test_pickles_of_protobuf_and_onnxwire_can_be_loaded_by_each_other(tmp_path):
    load_model = (
        "import onnx, pickle, sys\nmodel = onnx.load(sys.argv[1])\ndata = model.SerializeToString(deterministic=True)\n"
    )
    write_code = load_model + "pickle.dump([pickle.dumps(model, n) for n in range(6)], open(sys.argv[2], 'wb'))"
    read_code = load_model + (
        "loaded = [pickle.loads(pickled) for pickled in pickle.load(open(sys.argv[2], 'rb'))]\n"
        "print([type(model) is onnx.ModelProto and model.SerializeToString(deterministic=True) == data\n"
        "       for model in loaded])"
    )
    path = ROOT / "examples" / "digits_cnn.onnx"
    for writer, reader in [("", INSTALL_SWITCH), (INSTALL_SWITCH, ""), (INSTALL_SWITCH, INSTALL_SWITCH)]:
        run_python("-c", writer + write_code, path, tmp_path / "pickled")
        assert run_python("-c", reader + read_code, path, tmp_path / "pickled") == f"{[True] * 6}\n"


# The calls of a module that protoc generates from a file that imports onnx/onnx-ml.proto. type 11 is TYPE_MESSAGE,
# label 1 is LABEL_OPTIONAL.
PROGRAM_WITH_HOLDER = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
file = descriptor_pb2.FileDescriptorProto(name='holder.proto', package='own', dependency=['onnx/onnx-ml.proto'])
file.message_type.add(name='Holder').field.add(name='model', number=1, type=11, label=1, type_name='.onnx.ModelProto')
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
Holder = message_factory.GetMessageClass(descriptor_pool.Default().FindMessageTypeByName('own.Holder'))
"""


@pytest.mark.parametrize(
    "first_import", ["", "import google.protobuf.descriptor_pool\n"], ids=["switch first", "pool first"]
)
def test_messages_of_other_packages_may_contain_messages_of_onnx(first_import):
    code = PROGRAM_WITH_HOLDER + (
        "from google.protobuf import any_pb2, symbol_database, text_format, unknown_fields\n"
        "import onnx\n"
        "model = onnx.helper.make_model(onnx.helper.make_graph([], 'g', [], []), ir_version=8)\n"
        "holder = Holder()\n"
        "holder.model.ParseFromString(model.SerializeToString())\n"
        "print(holder, onnx.ModelProto.FromString(holder.model.SerializeToString()) == model)\n"
        "packed = any_pb2.Any()\n"
        "packed.Pack(model)\n"
        "unpacked = onnx.ModelProto()\n"
        "print(packed.Is(onnx.ModelProto.DESCRIPTOR), packed.Unpack(unpacked), unpacked == model, packed.type_url)\n"
        "text = text_format.MessageToString(packed)\n"
        "print(text, text_format.Parse(text, any_pb2.Any()) == packed)\n"
        "print(symbol_database.Default().pool.FindFileByName('onnx/onnx-data.proto').name)\n"
        "print(descriptor_pool.Default().FindMessageTypeByName('onnx.NodeProto').fields_by_name['op_type'].number)\n"
        "file.MergeFromString(b'\\x98\\x06\\x07')\n"  # the unknown field 99 with the value 7
        "fields = unknown_fields.UnknownFieldSet(file)\n"
        "print(len(fields), fields[0].field_number, isinstance(fields, unknown_fields.UnknownFieldSet))"
    )
    imports = "import onnx\n"
    assert run_python("-c", first_import + INSTALL_SWITCH + imports + code) == run_python("-c", imports + code)
    assert run_python("-c", first_import + INSTALL_SWITCH + code) == run_python("-c", imports + code)
