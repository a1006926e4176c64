from typing import Any

import numpy as np
from typing_extensions import Buffer

Bytes = Buffer | np.ndarray[Any, Any]  # numpy says that an array is a Buffer from Python 3.12 on

def unpack(source: Bytes, out: Bytes, bits: int, start: int = 0) -> None: ...
def pack(source: Bytes, out: Bytes, bits: int) -> None: ...
