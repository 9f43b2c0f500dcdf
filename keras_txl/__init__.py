"""Transformer-XL for Keras 3: bounded memory over endless streams.

Importing the package is light. Submodules load on first use;
`keras_txl.models` loads KerasHub and registers every class.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version
from typing import Any

try:
    __version__ = version("keras-txl")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

_SUBMODULES = (
    "analysis",
    "convert",
    "data",
    "evaluation",
    "export",
    "generation",
    "layers",
    "metrics",
    "models",
    "report",
    "tokenizers",
    "training",
)

__all__ = ["__version__", *_SUBMODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"keras_txl.{name}")
    raise AttributeError(f"module 'keras_txl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
