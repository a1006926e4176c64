from check_case import OPSET, Case, model, node, tensor, value

_NAMED = 'producer_name: "p" producer_version: "1"'

CASES = {
    "model-ir-version-present": Case(f'{OPSET} graph {{ name: "g" }}', model()),
    "model-ir-version-known": Case(model(ir=15), model(ir=14)),
    "model-ir-version-undated": Case(model(ir=14), model(ir=13)),
    "model-graph-present": Case(f"ir_version: 8 {OPSET}", model()),
    "model-producer-present": Case(model(), model(rest=_NAMED)),
    "model-domain-present": Case(model(), model(rest='domain: "com.example"')),
    "model-domain-reverse-dns": Case(model(rest='domain: "example"'), model(rest='domain: "com.example"')),
    "model-version-scheme": Case(model(rest="model_version: -1"), model(rest="model_version: 281474976710656")),
    # The text form can't represent this string: graph, node, input.
    "model-strings-utf8": Case(
        b"\x08\x08\x3a\x05\x0a\x03\x0a\x01\xff", model(node("é", "o")), ("graph.node[0].input[0]",)
    ),
    # Field 99 as a varint.
    "model-unknown-fields": Case(b"\x08\x08\x98\x06\x01", b"\x08\x08"),
    # GraphProto: field 10, a doc_string, and field 6, once an ir_version.
    "model-reserved-fields": Case(b"\x08\x08\x3a\x02\x30\x01", b"\x08\x08\x3a\x02\x52\x00", ("graph",)),
    # GraphProto: field 3, once a repeated string of inputs.
    "doc-string-no-html": Case(
        model(rest='doc_string: "a <b>bold</b> word"'), model(rest='doc_string: "1 < 2 and 3 > 2"')
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
        model(ir=7, rest='functions { name: "f" }'), model(rest='functions { name: "f" }'), ("functions[0]",)
    ),
    "model-training-info-before-ir7": Case(
        model(ir=6, rest="training_info { }"), model(ir=7, rest="training_info { }"), ("training_info[0]",)
    ),
    "model-configuration-before-ir11": Case(
        model(ir=10, rest='configuration { name: "c" }'),
        model(ir=11, rest='configuration { name: "c" }'),
        ("configuration[0]",),
    ),
}

# A model that breaks this rule has 2 GiB; `test_check.py` tests one in a sparse file.
TESTED_ELSEWHERE = {"model-protobuf-size"}
