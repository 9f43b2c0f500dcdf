"""Keeping stderr for progress and messages of our own."""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

BACKENDS = ("tensorflow", "jax", "torch")


def import_keras_quietly() -> None:
    """Import Keras and its backend without their notices.

    Every verb that computes needs them. TensorFlow writes notices about the
    processor while it is imported, past every setting; so what comes at file
    descriptor 2 in the meantime is kept, and shown only if the import fails.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        # The package's own warnings are meant for the user.
        warnings.filterwarnings("always", module="keras_txl|__main__")
        warnings.showwarning = _show_warning
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend not in BACKENDS:
        raise ValueError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: "
            f"{backend!r}. Leave it unset for tensorflow."
        )
    if find_spec(backend) is None:
        # TensorFlow is no extra: it comes with the package.
        way_out = (
            "pip install tensorflow, or set KERAS_BACKEND to jax or torch."
            if backend == "tensorflow"
            else f"pip install 'keras-txl[{backend}]', or leave KERAS_BACKEND "
            "unset for tensorflow."
        )
        raise ModuleNotFoundError(
            f"KERAS_BACKEND={backend} needs a package that is not installed. "
            f"Install it with: {way_out}"
        )
    with _hidden_stderr():
        import keras_txl.models  # noqa: F401


@contextmanager
def _hidden_stderr() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            sink.seek(0)
            os.write(2, sink.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _show_warning(message: object, *_: object, **__: object) -> None:
    print(f"keras-txl: {message}", file=sys.stderr)
