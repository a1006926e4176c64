"""JSON is read as by the official runtime: the same texts are accepted, and yield the same messages."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
from unittest import mock

import onnx
import pytest
import wire
from budget import IS_LONG, examples
from google.protobuf import json_format
from hypothesis import example, given
from hypothesis import strategies as st
from test_bundled_files import FILES, classes_of, read
from test_json import replace_invalid_strings
from test_text import EVERY_MESSAGE, EVERYTHING, FLOATS, PAIRS, TENSOR, has_invalid_utf8
from test_text_parser import Readers, RepeatingFile, SlowFile, read_with_peak

import onnxwire
from onnxwire.text import text_source


def convert_value(value, field, *arguments, convert=json_format._ConvertScalarFieldValue, **options):
    """Convert a value as the official runtime does, but reject enum numbers outside int32 instead of truncating."""
    if field.enum_type is not None and isinstance(value, str | int | float):
        with contextlib.suppress(ValueError):
            if not -(1 << 31) <= int(value) < 1 << 31:
                raise json_format.ParseError(f"{value} is not a number of an enum")
    return convert(value, field, *arguments, **options)


def convert_pairs(parser, json_object, message, path, convert=json_format._Parser._ConvertFieldValuePair):
    """Convert pairs as the official runtime does, but refuse an object that has a field under both of its names."""
    names = {field.json_name: field.name for field in message.DESCRIPTOR.fields}
    if isinstance(json_object, dict) and len({names.get(key, key) for key in json_object}) < len(json_object):
        raise json_format.ParseError("a field has both of its names")
    return convert(parser, json_object, message, path)


PATCHES = (
    mock.patch.object(json_format, "_ConvertScalarFieldValue", convert_value),
    mock.patch.object(json_format._Parser, "_ConvertFieldValuePair", convert_pairs),
)
READERS = Readers(onnxwire.from_json, json_format.Parse, *PATCHES)
official_reading, reading, check = READERS.official_reading, READERS.reading, READERS.check
check_ignoring_unknown = Readers(
    functools.partial(onnxwire.from_json, ignore_unknown=True),
    functools.partial(json_format.Parse, ignore_unknown_fields=True),
    *PATCHES,
).check


@pytest.fixture(params=[None, 1, 7, 64], ids=lambda size: f"pieces of {size}" if size else "default size")
def read_in_pieces(request, monkeypatch):
    """Read texts in pieces of this number of characters, or in the default size."""
    if request.param:
        monkeypatch.setattr(text_source, "CHUNK_CHARS", request.param)


# --- printed messages are read

# Options of the official printer, for the tests in test_formats.py.
STYLES = [{}, {"indent": None}, {"preserving_proto_field_name": True}, {"use_integers_for_enums": True}, {"indent": 0}]


@EVERY_MESSAGE
@examples(10)
@given(data=st.data())
def test_printed_messages_are_read_back(name, data):
    our_class, official_class = PAIRS[name]
    message = official_class.FromString(data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2)))
    message.DiscardUnknownFields()
    if has_invalid_utf8(message):
        replace_invalid_strings(message)
    for indent in (2, None):
        text = onnxwire.to_json(our_class.FromString(message.SerializeToString()), indent=indent)
        assert check(PAIRS[name], text)
        assert onnxwire.to_json(onnxwire.from_json(text, our_class), indent=indent) == text


def test_bundled_files_are_read_back():
    for file in FILES:
        our_class, official_class = classes_of(file)
        message = onnxwire.from_json(onnxwire.to_json(our_class.FromString(read(file))), our_class)
        assert official_class.FromString(message.SerializeToString()) == official_class.FromString(read(file)), file


# --- the language

# Values of number, bool and enum fields, valid and invalid.
NUMBERS = r"""
0 1 -1 -0 017 +5 1e3 1E-3 1.0 1.5 -0.0 2147483647 2147483648 -2147483648 -2147483649 4294967295 4294967296
9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615
18446744073709551616 1e22 1e400 -1e400 3.4028234663852886e38 3.5e38 -3.5e38 1e39 1e-400 NaN Infinity -Infinity nan true
false null True "1" "-1" "1.0" "1_0" "1e3" "1e400" "0x1" "01" "+1" "٣" "NaN" "nan" "NAN" "-nan" "Infinity" "-Infinity"
"inf" "-inf" "1e39" "" "true" "RED" "GREEN" "red" "LOWEST" "DARK" RED "70" 70 2 3 "3" 99 [] {} [1] [[]] {"a":1} .5 5. -
1.5e 0.1 1.5.2 01 0x1 1_0 1e5x "a" "\u0031" "1 '1' nul truee 1-2 1,2 // #
""".replace("\n", " ").split()  # fmt: skip
NUMBERS += ['" 1"', '"1 "', '"\\t1\\n"', '"1\u00a0"', "9" * 50, "9" * 400, "9" * 5000, '"' + "9" * 5000 + '"']
NUMBERS += ["0." + "1" * 99, '"0.' + "1" * 99 + '"', "- 1", "1 2", '"1" "2"', "1\x0c", "1\u00a0"]
# Values of string and bytes fields, valid and invalid.
STRINGS = [
    '""', '"a"', '"ab"', '"abc"', '"abcd"', '"aGk="', '"aGk"', '"aA"', '"ab-_"', '"ab+/"', r'"ab\/\/"', '"a=b="',
    '"=="', '"YQ==YQ=="', r'"YWJj\nYWJj"', '"!!!!"', '"a!b!"', '"!a"', '"YW JjZGVmZ2hpamtsbW5vcA=="',
    '"YWJjZGVmZ2hpamts="', '"é€𝄞"', r'"\u00e9"', r'"\ud83d\ude00"', r'"\ud83d"', r'"\ude00\ud83d"', r'"\ude00"',
    r'"\ud83d\u0041"', r'"\uD83D\uDE00"', r'"\n\t\r\b\f\\\/\""', r'"\q"', r'"\u12"', r'"\u12g4"', r'"\u 123"',
    r'"\x41"', r'"\0"', r'"\u0000"', '"\x7f"', '"\u2028"', '"\x01"', '"a\nb"', '"\x1f"', '"\t"', '"\udc80"',
    '"\ud83d\ude00"', '"', '"a', '"\\', '"\\"', "'a'", "a", "5", "null", "true", "[]", "{}", '["a"]', '"a" "b"',
    '"a"b', '"' + "a" * 999 + '"', '"' + "é" * 999 + '"', '"' + r"\u00e9" * 99 + '"', '"' + "\\\\" * 99 + '"',
    '"' + r"\"" * 99 + '"', '"' + r"\ud83d\ude00" * 99 + '"', '"' + r"\uD83D\uDF00" * 99 + '"',
    '"' + r"\ud83d\udc00" * 99 + '"', '"' + r"\ude00" * 99 + '"', '"' + "\\\\" * 99, '"' + "YWJj" * 99 + '"',
    '"' + "YWJj" * 99 + 'YQ"', '"' + "YWJj" * 50 + "\\n" + "YWJj" * 50 + '"', '"' + "YWJj" * 99 + 'Y"',
]  # fmt: skip
# Texts of test.Everything, valid and invalid, separated by | or a line end.
TEXTS = r"""
{}| { } |[]|""|null|true|5|"a"|[1]|["one_int32"]|[{}]|{|}|[|]|{}{}|{},|{} {}|{}x|x{}| |{"oneInt32"}|{"oneInt32":}|{:1}
{"oneInt32":1}|{"one_int32":1}|{"oneInt32" : 1 }|{"oneInt32":1,}|{,"oneInt32":1}|{"oneInt32":1,,"oneInt64":2}
{"oneInt32"=1}|{"oneInt32":1 "oneInt64":2}|{"oneInt32":1;"oneInt64":2}|{oneInt32:1}|{'oneInt32':1}|{"OneInt32":1}
{"oneint32":1}|{1:1}|{"oneInt32":1,"oneInt32":2}|{"oneInt32":1,"one_int32":2}|{"oneInt32":null,"one_int32":2}
{"oneInt32":2,"one_int32":null}|{"child":{"oneInt32":1},"child":{}}|{"child":{"oneInt32":1,"oneInt32":1}}
{"nothing":1}|{"":1}|{"gone":1}|{"[a.b]":1}|{"[]":1}|{"child":{}}|{"child":null}|{"child":""}|{"child":[]}
{"child":"a"}|{"child":["oneInt32"]}|{"child":5}|{"child":false}|{"child":[{}]}|{"child":[null]}
{"child":{"child":{"child":{"oneInt32":5}}}}|{"child":{}|{"child":{}}}|{"child":"{}"}|{"children":[]}
{"children":[{}]}|{"children":[{},{"oneInt32":1},""]}|{"children":[null]}|{"children":{}}|{"children":""}
{"children":null}|{"children":[{},]}|{"children":[,{}]}|{"children":[{} {}]}|{"children":[[]]}|{"children":[5]}
{"children":["a"]}|{"children":[{"children":[{},{"children":[{"oneInt32":1}]}]}]}|{"children":[{}|{"children":[
{"children":[{"a":1}]}|{"children":[[[]]]}|{"manyInt32":[1,2]}|{"manyInt32":[]}|{"manyInt32":[1,]}|{"manyInt32":[,]}
{"manyInt32":[1 2]}|{"manyInt32":[1,"2",3.0,4e0]}|{"manyInt32":1}|{"manyInt32":"1"}|{"manyInt32":[null]}
{"manyInt32":[1,null]}|{"manyInt32":[[1]]}|{"manyInt32":[{}]}|{"manyInt32":[1|{"manyInt32":[1,2147483648]}
{"manyInt32":["1","2147483648"]}|{"manyInt32":["1"," 2"]}|{"manyInt32":[true]}|{"manyInt32":["]"]}
{"manyInt32":[1],"many_int32":[2,3]}|{"manyInt32":[1],"many_int32":null}|{"manyInt32":[1]]}|{"manyInt32":[1}
{"manyInt32":["1,2"]}|{"manyFloat":[1,2.5,"NaN","-Infinity",true,"1e39"]}|{"manyFloat":[NaN]}|{"manyFloat":[1e39]}
{"manyFloat":[1.5,1e400]}|{"manyDouble":[1e39,1e308]}|{"manyDouble":[1.5,1e400]}|{"manyDouble":[1,0.5,-0.0]}
{"manyBool":[true,false]}|{"manyBool":[1]}|{"manyShade":["DARK",0,"70",2.0]}|{"manyShade":["DARK",5]}
{"manyShade":[true]}|{"manyColor":["RED",true,1.5]}|{"manyShade":["DRAK"]}|{"manyString":["a","","é","]",","]}
{"manyString":["a",5]}|{"manyBytes":["YQ","","!"]}|{"manyBytes":["a"]}|{"manyString":["a",null]}
{"pickInt":1,"pickText":"a"}|{"pickInt":1,"pickText":null}|{"pickInt":null,"pickText":"a"}
{"pickText":null,"pickInt":null}|{"pickInt":1,"pick_int":2}|{"pickMessage":{},"pickInt":1}
{"pickMessage":{"pickInt":1},"otherDouble":1}|{"pickFar":{},"pickShade":0}|{"otherTree":{},"otherDouble":"1"}
{"pick":1}|{"last":"9223372036854775807"}|{"tree":{"value":1,"branches":[{"trunk":{}}]}}
{"child":{"oneInt32":1},"tree":{"value":5},"children":[{"oneInt32":5}]}|{"oneInt32":1}/**/|{"oneInt32":/**/1}|// a
""".strip().replace("\n", "|").split("|")  # fmt: skip
TEXTS += [
    "", "\ufeff{}", "{}\n\r\t ", "\x0c{}", "\u00a0{}", "{}\x00", '{"one_int32\udc80":1}', '{"oneInt32":1}\udc80',
    '{"a\nb":1}', '{"one\\u0049nt32":1}', '{"oneInt32\\q":1}', '{"oneInt32":\n\n1\n}', '{"' + "a" * 999 + '":1}',
    '{"children":' + "[" * 5000, '{"children":[' + "{}," * 300 + "{}]}", '{"children":[' + "{}," * 300 + '{"a":1}]}',
    '{"manyInt32":[' + "1," * 300 + '"x"]}', '{"manyInt64":[' + '"1",' * 300 + "2]}",
    '{"manyDouble":[' + "0.5," * 300 + '"1"]}', '{"manyDouble":[' + "0.5," * 300 + "]}",
]  # fmt: skip


def json_name_of(name):
    """Return the JSON name of a field."""
    first_word, *other_words = name.split("_")
    return first_word + "".join(map(str.title, other_words))


def texts_of_field(values, field):
    """Yield texts of objects with one field.

    Each value is used as it is and in one of `forms`; with --long, it is used in every form.
    """
    forms = ("{}", "{} ", "[{}]", "[{},{}]", "[{}, 1]") if field.is_repeated else ("{}", " {}\n", "{},")
    for index, value in enumerate(values):
        for form in forms if IS_LONG else dict.fromkeys((forms[0], forms[index % len(forms)])):
            yield f'{{"{json_name_of(field.name)}":{form.replace("{}", value)}}}'


@pytest.mark.parametrize("name", [field.name for field in EVERYTHING.ours.DESCRIPTOR.fields if wire.is_number(field)])
def test_numbers_are_those_of_the_official_runtime(name):
    are_accepted = [
        check(EVERYTHING, text) for text in texts_of_field(NUMBERS, EVERYTHING.ours.DESCRIPTOR.fields_by_name[name])
    ]
    assert True in are_accepted
    assert False in are_accepted


@pytest.mark.parametrize("name", ["one_string", "one_bytes", "many_string", "many_bytes", "pick_text"])
def test_strings_are_those_of_the_official_runtime(name, read_in_pieces):
    are_accepted = [
        check(EVERYTHING, text) for text in texts_of_field(STRINGS, EVERYTHING.ours.DESCRIPTOR.fields_by_name[name])
    ]
    assert True in are_accepted
    assert False in are_accepted


def test_the_same_texts_are_accepted_as_by_the_official_runtime(read_in_pieces):
    accepted_texts = [text for text in TEXTS if check(EVERYTHING, text)]
    assert len(TEXTS) // 5 < len(accepted_texts) < len(TEXTS) * 3 // 4


def test_both_names_of_a_field_are_accepted():
    for our_class, official_class in PAIRS.values():
        for field in official_class.DESCRIPTOR.fields:
            for key in (field.name, field.json_name):
                assert check((our_class, official_class), json.dumps({key: [] if field.is_repeated else None}))


def random_value(rng, field, depth):
    """Draw JSON of one value of a field, valid or nearly valid. depth: maximum levels of nested messages."""
    if rng.random() < 0.05:
        return rng.choice(["null", "[]", '""', "{}", "1", '"x"', "[null]", '["i"]', "[[]]", "true", '{"a":1}'])
    if field.message_type is not None:
        return random_text(rng, field.message_type, depth - 1)
    if not wire.is_number(field):
        return rng.choice(rng.choice([STRINGS[:9], STRINGS[:9], STRINGS]))
    if rng.random() < 0.2:
        return rng.choice(NUMBERS)
    if field.enum_type is not None:
        return json.dumps(rng.choice([n for value in field.enum_type.values for n in (value.name, value.number)]))
    if field.type == field.TYPE_BOOL:
        return rng.choice(["true", "false"])
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(["1.5", "0", "-1", "1e3", '"NaN"', '"-Infinity"', "0.1"])
    return rng.choice(["0", "1", "7", '"5"', "1.0", "1e2"])


def random_text(rng, descriptor, depth):
    """Draw JSON of a message, valid or nearly valid."""

    def join_parts(parts, brackets):
        spaces = [rng.choice(["", "", " ", "\n"]) for _ in range(3)]
        return f"{brackets[0]}{spaces[0]}{f'{spaces[1]},{spaces[2]}'.join(parts)}{spaces[1]}{brackets[1]}"

    if depth < 0:
        return rng.choice(["{}", "{}", "{ }", "[]", '""'])
    fields = rng.sample(list(descriptor.fields), min(len(descriptor.fields), rng.choice([0, 1, 1, 2, 3, 4])))
    pairs = []
    for field in fields:
        keys = [field.name, json_name_of(field.name)]
        for key in keys if rng.random() < 0.1 else [rng.choice(keys)]:
            value = random_value(rng, field, depth)
            if field.is_repeated and rng.random() < 0.95:
                values = [random_value(rng, field, depth) for _ in range(rng.choice([0, 1, 2, 3, 5]))]
                value = join_parts(values, "[]")
            space_before, space_after = rng.choice(["", "", " "]), rng.choice(["", " ", "\n"])
            pairs.append(f'"{key}"{space_before}:{space_after}{value}')
    return join_parts(pairs, "{}")


# Texts that `mutate_text` inserts.
SNIPPETS = (
    [*'{}[]:,"\\/ \n\t\r\x0c\xa0\ufeff#0é-x', "null", "{}", "[]", '"a":1', '"pick":1', '"[a.b]":1'] + NUMBERS + STRINGS
)


# --- repeated fields


@examples(30)
@given(values=st.lists(FLOATS, max_size=200))
@example(values=[sign * 2.0**n for n in range(-149, 128) for sign in (1, -1)])
@example(values=[3.4028234663852886e38])
def test_floats_are_read_back(values):
    tensor = TENSOR.official(float_data=values, double_data=values)
    # The official runtime rejects its own output for the largest float.
    assert check(TENSOR, json_format.MessageToJson(tensor)) or 3.4028234663852886e38 in map(abs, values)


@pytest.mark.parametrize("fault", ["2147483648", "x", "1.5", "", '"a"', "1 2", "1 }", "1: 2", "null", "[]", "1,"])
def test_a_fault_after_many_numbers_has_its_position(fault, read_in_pieces):
    text = '{"manyInt32": [\n' + "1,\n" * 5000 + f"{fault}]}}"
    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.from_json(text, EVERYTHING.ours)
    # If `fault` begins with a valid number, the position in the error is after the number.
    starts_with_number = fault[:2] in ("1 ", "1:", "1,")
    assert starts_with_number or str(error_info.value).startswith("<str>: many_int32[5000]: line 5,002, column 1: ")
    assert official_reading(EVERYTHING.official, text) is None


ELEMENTS = [
    "{}", '{"oneInt32": 1}', '{"one_int32":null}', '{"children":[{},{"oneString":"],{"}]}', '""', "[]", '{"child":{}}',
    '{"manyString":["", "a,b", "\\u00e9"]}',
]  # fmt: skip
INVALID_ELEMENTS = [
    "null",
    "5",
    '"a"',
    "[{}]",
    '{"nosuch":1}',
    '{"oneInt32":1,"oneInt32":1}',
    "{",
    "",
    '{"oneInt32":"x"}',
]


@examples(40)
@given(
    st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=60),
    st.sampled_from([",", ", ", " ,\n\t", ",\r\n"]),
    st.none() | st.tuples(st.integers(0, 59), st.sampled_from(INVALID_ELEMENTS)),
)
def test_arrays_of_messages_are_those_of_the_official_runtime(read_in_pieces, elements, comma, invalid_element):
    if invalid_element:
        elements.insert(*invalid_element)
    text = f'{{"children":[{comma.join(elements)}]}}'
    assert check(EVERYTHING, text) is not bool(invalid_element)
    if (
        not invalid_element or invalid_element[1] != '"a"'
    ):  # the official runtime ignores the characters of a string as unknown names
        check_ignoring_unknown(EVERYTHING, text)


@pytest.mark.parametrize("kind", ["String", "Bytes"])
@examples(20)
@given(st.lists(st.sampled_from(STRINGS), min_size=1, max_size=60), st.sampled_from([",", " ,\n "]))
def test_arrays_of_strings_are_those_of_the_official_runtime(read_in_pieces, kind, strings, comma):
    check(EVERYTHING, f'{{"many{kind}":[{comma.join(strings)}]}}')
    valid_strings = [string for string in strings if check(EVERYTHING, f'{{"many{kind}":[{string}]}}')]
    assert check(EVERYTHING, f'{{"many{kind}":[{comma.join(valid_strings)}]}}')


# --- types of texts


def test_invalid_utf_8_is_rejected_with_its_position(read_in_pieces):
    for data in (b'{"oneInt32": 1,\n"\xff', b'{\n"\xe2\x82', b'{\n"\xed\xa0\x80"'):
        assert official_reading(EVERYTHING.official, data) is None
        for source in (data, io.BytesIO(data), SlowFile(data)):
            with pytest.raises(
                onnxwire.DecodeError, match=r"line 2, column 2: the byte 0x\w\w is not valid utf-8 here"
            ):
                onnxwire.from_json(source, EVERYTHING.ours)


# --- enums, nesting, names, and unknown fields


def test_numbers_of_enums_are_not_truncated_to_32_bits():
    text = f'{{"oneShade": {(1 << 32) + 70}}}'
    assert json_format.Parse(text, EVERYTHING.official()).one_shade == 70
    assert reading(EVERYTHING, text) is None


@pytest.mark.parametrize("form", [('{"child":', "}"), ('{"children":[', "]}")])
def test_messages_nest_as_deep_as_the_official_runtime_reads_them(form, read_in_pieces):
    for depth in (98, 99, 100, 101, 5000):
        for innermost in ("{}", '""'):
            text = form[0] * depth + innermost + form[1] * depth
            assert check(EVERYTHING, text) is (depth < 100)
            if depth >= 100:
                with pytest.raises(onnxwire.DecodeError, match="nested 100 deep or more"):
                    onnxwire.from_json(text, EVERYTHING.ours)


@pytest.mark.parametrize("value", ["1", "null"])
def test_a_field_under_both_of_its_names_is_rejected(value, read_in_pieces):
    text = f'{{"ir_version": {value}, "domain": "d", "irVersion": {value}}}'
    with pytest.raises(onnxwire.DecodeError, match=r"'irVersion' occurs a second time, first as 'ir_version'"):
        onnxwire.from_json(text)


IGNORED_VALUES = [
    "1", "-1.5e3", "true", "null", "NaN", '""', r'"\ud83d\ude00\n"', "[]", "{}",
    '[1, {"a": [], "b": {"c": "]"}}, [[2]]]',
    '"' + "é" * 20_000 + '"', "[" * 5000 + "]" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("value", IGNORED_VALUES, ids=range(len(IGNORED_VALUES)))
def test_unknown_fields_are_ignored_on_demand(value, read_in_pieces):
    text = f'{{"newer": {value}, "graph": {{"name": "g", "x": {value}, "node": [{{"y": {value}}}]}}, "domain": "d"}}'
    expected = onnxwire.ModelProto(domain="d")
    expected.graph.name = "g"
    expected.graph.node.add()
    assert onnxwire.from_json(text, ignore_unknown=True) == expected
    with pytest.raises(onnxwire.DecodeError, match="no field 'newer'"):
        onnxwire.from_json(text)


@pytest.mark.parametrize("value", ['"A_NEW_KIND"', '""'])
def test_unknown_names_of_enum_values_are_ignored_if_unknown_fields_are(value, read_in_pieces):
    text = f'{{"one_shade": {value}, "many_shade": ["RED", {value}, "RED"], "one_int32": 5}}'
    expected = json_format.Parse(text, EVERYTHING.official(), ignore_unknown_fields=True)
    message = onnxwire.from_json(text, EVERYTHING.ours, ignore_unknown=True)
    assert message.SerializeToString() == expected.SerializeToString()
    assert reading(EVERYTHING, text) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "[",
        "[1",
        "[1,]",
        "[1 2]",
        "{1}",
        '{"a"}',
        '{"a" 1}',
        '{"a": 1,}',
        '{"a": 1]',
        '"a',
        '"\n"',
        r'"\x"',
        "]",
    ],
)
def test_ignored_values_must_be_valid_json(value, read_in_pieces):
    with pytest.raises(onnxwire.DecodeError, match="line 1"):
        onnxwire.from_json(f'{{"newer": {value}}}', ignore_unknown=True)


# --- errors

FAULTS = {
    '{"": 1}': "line 1, column 2: ModelProto has no field ''",
    '{"graph": {\n  "node": [{}, {\n    "nmae": "x" }] } }': (
        "graph.node[1]: line 3, column 5: NodeProto has no field 'nmae'; did you mean 'name'?"
    ),
    '{"graph": {"node": [{"input": ["a", 5]}]}}': (
        "graph.node[0].input[1]: line 1, column 37: expected a string, found 5"
    ),
    '{"irVersion": 1,\n"irVersion": 1}': "ir_version: line 2, column 1: the key 'irVersion' occurs a second time",
    '{"irVersion": 9223372036854775808}': (
        "ir_version: line 1, column 15: 9223372036854775808 is out of the range of int64"
    ),
    '{"irVersion": "x"}': 'ir_version: line 1, column 15: expected an integer, found "x"',
    '{"irVersion": true}': "ir_version: line 1, column 15: expected an integer, found true",
    '{"irVersion": [1]}': "ir_version: line 1, column 15: expected one value, found an array",
    '{"irVersion":': "ir_version: line 1, column 14: expected a value, found the end of the text",
    '{"irVersion" 5}': "ir_version: line 1, column 14: expected ':', found '5'",
    '{"irVersion": 5': "line 1, column 16: expected ',' or '}', found the end of the text",
    "{": "line 1, column 2: expected a field's name in double quotes, found the end of the text",
    "{irVersion: 5}": "line 1, column 2: expected a field's name in double quotes, found 'irVersion'",
    '{"graph": 5}': "graph: line 1, column 11: expected an object, found '5'",
    '{"graph": {"node": {}}}': "graph.node: line 1, column 20: expected an array, found an object",
    '{"graph": {"node": [null]}}': "graph.node[0]: line 1, column 21: null can't be an element of a repeated field",
    "{} {}": "line 1, column 4: expected the end of the text, found an object",
    "\ufeff{}": "line 1, column 1: expected an object, found a byte order mark",
    '{"domain": "a\n"}': "domain: line 1, column 12: the string is not valid JSON: Invalid control character at",
    '{"domain": "\\ud800"}': ("domain: line 1, column 12: the string has a lone surrogate, which is not text"),
    '{"graph": {"initializer": [{"rawData": "a"}]}}': (
        "graph.initializer[0].raw_data: line 1, column 40: the string is not valid base64 (Invalid base64-encoded "
        "string: number of data characters (1) cannot be 1 more than a multiple of 4)"
    ),
    '{"graph": {"node": [{"attribute": [{"type": "FLAOT"}]}]}}': (
        'graph.node[0].attribute[0].type: line 1, column 45: onnx.AttributeProto.AttributeType has no value "FLAOT"'
    ),
    '{"graph": {"node": [{"attribute": [{"floats": [1, 2, NaN]}]}]}}': (
        "graph.node[0].attribute[0].floats[2]: line 1, column 54: "
        'expected a finite number; "NaN", "Infinity" and "-Infinity" need quotes'
    ),
    '{"graph": {"input": [{"type": {"tensorType": {}, "mapType": {}}}]}}': (
        "graph.input[0].type.map_type: line 1, column 61: another member of the oneof value is also set"
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_errors_name_position_field_and_expected_value(text, read_in_pieces):
    for source in (text, text.encode(), io.StringIO(text)):
        with pytest.raises(onnxwire.DecodeError) as error_info:
            onnxwire.from_json(source)
        assert str(error_info.value) == f"<{type(source).__name__}>: {FAULTS[text]}"
    assert official_reading(onnx.ModelProto, text) is None


def test_errors_are_short_for_any_text():
    long_text = "x" * 100_000
    for text in (
        f'{{"{long_text}',
        f'{{"{long_text}": 1}}',
        f'{{"irVersion": "{long_text}"}}',
        f'{{"irVersion": {long_text}}}',
        long_text,
    ):
        with pytest.raises(onnxwire.DecodeError) as error_info:
            onnxwire.from_json(text)
        assert len(str(error_info.value)) < 200


# --- memory


@pytest.mark.parametrize("unit", ["YWJj", "YW-_YWJjYW+/", r"YWJj\/\/\/\/YWJj", "YWJj\\n"])
def test_long_bytes_need_less_than_six_times_the_memory_of_their_value(unit):
    text = RepeatingFile('{"rawData": "', unit, 5_000_000, 'YWI", "name": "x"}')
    value = base64.urlsafe_b64decode(json.loads(f'"{unit}"').replace("+", "-").replace("/", "_") * text.times + "YWI=")
    message, peak = read_with_peak(onnxwire.from_json, text, TENSOR.ours)
    assert message.raw_data == value
    assert message.name == "x"
    # Base64 with line breaks is decoded only when it is complete.
    assert peak < (6 if "\\n" in unit else 2.3) * len(value) + 1_600_000


@pytest.mark.parametrize("unit", ["abc", "é", r"\n", r"\ud83d\ude00", r"\\", r"\""])
def test_a_long_string_needs_less_than_five_times_the_memory_of_its_value(unit):
    text = RepeatingFile('{"docString": "', unit, 5_000_000, '", "name": "x"}')
    value = json.loads(f'"{unit}"') * text.times
    message, peak = read_with_peak(onnxwire.from_json, text, TENSOR.ours)
    assert message.doc_string == value
    assert message.name == "x"
    assert peak < 5 * len(value.encode()) + 1_600_000


@pytest.mark.parametrize("unit", [" ", "\n\t"])
def test_long_whitespace_is_not_retained_in_memory(unit, monkeypatch):
    monkeypatch.setattr(text_source, "CHUNK_CHARS", 10_000)  # so that retained text would be detected
    text = RepeatingFile('{"children": [], ', unit, 500_000, '"oneInt32": 5}')
    message, peak = read_with_peak(onnxwire.from_json, text, EVERYTHING.ours)
    assert message.SerializeToString() == EVERYTHING.official(one_int32=5).SerializeToString()
    assert peak < 200_000
