"""Models as files that other runtimes read: SavedModel, ONNX.

Importing this is light; an exporter loads what it needs on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from keras_txl.export import serving
    from keras_txl.export.errors import ExportMismatchError
    from keras_txl.export.litert_format import export_litert
    from keras_txl.export.manifest import read_manifest
    from keras_txl.export.manifest import verify_manifest
    from keras_txl.export.onnx_format import export_onnx
    from keras_txl.export.onnx_sessions import open_onnx
    from keras_txl.export.saved_model import export_saved_model
    from keras_txl.export.verification import verify_export

__all__ = [
    "ExportMismatchError",
    "export_litert",
    "export_onnx",
    "export_saved_model",
    "open_onnx",
    "read_manifest",
    "serving",
    "verify_export",
    "verify_manifest",
]

_MODULES = {
    "ExportMismatchError": "errors",
    "export_litert": "litert_format",
    "export_onnx": "onnx_format",
    "export_saved_model": "saved_model",
    "open_onnx": "onnx_sessions",
    "read_manifest": "manifest",
    "verify_export": "verification",
    "verify_manifest": "manifest",
}


def __getattr__(name: str) -> Any:
    if name == "serving":
        return import_module(f"{__name__}.serving")
    if name in _MODULES:
        module = import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
