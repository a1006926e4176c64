"""`__all__`, `_LAZY` and the imports for type checkers agree, and public objects have `onnxwire` as `__module__`."""

import ast
import importlib.util
import pickle
from pathlib import Path

import pytest
from each import each

import onnxwire

SOURCE = Path(onnxwire.__file__)
MESSAGES = set(onnxwire.messages.__all__)
# The public names of 0.1.0, without the messages. Names may be added, but not removed.
NAMES_OF_0_1_0 = {
    "ClosedError", "DecodeError", "Difference", "EditError", "Error", "ExternalDataError", "ExternalDataWarning",
    "InUseError", "LargeFileWarning", "Message", "Problem", "RepeatedScalar", "RepeatedSpan", "SaveError",
    "SourceError", "TensorError", "TensorInfo", "UntypedValueWarning", "__version__", "check", "diff", "extract",
    "from_array", "from_coo", "from_dense", "from_json", "from_safetensors", "from_text", "inference_session",
    "join_segments", "load", "load_schema", "measure", "measure_all", "rename_nodes", "rename_values", "save",
    "tensors", "to_json", "to_npy", "to_npz", "to_safetensors", "to_text", "to_torch", "verify",
}  # fmt: skip


def imported_names(nodes: list[ast.stmt]) -> dict[str, str]:
    """Return the names that some statements import, with their modules."""
    return {
        alias.asname or alias.name: node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def package_imports() -> tuple[dict[str, str], dict[str, str]]:
    """Return the names that `import onnxwire` imports, and those that are imported for type checkers only."""
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    (block,) = (n for n in body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    return imported_names(body), imported_names(block.body)


def test_lazy_names_are_imported_for_type_checkers() -> None:
    assert {
        name: module for name, module in package_imports()[1].items() if name not in ("*", "_messages")
    } == onnxwire._LAZY


def test_dunder_all_lists_the_imported_names() -> None:
    assert sorted(onnxwire.__all__) == sorted([*package_imports()[0], *onnxwire._LAZY, *MESSAGES])


def test_dir_lists_all_public_names() -> None:
    assert set(dir(onnxwire)) >= set(onnxwire.__all__)


def test_no_public_name_is_removed() -> None:
    assert set(onnxwire.__all__) >= NAMES_OF_0_1_0 | MESSAGES


@pytest.mark.parametrize("name", sorted(set(onnxwire.__all__) - MESSAGES))
def test_a_public_object_has_the_package_as_its_module(name: str) -> None:
    value = getattr(onnxwire, name)
    if name != "__version__":
        assert (value.__module__, value.__name__) == ("onnxwire", name)
        assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("name", sorted(n for n in MESSAGES if isinstance(getattr(onnxwire, n), type)))
def test_a_message_class_has_the_package_as_its_module(name: str) -> None:
    assert (getattr(onnxwire, name).__module__, getattr(onnxwire, name).__qualname__) == ("onnxwire", name)


@each("name", onnxwire.__all__)
def test_no_module_has_the_name_of_a_public_object(name: str) -> None:
    # The import of such a module would set an attribute of the package, and hide the public object.
    assert importlib.util.find_spec(f"onnxwire.{name}") is None


def test_a_lazy_class_has_the_public_module_even_if_imported_from_its_own_file() -> None:
    from onnxwire.io.tensor_list import TensorInfo

    assert TensorInfo.__module__ == "onnxwire"


def test_other_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'to_pickle'"):
        _ = onnxwire.to_pickle
