"""The targets of coverage-guided fuzzing: functions that accept any bytes and raise an error if a check fails.

`tests/corpus/TARGET/` contains inputs that reached new code, `test_corpus.py` runs each of them, and `fuzz_coverage.py`
searches for more.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import tempfile
import warnings
from pathlib import Path

import fuzz_edits
import numpy as np
import onnx
import wire
from edit_programs import ProgramGenerator
from test_varint import DTYPES, decode_in_python, value_of
from worlds import World, classes

import onnxwire
from onnxwire import ModelProto, TensorProto
from onnxwire._varint import decode_packed, packed_levels

# Message types without fields are excluded: in these, the official runtime accepts the field number 0.
TYPES = [name for name, (ours, _) in sorted(classes().items()) if ours.DESCRIPTOR.fields]
TABLES = ["nodes", "attributes", "values", "uses", "tensors", "opsets", "metadata", "functions", "model"]
MAX_LINES = 40  # maximum number of lines of a program of edits
MAX_INPUT_BYTES = 4096


def decode(data: bytes) -> None:
    """Decode a message of the type that the first byte selects; compare errors and content with the official class."""
    ours, official = message_classes(data)
    if ours.DESCRIPTOR.full_name == "test.Holder":  # the messages in its fields have no fields, see TYPES
        return
    wire.check_acceptance(ours, official, data[1:])
    wire.check_walk(ours, official, data[1:])


def encode(data: bytes) -> None:
    """Decode a message and encode it to equal bytes. Compare its deterministic encoding, and that of a copy, with the
    official one."""
    ours, official = message_classes(data)
    try:
        message = ours.FromString(data[1:])
        onnxwire.verify(data[1:], ours)
    except onnxwire.DecodeError:
        return
    assert message.SerializeToString() == data[1:]
    expected = official.FromString(data[1:]).SerializeToString(deterministic=True)
    assert message.SerializeToString(deterministic=True) == expected
    copy = ours()
    copy.CopyFrom(message)
    assert copy == message or "nan" in str(message)
    assert copy.ByteSize() == len(copy.SerializeToString())
    assert copy.SerializeToString(deterministic=True) == expected


class Choices(random.Random):
    """A random generator whose numbers come from bytes, and after the last byte from a fixed seed.

    A changed byte often changes only one choice of a program.
    """

    def __init__(self, data: bytes):
        super().__init__(0)
        self.data, self.index = data, 0

    @property
    def is_over(self) -> bool:
        return self.index >= len(self.data)

    def getrandbits(self, k: int) -> int:
        if self.is_over:
            return super().getrandbits(k)  # if all were zeros, some loops would not end
        size = (k + 7) // 8
        data = self.data[self.index : self.index + size]
        self.index += size
        return int.from_bytes(data, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(8) / 256


class Program(ProgramGenerator):
    """A ProgramGenerator whose program ends when the bytes of its Choices are used up."""

    def next_line(self, number: int) -> str | None:
        return None if self.rng.is_over else super().next_line(number)


def edits(data: bytes) -> None:
    """Run a program of edits, which the bytes select, on messages of both runtimes in lockstep."""
    leader = World(is_ours=False)
    run_program(data, leader, "lockstep", fuzz_edits.run_lockstep)


def closings(data: bytes) -> None:
    """Run a program on onnxwire's messages alone, with edits and `close` also in the middle of other operations."""
    run_program(data, World(is_ours=True), "alone", fuzz_edits.run_alone)


def run_program(data, leader, mode, run_mode) -> None:
    """Run the program that the data select. Raise an AssertionError with the program if a fault is found.

    leader, mode: as for ProgramGenerator. run_mode: the function of fuzz_edits for the mode.
    """
    with tempfile.TemporaryFile() as trace:
        try:
            run_mode(Program(Choices(data), leader, mode, MAX_LINES), leader, trace.fileno())
        except fuzz_edits.Finding as finding:
            trace.seek(0)
            raise AssertionError(f"{finding}\n{trace.read().decode(errors='replace')}") from finding
        finally:
            gc.enable()
            gc.set_threshold(700, 10, 10)  # Python's default


def text(data: bytes) -> None:
    """Parse the text format of the type that the first byte selects. Printing and parsing must preserve the message."""
    round_trip(data, onnxwire.from_text, onnxwire.to_text)


def json(data: bytes) -> None:
    """Parse JSON as `text` parses the text format."""
    round_trip(data, onnxwire.from_json, onnxwire.to_json)


def round_trip(data, read, write) -> None:
    """Read a text with and without `ignore_unknown`. If the text is valid, check that writing and reading preserve the
    message.

    The first byte selects the message type.
    """
    onnxwire_class, _ = message_classes(data)
    for options in ({}, {"ignore_unknown": True}):
        try:
            message = read(data[1:], type=onnxwire_class, **options)
        except onnxwire.Error:
            continue
        encoding = message.SerializeToString(deterministic=True)
        assert read(write(message), type=onnxwire_class).SerializeToString(deterministic=True) == encoding


def schema(data: bytes) -> None:
    """Load a schema table, which ends at a zero byte, and read the bytes after it with each class of the table."""
    table, _, message_bytes = data.partition(b"\0")
    path = shared_folder() / "table.md"
    path.write_bytes(table)
    try:
        loaded_schema = onnxwire.load_schema(path)
    except ValueError as error:
        assert str(path) in str(error)
        return
    for cls in loaded_schema.messages.values():
        with contextlib.suppress(onnxwire.DecodeError):
            wire.walk_all_fields(cls.FromString(message_bytes))


def check(data: bytes) -> None:
    """Check a model, format the problems, and rename a value."""
    with contextlib.suppress(onnxwire.DecodeError):
        for problem in onnxwire.check(data):
            str(problem)
        model = ModelProto.FromString(data)
        onnxwire.check(model)
        with contextlib.suppress(onnxwire.Error):
            onnxwire.rename_values(model, {"a": "b"})
        model.SerializeToString()


def external(data: bytes) -> None:
    """Decode a tensor, mark its data as external, and read it in a model in `shared_folder`."""
    try:
        decoded_tensor = TensorProto.FromString(data)
    except onnxwire.DecodeError:
        return
    folder = shared_folder()
    model = ModelProto()
    tensor = model.graph.initializer.add()
    with contextlib.suppress(onnxwire.Error):
        tensor.MergeFrom(decoded_tensor)
    tensor.data_location = TensorProto.EXTERNAL
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with warnings.catch_warnings(), contextlib.suppress(onnxwire.Error):
        warnings.simplefilter("ignore")
        with onnxwire.load(path) as loaded_model:
            for info in onnxwire.tensors(loaded_model):
                str(info)
            for problem in onnxwire.check(path):
                str(problem)
            assert b"secret" not in bytes(loaded_model.graph.initializer[0].numpy().reshape(-1).view("u1"))


_temporary_folder: tempfile.TemporaryDirectory[str] | None = None


def shared_folder() -> Path:
    """Return a folder with a data file `a`. Models in it must not read the text "secret" in `../outside`."""
    global _temporary_folder
    if _temporary_folder is None:
        _temporary_folder = tempfile.TemporaryDirectory()
        (Path(_temporary_folder.name) / "model").mkdir()
        (Path(_temporary_folder.name) / "outside").write_bytes(b"secret" * 100)
        (Path(_temporary_folder.name) / "model" / "a").write_bytes(bytes(range(256)) * 20)
    return Path(_temporary_folder.name) / "model"


def packed(data: bytes) -> None:
    """Decode a run of varints with each set of vector instructions, and compare with a decoder in Python.

    The first byte selects the integer type.
    """
    integer_types = list(DTYPES)
    integer_type, run = integer_types[data[0] % len(integer_types)] if data else integer_types[0], data[1:]
    expected = [value_of(integer_type, varint) for varint in decode_in_python(run)]
    for level in packed_levels():
        assert np.frombuffer(decode_packed(run, integer_type, level), DTYPES[integer_type]).tolist() == expected


def arrays(data: bytes) -> None:
    """Convert a tensor to numpy, also by DLPack, and the array back to a tensor."""
    try:
        tensor = TensorProto.FromString(data)
        array = tensor.numpy()
    except onnxwire.Error:
        return
    # A byte of the tensor becomes at most 8 bytes: a packed varint of one byte becomes an int64.
    assert array.nbytes <= 8 * len(data) + 8 or array.size == 0 or array.dtype.hasobject
    if array.dtype.isbuiltin == 1:  # numpy's DLPack supports no other types
        with contextlib.suppress(onnxwire.Error, BufferError):
            assert np.from_dlpack(tensor).shape == array.shape
    if not array.dtype.hasobject:
        round_trip_tensor = onnxwire.from_array(array, name="w")
        assert round_trip_tensor.numpy().tobytes() == array.tobytes()


def differences(data: bytes) -> None:
    """Compare two models; a model must not differ from itself. The first two bytes are the first model's length."""
    first_length = int.from_bytes(data[:2], "little")
    first_model, second_model = data[2:][:first_length], data[2:][first_length:]
    try:
        models = [ModelProto.FromString(first_model), ModelProto.FromString(second_model)]
        assert not list(onnxwire.diff(models[0], models[0]))
        for difference in onnxwire.diff(*models):
            str(difference)
    except onnxwire.Error:
        return


def save(data: bytes) -> None:
    """Add nodes to a model, save it in one file and with external data, and read it back."""
    try:
        onnxwire.verify(data)
        model = ModelProto.FromString(data)
        for index in range(3):
            model.graph.node.add(name=f"added{index}", op_type="Relu", input=["a"], output=[f"b{index}"])
        expected = model.SerializeToString()
        path = shared_folder() / "saved.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            onnxwire.save(model, path)
            assert path.read_bytes() == expected
            onnxwire.save(model, path, external="saved.data", overwrite=True)
            with onnxwire.load(path) as saved_model:
                assert len(saved_model.graph.node) == len(model.graph.node)
    except onnxwire.Error:
        return


def tables(data: bytes) -> None:
    """Export every table of a model. String views and copied strings must have the same content."""
    with contextlib.suppress(onnxwire.DecodeError):
        for table in TABLES:
            views, copies = (onnxwire.to_arrow(data, table, strings=kind) for kind in ("utf8_view", "utf8"))
            assert repr(views.to_pydict()) == repr(copies.to_pydict())


def message_classes(data: bytes):
    """Return onnxwire's class and the official class of the message type that the first byte selects."""
    return classes()[TYPES[data[0] % len(TYPES) if data else 0]]


TARGETS = {
    target.__name__: target
    for target in (
        decode,
        encode,
        edits,
        closings,
        text,
        json,
        schema,
        check,
        external,
        packed,
        arrays,
        differences,
        save,
        tables,
    )
}


def run(name: str, data: bytes) -> None:
    """Run a target on the first MAX_INPUT_BYTES of an input. A signal ends the process after 60 seconds."""
    signal.alarm(60)
    try:
        TARGETS[name](data[:MAX_INPUT_BYTES])
    finally:
        signal.alarm(0)


def seeds(name: str) -> list[bytes]:
    """Return the seed inputs of a target: models of the onnx package, inputs derived from them, tensors of every data
    type, a schema table, or random bytes."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"
    models = [path.read_bytes() for path in sorted(folder.rglob("*.onnx")) if path.stat().st_size < 1000][:40]
    type_byte = bytes([TYPES.index("onnx.ModelProto")])
    if name in ("check", "save", "tables"):
        return models
    if name == "differences":
        return [
            len(first_model).to_bytes(2, "little") + first_model + second_model
            for first_model, second_model in zip(models[::2], models[1::2], strict=False)
        ]
    if name in ("decode", "encode"):
        return [type_byte + data for data in models]
    if name in ("text", "json"):
        write = onnxwire.to_text if name == "text" else onnxwire.to_json
        return [type_byte + write(ModelProto.FromString(data)).encode() for data in models]
    if name in ("arrays", "external"):
        types = [value for value in TensorProto.DataType.values() if value]
        raw_tensors = [TensorProto(data_type=value, dims=[3], raw_data=bytes(range(48))) for value in types]
        typed_tensors = [TensorProto(data_type=value, dims=[3], int32_data=[1, 2, 3]) for value in types]
        initializers = [tensor for data in models for tensor in onnx.ModelProto.FromString(data).graph.initializer]
        return [tensor.SerializeToString() for tensor in [*raw_tensors, *typed_tensors, *initializers]]
    rng = random.Random(1)
    if name == "packed":
        return [bytes([type_index]) + rng.randbytes(200) for type_index in range(len(DTYPES))]
    if name == "schema":
        return [Path(__file__).parent.parent.joinpath("schema", "onnx-data.md").read_bytes() + b"\0" + models[0]]
    return [rng.randbytes(200) for _ in range(40)]


if __name__ == "__main__":  # fuzz_targets.py TARGET FILE...
    import sys

    for path in sys.argv[2:]:
        run(sys.argv[1], Path(path).read_bytes())
        print(f"{path}: no fault")
