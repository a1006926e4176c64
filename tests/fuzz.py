"""Damaged bytes against the official runtime, for as long as told: `make fuzz`.

Takes the bundled models of the `onnx` package, damages them anywhere, and checks that `verify` accepts what the
official parser accepts, and that reading every field gives a value or a DecodeError, no crash and no other exception.
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

LARGEST = 20_000


def main() -> int:
    """Run until the time is over; returns 1 at the first disagreement, which is printed as bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    chance = random.Random(options.seed)
    print(f"seed {options.seed}")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    models = [path.read_bytes() for path in folder.rglob("*.onnx") if path.stat().st_size < LARGEST]
    end, rounds, accepted = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end:
        data = damage(bytearray(chance.choice(models)), chance)
        try:
            wire.check_acceptance(onnxwire.ModelProto, onnx.ModelProto, data)
            wire.check_walk(onnxwire.ModelProto, onnx.ModelProto, data)
            accepted += wire.accepts(onnxwire.ModelProto, data)
        except BaseException:
            print(f"round {rounds}: {data!r}")
            raise
        rounds += 1
    print(f"{rounds} damaged models, {accepted} of them still sound: no disagreement")
    return 0


def damage(data: bytearray, chance: random.Random) -> bytes:
    """Flip, cut, repeat and overwrite a few offsets."""
    for _ in range(chance.randint(1, 4)):
        offset = chance.randrange(len(data) or 1)
        kind = chance.randrange(5)
        if kind == 0 and data:
            data[offset] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[offset : offset + chance.randint(1, 8)]
        elif kind == 2:
            data[offset:offset] = chance.randbytes(chance.randint(1, 8))
        elif kind == 3:
            data[offset:offset] = data[offset : offset + chance.randint(1, 64)]
        elif kind == 4 and data:
            data[offset] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main())
