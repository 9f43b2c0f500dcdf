"""The bound of a generated token: all that it needs is read once."""

import time
from typing import Any

import numpy as np


class Bound:
    """Reads every weight matrix, and keys and values of the memory, once.

    NumPy multiplies each by one vector, which takes as long as to read it: on
    CPUs its products of a matrix and a vector run at the rate of memory.
    Unset `OPENBLAS_CORETYPE` before NumPy is loaded, or they may not.

    Args:
        params: `num_layers`, `hidden_dim`, `memory_length`, `batch_size`.
        vocabulary_size: rows of the embedding, which is the output as well.
    """

    def __init__(self, params: dict[str, Any], vocabulary_size: int) -> None:
        width, layers = params["hidden_dim"], params["num_layers"]
        rows = params["batch_size"] * params["memory_length"]
        shapes = [(vocabulary_size, width)]
        shapes += layers * [
            *((width, 3 * width), (width, width)),
            *((width, 4 * width), (4 * width, width)),
            *((rows, width), (rows, width)),
        ]
        generator = np.random.default_rng(0)
        self.matrices = [
            generator.standard_normal(shape, dtype="float32")
            for shape in shapes
        ]
        longest = max(map(max, shapes))
        self.vector = generator.standard_normal(longest, dtype="float32")
        self.read_once()  # warm

    def read_once(self) -> float:
        """Seconds in which NumPy does it."""
        begin = time.perf_counter()
        for matrix in self.matrices:
            self.vector[: len(matrix)] @ matrix
        return time.perf_counter() - begin
