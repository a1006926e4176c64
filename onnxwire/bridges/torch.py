"""PyTorch: tensors that share a model's memory."""

from __future__ import annotations

from onnxwire.tensor.dlpack import to_capsule
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import data_type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch

    from onnxwire.messages import TensorProto


def to_torch(tensor: TensorProto, *, writable: bool = False) -> torch.Tensor:
    """Make a torch tensor, on the processor, of the elements that `tensor.numpy()` has, and in their memory.

    No byte is copied where numpy() gives a view, but of a COMPLEX128 at an address not divisible by 16; `save` gives
    it such an offset with inline_align= or external=. While the result shares its memory, the model can't be closed.
    PyTorch knows no read-only memory: to write to what stands in a mapped file ends the process. writable: give the
    result memory of its own, which may be written to.
    Raises TensorError for strings and elements of less than a byte, for which PyTorch has no operations, and what
    `numpy` raises. Needs a PyTorch that takes DLPack 1.0.
    """
    import torch

    data_type = data_type_of(tensor)
    if data_type is STRING or data_type.is_packed:
        way_out = "take numpy()" if data_type is STRING else "take numpy(), or of its packed bytes numpy(packed=True)"
        raise tensor_error(tensor, f"PyTorch has no tensors of {data_type.name}; {way_out}")
    array = tensor.numpy(writable=writable)
    # PyTorch works with elements at any address. These alone it reads as vectors, and ends the process.
    if array.itemsize == 16 and array.__array_interface__["data"][0] % 16:
        array = array.copy()
    return torch.from_dlpack(to_capsule(array, max_version=(1, 1)))
