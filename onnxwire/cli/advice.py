"""Rewrites advice in errors and warnings of the library for users of the command line."""

from __future__ import annotations

# Phrases in errors and warnings of the library, and the corresponding phrases for users of the commands.
_REPLACEMENTS = {
    "overwrite=True": "--overwrite",
    " or external_data=": "",
    "allow_hosts=": "--allow-host",
    "cache= or ONNXWIRE_CACHE": "--cache or ONNXWIRE_CACHE",
    "pass its folder as external_root=": "pass its folder as --external-root, if the command has this option",
    "external_root=": "--external-root",
    "(external data)": "(onnxwire unpack)",
    "onnxwire.from_text": "`onnxwire encode`",
    "pass external= to write the data again": "write the data again by `onnxwire unpack` or `onnxwire pack`",
    "save with external= to write the data into the new file or beside it": "run `onnxwire pack` on the model first",
    "run onnxwire.infer_shapes on the model first": "run `onnxwire infer` on the model first",
    "use numpy(strings='bytes')": "use the Python API: numpy(strings='bytes')",
    "use strings='bytes'": "use the Python API: numpy(strings='bytes')",
    "pass keep_type=False": "add --force",
    "choose the dense ones with names=": "choose the dense ones by their names",
}

# The start of the advice in errors for a file that contains another type of message than expected; the name of the
# actual type follows.
_LOAD_TYPE = "load it with type=onnxwire."


def shell_advice(text: str) -> str:
    """Return the text of an error or warning, with options of commands in place of parameters of functions."""
    for library_text, command_text in _REPLACEMENTS.items():
        text = text.replace(library_text, command_text)
    start, separator, name = text.partition(_LOAD_TYPE)
    return f"{start}use --type {name}, with a command that has it, such as `onnxwire show`" if separator else text
