"""Coverage-guided fuzzing of `fuzz_targets.py`, and the line coverage of its corpora: `make fuzz`, `make fuzz-lines`.

    python tests/fuzz_coverage.py --seconds 600              all targets in parallel, on an instrumented build
    python tests/fuzz_coverage.py --seconds 600 check text   some targets
    python tests/fuzz_coverage.py --lines                    lines of each .pyx that the corpora reach
    python tests/fuzz_coverage.py --keep build/fuzz/corpus   also copy inputs of a folder to tests/corpus

atheris runs libFuzzer's loop on C code that is compiled for it with ASan and UBSan. Inputs that cause faults
are written to `build/fuzz`, with logs. The last two commands need a build with line tracing; the last one copies inputs
that reach new lines.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS), str(TESTS / "engine")]

CORPUS = TESTS / "corpus"
WORK = Path("build") / "fuzz"  # the folder of seeds, new inputs, logs and findings
MAX_KEPT_INPUT_BYTES = 1024  # longer inputs are not copied to tests/corpus
OPTIONS = [  # of libFuzzer
    "-timeout=60",  # seconds for one input
    "-rss_limit_mb=4096",
    "-max_len=4096",  # bytes of an input
    "-print_final_stats=1",
    "-use_value_profile=1",  # the values of comparisons count as coverage
]


def main() -> int:
    """Fuzz, or print the coverage of the corpora; return 1 if a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="names of targets (default: all)")
    parser.add_argument("--seconds", type=int, default=600, help="time for all targets together")
    parser.add_argument("--lines", action="store_true", help="count the lines that the corpora reach")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="copy inputs in DIR that reach new lines to tests/corpus"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options, fuzzer_options = parser.parse_known_args()
    if options.one:
        # In the child process of one target. Its positional arguments are folders of inputs.
        return run_fuzzer(options.one, [*options.targets, *fuzzer_options])
    if options.lines or options.keep:
        return print_reached_lines(options.keep)
    return fuzz(options.targets, options.seconds)


# --- fuzzing


def fuzz(names: list[str], seconds: int) -> int:
    """Run targets in child processes, one per processor at a time; print the results; return 1 if there are findings.

    names: of targets; empty for all. seconds: the time for all targets together; each target has at least 10 seconds.
    """
    from fuzz_targets import TARGETS, seeds

    names = names or list(TARGETS)
    workers = min(os.cpu_count() or 1, len(names))
    seconds_per_target = max(seconds * workers // len(names), 10)
    for name in names:
        folder = WORK / "seeds" / name
        folder.mkdir(parents=True, exist_ok=True)
        (WORK / "corpus" / name).mkdir(parents=True, exist_ok=True)
        for index, data in enumerate(seeds(name)):
            (folder / str(index)).write_bytes(data)
    with ThreadPoolExecutor(workers) as pool:
        outcomes = list(pool.map(lambda name: run_in_child(name, seconds_per_target), names))
    print(f"{'target':10} {'executions':>12} {'edges':>8} {'inputs':>8}  findings")
    for name, (n_runs, n_edges, n_inputs, findings) in zip(names, outcomes, strict=True):
        print(f"{name:10} {n_runs:12,} {n_edges:8,} {n_inputs:8,}  {findings or 'none'}")
    return int(any(findings for *_, findings in outcomes))


def run_in_child(name: str, seconds: int) -> tuple[int, int, int, str]:
    """Run the fuzzer on one target in a child process; return the numbers of executions, edges and inputs, and a
    text: the paths of findings, the exit status of another failure, or ""."""
    folders = [WORK / "corpus" / name, WORK / "seeds" / name]
    if (CORPUS / name).is_dir():
        folders.append(CORPUS / name)
    command = [sys.executable, __file__, "--one", name, *folders, *OPTIONS]
    command += [f"-max_total_time={seconds}", f"-artifact_prefix={WORK}/{name}-"]
    log = WORK / f"{name}.log"
    with log.open("w") as file:
        result = subprocess.run([str(part) for part in command], stdout=file, stderr=subprocess.STDOUT)
    text = log.read_text(errors="replace")
    # Without final statistics, use the number of executions in the last progress line, such as "#1024 NEW cov: 7".
    runs = re.findall(r"number_of_executed_units: (\d+)", text) or re.findall(r"^#(\d+)", text, re.MULTILINE)
    edges = re.findall(r"cov: (\d+)", text)
    input_paths = dict.fromkeys(re.findall(r"Test unit written to (\S+)", text))
    findings = ", ".join(input_paths) or (f"exit {result.returncode}, see {log}" if result.returncode else "")
    return int(runs[-1] if runs else 0), int(edges[-1] if edges else 0), len(list(folders[0].iterdir())), findings


def run_fuzzer(name: str, arguments: list[str]) -> int:
    """Run libFuzzer's loop over one target. atheris ends the process at the end of the loop."""
    import atheris
    from fuzz_targets import TARGETS, seeds

    def run_target(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except BaseException:
            # libFuzzer does not always write the input.
            path = WORK / f"{name}-wrong-{hashlib.sha256(data).hexdigest()[:8]}"
            path.write_bytes(data)
            print(f"Test unit written to {path}", file=sys.stderr, flush=True)
            raise

    for data in seeds(name):
        run_target(data)  # runs lazy imports
    gc.collect()
    gc.freeze()  # later collections do not traverse the objects of imported modules
    atheris.Setup([sys.argv[0], *arguments], run_target)
    atheris.Fuzz()
    return 0


# --- line coverage


def print_reached_lines(new_inputs: Path | None) -> int:
    """Print the number of lines of each module, and the share of them that the seeds and the corpora reach.

    new_inputs: a folder with a folder of inputs for each target. Inputs of at most MAX_KEPT_INPUT_BYTES
    that reach further lines are copied to CORPUS.
    """
    from fuzz_targets import TARGETS, run, seeds

    import onnxwire

    package = Path(onnxwire.__file__).parent
    reached_lines: dict[str, set[int]] = defaultdict(set)
    for name in TARGETS:
        for data in seeds(name):
            trace(lambda name=name, data=data: run(name, data), reached_lines)
        for path in sorted((CORPUS / name).glob("*")):
            trace(lambda name=name, path=path: run(name, path.read_bytes()), reached_lines)
        candidates = sorted((new_inputs / name).glob("*"), key=lambda path: path.stat().st_size) if new_inputs else []
        for path in candidates:
            data = path.read_bytes()
            if len(data) > MAX_KEPT_INPUT_BYTES:
                continue
            counts_before = {module: len(lines) for module, lines in reached_lines.items()}
            new_function = trace(lambda name=name, data=data: run(name, data), reached_lines)
            if new_function and {module: len(lines) for module, lines in reached_lines.items()} != counts_before:
                (CORPUS / name).mkdir(parents=True, exist_ok=True)
                (CORPUS / name / f"{new_function}-{hashlib.sha256(data).hexdigest()[:8]}").write_bytes(data)
    print(f"{'module':40} {'lines':>6} {'reached':>8}")
    n_all_lines = n_all_reached = 0
    for source in sorted(package.rglob("*.pyx")):
        lines = traced_lines(source)
        n_reached = len(reached_lines[str(source.relative_to(package))] & lines)
        n_all_lines += len(lines)
        n_all_reached += n_reached
        print(f"{source.relative_to(package)!s:40} {len(lines):6,} {n_reached / max(len(lines), 1):8.0%}")
    print(f"{'all':40} {n_all_lines:6,} {n_all_reached / max(n_all_lines, 1):8.0%}")
    return 0


def trace(function, reached_lines: dict[str, set[int]]) -> str:
    """Call a function and add the lines that it reaches to `reached_lines`, by module.

    Returns the module and function of the first new line, such as "view.scan_slots", or "".
    """
    first_function = ""

    def trace_line(frame, event, argument):
        nonlocal first_function
        code = frame.f_code
        if code.co_filename.endswith((".pyx", ".pxd")):
            module = code.co_filename.rpartition("onnxwire/")[2]
            if frame.f_lineno not in reached_lines[module]:
                reached_lines[module].add(frame.f_lineno)
                first_function = first_function or f"{Path(module).stem}.{code.co_name}"
        return trace_line

    sys.settrace(trace_line)
    try:
        function()
    finally:
        sys.settrace(None)
    return first_function


def traced_lines(source: Path) -> set[int]:
    """Return the numbers of the lines of a module that its C code traces, without inlined lines of other files."""
    code = source.with_suffix(".c").read_text()
    # `__pyx_f` is the array of file names; a trace macro contains the line and the index of the file.
    files = re.findall(r'"([^"]*)"', code[code.index("__pyx_f[] = {") :].partition("}")[0])
    line_and_file_pairs = re.findall(r"__Pyx_TraceLine\((\d+),\d+,\d,__PYX_ERR\((\d+),", code)
    return {int(number) for number, file in line_and_file_pairs if files[int(file)].endswith(source.name)}


if __name__ == "__main__":
    sys.exit(main())
