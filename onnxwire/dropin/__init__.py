"""Make the `onnx` package use the message classes of onnxwire instead of protobuf's."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.dropin.switch import UnknownOnnxWarning, install, is_installed, uninstall

__all__ = ["UnknownOnnxWarning", "install", "is_installed", "uninstall"]


def __getattr__(name: str) -> object:
    # The import is lazy, because `python -m onnxwire.dropin` imports this package while the working directory is first
    # in sys.path, and files in it could replace the modules that `switch` imports.
    if name in __all__:
        from onnxwire.dropin import switch

        return getattr(switch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
