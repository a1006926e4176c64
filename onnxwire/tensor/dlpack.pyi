from typing import Any

import numpy as np
from typing_extensions import CapsuleType

def to_capsule(
    array: np.ndarray[Any, Any],
    stream: None = None,
    max_version: tuple[int, int] | None = None,  # (major, minor)
    dl_device: tuple[int, int] | None = None,  # (device type, device id)
    copy: bool | None = None,
) -> CapsuleType: ...
