"""Cases of the rules of the model as a whole."""

from check_case import OPSET, Case, model, node, tensor, value

_PRODUCER_FIELDS = 'producer_name: "p" producer_version: "1"'

CASES = {
    "model-ir-version-present": Case(f'{OPSET} graph {{ name: "g" }}', model()),
    "model-ir-version-known": Case(model(ir=15), model(ir=14)),
    "model-ir-version-undated": Case(model(ir=14), model(ir=13)),
    "model-graph-present": Case(f"ir_version: 8 {OPSET}", model()),
    "model-producer-present": Case(model(), model(fields=_PRODUCER_FIELDS)),
    "model-domain-present": Case(model(), model(fields='domain: "com.example"')),
    "model-domain-reverse-dns": Case(model(fields='domain: "example"'), model(fields='domain: "com.example"')),
    "model-version-scheme": Case(model(fields="model_version: -1"), model(fields="model_version: 281474976710656")),
    # The text form is not used, since its parser rejects a string that is not UTF-8. The bytes are ir_version 8, then
    # graph, node and input.
    "model-strings-utf8": Case(
        b"\x08\x08\x3a\x05\x0a\x03\x0a\x01\xff", model(node("é", "o")), ("graph.node[0].input[0]",)
    ),
    # The broken model has field 99, as a varint.
    "model-unknown-fields": Case(b"\x08\x08\x98\x06\x01", b"\x08\x08"),
    # The graph has the reserved field 6 in the broken model, and field 10 (doc_string) in the valid model.
    "model-reserved-fields": Case(b"\x08\x08\x3a\x02\x30\x01", b"\x08\x08\x3a\x02\x52\x00", ("graph",)),
    "doc-string-no-html": Case(
        model(fields='doc_string: "a <b>bold</b> word"'), model(fields='doc_string: "1 < 2 and 3 > 2"')
    ),
    "name-c90-identifier": Case(
        model(f"input {{ {value('1x')} }} initializer {{ {tensor('a/b')} }}" + node("1x", "o.0", 'name: "n n"')),
        model(f"input {{ {value('x1')} }} initializer {{ {tensor('a_b')} }}" + node("x1", "o_0", 'name: "_n"')),
        (
            "graph.node[0]",
            "graph.initializer[0]",
            "graph.input[0]",
            "graph.node[0].output[0]",
        ),
    ),
    "model-functions-before-ir8": Case(
        model(ir=7, fields='functions { name: "f" }'), model(fields='functions { name: "f" }'), ("functions[0]",)
    ),
    "model-training-info-before-ir7": Case(
        model(ir=6, fields="training_info { }"), model(ir=7, fields="training_info { }"), ("training_info[0]",)
    ),
    "model-configuration-before-ir11": Case(
        model(ir=10, fields='configuration { name: "c" }'),
        model(ir=11, fields='configuration { name: "c" }'),
        ("configuration[0]",),
    ),
}

# A model that breaks this rule has 2 GiB or more; `test_check.py` writes such a model as a sparse file.
TESTED_ELSEWHERE = {"model-protobuf-size"}
