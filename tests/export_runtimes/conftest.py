"""Runtimes of others: each file is collected where its runtime is installed.

`.ci/run runtimes` installs them all (the extra `runtimes`, and what it adds).
"""

import os
import shutil
from importlib.util import find_spec

from tests.export.conftest import exported  # noqa: F401
from tests.export.conftest import served_lm  # noqa: F401
from tests.export_runtimes.edge_models import quickstart_ring  # noqa: F401
from tests.export_runtimes.edge_models import trained  # noqa: F401

NEEDS = {
    "test_grpc.py": "tensorflow_serving",
    "test_kserve.py": "kserve",
    "test_openvino.py": "openvino",
    "test_litert.py": "ai_edge_litert",
    "test_python_runtimes.py": "onnxruntime_genai",
    "test_triton.py": "pytriton",
    # Compiles against TensorFlow for half a minute: not in every suite.
    "test_native_loader.py": "tensorflow_serving",
}

IN_A_BROWSER = ["test_browser_page.py", "test_report_page.py"]

collect_ignore = [
    name for name, package in NEEDS.items() if find_spec(package) is None
]
if "EDGE_NODE_MODULES" not in os.environ:  # packages of Node.js
    collect_ignore += ["test_javascript_driver.py", *IN_A_BROWSER]
if shutil.which("chromium") is None:
    collect_ignore += IN_A_BROWSER
if shutil.which("g++") is None:
    collect_ignore += ["test_native_loader.py", "test_triton.py"]
