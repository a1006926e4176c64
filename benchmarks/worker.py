"""Run one operation once and print its costs as JSON.

    python -c "from benchmarks.worker import main; main()" BENCHMARK ROW SIDE

This module imports little, because the benchmark of imports does not measure modules that are already imported.
"""

from __future__ import annotations

import gc
import sys
import time


def memory_status() -> dict[str, int]:
    """Return the memory values of this process in bytes, such as VmRSS and VmHWM. Empty if /proc is missing."""
    try:
        with open("/proc/self/status", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    return {line[0][:-1].decode(): int(line[1]) * 1024 for line in lines if line[-1:] == [b"kB"]}


def reset_peak_memory() -> bool:
    """Reset VmHWM to VmRSS. Return whether the system supports this."""
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(b"5")
    except OSError:
        return False
    return True


def peak_rss(children: bool) -> int | None:
    """Return the peak RSS in bytes of this process since its start, or the highest peak of its finished children.

    Returns None if the system does not report it.
    """
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def evict_from_page_cache(path: str) -> None:
    """Remove a file from the page cache, on systems that can do this."""
    import os

    if not hasattr(os, "posix_fadvise"):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # modified pages would remain in the page cache
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def read_into_page_cache(path: str) -> None:
    """Read a file into the page cache, because some systems evict unused pages soon."""
    chunk = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(chunk):
            pass


def run_empty_child() -> None:
    """Run an interpreter that imports nothing. Its memory is the baseline of the operation's child."""
    import subprocess

    subprocess.run([sys.executable, "-S", "-c", "pass"], check=True)


def increase(after: int | None, before: int | None) -> int | None:
    """Return the increase, 0 for a decrease, or None if one value is unknown."""
    return None if after is None or before is None else max(after - before, 0)


def main() -> None:
    """Prepare a row, or run the operation of one side once and print its costs."""
    benchmark, index, side = sys.argv[1:]
    row = __import__(f"benchmarks.{benchmark}", fromlist=["ROWS"]).ROWS[int(index)]
    if side == "prepare":
        prepare(row)
        return
    operation = getattr(row, side)()
    if "onnxwire" in sys.modules:
        import onnxwire

        _ = onnxwire.load  # imports the message classes, as `import onnx` does
    for path in row.inputs:
        read_into_page_cache(path)
    if row.in_child:
        run_empty_child()
    gc.collect()
    peak_before = peak_rss(row.in_child)
    is_reset = not row.in_child and reset_peak_memory()
    status_before = memory_status()

    clock = time.process_time if row.cpu_time else time.perf_counter
    start = clock()
    result = operation()
    seconds = clock() - start

    status_after = memory_status()
    if is_reset and "VmHWM" in status_after:
        extra = increase(status_after["VmHWM"], status_before["VmRSS"])
    else:
        extra = increase(peak_rss(row.in_child), peak_before)
    anonymous = None if row.in_child else increase(status_after.get("RssAnon"), status_before.get("RssAnon"))
    if row.other_program and side == "official" and peak_rss(True):  # the work was done by another program
        extra = anonymous = None
    report(seconds=seconds, extra=extra, anonymous=anonymous, fingerprint=row.fingerprint and row.fingerprint(result))


def prepare(row: object) -> None:
    """Make the input of a row. Print the reason why the row can't be measured, "" if it can."""
    from benchmarks.row import Row, Skip

    assert isinstance(row, Row)
    reason = ""
    try:
        if row.prepare is not None:
            row.prepare()
        # The page cache has larger units of a file after large reads than after small writes, and Linux then maps more
        # per page fault: reading one value per page of 1 GiB takes 10 ms instead of 60 to 85 ms. So the inputs are
        # evicted, and each process reads them again before it measures.
        for path in row.inputs:
            evict_from_page_cache(path)
    except Skip as skip:
        reason = str(skip)
    report(skip=reason)


def report(**values: object) -> None:
    """Print the values as one line of JSON."""
    import json

    print(json.dumps(values))
