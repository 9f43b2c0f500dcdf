"""Runtimes of others: each file is collected where its runtime is installed.

`.ci/run runtimes` installs them all (the extra `runtimes`, and what it adds).
"""

import shutil
from importlib.util import find_spec

from tests.export.conftest import exported  # noqa: F401
from tests.export.conftest import served_lm  # noqa: F401

NEEDS = {
    "test_grpc.py": "tensorflow_serving",
    "test_kserve.py": "kserve",
    "test_openvino.py": "openvino",
    "test_litert.py": "ai_edge_litert",
    "test_triton.py": "pytriton",
    # Compiles against TensorFlow for half a minute: not in every suite.
    "test_native_loader.py": "tensorflow_serving",
}

collect_ignore = [
    name for name, package in NEEDS.items() if find_spec(package) is None
]
if shutil.which("g++") is None:
    collect_ignore.append("test_native_loader.py")
