"""The text format is read as by the official runtime: the same texts are accepted, and yield the same messages."""

from __future__ import annotations

import contextlib
import io
import random
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from unittest import mock

import onnx
import pytest
import wire
from budget import IS_LONG, examples
from google.protobuf import text_encoding, text_format
from hypothesis import example, given
from hypothesis import strategies as st
from test_bundled_files import FILES, classes_of, read
from test_text import EVERY_MESSAGE, EVERYTHING, FLOATS, PAIRS, TENSOR

import onnxwire
from onnxwire.text import text_source

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"

# Python warns about invalid escapes while either reader decodes a string.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:invalid octal escape sequence:DeprecationWarning"),
]


def parse_enum(field, value, parse=text_format.ParseEnum):
    """Parse an enum as the official runtime does, but without reducing numbers modulo 2**32."""
    try:
        number = int(value, 0)
    except ValueError:
        number = 0
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{number} is not a number of an enum")
    return parse(field, value)


def unescape(text, result=None, unescape=text_encoding.CUnescape):
    """Unescape as the official runtime does, but with C's escape for a question mark."""
    return unescape(re.sub(r"(?<!\\)((?:\\\\)*)\\\?", r"\1?", text))


class Readers:
    """The readers of a text form: onnxwire's, and the official one, which `patches` modify."""

    def __init__(self, read_text, parse, *patches):
        self.read_text = read_text
        self.parse = parse
        self.patches = patches

    def official_reading(self, official, text):
        """Return the encoding of the message that the official runtime parses, None if it refuses the text."""
        message = official()
        with contextlib.ExitStack() as stack:
            for patch in self.patches:
                stack.enter_context(patch)
            try:
                self.parse(text, message)
            except Exception:
                return None
        return message.SerializeToString(deterministic=True)

    def reading(self, pair_of_classes, text):
        """Return the encoding of the message that onnxwire parses, None if it refuses the text."""
        our_class, official_class = pair_of_classes
        try:
            message = self.read_text(text, our_class)
        except onnxwire.DecodeError as error:
            assert "line " in str(error)
            return None
        return official_class.FromString(message.SerializeToString()).SerializeToString(deterministic=True)

    def check(self, pair_of_classes, text):
        """Assert that both readers parse a text to the same message or refuse it; return whether they accept it."""
        expected = self.official_reading(pair_of_classes[1], text)
        assert self.reading(pair_of_classes, text) == expected
        return expected is not None


READERS = Readers(
    onnxwire.from_text,
    text_format.Parse,
    mock.patch.object(text_format, "ParseEnum", parse_enum),
    mock.patch.object(text_encoding, "CUnescape", unescape),
)
official_reading, reading, check = READERS.official_reading, READERS.reading, READERS.check


@pytest.fixture(params=[None, 1, 7, 64], ids=lambda size: f"pieces of {size}" if size else "default size")
def read_in_pieces(request, monkeypatch):
    """Read texts in pieces of this number of characters, or in the default size."""
    if request.param:
        monkeypatch.setattr(text_source, "CHUNK_CHARS", request.param)


# --- printed messages are read

STYLES = [
    {},
    {"as_one_line": True},
    {"use_short_repeated_primitives": True},
    {"use_short_repeated_primitives": True, "as_one_line": True, "pointy_brackets": True},
    {"as_utf8": False, "force_colon": True},
    {"use_index_order": True},
]


@EVERY_MESSAGE
@examples(20)
@given(data=st.data())
def test_printed_messages_are_read_back(name, data):
    our_class, official_class = PAIRS[name]
    message = official_class.FromString(data.draw(wire.valid_wire(our_class.DESCRIPTOR, 2)))
    message.DiscardUnknownFields()
    for as_protoc in (False, True):
        text = onnxwire.to_text(our_class.FromString(message.SerializeToString()), as_protoc=as_protoc)
        if check(PAIRS[name], text):
            assert onnxwire.to_text(onnxwire.from_text(text, our_class), as_protoc=as_protoc) == text


def test_bundled_files_are_read_back():
    for file in FILES:
        our_class, official_class = classes_of(file)
        message = onnxwire.from_text(onnxwire.to_text(our_class.FromString(read(file))), our_class)
        assert official_class.FromString(message.SerializeToString()) == official_class.FromString(read(file)), file


# --- the language

# Values of number, bool and enum fields, valid and invalid.
NUMBERS = """
0 1 -1 7 +5 017 -017 +017 08 00 -0 1_0 0_0 0x1F -0x1f 0X1 0x 0b11 0o17 2147483647 2147483648 -2147483648 -2147483649
4294967295 4294967296 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809
18446744073709551615 18446744073709551616 1.5 .5 5. 1. 1e3 1E-3 1.e5 1f 1.5F 1ff 1fF inf -inf +inf INF infinity
-Infinityf inff nan -nan nanf NaN -nanf 01.5 -01 +01 00.1 1e400 -1e400 1e39 3.5e38 1e-400 - -- --1 + . 1.2.3 1-2 1+1 - 1
٣ 1٣ ² true false t f True False TRUE tru RED GREEN red LOWEST DARK BRIGHT HIGHEST 2 3 70 99 x a-b "1" '1' {} [] [1]
""".replace("\n", " ").split()
NUMBERS += ["- 1", "1" * 5000, "0." + "1" * 500, "1 2", "1, 2"]
# Values of string and bytes fields, valid and invalid.
STRINGS = [
    '""', "''", '"a"', "'b'", '"\'"', "'\"'", '"a" "b"', "\"a\"'b'", '"a"\n\t"b" # c\n"c"', '"a" # "\n', '"é€𝄞"',
    "'é'", r'"\n\t\r\a\b\f\v\\\'\"\?"', r'"\q"', r'"\8"', r'"\1\12\123\1234"', r'"\377"', r'"\400"', r'"\777"',
    r'"\0"', r'"\x"', r'"\x4"', r'"\x41"', r'"\x414"', r'"\xg"', r'"\X41"', r'"\\x4"', r'"\\\x4"', r'"\xff"',
    r'"\303\251"', r'"\303"', r'"\u00e9"', r'"\u12"', r'"\u20ac"', r'"\ud83d\ude00"', r'"\U0001F600"',
    r'"\U00110000"', r'"\U1"', r'"\\u00e9"', r'"\u005cn"', r'"\1\u0032"', r'"\x1\u0032"', r'"\u005c"',
    r'"\N{EURO SIGN}"', r'"\N{DIGIT TWO}"', r'"\N{X}"', '"\\€"', '"\\é"', '"\\\\€"', '"', "'", '"a', "'a", '"a\\',
    '"a\\"', "\"a'", '"\\\\"', '"a\nb"', '"\\\nb"', '"\x00\x01\x7f"', '"\r"', '"\t"', '"\udc80"', '"\ud83d\ude00"',
    '"#"', '"{"', '"a","b"', "a", "1", "[]", '"a" b"', '["a" \'b\', "c"]', '"' + r"\000\001\377" * 99 + '"',
    '"' + "\\\\" * 99 + '"', '"' + "\\\\" * 99 + '\\"', '"' + "€" * 99 + '"', '"\\n' + "a" * 600 + '"',
    '"' + '\\"' * 300 + '"', '"' + "a" * 5000 + '"', '"' + "b\\n" * 2000 + '" "b"', '"' + r"\1\u0032" * 99 + '"',
    '"' + r"\u00e9" * 99 + '"',
]  # fmt: skip
# Texts of test.Everything, valid and invalid, separated by | or a line end.
TEXTS = r"""
child {}|child: {}|child <>|child: <>|child {>|child <}|child {|child }|child|child:|child: 1|child: ""|}|>|{|{}|:
child {}}|child{}child{}|child {} child {}|child { one_int32: 1 } one_int32: 2|children {} children {}
children: [{}, {}]|children[{}]|children [{}, <>]|children: []|children []|children: [{},]|children: [{} {}]
children: [,]|children: [{};{}]|children: [|children: [{}|children: [{}] children {} children: [<>] ;|children: [[]]
child: []|child: [{}]|children: [{},{}],|children: [{}>]|children: [{one_int32: 1 one_int32: 2}]|children: [1]
children [{children [{children [{}, {one_int32: 5}]}]}, {}]|children: ["a"]|children: [{}, "a"]|children:: {}
many_int32: [1, 2]|many_int32: []|many_int32 [1]|many_int32: [1,]|many_int32: [1 2]|many_int32: [,1]|many_int32: [1;2]
many_int32: [|many_int32: [1|many_int32: [1,|many_int32: [1, 0x10, 017, -3, +4 , 2147483647]|many_int32: [[1]]
many_int32: [1, 2147483648]|many_int32: [1] many_int32: 2 many_int32: [3, 4],many_int32:5;|many_int32: 1 2
many_float: [1, .5, inf, nan, -inf, 1f, 01, 1e5]|many_float: [1, .5, inf, nan, -inf, 1f, 1e5]|many_bool: [2]
many_shade: [DARK, 0, LIGHT]|many_shade: [DARK, 5]|many_color: [RED, 1, GREEN]|many_bool: [true, f, 1, 0, t]
many_string: ["a" "b", 'c']|many_string: ["a",]|many_bytes: ["\377", ""]|many_string: [a]|many_string: ["a" 1]
one_int32: 1 one_int32: 1|one_int32: 1; child {} child {}|one_string: "" one_string: ""|one_int32: 0 one_int32: 0
pick_int: 1 pick_text: "a"|pick_int: 1 pick_int: 1|pick_message {} pick_message {}|pick_message {} pick_int: 1
pick_int: 1 pick_message {}|pick_message { pick_int: 1 } other_double: 1|other_tree {} other_double: 2
pick_shade: DARK pick_far {}|pick_text: "a" pick_shade: DARK|pick_far: {} pick_far: <>|pick_int: 1 other_tree {}
one_int32 : 1|one_int32:1|one_int32 :1|one_int32: 1,|one_int32: 1;|one_int32: 1,,|one_int32: 1;;|one_int32: 1,;
,one_int32: 1|;|one_int32, 1|one_int32: 1one_int64: 2|one_int32: 1,one_int64:2|one_string:"a"one_int64:2
one_string: "a"; "b"|one_string: "a", "b"|one_bool: true"a"|one_int32: 1}|one_int32: 1 }|one_int32 1|one_int32 {}
one_int32: {}|one_int32:|one_int32|one_int32: one_int64: 1|one_string: one_int32: 1|one_int32:: 1|one_int32: 1: 2
nothing: 1|One_int32: 1|ONE_INT32: 1|Child {}|3: 1|1one: 1|"one_int32": 1|'one_int32': 1|one-int: 1|é: 1|é|²: 1
one_int32é: 1|[a.b]: 1|[a]{}|[a.b/c.d] {}|[|[]|[1]: 1|child { [a.b]: 1 }|-1: 1|.: 1|%|\|/|one_int32: 1\
one_int32: 1 / one_int64: 2|last: 5|last: 9223372036854775807 last: 1|child { child { child < > } } child {}
tree { value: 1 branches { value: 2 } branches: [{ trunk { value: 3 } }] trunk <> }|tree { value: 1 }, tree {}
""".strip().replace("\n", "|").split("|")  # fmt: skip
TEXTS += [
    "", " ", "\n", "#", "# c", "#\n", "# c\n\n# d", "\n\n one_int32 \n : \n 1 \n , \n", "one_int32: 1 # c", "# {\n}",
    "one_int32: # c\n1", "one_int32 # c\n: 1", "one_int32: 1 # c\n, # d\none_int64: 1", "#one_int32: 1",
    "one_int32: 1 #, one_int64: 2", "one_string: \"a\" # c\n# d\n'b'", "child # c\n{ # c\n} # c\n;",
    "many_int32: # a\n[ # b\n1 # c\n, # d\n2 # e\n] # f\n, # g", "\ufeffone_int32: 1", "one_int32:\u30001",
    "one_int32:\x851", "one_int32:\xa01\xa0", "\x0c\x0bone_int32\x1c:\x1d1\x1e", "one_int32:\u200b1",
    "one_int32: 1\0", "one_int32: 1\r\n", "one_int32: 1 # \r, 2", "one_int32:\r1", "# \udc80", "\udc80",
    "one_int32: \udc80", "one_int32: 1 # \udc80\none_string: 'a'", "# \udc80\none_string: 'é'",
    "# \udc80\nmany_int32: [1, 2] child {}", "many_string: 'a'\n" * 300, "many_int32: 5\n" * 300 + ", many_int32: 6",
    "many_double: 0.5 # c\n" * 200, "many_int32: 5\n" * 300 + "many_int32: 2147483648", "many_double: 01\n" * 70,
    "many_bool: t\n" * 200 + ";;", "many_shade: DARK\n" * 99 + "many_shade: 5",
    "many_float: 1\n" * 99 + "many_float: 1_0\n" + "many_float: 1\n" * 99,
]  # fmt: skip


def texts_of_field(values, name):
    """Return texts of one field: each value alone, and most values also before a continuation.

    With --long, each value occurs before each continuation.
    """
    ends = ("", ",", " one_int64: 1")
    return [
        f"{name}: {value}{end}"
        for index, value in enumerate(values)
        for end in (ends if IS_LONG else dict.fromkeys(("", ends[index % 3])))
    ]


@pytest.mark.parametrize("name", [field.name for field in EVERYTHING.ours.DESCRIPTOR.fields if wire.is_number(field)])
def test_numbers_are_those_of_the_official_runtime(name):
    are_accepted = [check(EVERYTHING, text) for text in texts_of_field(NUMBERS, name)]
    assert True in are_accepted
    assert False in are_accepted


@pytest.mark.parametrize("name", ["one_string", "one_bytes", "many_string", "many_bytes", "pick_text"])
def test_strings_are_those_of_the_official_runtime(name, read_in_pieces):
    are_accepted = [check(EVERYTHING, text) for text in texts_of_field(STRINGS, name)]
    assert True in are_accepted
    assert False in are_accepted


def test_the_same_texts_are_accepted_as_by_the_official_runtime(read_in_pieces):
    accepted_texts = [text for text in TEXTS if check(EVERYTHING, text)]
    for text in TEXTS:
        check(EVERYTHING, f"one_uint32: 3 {text} one_uint64: 8 tree {{ value: 1 }}")
        check(EVERYTHING, f"tree {{ }} child {{ {text} }} one_string: 'a'")
    assert len(TEXTS) // 4 < len(accepted_texts) < len(TEXTS) * 3 // 4


def random_number(rng, field):
    """Draw a text of one value of a number, bool or enum field, valid or nearly valid."""
    if rng.random() < 0.2:
        return rng.choice(NUMBERS)
    if field.enum_type is not None:
        return str(rng.choice([number for value in field.enum_type.values for number in (value.name, value.number)]))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice(["1.5", "0", "-1", "1e3", "inf", "-inf", "nan", "1f", ".5", "-0.0"])
    return rng.choice(["true", "false", "t", "1", "0"] if field.type == field.TYPE_BOOL else ["0", "1", "7", "017"])


def random_value(rng, field, depth):
    """Draw a text that may follow a field's name."""
    is_list = field.is_repeated and rng.random() < 0.3
    n_values = rng.randrange(4) if is_list else 1
    if field.message_type is not None:
        colon = rng.choice(["", " ", ":", ": "])
        values = [random_text(rng, field.message_type, depth - 1) for _ in range(n_values)]
        values = [rng.choice([f"{{{value}}}", f"{{\n  {value}\n}}", f"< {value}>"]) for value in values]
    else:
        colon = rng.choice([":", ": ", " : ", ":\n", ": # c\n"])
        if wire.is_number(field):
            values = [random_number(rng, field) for _ in range(n_values)]
        else:
            values = rng.choices(rng.choice([STRINGS[:12], STRINGS[:12], STRINGS]), k=n_values)
    return f"{colon}[{rng.choice([',', ', ', ' # c', ',']).join(values)}]" if is_list else colon + values[0]


def random_text(rng, descriptor, depth):
    """Draw a valid or nearly valid text of a message, in any notation."""
    parts = []
    fields = [field for field in descriptor.fields if depth or field.message_type is None]
    for _ in range(rng.randrange(5) if fields else 0):
        field = rng.choice(fields)
        for _ in range(rng.choice([1, 1, 1, 2, 70]) if field.is_repeated and rng.random() < 0.3 else 1):
            parts.append(field.name + random_value(rng, field, depth))
            parts.append(rng.choice(["\n", "\n", "\n", " ", ", ", ";", " ; ", "\n,", " # c\n", "  ", "\n\n", ""]))
    return "".join(parts)


SNIPPETS = (
    [*":{}<>[],; \n\t#'\"\\/.-_é1a\ufeff\x85", "# c\n", ": {", "}\n", "[a.b]", "one_int32: 1"] + NUMBERS + STRINGS
)


def mutate_text(rng, text, snippets):
    """Return a text after up to two random deletions, insertions or replacements."""
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        start = rng.randrange(len(text) + 1)
        snippet = rng.choice([*snippets, text[start : start + 20]]) if rng.random() < 0.7 else ""
        text = text[:start] + snippet + text[start + rng.choice([0, 0, 1, 1, 2, 5]) :]
    return text


# --- numbers in batches


@examples(30)
@given(values=st.lists(FLOATS, max_size=200))
@example(values=[sign * 2.0**n for n in range(-149, 128) for sign in (1, -1)])
def test_floats_are_read_back(values):
    tensor = TENSOR.official(float_data=values, double_data=values)
    for style in STYLES:
        assert check(TENSOR, text_format.MessageToString(tensor, **style))


@pytest.mark.parametrize("fault", ["2147483648", "x", "1.5", "", '"a"', "1 2", "1 }", "1: 2"])
def test_a_fault_after_many_numbers_has_its_position(fault):
    for text, position in (
        ("many_int32: 1\n" * 5000 + f"many_int32: {fault}", "many_int32[5000]: line 5,001, column 13: "),
        ("many_int32: [\n" + "1,\n" * 5000 + f"{fault}]", "many_int32[5000]: line 5,002, column 1: "),
    ):
        with pytest.raises(onnxwire.DecodeError) as error_info:
            onnxwire.from_text(text, EVERYTHING.ours)
        # The excluded texts are valid numbers followed by a fault.
        assert fault[:2] in ("1 ", "1:") or str(error_info.value).startswith(f"<str>: {position}")
        assert official_reading(EVERYTHING.official, text) is None


# --- types of texts


class SlowFile:
    """A file whose read returns one character or byte at a time."""

    def __init__(self, content):
        self.content = content
        self.offset = 0

    def read(self, n=-1):
        self.offset += 1
        return self.content[self.offset - 1 : self.offset]


def text_in_every_type(text):
    """Return a text in all accepted types."""
    data = text.encode()
    return [
        text,
        data,
        bytearray(data),
        memoryview(data),
        io.StringIO(text),
        io.BytesIO(data),
        SlowFile(text),
        SlowFile(data),
    ]


def test_a_file_is_read_from_its_current_position():
    file = io.BytesIO(b"rubbish one_int32: 5")
    file.seek(8)
    assert onnxwire.from_text(file, EVERYTHING.ours).one_int32 == 5


def test_invalid_utf_8_is_rejected_with_its_position(read_in_pieces):
    for data in (b"one_int32: 1\n# \xff", b"one_int32: 1\n# \xe2\x82", b"one_int32: 1\n# \xed\xa0\x80"):
        assert official_reading(EVERYTHING.official, data) is None
        for source in (data, io.BytesIO(data), SlowFile(data)):
            with pytest.raises(
                onnxwire.DecodeError, match=r"line 2, column 3: the byte 0x\w\w is not valid utf-8 here"
            ):
                onnxwire.from_text(source, EVERYTHING.ours)


@pytest.mark.parametrize("read_text", [onnxwire.from_text, onnxwire.from_json])
def test_invalid_arguments_are_rejected(read_text):
    for text in (None, 5, ["a"], DIGITS):
        with pytest.raises(TypeError, match="expected a str, bytes or a file object, not"):
            read_text(text)
    for cls in (onnx.ModelProto, int, "ModelProto", onnxwire.ModelProto()):
        with pytest.raises(TypeError, match="expected a message class of onnxwire"):
            read_text("", cls)

    class FileOfNumbers:
        def read(self, n):
            return 5

    with pytest.raises(TypeError, match="returned int, not str or bytes"):
        read_text(FileOfNumbers())


def test_the_parsers_are_imported_on_first_use():
    code = (
        "import sys; before = set(sys.modules); import onnxwire; print(sorted(set(sys.modules) - before)); "
        "onnxwire.from_text; onnxwire.from_json; print('onnxwire.text.json_reader' in sys.modules)"
    )
    printed_lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "onnxwire.text" not in printed_lines[0]
    assert printed_lines[1] == "True"


# --- intended differences from the official runtime


def test_numbers_of_enums_are_not_truncated_to_32_bits():
    text = f"one_shade: {(1 << 32) + 70}"
    assert text_format.Parse(text, EVERYTHING.official()).one_shade == 70
    assert reading(EVERYTHING, text) is None


@pytest.mark.parametrize("form", [("child {", "}"), ("children: [<", ">]")])
def test_messages_nest_as_deep_as_in_binary_readers(form, read_in_pieces):
    for depth in (99, 100, 101, 5000):
        text = form[0] * depth + form[1] * depth
        if depth <= 100:
            assert check(EVERYTHING, text)
        else:
            with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
                onnxwire.from_text(text, EVERYTHING.ours)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"why\?", "why?"),
        (r"\\?", r"\?"),
        (r"\\\?", r"\?"),
        (r"\x5c?", r"\?"),
        (r"\u005c?", r"\?"),
        ("\\?" * 9000, "?" * 9000),
    ],
)
def test_an_escaped_question_mark_is_a_question_mark(literal, value, read_in_pieces):
    assert onnxwire.from_text(f"doc_string: '{literal}'", onnxwire.GraphProto).doc_string == value
    assert onnxwire.from_text(f"raw_data: '{literal}'", onnxwire.TensorProto).raw_data == value.encode()


SKIPPED_VALUES = [
    "1", "'a' \"b\"", "-inf", "[]", "[1, x, 'y']", "{}",
    "<a: {b: 1} c <> 3 {}; d [{}, <>], 9: 0x12>", "[{a: 1}, {}]",
]  # fmt: skip


@pytest.mark.parametrize("value", SKIPPED_VALUES)
def test_a_retired_field_is_skipped_with_a_warning(value, read_in_pieces):
    text = f"graph {{ name: 'g' producer_tag: {value} node {{}} producer_tag: {value} }} domain: 'd'"
    with pytest.warns(onnxwire.RetiredFieldWarning) as caught_warnings:
        model = onnxwire.from_text(text)
    assert model == onnxwire.from_text("graph { name: 'g' node {} } domain: 'd'")
    assert [str(warning.message) for warning in caught_warnings] == [
        "<str>: graph: line 1, column 19: GraphProto no longer has the field 'producer_tag'; it is skipped"
    ]
    assert caught_warnings[0].filename == __file__


def test_reserved_names_are_skipped_only_in_their_message():
    for name in ("parameters", "v"):
        with pytest.raises(onnxwire.DecodeError, match=f"GraphProto has no field '{name}'"):
            onnxwire.from_text(f"graph {{ {name}: 1 }}")
    with pytest.warns(onnxwire.RetiredFieldWarning):
        assert onnxwire.from_text("v {}", onnxwire.AttributeProto) == onnxwire.AttributeProto()


@pytest.mark.parametrize("value", [*SKIPPED_VALUES, "'" + r"\001\"" * 20_000 + "'"])
def test_unknown_fields_are_ignored_on_demand(value, read_in_pieces):
    text = f"graph {{ name: 'g' newer: {value}, node {{}} 412: {value} }} domain: 'd' newest: {value}"
    assert onnxwire.from_text(text, ignore_unknown=True) == onnxwire.from_text(
        "graph { name: 'g' node {} } domain: 'd'"
    )
    with pytest.raises(onnxwire.DecodeError, match="no field 'newer'"):
        onnxwire.from_text(text)


@pytest.mark.parametrize(
    "text", ["x 1", "x: ", "x: [1", "x: [1,]", "x: {", "x: {]", "x: <}", "x: {a 1}", "x: }", "x: 'a"]
)
def test_ignored_values_must_be_valid_text_format(text, read_in_pieces):
    with pytest.raises(onnxwire.DecodeError, match="line 1"):
        onnxwire.from_text(f"graph {{ {text} ", ignore_unknown=True)


def test_ignored_values_have_the_nesting_limit_of_messages(read_in_pieces):
    for depth in (98, 99):
        text = f"graph {{ x: {'{a' * depth}{{}}{'}' * depth} }}"
        if depth < 99:
            assert onnxwire.from_text(text, ignore_unknown=True) == onnxwire.from_text("graph {}")
        else:
            with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
                onnxwire.from_text(text, ignore_unknown=True)


def test_unknown_fields_printed_as_by_protoc_are_ignored():
    # The unknown field 500 as bytes, as a number, and as a group that contains a number.
    data = onnxwire.ModelProto(domain="d").SerializeToString() + b"\xa2\x1f\x03abc\xa0\x1f\x05\xa3\x1f\x08\x01\xa4\x1f"
    text = onnxwire.to_text(onnxwire.ModelProto.FromString(data), as_protoc=True)
    assert "500" in text
    assert onnxwire.from_text(text, ignore_unknown=True) == onnxwire.ModelProto(domain="d")


# --- errors

FAULTS = {
    "graph {\n  node { }\n  node {\n    nmae: 'x' } }": (
        "graph.node[1]: line 4, column 5: NodeProto has no field 'nmae'; did you mean 'name'?"
    ),
    "graph {\n\tnode { input: 'a' input: 5 } }": (
        "graph.node[0].input[1]: line 2, column 27: expected a string, found '5'"
    ),
    "ir_version: 1\nir_version: 1": "ir_version: line 2, column 1: the field occurs a second time",
    "ir_version: 9223372036854775808": (
        "ir_version: line 1, column 13: '9223372036854775808' is out of the range of int64"
    ),
    "ir_version: x": "ir_version: line 1, column 13: expected an integer, found 'x'",
    "ir_version:": "ir_version: line 1, column 12: expected an integer, found the end of the text",
    "ir_version 5": "ir_version: line 1, column 12: expected ':', found '5'",
    "graph {": "graph: line 1, column 8: expected '}', found the end of the text",
    "graph: <}": "graph: line 1, column 9: expected a field or '>', found '}'",
    "graph: 5": "graph: line 1, column 8: expected '{', found '5'",
    "[a.b]: 5": "line 1, column 1: expected a field; extensions and Any are not supported here",
    "graph { initializer: [{}, {}, {} {}] }": "graph.initializer[2]: line 1, column 34: expected ',' or ']', found '{'",
    "graph { initializer { raw_data: '\\400' } }": (
        "graph.initializer[0].raw_data: line 1, column 33: the string has an invalid character or escape "
        "(ordinal not in range(256))"
    ),
    "domain: 'a\n'": "domain: line 1, column 9: the string is not closed by ' on its line",
    "domain: '\\377'": "domain: line 1, column 15: the string is not valid UTF-8 (at its byte 0: invalid start byte)",
    "graph { input { type { tensor_type { shape { dim { dim_value: 1 dim_param: 'n' } } } } } }": (
        "graph.input[0].type.tensor_type.shape.dim[0].dim_param: line 1, column 65: "
        "dim_value is also set, and the oneof 'value' allows one field"
    ),
    "graph { node { attribute { type: FLAOT } } }": (
        "graph.node[0].attribute[0].type: line 1, column 34: onnx.AttributeProto.AttributeType has no value 'FLAOT'"
    ),
    "graph { node { attribute { floats: [1, 2, x] } } }": (
        "graph.node[0].attribute[0].floats[2]: line 1, column 43: expected a number, found 'x'"
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_errors_name_position_field_and_expected_value(text, read_in_pieces):
    for source in (text, text.encode(), io.StringIO(text)):
        with pytest.raises(onnxwire.DecodeError) as error_info:
            onnxwire.from_text(source)
        assert str(error_info.value) == f"<{type(source).__name__}>: {FAULTS[text]}"
    assert official_reading(onnx.ModelProto, text) is None


def test_a_lone_surrogate_in_a_str_is_an_invalid_character():
    with pytest.raises(onnxwire.DecodeError, match=r"domain: .* an invalid character or escape"):
        onnxwire.from_text("domain: '\ud800'")


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "model.txt"
    path.write_text("graph {\n  nod {}\n}")
    with open(path) as file, pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.from_text(file)
    assert (error_info.value.source, error_info.value.path, error_info.value.offset) == (str(path), "graph", None)
    assert error_info.value.reason.startswith("line 2, column 3: GraphProto has no field 'nod'")


def test_errors_are_short_for_any_text():
    for text in ("x" * 100_000, "ir_version: " + "9" * 100_000, f"[{'x' * 100_000}", "domain: '" + "x" * 100_000):
        with pytest.raises(onnxwire.DecodeError) as error_info:
            onnxwire.from_text(text)
        assert len(str(error_info.value)) < 200


# --- memory


class RepeatingFile:
    """A text file that is generated while it is read: `unit` repeated to at least `n` characters."""

    def __init__(self, start, unit, n, end):
        self.times = n // len(unit) + 1
        self.parts = [start, *[unit * 1000] * (self.times // 1000), unit * (self.times % 1000), end][::-1]

    def read(self, n):
        text = ""
        while self.parts and len(text) < n:
            text += self.parts.pop()
        self.parts.append(text[n:])
        return text[:n]


def read_with_peak(read_text, text, cls):
    """Return the message, and the peak of memory in bytes while it was read."""
    read_text("" if read_text is onnxwire.from_text else "{}", cls)  # triggers imports on first use
    tracemalloc.start()
    try:
        message = read_text(text, cls)
        return message, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", [r"\000\377a", "abc", r"\\", r"\"", r"\n", "é", r"\001\"'", "\\101" + "a" * 1000])
def test_a_long_string_needs_little_more_than_twice_the_memory_of_its_value(unit):
    text = RepeatingFile('raw_data: "', unit, 5_000_000, '" name: "x"')
    value = text_format.Parse(f'raw_data: "{unit}"', TENSOR.official()).raw_data * text.times
    message, peak = read_with_peak(onnxwire.from_text, text, TENSOR.ours)
    assert message.raw_data == value
    assert message.name == "x"
    assert peak < 2.3 * len(value) + 1_600_000


@pytest.mark.parametrize(
    "unit", ["# comment\n", " ", "\n", "many_int32: [] ", "many_int32: [], # c\n", "many_bytes:[];"]
)
def test_a_long_text_without_values_needs_no_memory_for_the_text(unit, monkeypatch):
    monkeypatch.setattr(text_source, "CHUNK_CHARS", 10_000)  # so that retained text would be detected
    message, peak = read_with_peak(
        onnxwire.from_text, RepeatingFile("", unit, 500_000, "one_int32: 5"), EVERYTHING.ours
    )
    assert message.SerializeToString() == EVERYTHING.official(one_int32=5).SerializeToString()
    assert peak < 200_000


# --- random texts in every notation that the format has


# The fields of each kind of message: name and kind of the values, with * for a repeated field.
FIELDS = {
    "model": ["graph graph", "ir_version int", "producer_name text", "opset_import opset*"],
    "opset": ["domain text", "version int"],
    "graph": ["node node*", "name text", "initializer tensor*"],
    "node": ["input text*", "attribute attribute*", "op_type text"],
    "attribute": [
        "ints int*", "floats float*", "strings text*", "type enum", "s text", "f float", "g graph", "t tensor",
    ],
    "tensor": ["dims int*", "int64_data int*", "name text", "raw_data text", "float_data float*"],
}  # fmt: skip
INTS = ["1", "-3", "0x1F", "017", "0", "99999999999999999999", "1.5", "a", "-0x2"]
VALUES = {
    "int": INTS,
    "float": [*INTS, "1e5", "inf", "nan", ".5", "-inf"],
    "enum": ["INT", "1", "INTS", "NOPE"],
    "text": [f"{q}{text}{q}" for q in "\"'" for text in ["", "a", "\\n", "\\x41", "ä", "]},{", "#", "\\377"]],
}


class Notations:
    """Random texts of models, some of them invalid: lists, both kinds of brackets and quotes, comments, separators."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def space(self):
        """Draw white space or a comment, or nothing."""
        return self.random.choice(["", "", "", " ", "\n", "#c\n", " #]}>\n\t"])

    def value(self, kind, depth):
        """Draw a value of a kind, with at most `depth` levels of messages."""
        if kind in VALUES:
            return self.random.choice(VALUES[kind])
        opening, closing = self.random.choice(
            ["{}", "<>", "{}", "<>", "{>"] if self.random.random() < 0.1 else ["{}", "<>"]
        )
        return f"{opening}{self.space()}{self.message(kind, depth - 1)}{self.space()}{closing}"

    def message(self, kind, depth):
        """Draw the fields of a message, with at most `depth` levels of messages."""
        text = ""
        for _ in range(self.random.choice([0, 1, 1, 2, 3]) if depth > 0 else 0):
            name, _, field_type = self.random.choice(FIELDS[kind]).partition(" ")
            value_kind = field_type.rstrip("*")
            colon = ":" if value_kind in VALUES or self.random.random() < 0.5 else ""
            value = self.value(value_kind, depth)
            if self.random.random() < (0.4 if field_type[-1] == "*" else 0.03):
                values = [self.value(value_kind, depth) for _ in range(self.random.choice([0, 1, 2, 3, 20]))]
                value = f"[{self.space()}{f'{self.space()},{self.space()}'.join(values)}{self.space()}]"
            separator = self.random.choice(["", ",", ";", " "])
            text += f"{self.space()}{name}{colon}{self.space()}{value}{self.space()}{separator} "
        return text


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_in_all_notations_are_read_as_by_the_official_runtime(seed):
    notations, counts = Notations(seed), [0, 0]  # numbers of accepted and of refused texts
    for _ in range(500):
        text = notations.message("model", notations.random.randrange(1, 7))
        try:
            expected = text_format.Parse(text, onnx.ModelProto()).SerializeToString(deterministic=True)
        except (text_format.ParseError, ValueError):
            expected = None
        try:
            encoded = onnxwire.from_text(text).SerializeToString(deterministic=True)
        except onnxwire.DecodeError:
            encoded = None
        assert encoded == expected, text
        counts[expected is None] += 1
    assert min(counts) > 50
