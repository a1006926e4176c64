"""The public names: the three lists of them agree, and what has one bears it wherever it is defined."""

import ast
import importlib.util
import pickle
from pathlib import Path

import pytest
from each import each

import onnxwire

SOURCE = Path(onnxwire.__file__)
MESSAGES = set(onnxwire.messages.__all__)
# What 0.1.0 promises beside the messages: a name may be added to the package, none lost.
PROMISED = {
    "ClosedError", "DecodeError", "Difference", "EditError", "Error", "ExternalDataError", "ExternalDataWarning",
    "InUseError", "LargeFileWarning", "Message", "Problem", "RepeatedScalar", "RepeatedSpan", "SaveError",
    "SourceError", "TensorError", "TensorInfo", "UntypedValueWarning", "__version__", "check", "diff", "extract",
    "from_array", "from_coo", "from_dense", "from_json", "from_safetensors", "from_text", "inference_session",
    "join_segments", "load", "load_schema", "measure", "measure_all", "rename_nodes", "rename_values", "save",
    "tensors", "to_json", "to_npy", "to_npz", "to_safetensors", "to_text", "to_torch", "verify",
}  # fmt: skip


def imported(nodes: list[ast.stmt]) -> dict[str, str]:
    """The names that some statements import, and from where."""
    return {
        alias.asname or alias.name: node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def branches() -> tuple[dict[str, str], dict[str, str]]:
    """The imports of the package at once, and those for type checkers only."""
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    (block,) = (n for n in body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return imported(body), imported(block.body)


def test_the_names_of_type_checkers_are_those_that_are_imported_lazily() -> None:
    assert branches()[1] == onnxwire._LAZY


def test_all_names_what_is_imported() -> None:
    eager = branches()[0].keys() - {"*", "_messages"}
    assert sorted(onnxwire.__all__) == sorted([*eager, *onnxwire._LAZY, *MESSAGES])


def test_no_name_is_lost() -> None:
    assert set(onnxwire.__all__) >= PROMISED | MESSAGES


@pytest.mark.parametrize("name", sorted(set(onnxwire.__all__) - MESSAGES))
def test_a_public_name_says_where_it_is_to_be_had(name: str) -> None:
    value = getattr(onnxwire, name)
    if name != "__version__":
        assert (value.__module__, value.__name__) == ("onnxwire", name)
        assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("name", sorted(n for n in MESSAGES if isinstance(getattr(onnxwire, n), type)))
def test_a_message_class_is_of_the_package(name: str) -> None:
    assert (getattr(onnxwire, name).__module__, getattr(onnxwire, name).__qualname__) == ("onnxwire", name)


@each("name", onnxwire.__all__)
def test_no_module_has_the_name_of_something_public(name: str) -> None:
    # The import of such a module would hide it: it becomes an attribute of the package.
    assert importlib.util.find_spec(f"onnxwire.{name}") is None


def test_a_lazy_object_knows_its_public_class_before_it_is_asked_for() -> None:
    from onnxwire.io.tensor_list import TensorInfo  # not by its public name

    assert TensorInfo.__module__ == "onnxwire"


def test_what_is_not_public_is_not_an_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'to_pickle'"):
        _ = onnxwire.to_pickle
