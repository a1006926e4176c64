from onnxwire._message import Message
from onnxwire.descriptor import Descriptor

def make_classes(descriptors: list[Descriptor], module: str) -> dict[str, type[Message]]: ...
