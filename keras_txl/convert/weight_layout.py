"""Arrays of a checkpoint and the variables that hold their numbers.

A `SourceArray` says under which names a checkpoint stores an array and how
its layout turns into that of our variables and back. Reading and writing go
through the same table, so that they cannot disagree.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from keras import ops

from keras_txl.models.preset_loading import lasting_weights

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class SourceArray:
    """An array of a checkpoint.

    Args:
        names: names of the array. A checkpoint that ties arrays may hold it
            under one of them or under several.
        shape: shape that the source gives it.
        variables: our variables that hold its numbers.
        split: from the array to the values of the variables.
        join: the inverse.
        optional: whether a checkpoint may lack it.
        tolerance: largest relative difference between equal arrays.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    variables: tuple[Any, ...]
    split: Callable[[np.ndarray], Sequence[np.ndarray]]
    join: Callable[[Sequence[np.ndarray]], np.ndarray]
    optional: bool = False
    tolerance: float = 0.0


@dataclass(frozen=True)
class Rows:
    """Some rows of a variable, where the source has an array for them alone.

    Args:
        variable: of shape `(rows, ...)`.
        start: first row.
        stop: row after the last.
    """

    variable: Any
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stop - self.start, *self.variable.shape[1:])

    def assign(self, value: np.ndarray) -> None:
        whole = _to_numpy(self.variable).copy()
        whole[self.start : self.stop] = value
        self.variable.assign(whole)


def as_is(names: Iterable[str], variable: Any) -> SourceArray:
    """An array that one variable holds unchanged."""
    return SourceArray(
        names=tuple(names),
        shape=tuple(variable.shape),
        variables=(variable,),
        split=lambda array: [array],
        join=lambda values: values[0],
    )


def reversed_rows(names: Iterable[str], variable: Any) -> SourceArray:
    """An array whose first axis counts the other way."""
    return SourceArray(
        names=tuple(names),
        shape=tuple(variable.shape),
        variables=(variable,),
        split=lambda array: [array[::-1]],
        join=lambda values: values[0][::-1],
    )


def matrix(
    names: Iterable[str],
    variables: Sequence[Any],
    input_axes: int = 1,
    outputs_first: bool = False,
) -> SourceArray:
    """A matrix that holds kernels side by side along its outputs.

    Args:
        names: as in `SourceArray`.
        variables: kernels; their first `input_axes` axes are inputs, the
            others outputs.
        input_axes: see `variables`.
        outputs_first: whether the source's matrix is `(outputs, inputs)`, as
            in PyTorch, instead of `(inputs, outputs)`.
    """
    shapes = [tuple(variable.shape) for variable in variables]
    inputs = prod(shapes[0][:input_axes])
    widths = [prod(shape[input_axes:]) for shape in shapes]
    shape = (inputs, sum(widths))

    def split(array: np.ndarray) -> Sequence[np.ndarray]:
        array = array.T if outputs_first else array
        parts = np.split(array, np.cumsum(widths)[:-1], axis=1)
        return [
            part.reshape(shape)
            for part, shape in zip(parts, shapes, strict=True)
        ]

    def join(values: Sequence[np.ndarray]) -> np.ndarray:
        joined = np.concatenate(
            [value.reshape(inputs, -1) for value in values], axis=1
        )
        return joined.T if outputs_first else joined

    return SourceArray(
        names=tuple(names),
        shape=shape[::-1] if outputs_first else shape,
        variables=tuple(variables),
        split=split,
        join=join,
    )


def stacked(
    names: Iterable[str],
    variables: Sequence[Any],
    last_axes: tuple[int, ...] | None = None,
) -> SourceArray:
    """An array with one more axis in front, one entry a variable.

    Args:
        names: as in `SourceArray`.
        variables: all of one shape.
        last_axes: axes that the source has for the last one of ours.
    """
    inner = tuple(variables[0].shape)
    if last_axes is not None:
        inner = (*inner[:-1], *last_axes)

    def split(array: np.ndarray) -> Sequence[np.ndarray]:
        return list(array.reshape((len(variables), *variables[0].shape)))

    def join(values: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([value.reshape(inner) for value in values])

    return SourceArray(
        names=tuple(names),
        shape=(len(variables), *inner),
        variables=tuple(variables),
        split=split,
        join=join,
    )


def constant(
    names: Iterable[str],
    value: np.ndarray,
    variables: Sequence[Any] = (),
    tolerance: float = 0.0,
) -> SourceArray:
    """An array that follows from the configuration and may be left out.

    Args:
        names: as in `SourceArray`; none where the source does without it.
        value: the array.
        variables: variables that get this value.
        tolerance: as in `SourceArray`.
    """
    return SourceArray(
        names=tuple(names),
        shape=value.shape,
        variables=tuple(variables),
        split=lambda array: [value] * len(variables),
        join=lambda values: value,
        optional=True,
        tolerance=tolerance,
    )


def assign_weights(
    lm: Any, table: Sequence[SourceArray], arrays: Arrays, source: str
) -> None:
    """Give every weight of a model its value, or none.

    Args:
        lm: the model.
        table: where its weights stand in the source.
        arrays: the source's arrays by name.
        source: what the arrays come from, for the message.

    Raises:
        ValueError: if arrays are missing, unexpected, misshapen, or unequal
            under two names; one error lists them all.
        NotImplementedError: if the model has a weight that the table lacks.
    """
    check_covers(lm, table)
    problems = _missing_and_misshapen(table, arrays)
    known = {name for entry in table for name in entry.names}
    problems += [
        f"unexpected: {name}, expected none, found {_shape(array)}"
        for name, array in arrays.items()
        if name not in known
    ]
    if not problems:
        problems = _unequal(table, arrays)
    if problems:
        raise ValueError(
            "The weights must be those of the configuration. Received: "
            f"{source}, with {len(problems)} that do not fit:\n  "
            + "\n  ".join(problems)
            + "\nCheck `config` against the run that wrote the weights."
        )
    for entry in table:
        present = _present(entry, arrays)
        array = arrays[present[0]] if present else entry.join([])
        values = entry.split(np.asarray(array))
        for variable, value in zip(entry.variables, values, strict=True):
            variable.assign(np.ascontiguousarray(value))


def read_weights(lm: Any, table: Sequence[SourceArray]) -> dict[str, Any]:
    """The weights of a model under the names of a source.

    Args:
        lm: the model.
        table: where its weights stand in the source.

    Returns:
        Dict of float32 arrays, tied ones under each of their names.

    Raises:
        NotImplementedError: if the model has a weight that the table lacks.
    """
    check_covers(lm, table)
    arrays = {}
    for entry in table:
        values = [_to_numpy(variable) for variable in entry.variables]
        joined = np.ascontiguousarray(entry.join(values))
        arrays.update({name: joined.copy() for name in entry.names})
    return arrays


def check_covers(lm: Any, table: Sequence[SourceArray]) -> None:
    """Raise unless the table names every weight of the model once."""
    weights = {id(weight): weight for weight in lasting_weights(lm)}
    whole = [v for e in table for v in e.variables if not isinstance(v, Rows)]
    parts = [v for e in table for v in e.variables if isinstance(v, Rows)]
    named = [id(v) for v in whole] + list({id(v.variable) for v in parts})
    lacking = [v.path for key, v in weights.items() if key not in named]
    if lacking or sorted(named) != sorted(weights):
        raise NotImplementedError(
            "The model has weights that this source has no names for: "
            f"{', '.join(lacking) or 'none, but some have two'}."
        )


def _missing_and_misshapen(
    table: Sequence[SourceArray], arrays: Arrays
) -> list[str]:
    problems = []
    for entry in table:
        present = _present(entry, arrays)
        if not present and not entry.optional:
            names = " or ".join(entry.names)
            problems.append(
                f"missing: {names}, expected {entry.shape}, found none"
            )
        problems += [
            f"misshapen: {name}, expected {entry.shape}, "
            f"found {_shape(arrays[name])}"
            for name in present
            if _shape(arrays[name]) != entry.shape
        ]
    return problems


def _unequal(table: Sequence[SourceArray], arrays: Arrays) -> list[str]:
    """Arrays that the configuration says are one, and are not."""
    problems = []
    for entry in table:
        present = _present(entry, arrays)
        if not present:
            continue
        other, expected = present[0], np.asarray(arrays[present[0]])
        if entry.optional:
            other, expected = "the configuration's", entry.join([])
        problems += [
            f"unequal: {name} {_shape(arrays[name])} differs from {other} "
            f"{expected.shape}"
            for name in present
            if not _equal(arrays[name], expected, entry.tolerance)
        ]
    return problems


def _equal(array: Any, expected: np.ndarray, tolerance: float) -> bool:
    """Equal up to the tolerance, or to what a half-precision file can hold."""
    halved = np.asarray(array).dtype.itemsize < 4
    return np.allclose(
        np.asarray(array, "float64"),
        np.asarray(expected, "float64"),
        rtol=max(tolerance, 1e-2 * halved),
        atol=1e-5 * halved,
    )


def _present(entry: SourceArray, arrays: Arrays) -> list[str]:
    return [name for name in entry.names if name in arrays]


def _shape(array: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in np.shape(array))


def _to_numpy(source: Any) -> np.ndarray:
    if isinstance(source, Rows):
        return _to_numpy(source.variable)[source.start : source.stop]
    # A variable warns when NumPy reads it on TensorFlow; a copy does not.
    return np.asarray(ops.convert_to_numpy(ops.copy(source)))
