from onnxwire.arrow._columns import Columns
from onnxwire.arrow.tables import TableSpec
from onnxwire.engine.document import Document
from onnxwire.engine.message import Message

# start, end: the offsets of the message in the document. sizes: the sizes of raw_data that `to_arrow` omitted when it
# encoded the message, by the index of the tensor in document order.
def fill_table(
    document: Document,
    root: type[Message],
    start: int,
    end: int,
    spec: TableSpec,
    copies: bool,
    has_file_offsets: bool = True,
    sizes: dict[int, int] | None = None,
) -> Columns: ...
