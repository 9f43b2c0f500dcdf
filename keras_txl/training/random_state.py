"""States of the random generators outside of Keras variables.

Dropout on PyTorch draws from the global generators unless a layer was given
a seed; data and callbacks may draw from those of Python and NumPy.
"""

import json
import random
from collections.abc import Mapping

import keras
import numpy as np


def random_state() -> dict[str, np.ndarray]:
    """States of the generators of Python, NumPy and the backend, by name."""
    name, words, *rest = np.random.get_state()
    told = {"python": random.getstate(), "numpy": [name, *rest]}
    return {
        "random/told": np.array(json.dumps(told)),
        "random/numpy": np.array(words),
        **backend_random_state(),
    }


def restore_random_state(arrays: Mapping[str, np.ndarray]) -> None:
    """Put back what `random_state` or `backend_random_state` told.

    Args:
        arrays: their result; other names are left alone.
    """
    if "random/told" in arrays:
        told = json.loads(str(arrays["random/told"]))
        version, words, gauss = told["python"]
        random.setstate((version, tuple(words), gauss))
        name, *rest = told["numpy"]
        np.random.set_state((name, arrays["random/numpy"], *rest))
    restore_backend_random_state(arrays)


def backend_random_state() -> dict[str, np.ndarray]:
    """States of the global generators of PyTorch; else nothing."""
    if keras.backend.backend() != "torch":
        return {}
    import torch

    states = {"torch/cpu": torch.get_rng_state().numpy()}
    for number, state in enumerate(torch.cuda.get_rng_state_all()):
        states[f"torch/cuda{number}"] = state.numpy()
    return states


def restore_backend_random_state(arrays: Mapping[str, np.ndarray]) -> None:
    """Put back what `backend_random_state` told, where it applies."""
    if keras.backend.backend() != "torch":
        return
    import torch

    if "torch/cpu" in arrays:
        torch.set_rng_state(torch.from_numpy(arrays["torch/cpu"]))
    for number in range(torch.cuda.device_count()):
        if f"torch/cuda{number}" in arrays:
            state = torch.from_numpy(arrays[f"torch/cuda{number}"])
            torch.cuda.set_rng_state(state, number)
