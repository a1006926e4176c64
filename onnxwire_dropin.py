"""Install the switch of `onnxwire.dropin` when a program first imports `onnx`, if ONNXWIRE_DROPIN enables it.

The switch makes `import onnx` use the classes of onnxwire. Because of `onnxwire_dropin.pth`, Python imports this module
at every start at which that variable is not empty. So it imports only sys and os at first, and onnxwire only when
`onnx` is imported. At that time, sys.path is complete.
"""

import sys

_OFF_VALUES = ("", "0", "false", "no", "off")


class LazySwitch:
    """A finder that installs the switch when `onnx` is first imported, and then calls the other finders."""

    def __init__(self) -> None:
        self.is_armed = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Install the switch if the module is `onnx`, and return the spec that another finder then has for it."""
        if name != "onnx" or not self.is_armed:
            return None
        self.is_armed = False
        from onnxwire.dropin import install

        install()
        # The import system's loop over sys.meta_path is already past the finder that `install` inserted at the start.
        for finder in sys.meta_path:
            # This finder is disarmed, so it returns None.
            spec = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None:
                return spec
        return None


_switch: "LazySwitch | None" = None


def arm() -> None:
    """Make the first `import onnx` install the switch. No-op if called again."""
    global _switch
    if _switch is None:
        # The finder stays in the list: if it were removed, a thread that is importing would skip the next finder.
        _switch = LazySwitch()
        sys.meta_path.insert(0, _switch)  # type: ignore[arg-type]


def disarm() -> None:
    """Stop a later `import onnx` from installing the switch."""
    if _switch is not None:
        _switch.is_armed = False


def read_environment() -> None:
    """Arm the switch if ONNXWIRE_DROPIN is not empty, 0, false, no or off. No-op with Python's options -E and -I."""
    import os

    if not sys.flags.ignore_environment and os.environ.get("ONNXWIRE_DROPIN", "").strip().lower() not in _OFF_VALUES:
        arm()
