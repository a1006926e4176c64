"""Output and parsing do not depend on the locale, even if it has a decimal comma (1,5 for 1.5)."""

from __future__ import annotations

import locale
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

TESTS = Path(__file__).parent
# Arguments: the path of a model, TESTS, and "point" or "comma". A changed model is stored at the path plus ".other".
PROGRAM = """
import locale, sys
locale_name = locale.setlocale(locale.LC_ALL, "")
sys.path.insert(0, sys.argv[2])
import everything, onnxwire
from onnxwire.cli import main
assert (locale.localeconv()["decimal_point"] == ",") == (sys.argv[3] == "comma"), locale_name

# Functions and commands that read or write numbers, on a model whose numbers have fractions.
path = sys.argv[1]
message = everything.EVERYTHING()
for field in message.DESCRIPTOR.fields:
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        values = [1.5, -0.1, 1e-30, 16777216.0, float("inf")]
        getattr(message, field.name).extend(values) if field.is_repeated else setattr(message, field.name, values[0])
print(str(message))
text = onnxwire.to_text(message)
assert onnxwire.from_text(str(message), everything.EVERYTHING) == message
assert onnxwire.from_text(text, everything.EVERYTHING) == message
json = onnxwire.to_json(message)
assert onnxwire.from_json(json, everything.EVERYTHING) == message
print(text, onnxwire.to_text(message, as_protoc=True), json)
model = onnxwire.load(path)
print(str(model), repr(model))
for words in (
    ["info", path], ["info", path, "-v"], ["info", path, "--raw"], ["info", path, "--json"], ["ls", path],
    ["ls", path, "--json"], ["show", path, "graph.node[0]"], ["show", path, "node:n.attribute[alpha].f"],
    ["show", path, "tensor:w"], ["show", path, "tensor:w", "--json"], ["stats", path], ["stats", path, "--csv"],
    ["stats", path, "--plot", sys.argv[1] + ".html"], ["check", path], ["check", path, "--json"], ["dump", path],
    ["dump", path, "--json"], ["diff", path, path + ".other"], ["diff", path, path + ".other", "--json"],
    ["sql", path, "select 1.5, count(*) from nodes"], ["view", path, "-o", path + ".report.html"],
    ["set", path, "node:n.attribute[alpha].f=2.5", "-o", path + ".set"],
    ["show", path + ".set", "node:n.attribute[alpha].f"],
):
    status = main(words)
    assert status == (words[0] == "diff"), words
    print("$", words, status)
for name in (".html", ".report.html"):
    with open(path + name, encoding="utf-8") as file:
        print(file.read())

from onnxwire.viewer.queries import Queries
queries = Queries(model)
print(queries.node("graph.node[0]"), queries.fields("graph.node[0]"), queries.records("graph.node[0].attribute[0]"))
print(queries.value("graph.node[0].attribute[0].f"), queries.histogram("graph.initializer[0]"))
"""


@pytest.fixture(scope="module")
def comma_locale(tmp_path_factory):
    """Return the environment variables of a locale with a decimal comma; compile such a locale if none is installed."""
    old_locale = locale.setlocale(locale.LC_NUMERIC)
    try:
        for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "nl_NL.UTF-8"):
            try:
                locale.setlocale(locale.LC_NUMERIC, name)
            except locale.Error:
                continue
            return {"LC_ALL": name}
    finally:
        locale.setlocale(locale.LC_NUMERIC, old_locale)
    if shutil.which("localedef") is None:
        pytest.skip("no locale with a decimal comma is installed, and no localedef to make one")
    folder = tmp_path_factory.mktemp("locale")
    result = subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, check=False
    )
    if not (folder / "de_DE.UTF-8").is_dir():
        pytest.skip(f"localedef can't make a locale with a decimal comma: {result.stderr.decode(errors='replace')}")
    return {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(folder)}


def run(path: Path, environment: dict[str, str], decimal_mark: str) -> str:
    """Run PROGRAM on a model with the variables of a locale; return its stdout and stderr."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, TESTS, decimal_mark],
        capture_output=True,
        env=variables | environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode() + result.stderr.decode()


def model(alpha: float) -> onnx.ModelProto:
    """Return a model whose weights, attributes and constants have fractions."""
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [40], [i / 7 for i in range(40)])
    node = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], name="n", alpha=alpha)
    values = onnx.helper.make_node("Constant", [], ["c"], value_floats=[0.5, 1e-20, 1234567.0])
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    graph = onnx.helper.make_graph([node, values], "g", [x], [y], [weights])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])


def test_a_decimal_comma_changes_neither_output_nor_parsing(tmp_path, comma_locale):
    path = tmp_path / "m.onnx"
    path.write_bytes(model(0.25).SerializeToString())
    Path(f"{path}.other").write_bytes(model(0.75).SerializeToString())
    expected_output = run(path, {"LC_ALL": "C.UTF-8"}, "point")
    assert ": 1.5\n" in expected_output
    assert run(path, comma_locale, "comma") == expected_output
