from onnxwire._document import Document
from onnxwire._message import Message
from onnxwire.arrow._columns import Columns
from onnxwire.arrow.tables import TableSpec

def fill_table(
    document: Document,
    root: type[Message],
    start: int,
    end: int,
    spec: TableSpec,
    copies: bool,
    is_placed: bool = True,
    sizes: dict[int, int] | None = None,
) -> Columns: ...
def tensor_type(number: int) -> str: ...
