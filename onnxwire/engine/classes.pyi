from onnxwire.engine.descriptor import Descriptor
from onnxwire.engine.message import Message

# module: `__module__` of the classes. bases: further base classes. Keys of bases and result: full names of messages.
def make_classes(
    descriptors: list[Descriptor], module: str, bases: dict[str, tuple[type, ...]]
) -> dict[str, type[Message]]: ...
