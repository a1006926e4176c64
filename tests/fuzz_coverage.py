"""Coverage-guided fuzzing of `fuzz_targets.py`, and the line coverage of its corpora: `make fuzz`, `make fuzz-lines`.

    python tests/fuzz_coverage.py --seconds 600              all targets in parallel, on an instrumented build
    python tests/fuzz_coverage.py --seconds 600 check text   some targets
    python tests/fuzz_coverage.py --lines                    lines of each .pyx that corpora reach, on a traced build
    python tests/fuzz_coverage.py --keep build/fuzz/corpus   the same; inputs that reach new lines go to tests/corpus

The loop is libFuzzer's (atheris), on C code compiled for it with ASan and UBSan. Findings are written to `build/fuzz`,
with their inputs.
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
WORK = Path("build") / "fuzz"
MAX_CORPUS_BYTES = 1024  # maximum size of one input
OPTIONS = ["-timeout=60", "-rss_limit_mb=4096", "-max_len=4096", "-print_final_stats=1", "-use_value_profile=1"]


def main() -> int:
    """Fuzz, or print the coverage of the corpora; return 1 if a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="names of targets (default: all)")
    parser.add_argument("--seconds", type=int, default=600, help="time for all targets together")
    parser.add_argument("--lines", action="store_true", help="count the lines that the corpora reach")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy inputs that reach new lines to tests/corpus")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options, fuzzer_options = parser.parse_known_args()
    if options.one:
        return loop(options.one, [*options.targets, *fuzzer_options])
    if options.lines or options.keep:
        return print_reached_lines(options.keep)
    return fuzz(options.targets, options.seconds)


# --- finding


def fuzz(names: list[str], seconds: int) -> int:
    """Run the loops of all targets, one per processor at a time, and print the results."""
    from fuzz_targets import TARGETS, seeds

    names = names or list(TARGETS)
    workers = os.cpu_count() or 1
    seconds_per_target = max(seconds * workers // len(names), 10)
    for name in names:
        folder = WORK / "seeds" / name
        folder.mkdir(parents=True, exist_ok=True)
        (WORK / "corpus" / name).mkdir(parents=True, exist_ok=True)
        for index, data in enumerate(seeds(name)):
            (folder / str(index)).write_bytes(data)
    with ThreadPoolExecutor(workers) as pool:
        outcomes = list(pool.map(lambda name: run_loop(name, seconds_per_target), names))
    print(f"{'target':10} {'executions':>12} {'edges':>8} {'inputs':>8}  findings")
    for name, (n_runs, n_edges, n_inputs, findings) in zip(names, outcomes, strict=True):
        print(f"{name:10} {n_runs:12,} {n_edges:8,} {n_inputs:8,}  {findings or 'none'}")
    return int(any(findings for *_, findings in outcomes))


def run_loop(name: str, seconds: int) -> tuple[int, int, int, str]:
    """Run one target's loop in a process; return the numbers of executions, edges and inputs, and paths of findings."""
    folders = [WORK / "corpus" / name, WORK / "seeds" / name]
    if (CORPUS / name).is_dir():
        folders.append(CORPUS / name)
    command = [sys.executable, __file__, "--one", name, *folders, *OPTIONS]
    command += [f"-max_total_time={seconds}", f"-artifact_prefix={WORK}/{name}-"]
    log = WORK / f"{name}.log"
    with log.open("w") as file:
        result = subprocess.run([str(part) for part in command], stdout=file, stderr=subprocess.STDOUT)
    text = log.read_text(errors="replace")
    runs = re.findall(r"number_of_executed_units: (\d+)", text) or re.findall(r"^#(\d+)", text, re.MULTILINE)
    edges = re.findall(r"cov: (\d+)", text)
    input_paths = dict.fromkeys(re.findall(r"Test unit written to (\S+)", text))
    findings = ", ".join(input_paths) or (f"exit {result.returncode}, see {log}" if result.returncode else "")
    return int(runs[-1] if runs else 0), int(edges[-1] if edges else 0), len(list(folders[0].iterdir())), findings


def loop(name: str, arguments: list[str]) -> int:
    """Run libFuzzer's loop over one target; does not return."""
    import atheris
    from fuzz_targets import TARGETS, seeds

    def act(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except BaseException:  # written here because libFuzzer does not always write the input
            path = WORK / f"{name}-wrong-{hashlib.sha256(data).hexdigest()[:8]}"
            path.write_bytes(data)
            print(f"Test unit written to {path}", file=sys.stderr, flush=True)
            raise

    for data in seeds(name):
        act(data)  # runs lazy imports
    gc.collect()
    gc.freeze()  # later collections traverse the objects of a program only, not all of onnx
    atheris.Setup([sys.argv[0], *arguments], act)
    atheris.Fuzz()
    return 0


# --- line coverage


def print_reached_lines(new_inputs: Path | None) -> int:
    """Print how many lines of each module the corpora reach; copy new inputs that reach other lines to the corpus."""
    from fuzz_targets import TARGETS, run, seeds

    import onnxwire

    package = Path(onnxwire.__file__).parent
    reached: dict[str, set[int]] = defaultdict(set)
    for name in TARGETS:
        for data in seeds(name):
            trace(lambda name=name, data=data: run(name, data), package, reached)
        for path in sorted((CORPUS / name).glob("*")):
            trace(lambda name=name, path=path: run(name, path.read_bytes()), package, reached)
        candidates = sorted((new_inputs / name).glob("*"), key=lambda path: path.stat().st_size) if new_inputs else []
        for path in candidates:
            data = path.read_bytes()
            if len(data) > MAX_CORPUS_BYTES:
                continue
            counts_before = {module: len(lines) for module, lines in reached.items()}
            new_function = trace(lambda name=name, data=data: run(name, data), package, reached)
            if new_function and {module: len(lines) for module, lines in reached.items()} != counts_before:
                (CORPUS / name).mkdir(parents=True, exist_ok=True)
                (CORPUS / name / f"{new_function}-{hashlib.sha256(data).hexdigest()[:8]}").write_bytes(data)
    print(f"{'module':40} {'lines':>6} {'reached':>8}")
    total = [0, 0]
    for source in sorted(package.rglob("*.pyx")):
        lines = traced_lines(source)
        n_reached = len(reached[str(source.relative_to(package))] & lines)
        total = [total[0] + len(lines), total[1] + n_reached]
        print(f"{source.relative_to(package)!s:40} {len(lines):6,} {n_reached / max(len(lines), 1):8.0%}")
    print(f"{'all':40} {total[0]:6,} {total[1] / max(total[0], 1):8.0%}")
    return 0


def trace(act, package: Path, reached: dict[str, set[int]]) -> str:
    """Call `act` and add the lines that it reaches; return the function of the first new line, or ''."""
    first_function = ""

    def trace_line(frame, event, argument):
        nonlocal first_function
        code = frame.f_code
        if code.co_filename.endswith((".pyx", ".pxd")):
            module = code.co_filename.rpartition("onnxwire/")[2]
            if frame.f_lineno not in reached[module]:
                reached[module].add(frame.f_lineno)
                first_function = first_function or f"{Path(module).stem}.{code.co_name}"
        return trace_line

    sys.settrace(trace_line)
    try:
        act()
    finally:
        sys.settrace(None)
    return first_function


def traced_lines(source: Path) -> set[int]:
    """Return the numbers of the lines of a module that its C code traces, without inlined lines of other files."""
    code = source.with_suffix(".c").read_text()
    files = re.findall(r'"([^"]*)"', code[code.index("__pyx_f[] = {") :].partition("}")[0])
    reported = re.findall(r"__Pyx_TraceLine\((\d+),\d+,\d,__PYX_ERR\((\d+),", code)
    return {int(number) for number, file in reported if files[int(file)].endswith(source.name)}


if __name__ == "__main__":
    sys.exit(main())
