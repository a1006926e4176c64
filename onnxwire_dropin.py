"""Turns on the switch of `onnxwire.dropin` when a program first imports `onnx`, if ONNXWIRE_DROPIN asks for it.

`onnxwire_dropin.pth` has Python import this at every start where the variable is set. So it imports nothing by itself,
and nothing of onnxwire before `onnx` is imported: by then all folders are on the path.
"""

import sys

_OFF = ("", "0", "false", "no", "off")


class LazySwitch:
    """A finder of modules that installs the switch before `onnx` is looked for, and finds nothing by itself."""

    def __init__(self) -> None:
        self.is_armed = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Install the switch where `onnx` is looked for; returns what the other finders find then."""
        if name != "onnx" or not self.is_armed:
            return None
        self.is_armed = False
        from onnxwire.dropin import install

        install()
        # The loop over sys.meta_path that called this has passed the finder that `install` has put first.
        for finder in sys.meta_path:
            # Disarmed, it finds nothing by itself.
            spec = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None:
                return spec
        return None


_switch: "LazySwitch | None" = None


def arm() -> None:
    """Make the first `import onnx` install the switch. No-op if called again."""
    global _switch
    if _switch is None:
        # It stays in the list: to remove it would have other threads that import modules skip a finder.
        _switch = LazySwitch()
        sys.meta_path.insert(0, _switch)  # type: ignore[arg-type]


def disarm() -> None:
    """Have no later `import onnx` install the switch."""
    if _switch is not None:
        _switch.is_armed = False


def read_environment() -> None:
    """Arm the switch where ONNXWIRE_DROPIN is set to anything but 0, false, no or off, and Python obeys variables."""
    import os

    if not sys.flags.ignore_environment and os.environ.get("ONNXWIRE_DROPIN", "").strip().lower() not in _OFF:
        arm()
