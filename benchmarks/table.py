"""Formats results as tables for people, and describes the machine on which they were measured."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from benchmarks.measure import Result, Samples

# Packages that only some rows need. The versions of those that are installed are part of the machine's description.
OPTIONAL_PACKAGES = ("onnx-ir", "safetensors", "torch")
HEADINGS = [
    "work",
    "onnxwire",
    "official",
    "ratio",
    "goal",
    "goal met",
    "our memory",
    "our anonymous memory",
    "official memory",
]


def format_time(seconds: float | None) -> str:
    """Format a time in a suitable unit."""
    if seconds is None:
        return "-"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.{1 if seconds < 0.1 else 0}f} ms"
    return f"{seconds * 1e6:.0f} µs"


def format_times(samples: Samples) -> str:
    """Format the median of the times of a side, with minimum and maximum if there are several times."""
    median = format_time(samples.median("seconds"))
    if len(samples.seconds) < 2:
        return median
    return f"{median} ({format_time(min(samples.seconds))} to {format_time(max(samples.seconds))})"


def format_memory(size: float | None) -> str:
    """Format a size in megabytes (10^6 bytes)."""
    if size is None:
        return "-"
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e6:,.0f} MB"


def format_ratio(ratio: float | None) -> str:
    """Format a ratio."""
    if ratio is None:
        return "-"
    digits = 0 if ratio >= 100 else 1 if ratio >= 2 else 2
    return f"{ratio:,.{digits}f}x"


def format_goals(result: Result) -> str:
    """Format the goals of a row."""
    goals = []
    if result.row.goal is not None:
        goals.append(f">= {result.row.goal:,.{3 if result.row.goal < 1 else 6}g}x")
    if result.row.memory_goal is not None:
        goals.append(f"< {result.row.memory_goal / 1e6:g} MB")
    if result.row.anonymous_goal is not None:
        goals.append(f"< {result.row.anonymous_goal / 1e6:g} MB anonymous")
    return ", ".join(goals) or "-"


def format_verdicts(result: Result) -> str:
    """Return "yes" if all measured goals are met, "no" with the missed goals, or "-" if no goal was measured."""
    if not result.verdicts:
        return "-"
    missed_goals = [name for name, is_met in result.verdicts.items() if not is_met]
    return f"no: {', '.join(missed_goals)}" if missed_goals else "yes"


def cells_of(result: Result) -> list[str]:
    """Return the cells of a row of the table."""
    official_text = result.row.note if result.row.official is None else format_times(result.official)
    if result.skip:
        return [result.row.work, f"skipped: {result.skip}", *["-"] * (len(HEADINGS) - 2)]
    return [
        result.row.work,
        format_times(result.ours),
        f"{result.row.other_program}: {official_text}" if result.row.other_program else official_text,
        format_ratio(result.ratio),
        format_goals(result),
        format_verdicts(result),
        format_memory(result.ours.median("extra")),
        format_memory(result.ours.median("anonymous")),
        format_memory(result.official.median("extra")),
    ]


def text_table(results: list[Result]) -> str:
    """Return an aligned table."""
    lines = [HEADINGS, *map(cells_of, results)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def markdown_table(results: list[Result]) -> str:
    """Return a table in Markdown, with a description of the machine."""
    lines = [HEADINGS, ["---"] + ["---:"] * (len(HEADINGS) - 1), *map(cells_of, results)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{machine_line()}"


def versions(*names: str) -> dict[str, str]:
    """Return the versions of packages by name, without those that are not installed."""
    versions_by_name = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions_by_name[name] = version(name)
    return versions_by_name


def machine() -> dict[str, str]:
    """Return the hardware and the versions on which the measurements were made."""
    return {
        "cpu": cpu_name(),
        "cores": str(os.cpu_count()),
        "os": os_name(),
        "python": platform.python_version(),
        **versions("numpy", "onnx", "protobuf", *OPTIONAL_PACKAGES),
        "protobuf implementation": protobuf_implementation(),
    }


def machine_line() -> str:
    """Return a description of the machine and of the measurement in Markdown."""
    facts = machine()
    others = "".join(f", {name} {facts[name]}" for name in OPTIONAL_PACKAGES if name in facts)
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['os']}; Python {facts['python']}, numpy {facts['numpy']}, "
        f"onnx {facts['onnx']}, protobuf {facts['protobuf']} ({facts['protobuf implementation']}){others}. Medians, "
        "with minimum and maximum; each run is a new process that does the work once, with the file in the page "
        "cache unless the row says otherwise. Memory is the increase of the peak resident set, including pages of "
        "mapped files."
    )


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def os_name() -> str:
    """Return the names of the system and, if known, of the distribution."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {system}"
    except (OSError, KeyError):
        return system


def protobuf_implementation() -> str:
    """Return the implementation of protobuf: "upb", "cpp" or "python"."""
    from google.protobuf.internal import api_implementation

    return str(api_implementation.Type())
