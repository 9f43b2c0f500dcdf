"""Models as files that other runtimes read: SavedModel, ONNX.

Importing this is light; an exporter loads what it needs on first use.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "ExportMismatchError": "errors",
    "export_saved_model": "saved_model",
    "read_manifest": "manifest",
    "verify_manifest": "manifest",
}

__all__ = list(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = import_module(f"{__name__}.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
