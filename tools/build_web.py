"""Build `examples/web` in a folder: copy its .html, .css and .js files, and compile `reader.c` to WebAssembly with zig.

    python tools/build_web.py FOLDER

zig is either the package ziglang from PyPI or a command on the path.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY_ROOT = Path(__file__).parents[1]
PAGE_FOLDER = REPOSITORY_ROOT / "examples" / "web"
INCLUDE_FOLDER = REPOSITORY_ROOT / "onnxwire" / "include"
COMPILER_FLAGS = [
    "-target", "wasm32-freestanding", "-std=c99", "-Os", "-ffreestanding", "-Wall", "-Wextra", "-Werror", "-s",
    "-Wl,--no-entry",
]  # fmt: skip
MAX_COMPRESSED_BYTES = 40_000  # maximum size of onnxwire.wasm, compressed by gzip


def find_zig() -> list[str] | None:
    """Return the command that runs zig, or None if zig is not installed."""
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang"]
    path = shutil.which("zig")
    return [path] if path else None


def build(folder: Path, zig: list[str]) -> int:
    """Build the page in a folder. Return the compressed size of the WebAssembly module in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in PAGE_FOLDER.iterdir():
        if path.suffix in (".html", ".css", ".js"):
            shutil.copyfile(path, folder / path.name)
    wasm_path = folder / "onnxwire.wasm"
    command = [*zig, "cc", *COMPILER_FLAGS, f"-I{INCLUDE_FOLDER}", str(PAGE_FOLDER / "reader.c"), "-o", str(wasm_path)]
    subprocess.run(command, check=True)
    return len(gzip.compress(wasm_path.read_bytes(), 9))


def main() -> None:
    """Build the page in the folder that the command line names.

    Exits with an error if zig is missing or the WebAssembly module is too large.
    """
    zig = find_zig()
    if zig is None:
        sys.exit("zig is missing: pip install ziglang")
    folder = Path(sys.argv[1])
    n_compressed_bytes = build(folder, zig)
    print(f"{folder}: onnxwire.wasm has {n_compressed_bytes:,} bytes when compressed; to serve the folder, run")
    print(f"    {os.path.basename(sys.executable)} -m http.server -d {folder} --bind 127.0.0.1")
    if n_compressed_bytes > MAX_COMPRESSED_BYTES:
        sys.exit(f"onnxwire.wasm may have at most {MAX_COMPRESSED_BYTES:,} bytes compressed")


if __name__ == "__main__":
    main()
