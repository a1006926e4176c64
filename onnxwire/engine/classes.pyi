from onnxwire._message import Message
from onnxwire.descriptor import Descriptor

def make_classes(
    descriptors: list[Descriptor], module: str, bases: dict[str, tuple[type, ...]]
) -> dict[str, type[Message]]: ...
