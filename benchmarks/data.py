"""Functions that make the input files of benchmarks once.

The files are in the folder benchmarks/data, which may be deleted between runs.
"""

from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


def make_once(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file or folder unless it exists. An interrupted write leaves nothing with that name."""
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    unfinished_path = path.with_name(path.name + ".unfinished")
    write(unfinished_path)
    unfinished_path.replace(path)


def write_decoder(path: Path, **options: object) -> None:
    """Write a model with `write_model` of examples/make_big_model.py, which describes the options."""
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from make_big_model import write_model

    write_model(path, **options)
