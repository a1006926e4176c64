from typing import Any

from onnxwire.checker._facts import Facts

# signatures.py makes the columns; `types` receives inferred types, and the last four columns receive the faults.
def check_signatures(
    facts: Facts,
    signature_of_node: Any,
    signatures: Any,
    parameters: Any,
    attributes: Any,
    disallowed_counts: Any,
    type_sets: Any,
    definitions: Any,
    declared: Any,
    types: Any,
    node_faults: Any,
    input_faults: Any,
    output_faults: Any,
    attribute_faults: Any,
) -> None: ...
