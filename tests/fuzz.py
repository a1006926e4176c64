"""Read randomly damaged models with onnxwire and the official runtime: `fuzz.py --seconds SECONDS`, `make fuzz`.

The program damages models of the `onnx` package at random offsets. It checks that `verify` accepts exactly the bytes
that the official parser accepts, that reading them returns the official values, and that reading other bytes raises
nothing but DecodeError.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parent))
import wire

import onnxwire

MAX_MODEL_BYTES = 20_000


def main() -> int:
    """Run until the time is over. Print the bytes and raise an error at the first difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    models = [path.read_bytes() for path in folder.rglob("*.onnx") if path.stat().st_size < MAX_MODEL_BYTES]
    end, n_rounds, n_valid = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end:
        data = damage(bytearray(rng.choice(models)), rng)
        try:
            wire.check_acceptance(onnxwire.ModelProto, onnx.ModelProto, data)
            wire.check_walk(onnxwire.ModelProto, onnx.ModelProto, data)
            n_valid += wire.accepts(onnxwire.ModelProto, data)
        except BaseException:
            print(f"round {n_rounds}: {data!r}")
            raise
        n_rounds += 1
    print(f"{n_rounds} damaged models, {n_valid} of them still valid: no difference")
    return 0


def damage(data: bytearray, rng: random.Random) -> bytes:
    """Make one to four random changes: flip a bit, or delete, insert, repeat or overwrite bytes."""
    for _ in range(rng.randint(1, 4)):
        offset = rng.randrange(len(data) or 1)
        change = rng.randrange(5)
        if change == 0 and data:
            data[offset] ^= 1 << rng.randrange(8)
        elif change == 1:
            del data[offset : offset + rng.randint(1, 8)]
        elif change == 2:
            data[offset:offset] = rng.randbytes(rng.randint(1, 8))
        elif change == 3:
            data[offset:offset] = data[offset : offset + rng.randint(1, 64)]
        elif change == 4 and data:
            data[offset] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main())
