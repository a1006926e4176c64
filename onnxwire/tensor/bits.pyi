from typing import Any

import numpy as np
from typing_extensions import Buffer

Bytes = Buffer | np.ndarray[Any, Any]  # numpy's stubs declare ndarray as a Buffer only for Python 3.12 and later

def unpack(source: Bytes, out: Bytes, bits: int, start: int = 0) -> None: ...
def pack(source: Bytes, out: Bytes, bits: int) -> None: ...
