"""The commands: each is the module of its name in this package, with _ for -, imported when it is called."""

from __future__ import annotations

GROUPS = {
    "look": {
        "info": "what is in a model",
        "ls": "tensors, nodes or values, with their sizes",
        "show": "any message, value or tensor, by its path",
        "stats": "range, mean, NaNs, ... of every tensor",
        "view": "a model in the browser, or as a report",
        "sql": "an answer to a question in SQL",
        "dump": "a whole file as text or JSON",
    },
    "check": {
        "check": "the rules of the ONNX IR that files break",
        "diff": "what two models differ in",
        "catalog": "the tables of many models, as a Parquet data set",
    },
    "edit": {
        "set": "change fields of a model",
        "rename": "new names for values or nodes",
        "rm": "remove nodes, tensors, entries or fields",
        "meta": "list, set and remove metadata",
        "infer": "types and shapes of values, as the onnx package infers them",
        "convert-version": "another opset, as the onnx package converts to it",
        "encode": "a binary file from text or JSON",
    },
    "move": {
        "extract": "a part of a model, or tensors",
        "unpack": "weights out of a model, into files beside it",
        "pack": "one file of a model and its weights",
    },
    "set up": {
        "completion": "a script that lets a shell complete commands, options and files",
    },
}
"""The purpose of each command in a line, by what one wants to do."""

WIDTH = 1 + max(len(name) for group in GROUPS.values() for name in group)

SUMMARIES = {name: summary for group in GROUPS.values() for name, summary in group.items()}
