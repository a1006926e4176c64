"""Cases of the rules of ValueInfoProto."""

from check_case import Case, float_type, model, nested_model, value

CASES = {
    "value-info-name-present": Case(
        model(f"input {{ {value('')} }}"), model(f"input {{ {value('x')} }}"), ("graph.input[0]",)
    ),
    "main-io-type-present": Case(
        model(f"input {{ {value('x', '')} }}"), nested_model(f"input {{ {value('i', '')} }}"), ("graph.input[0]",)
    ),
    "main-io-type-case-set": Case(
        model(f"input {{ {value('x', 'type { }')} }}"), model(f"input {{ {value('x')} }}"), ("graph.input[0]",)
    ),
    "main-io-shape-present": Case(
        model(f"input {{ {value('x', 'type { tensor_type { elem_type: 1 } }')} }}"),
        model(f"input {{ {value('x', float_type('dim { }'))} }}"),
        ("graph.input[0]",),
    ),
    "value-info-type-present-legacy": Case(
        nested_model(f"input {{ {value('i', '')} }}"),
        nested_model(f"input {{ {value('i')} }}"),
        ("graph.node[0].attribute[0].g.input[0]",),
        options={"ir_version": 5},
    ),
}
