"""`keras-txl doctor`: what is installed here, and what is missing for what."""

import argparse
import json
import platform
import sys
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement

from keras_txl import __version__
from keras_txl.cli.quiet_libraries import import_keras_quietly

HELP = "show backend, devices, versions and what is missing"

DESCRIPTION = """\
Print the backend and its devices, the versions of the packages underneath, and
for each optional feature whether what it needs is installed. The exit code is 1
if the backend does not work or a required package is missing or of a version
that does not fit."""

EXAMPLES = """\
examples:
  keras-txl doctor
  KERAS_BACKEND=jax keras-txl doctor --json
"""

FEATURES = {
    "jax": "JAX as the backend",
    "torch": "PyTorch as the backend",
    "plots": "plots as PNG",
    "tokenizers": "training of byte-pair and SentencePiece tokenizers",
    "data": "corpora in Parquet and .zst",
    "convert": "checkpoints in .safetensors",
    "edge": "export to ONNX",
    "serving": "gRPC client of TensorFlow Serving",
    "tensorboard": "event files for TensorBoard",
}
"""What the extras of the package are for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of tables"
    )


def check(options: argparse.Namespace) -> None:
    """Any combination is valid."""


def run(options: argparse.Namespace) -> None:
    """Look, print, and fail if something required does not work."""
    report = examine()
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        _print(report)
    told = [report["backend"]["error"]] if report["backend"]["error"] else []
    unfit = [
        f"{row['package']} must be {row['needs'] or 'installed'}; found: "
        f"{row['installed'] or 'nothing'}"
        for row in report["packages"]
        if not row["fits"]
    ]
    if unfit:
        told.append(
            f"{'; '.join(unfit)}. Mend it with: pip install --upgrade keras-txl"
        )
    if told:
        raise RuntimeError("\n".join(told))


def examine() -> dict[str, Any]:
    """What `keras-txl doctor --json` prints.

    Returns:
        Dict of `keras_txl`, `python` and `platform` (versions), `backend`
        (name, version, devices, dtype and error), `packages` (those required)
        and `features` (the extras, each with the packages it lacks).
    """
    requirements = _requirements()
    return {
        "keras_txl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "backend": _backend(),
        "packages": [
            _package(requirement)
            for requirement in requirements
            if requirement.marker is None or requirement.marker.evaluate()
        ],
        "features": [
            {
                "feature": feature,
                "extra": extra,
                "missing": _missing(requirements, extra),
            }
            for extra, feature in FEATURES.items()
        ],
    }


def _requirements() -> list[Requirement]:
    try:
        lines = metadata.requires("keras-txl") or ()
    except metadata.PackageNotFoundError:
        raise RuntimeError(
            "keras-txl must be installed, since its metadata say what it "
            "needs; here only its sources were found. Install them with: pip "
            "install ."
        ) from None
    return [Requirement(line) for line in lines]


def _backend() -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(
        ("name", "version", "devices", "dtype", "error")
    )
    try:
        import_keras_quietly()
        import keras

        found["name"] = keras.backend.backend()
        found["version"] = _version(found["name"])
        found["dtype"] = keras.config.dtype_policy().name
        found["devices"] = _devices(found["name"])
    except Exception as error:  # whatever it is, it belongs into the report
        found["error"] = str(error) or type(error).__name__
    return found


def _devices(backend: str) -> list[str]:
    if backend == "torch":  # Keras lists none for it
        return _torch_devices()
    import keras

    return [str(name) for name in keras.distribution.list_devices()]


def _torch_devices() -> list[str]:
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    kind = torch.accelerator.current_accelerator()
    return [f"{kind}:{i}" for i in range(torch.accelerator.device_count())]


def _package(requirement: Requirement) -> dict[str, Any]:
    installed = _version(requirement.name)
    return {
        "package": requirement.name,
        "needs": str(requirement.specifier),
        "installed": installed,
        "fits": installed is not None
        and requirement.specifier.contains(installed, prereleases=True),
    }


def _missing(requirements: list[Requirement], extra: str) -> list[str]:
    """Packages of an extra that are absent or of another version."""
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in requirements
        if requirement.marker is not None
        and not requirement.marker.evaluate({"extra": ""})
        and requirement.marker.evaluate({"extra": extra})
        and not _package(requirement)["fits"]
    ]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    backend = report["backend"]
    console = Console(file=sys.stdout, highlight=False)
    console.print(
        f"keras-txl {report['keras_txl']}, Python {report['python']}, "
        f"{report['platform']}",
        soft_wrap=True,
    )
    if backend["error"] is None:
        console.print(
            f"backend {backend['name']} {backend['version']}, "
            f"{backend['dtype']}, on {', '.join(backend['devices'])}",
            soft_wrap=True,
        )
    packages = Table("package", "needs", "installed")
    for row in report["packages"]:
        packages.add_row(
            row["package"], row["needs"], row["installed"] or "missing"
        )
    console.print(packages)
    features = Table("feature", "state")
    for row in report["features"]:
        state = "ready"
        if row["missing"]:
            state = f"pip install 'keras-txl[{row['extra']}]'"
        features.add_row(row["feature"], state.replace("[", r"\["))
    console.print(features)
