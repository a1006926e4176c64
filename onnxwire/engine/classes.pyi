from onnxwire.engine.descriptor import Descriptor
from onnxwire.engine.message import Message

def make_classes(
    descriptors: list[Descriptor], module: str, bases: dict[str, tuple[type, ...]]
) -> dict[str, type[Message]]: ...
