"""Run the Triton Inference Server that comes in a wheel, on a CPU.

    pip install --no-deps nvidia-pytriton
    python export/serving/run_triton.py repository --http-port 8000

Where there is an image of Triton, use that one. The wheel has the server and
its Python backend, for Linux with glibc 2.35 or newer.
"""

import argparse
import os
import shutil
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Put the parts together and become the server."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("--http-port", type=int, default=8000)
    options = parser.parse_args()
    found = find_spec("pytriton")
    if found is None:
        sys.exit("Triton is missing: pip install --no-deps nvidia-pytriton")
    package = Path(found.submodule_search_locations[0])
    server = package / "tritonserver"
    backends = Path(tempfile.mkdtemp(prefix="triton_backends_"))
    shutil.copytree(server / "backends" / "python", backends / "python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = server / "python_backend_stubs" / version
    shutil.copy(stub / "triton_python_backend_stub", backends / "python")
    program = server / "bin" / "tritonserver"
    libraries = [
        sysconfig.get_config_var("LIBDIR"),
        str(package.with_name("nvidia_pytriton.libs")),
        os.environ.get("LD_LIBRARY_PATH", ""),
    ]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    os.execv(
        program,
        [
            str(program),
            f"--model-repository={options.repository}",
            f"--backend-directory={backends}",
            f"--http-port={options.http_port}",
            "--http-address=127.0.0.1",
            "--allow-grpc=false",
            "--allow-metrics=false",
        ],
    )


if __name__ == "__main__":
    main()
