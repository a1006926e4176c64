from onnxwire.engine.descriptor import Descriptor
from onnxwire.engine.message import Message

# module: `__module__` of the classes. bases, result: by full name of the message.
def make_classes(
    descriptors: list[Descriptor], module: str, bases: dict[str, tuple[type, ...]]
) -> dict[str, type[Message]]: ...
