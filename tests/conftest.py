"""Settings and fixtures of every test.

The environment is set before anything imports Keras: the suite runs once for
each backend (`KERAS_BACKEND`), on few threads, without the user's Keras
configuration and without a network.
"""

import atexit
import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
# Halves the time that compiling takes; programs here run for milliseconds.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
if "KERAS_HOME" not in os.environ:
    # ~/.keras/keras.json may name another float type or backend.
    os.environ["KERAS_HOME"] = tempfile.mkdtemp(prefix="keras_home_")
    atexit.register(shutil.rmtree, os.environ["KERAS_HOME"], True)

BACKEND = os.environ["KERAS_BACKEND"]

# Tests of pages, examples, scripts and benchmarks, which are in no wheel. A
# copy of tests/ alone leaves them out.
OF_THE_CHECKOUT = [
    "test_ci_collect.py",
    "test_documentation.py",
    "test_readme.py",
    "test_repository.py",
    "export/test_dockerfile.py",
    "export/test_joined_requests.py",
    "export/test_onnx_python_driver.py",
    "export/test_tokenizer_files.py",
    "export_runtimes/test_*.py",
    "integration/test_*_benchmark.py",
    "integration/test_examples.py",
    "integration/test_export_saved_model.py",
    "integration/test_scripts.py",
]
HERE = Path(__file__).resolve().parent
if not (HERE.parent / "README.md").exists():
    collect_ignore_glob = OF_THE_CHECKOUT

settings.register_profile(
    "keras_txl",
    # A first example compiles on every backend: no deadline holds there.
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=25,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "keras_txl"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu",
        action="store_true",
        help="run the tests that need an accelerator, too",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark by file name; deselect what this backend or machine has not."""
    kept, deselected = [], []
    for item in items:
        if item.path.stem.endswith("_oracle"):
            item.add_marker(pytest.mark.oracle)
        if item.path.stem.endswith("_property"):
            item.add_marker(pytest.mark.property)
        if "integration" in item.path.parts:
            item.add_marker(pytest.mark.integration)
        place = item.path.relative_to(HERE).as_posix()
        if any(fnmatch(place, pattern) for pattern in OF_THE_CHECKOUT):
            item.add_marker(pytest.mark.checkout)
        backends = item.get_closest_marker("backend")
        wanted = backends is None or BACKEND in backends.args
        if item.get_closest_marker("gpu") and not config.getoption("--gpu"):
            wanted = False
        (kept if wanted else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Files with slow tests first: no worker waits for one at the end, and
        # none takes half of such a file, preparing again what it shares.
        slow = {item.path for item in kept if item.get_closest_marker("slow")}
        kept.sort(key=lambda item: item.path not in slow)
    items[:] = kept


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Connections that leave this machine fail with the reason."""
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: Any) -> None:
        local = self.family == socket.AF_UNIX or address[0] in (
            "127.0.0.1",
            "::1",
            "localhost",
        )
        if not local:
            raise OSError(f"A test tried to reach the network: {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        yield


@pytest.fixture(autouse=True, scope="module")
def few_objects_to_collect() -> None:
    """What earlier files left behind is no longer looked through for garbage.

    TensorFlow keeps every gradient that is given to `tf.custom_gradient` in a
    graph, and with it the graph, some 50,000 objects a trained model: late in
    a run, one full collection took 40 seconds. Keras collects by itself, too,
    for each matrix that it quantizes.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeds() -> Iterator[None]:
    """Every test starts from the same seeds and the same dtype policy."""
    import keras

    keras.utils.set_random_seed(20190109)
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout (or of the copy of tests/ that is run)."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def make_lm() -> Callable[..., Any]:
    """Returns `make(**overrides)`: a fresh, compiled, tiny language model."""

    def make(**overrides: Any) -> Any:
        from keras_txl.models import TransformerXLBackbone
        from keras_txl.models import TransformerXLCausalLM

        arguments = {
            "vocabulary_size": 17,
            "num_layers": 2,
            "num_heads": 2,
            "hidden_dim": 8,
            "intermediate_dim": 16,
            "memory_length": 6,
            "batch_size": 2,
            "dropout": 0.0,
        }
        backbone = TransformerXLBackbone(**{**arguments, **overrides})
        lm = TransformerXLCausalLM(backbone)
        lm.compile(optimizer="adam")
        return lm

    return make
