"""PyTorch tensors that share a model's memory."""

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
    """Make a torch tensor on the CPU that shares the memory of `tensor.numpy()`.

    The elements are copied only if numpy(writable=writable) copies them, or for COMPLEX128 at an address that is not
    divisible by 16; inline_align= and external= of `save` align payloads. While the result shares memory, the model
    can't be closed. PyTorch has no read-only tensors: writing to the memory of a mapped file ends the process.
    writable: copy the elements, if necessary, to memory that may be written to.
    Raises TensorError for strings and elements of less than a byte, which PyTorch does not support, and the errors of
    `numpy`. Requires a PyTorch that supports DLPack 1.0.
    """
    import torch

    data_type = data_type_of(tensor)
    if data_type is STRING or data_type.is_packed:
        remedy = "use numpy()" if data_type is STRING else "use numpy(), or numpy(packed=True) for the packed bytes"
        raise tensor_error(tensor, f"PyTorch has no tensors of {data_type.name}; {remedy}")
    array = tensor.numpy(writable=writable)
    # COMPLEX128 is the only type that PyTorch reads with aligned vector instructions, which crash at other addresses.
    if array.itemsize == 16 and array.__array_interface__["data"][0] % 16:
        array = array.copy()
    return torch.from_dlpack(to_capsule(array, max_version=(1, 1)))
