"""The half of onnx_backend_double.cc that runs ONNX Runtime: on a pipe."""

import sys

import numpy as np
import onnxruntime

TYPES = {8: "int32", 9: "int64", 11: "float32"}
NUMBERS = {name: number for number, name in TYPES.items()}


def main(model):
    session = onnxruntime.InferenceSession(model)
    # As the backend checks: no input too few, none too many.
    wanted = {value.name for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    source, target = sys.stdin.buffer, sys.stdout.buffer
    inputs = {}
    while line := source.readline().split():
        if line == [b"."]:
            assert set(inputs) == wanted, (set(inputs), wanted)
            for name, value in zip(
                names, session.run(names, inputs), strict=True
            ):
                told = [name, NUMBERS[value.dtype.name], value.nbytes]
                line = " ".join(map(str, [*told, *value.shape]))
                target.write(line.encode() + b"\n" + value.tobytes())
            target.write(b".\n")
            target.flush()
            inputs = {}
            continue
        name, kind, size, *shape = line
        values = np.frombuffer(source.read(int(size)), TYPES[int(kind)])
        inputs[name.decode()] = values.reshape([int(axis) for axis in shape])


if __name__ == "__main__":
    main(sys.argv[1])
