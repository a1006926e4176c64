"""Answer the requests of protobuf's conformance runner with onnxwire, for the message types of the tables in a folder.

    python tests/conformance/testee.py FOLDER

FOLDER must also have the tables of conformance.proto.

Requests on stdin and answers on stdout are messages, each after its length in four bytes, little-endian.
Source: conformance.proto of protobuf.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import onnxwire
from onnxwire import load_schema

PROTOBUF, JSON, TEXT = 1, 2, 4  # values of the enum WireFormat
IGNORE_UNKNOWN = 3  # the test category of JSON with unknown fields, which the testee must ignore


def answer(schema, request, response):
    """Run a request, and set the result, the error or the reason for skipping it in its response."""
    name = request.message_type
    if name not in schema.messages:
        response.skipped = f"there is no table of {name}"
        return
    cls = schema.messages[name]
    input_field = request.WhichOneof("payload")
    if input_field not in ("protobuf_payload", "json_payload", "text_payload"):
        response.skipped = "onnxwire does not read this format"
        return
    try:
        if input_field == "protobuf_payload":
            message = cls.FromString(request.protobuf_payload)
            onnxwire.verify(request.protobuf_payload, cls)
        elif input_field == "json_payload":
            is_ignoring_unknown = request.test_category == IGNORE_UNKNOWN
            message = onnxwire.from_json(request.json_payload, cls, ignore_unknown=is_ignoring_unknown)
        else:
            message = onnxwire.from_text(request.text_payload, cls)
    except (onnxwire.Error, UnicodeError) as error:
        response.parse_error = str(error)
        return
    try:
        if request.requested_output_format == PROTOBUF:
            response.protobuf_payload = message.SerializeToString()
        elif request.requested_output_format == JSON:
            response.json_payload = onnxwire.to_json(message)
        elif request.requested_output_format == TEXT:
            response.text_payload = onnxwire.to_text(message)
        else:
            response.skipped = "onnxwire does not write this format"
    except (onnxwire.Error, UnicodeError) as error:
        response.serialize_error = str(error)


def main():
    """Answer requests until the end of stdin."""
    warnings.simplefilter("ignore")
    schema = load_schema(*sorted(Path(sys.argv[1]).glob("*.md")))
    request_class = schema.messages["conformance.ConformanceRequest"]
    response_class = schema.messages["conformance.ConformanceResponse"]
    while size := sys.stdin.buffer.read(4):
        data = sys.stdin.buffer.read(int.from_bytes(size, "little"))
        response = response_class()
        try:
            answer(schema, request_class.FromString(data), response)
        except Exception as error:
            response = response_class(runtime_error=f"{type(error).__name__}: {error}")
        data = response.SerializeToString()
        sys.stdout.buffer.write(len(data).to_bytes(4, "little") + data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
