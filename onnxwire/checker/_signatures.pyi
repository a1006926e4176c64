from typing import Any

from onnxwire.checker._facts import Facts

def check_signatures(
    facts: Facts,
    chosen: Any,
    signatures: Any,
    parameters: Any,
    attributes: Any,
    refused: Any,
    sets: Any,
    definitions: Any,
    declared: Any,
    types: Any,
    node_faults: Any,
    input_faults: Any,
    output_faults: Any,
    attribute_faults: Any,
) -> None: ...
