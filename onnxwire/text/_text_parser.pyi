from typing import Any

from onnxwire.text.text_source import Text

def parse_text(message: Any, text: Text, *, ignore_unknown: bool = False) -> None: ...
