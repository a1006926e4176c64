"""Record the results of the onnx package and onnxruntime for each file: `python -m onnx_attacks.observe FOLDER`.

FOLDER is the output of the generator. Each reader runs in a process of its own, with limits of memory, time and file
size. The results are written to observed.json beside this file, from which the generator copies them into the manifest.
The program needs Linux, onnx and onnxruntime. Run it in a container, because the files are attacks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MAX_MEMORY_BYTES = 4 << 30  # address space that a reader may add to that of this program
MAX_SECONDS = 5  # wall time of a reader for one file
MAX_CHARS = 160  # maximum length of a result
N_THREADS = 2  # number of readers that run at the same time


# --- readers; each returns its result as a text


def load(path):
    """Load a model with onnx."""
    import onnx

    onnx.load(path)
    return "loads"


def check(path):
    """Check a model with onnx."""
    import onnx

    onnx.checker.check_model(path)
    return "accepts"


def check_full(path):
    """Check a model with onnx, with shape inference."""
    import onnx

    onnx.checker.check_model(path, full_check=True)
    return "accepts"


def run(path):
    """Load and run a model on onnxruntime. The inputs contain ones; strings are "a". Each unknown dimension is 4."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for input_info in session.get_inputs():
        dims = [size if isinstance(size, int) else 4 for size in input_info.shape]
        dtypes = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(string)": "object"}
        dtype = dtypes.get(input_info.type, input_info.type.removeprefix("tensor(").removesuffix(")"))
        feeds[input_info.name] = numpy.full(dims, "a", object) if dtype == "object" else numpy.ones(dims, dtype)
    try:
        outputs = session.run(None, feeds)
    except Exception as error:
        return f"loads; run: {describe(error, path)}"
    return f"runs, {len(outputs)} output{'s' if len(outputs) != 1 else ''}"


# The names are those of the manifest.
READERS = {"onnx.load": load, "onnx.checker": check, "onnx.checker full": check_full, "onnxruntime": run}


# Parts of error messages that contain no information, or depend on the build of the reader.
_BOILERPLATE = (
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", r"Load model from \S+ failed: ?", r"Exception during initialization: ",
    r"Non-zero status code returned while ", r"Name:'[^']*' Status Message: ", r"\[ShapeInferenceError\] ",
    r"/onnxruntime_src/\S+ ", r"\S+\.(cc|h):\d+ ",
    # the signature of a C++ function
    r"(static |const )?[\w:<>, ]*::[\w:<>]+(\([^()]*\))? (\[with [^]]*\] )?",
)  # fmt: skip

_ALLOCATION_ERROR = re.compile(
    "bad_alloc|MemoryError|[Ff]ailed to allocate|bad allocation|Cannot allocate|array is too big"
)


def describe(error, path):
    """Return the type of an error and the first line of its text, of which only the first 400 characters are used.

    Boilerplate is removed. The folder of `path` is replaced by ".", characters that are not printable ASCII by "?", and
    long hexadecimal numbers by "0x...".
    """
    text = str(error).replace(str(Path(path).parent), ".").strip().partition("\n")[0][:400]
    for pattern in _BOILERPLATE:
        text = re.sub(pattern, "", text)
    text = "".join(char if char.isprintable() and char.isascii() else "?" for char in text)
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]{6,}', '0x...', text)}"


def run_limited(reader, path):
    """Run a reader in a child process with limits; return its result, error, crash or exceeded limit as a text.

    reader: a key of READERS.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(read_end)
        with contextlib.suppress(BaseException):
            null_device = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null_device, stream)
            with open("/proc/self/statm") as file:
                address_space_bytes = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes + MAX_MEMORY_BYTES,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
            try:
                result = READERS[reader](path)
            except BaseException as error:
                result = describe(error, path)
            os.write(write_end, result.encode())
        os._exit(0)
    os.close(write_end)
    deadline = time.monotonic() + MAX_SECONDS
    while not (wait_result := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read_end)
            return f"does not end within {MAX_SECONDS} s"
        time.sleep(0.005)
    with open(read_end, "rb") as file:
        result = file.read().decode()
    if os.WIFSIGNALED(wait_result[1]):
        return f"crashes: {signal.Signals(os.WTERMSIG(wait_result[1])).name}"
    if _ALLOCATION_ERROR.search(result):
        result = f"needs more than {MAX_MEMORY_BYTES >> 30} GiB: {result}"
    return result[:MAX_CHARS] or "ends the process"


def observe(path):
    """Return the results of all readers for a file."""
    return {reader: run_limited(reader, str(path)) for reader in READERS}


def main():
    """Observe the files of a folder, and write observed.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", help="observe only files whose path contains this text; the results of other files do not change"
    )
    arguments = parser.parse_args()
    import onnx
    import onnxruntime

    folder = arguments.folder.resolve()
    output = Path(__file__).with_name("observed.json")
    files = [entry["file"] for entry in json.loads((folder / "manifest.json").read_text())["files"]]
    if arguments.only:
        files = [file for file in files if arguments.only in file]
    old_results = json.loads(output.read_text(encoding="utf-8")) if arguments.only and output.is_file() else {}
    with tempfile.TemporaryDirectory() as temporary_folder:
        os.chdir(temporary_folder)
        with ThreadPoolExecutor(N_THREADS) as pool:
            new_results = dict(zip(files, pool.map(observe, (folder / file for file in files)), strict=True))
    versions = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    results = {
        "versions": versions,
        **{key: (old_results | new_results)[key] for key in sorted((old_results | new_results).keys() - {"versions"})},
    }
    output.write_text(json.dumps(results, indent=0) + "\n", encoding="ascii")
    print(f"{len(new_results)} file{'s' if len(new_results) != 1 else ''}", file=sys.stderr)


if __name__ == "__main__":
    main()
