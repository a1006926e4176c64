"""The names and summaries of the commands. The module of a command is cmd_NAME, with _ in place of - in its name.

The module is imported when the command is called.
"""

from __future__ import annotations

GROUPS = {
    "look": {
        "info": "the summary of a model",
        "ls": "tensors with their sizes, nodes or values",
        "show": "any message, value or tensor, by its path",
        "stats": "range, mean, NaNs, ... of every tensor",
        "view": "a model in the browser, or as a report",
        "sql": "query a model in SQL",
        "dump": "a whole file as text or JSON",
    },
    "check": {
        "check": "check files against the rules of the ONNX IR",
        "diff": "the differences between two models",
        "catalog": "the tables of many models, as a Parquet data set",
    },
    "edit": {
        "set": "change fields of a model",
        "dims": "list and change dimensions of inputs and outputs",
        "rename": "rename values or nodes",
        "rm": "remove nodes, tensors, metadata entries or fields",
        "meta": "list, set and remove metadata",
        "infer": "infer types and shapes of values with the onnx package",
        "convert-version": "convert to another opset with the onnx package",
        "encode": "a binary file from text or JSON",
    },
    "move": {
        "extract": "a part of a model, or tensors",
        "unpack": "move the weights of a model to external files",
        "pack": "combine a model and its weights in one file",
    },
    "set up": {
        "completion": "the completion script for a shell",
        "git": "diff and merge drivers for models in git",
    },
}
"""The summary of each command, by group."""

# The width of the column of names in the help.
NAME_COLUMN_CHARS = 1 + max(len(name) for group in GROUPS.values() for name in group)

SUMMARIES = {name: summary for group in GROUPS.values() for name, summary in group.items()}
