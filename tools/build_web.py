"""Build `examples/web` into a folder: copies of its files, and `reader.c` compiled to WebAssembly by zig.

    python tools/build_web.py FOLDER

zig is the package ziglang of PyPI, or a command on the path.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "examples" / "web"
INCLUDE = ROOT / "onnxwire" / "include"
FLAGS = [
    "-target", "wasm32-freestanding", "-std=c99", "-Os", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-s",
    "-Wl,--no-entry",
]  # fmt: skip
MAX_COMPRESSED_BYTES = 40_000


def find_zig() -> list[str] | None:
    """Return the command that runs zig, or None."""
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang"]
    found = shutil.which("zig")
    return [found] if found else None


def build(folder: Path, zig: list[str]) -> int:
    """Build the page in a folder. Return the compressed size of the WebAssembly module in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in PAGE.iterdir():
        if path.suffix in (".html", ".css", ".js"):
            shutil.copyfile(path, folder / path.name)
    target = folder / "onnxwire.wasm"
    command = [*zig, "cc", *FLAGS, f"-I{INCLUDE}", str(PAGE / "reader.c"), "-o", str(target)]
    subprocess.run(command, check=True)
    return len(gzip.compress(target.read_bytes(), 9))


def main() -> None:
    """Run the command."""
    zig = find_zig()
    if zig is None:
        sys.exit("zig is missing: pip install ziglang")
    folder = Path(sys.argv[1])
    size = build(folder, zig)
    print(f"{folder}: onnxwire.wasm has {size:,} bytes compressed; serve the folder, such as by")
    print(f"    {os.path.basename(sys.executable)} -m http.server -d {folder} --bind 127.0.0.1")
    if size > MAX_COMPRESSED_BYTES:
        sys.exit(f"that is more than {MAX_COMPRESSED_BYTES:,}")


if __name__ == "__main__":
    main()
