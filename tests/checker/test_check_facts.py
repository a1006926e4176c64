"""Tests that the columns that rules read agree with the messages, for random bytes."""

import pytest
import wire
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire import DecodeError, ModelProto
from onnxwire.checker.facts import Facts
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.document import Document

ROOTS = [getattr(onnxwire, name) for name in ("ModelProto", "TypeProto", "AttributeProto", "OptionalProto")]


def _facts(data, cls=ModelProto):
    """Return the Facts of a message. data: its bytes. cls: its class."""
    return Facts(Document(data), cls)


def _compare(facts, name, row, message):
    """Assert that a row of the sheet of a type, and the rows of its nested messages, agree with a message.

    name: the name of the type.
    """
    sheet = facts[name]
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        column = getattr(sheet, field.name)[row]
        if not field.is_repeated:
            assert sheet.has(field.name)[row] == message.HasField(field.name)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            message_name = field.message_type.full_name.partition(".")[2]
            if not field.is_repeated:
                assert (column >= 0) == message.HasField(field.name)
                if column >= 0:
                    assert facts[message_name].parent[column] == row
                    _compare(facts, message_name, column, value)
                continue
            assert column == len(value)
            is_own_row = facts[message_name].under(f"{name}.{field.name}") & (facts[message_name].parent == row)
            rows = [i for i in range(facts[message_name].n) if is_own_row[i]]
            assert [facts[message_name].index[i] for i in rows] == list(range(len(value)))
            assert not rows or sheet.first(field.name)[row] == rows[0]
            for i, element in zip(rows, value, strict=True):
                _compare(facts, message_name, i, element)
        elif field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated:
            assert facts.text(column) == value
        elif field.type == FieldDescriptor.TYPE_BYTES and not field.is_repeated:
            assert column == len(value)
        elif not field.is_repeated:
            if field.type != FieldDescriptor.TYPE_FLOAT:
                assert column == value
        elif facts.columns.field_column(name, field.name)[1] == "LIST":
            elements = facts.lists(f"{name}.{field.name}")
            start = sheet.first(field.name)[row]
            values = elements.value[start : start + column].tolist()
            text = facts.columns.raw_text if field.type == FieldDescriptor.TYPE_BYTES else facts.text
            assert (list(map(text, values)) if field.is_span else values) == list(value)
        else:
            n_elements = sheet.records(field.name)[2][row]
            assert n_elements in (-1, len(value))  # -1: unknown


@pytest.mark.parametrize("cls", ROOTS, ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_columns_agree_with_messages(cls, data):
    content = data.draw(wire.valid_wire(cls.DESCRIPTOR))
    _compare(_facts(content, cls), cls.DESCRIPTOR.name, 0, cls.FromString(content))


@given(wire.malformed_wire(ModelProto.DESCRIPTOR))
def test_columns_exist_if_and_only_if_verify_accepts_the_bytes(data):
    try:
        onnxwire.verify(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            _facts(data)
        return
    facts = _facts(data)
    _compare(facts, "ModelProto", 0, ModelProto.FromString(data))
    if data:
        try:
            problems = onnxwire.check(data)
        except DecodeError:
            return  # load refuses valid bytes that do not look like a model
        for problem in problems:
            assert problem.message
            assert problem.offset is None or 0 <= problem.offset <= len(data)
