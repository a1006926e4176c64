from typing import Any

import numpy as np
from typing_extensions import Buffer

Bytes = Buffer | np.ndarray[Any, Any]  # numpy's stubs declare ndarray as a Buffer since Python 3.12

def unpack(source: Bytes, out: Bytes, bits: int, start: int = 0) -> None: ...
def pack(source: Bytes, out: Bytes, bits: int) -> None: ...
