"""Exported files in the runtimes of the edge, as `speed_worker.py` runs them.

Each has read the same prompt, as long as the memory; a step says the most
likely token and feeds it. Neither Keras nor TensorFlow is loaded.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from decoding_bound import Bound

DRIVERS = Path(__file__).resolve().parent.parent / "export" / "edge" / "python"
sys.path.append(str(DRIVERS))


class Subject:
    """One stream; `feed` is what differs.

    Args:
        config: `folder`, `vocab`, `mem_len` and `threads`.
    """

    tokens_per_step, n_params = 1, 0
    version: str

    def __init__(self, config: dict[str, Any]) -> None:
        self.folder = Path(config["folder"])
        self.threads = int(config["threads"])
        self.slots: int = config["mem_len"]
        self.said: list[int] = []
        self.open()
        self.logits: Any = self.feed(prompt_of(config))

    def open(self) -> None:
        """Load the file."""
        raise NotImplementedError

    def feed(self, ids: list[int]) -> Any:
        """Read tokens; the logits (V,) of the next."""
        raise NotImplementedError

    def step(self) -> None:
        """Say a token and read it."""
        self.said.append(int(np.argmax(self.logits)))
        self.logits = self.feed(self.said[-1:])

    def onnx_session(self, file: Any) -> Any:
        """ONNX Runtime, as the drivers open it."""
        import onnxruntime

        self.version = f"onnxruntime {onnxruntime.__version__}"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        return onnxruntime.InferenceSession(
            file, options, providers=["CPUExecutionProvider"]
        )


def prompt_of(config: dict[str, Any]) -> list[int]:
    """Ids that fill the memory, those of `peers_plugin.KerasTXL`."""
    ids = np.random.default_rng(0).integers(
        config["vocab"], size=(1, config["mem_len"])
    )
    found: list[int] = ids[0].tolist()
    return found


class Ring(Subject):
    """`kv_ring` in the driver of `export/edge/python`."""

    def open(self) -> None:
        import onnxruntime

        driver: Any = import_module("transformer_xl")
        self.version = f"onnxruntime {onnxruntime.__version__}"
        self.model = driver.TransformerXL(self.folder, self.threads)
        self.memory = self.model.new_memory()

    def feed(self, ids: list[int]) -> Any:
        return self.model.read(ids, self.memory)


class Hidden(Subject):
    """`hidden` in ONNX Runtime."""

    def open(self) -> None:
        model = json.loads((self.folder / "manifest.json").read_text())["model"]
        self.session = self.onnx_session(str(self.folder / "model.onnx"))
        shape = (1, model["num_layers"], self.slots, model["hidden_dim"])
        self.state = [np.zeros(shape, "float32"), np.zeros(1, "int32")]

    def feed(self, ids: list[int]) -> Any:
        memory, length = self.state
        logits, *self.state = self.session.run(
            ["logits", "new_memory", "new_memory_length"],
            {
                "token_ids": np.array([ids], "int32"),
                "token_length": np.array([len(ids)], "int32"),
                "memory": memory,
                "memory_length": length,
            },
        )
        return logits[0, -1]


class KeyValue(Subject):
    """`kv` in ONNX Runtime; the newest M keys and values are kept."""

    def open(self) -> None:
        model = json.loads((self.folder / "manifest.json").read_text())["model"]
        self.session = self.onnx_session(str(self.folder / "model.onnx"))
        shape = (1, model["num_heads"], 0, model["head_dim"])
        names = [
            f"{layer}.{part}"
            for layer in range(model["num_layers"])
            for part in ("key", "value")
        ]
        self.past = {
            f"past_key_values.{name}": np.zeros(shape, "float32")
            for name in names
        }
        self.outputs = ["logits", *(f"present.{name}" for name in names)]

    def feed(self, ids: list[int]) -> Any:
        past = next(iter(self.past.values())).shape[2]
        logits, *present = self.session.run(
            self.outputs,
            {
                "input_ids": np.array([ids], "int64"),
                "attention_mask": np.ones((1, past + len(ids)), "int64"),
                **self.past,
            },
        )
        kept = [np.ascontiguousarray(r[:, :, -self.slots :]) for r in present]
        self.past = dict(zip(self.past, kept, strict=True))
        return logits[0, -1]


class OpenVino(Subject):
    """`hidden` in the driver for OpenVINO, which keeps the memory."""

    def open(self) -> None:
        openvino: Any = import_module("openvino")
        driver: Any = import_module("generate_openvino")
        self.version = f"openvino {openvino.__version__}"
        self.model = driver.StatefulModel(self.folder, num_threads=self.threads)

    def feed(self, ids: list[int]) -> Any:
        return self.model.read(ids)


class GenAI(Subject):
    """`kv` in the driver for ONNX Runtime GenAI, whose loop keeps all."""

    def open(self) -> None:
        onnxruntime_genai: Any = import_module("onnxruntime_genai")
        driver: Any = import_module("generate_genai")
        self.version = f"onnxruntime-genai {onnxruntime_genai.__version__}"
        self.stream: Any = driver.GenerativeStream(self.folder)

    def feed(self, ids: list[int]) -> Any:
        self.tokens = self.stream.generate_ids(ids, temperature=0.0)

    def step(self) -> None:
        self.said.append(next(self.tokens))


class LiteRT(Subject):
    """`step` of the file for LiteRT."""

    def open(self) -> None:
        from ai_edge_litert import interpreter

        self.version = "ai-edge-litert"
        self.interpreter = interpreter.Interpreter(
            str(self.folder / "model.tflite"), num_threads=self.threads
        )
        runner = self.interpreter.get_signature_runner
        self.run = runner("step")
        self.memory = runner("initial_memory")(rows=np.ones(1, "int32"))

    def feed(self, ids: list[int]) -> Any:
        found = self.run(
            token_ids=np.array([ids], "int32"),
            token_length=np.array([len(ids)], "int32"),
            **self.memory,
        )
        self.memory = {name: found[f"new_{name}"] for name in self.memory}
        return found["logits"][0, -1]


class RuntimeBound(Subject):
    """The bytes of `Bound`, read by products in ONNX Runtime."""

    def __init__(self, config: dict[str, Any]) -> None:
        from onnx import TensorProto
        from onnx import helper
        from onnx import numpy_helper

        self.threads = int(config["threads"])
        params = {
            "num_layers": config["n_layer"],
            "hidden_dim": config["d_model"],
            "memory_length": config["mem_len"],
            "batch_size": 1,
        }
        matrices = Bound(params, config["vocab"]).matrices
        sizes = sorted({len(matrix) for matrix in matrices})
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [
                helper.make_node("MatMul", [f"x{len(m)}", f"w{i}"], [f"y{i}"])
                for i, m in enumerate(matrices)
            ],
            "bound",
            [value(f"x{n}", TensorProto.FLOAT, (1, n)) for n in sizes],
            [
                value(f"y{i}", TensorProto.FLOAT, (1, m.shape[1]))
                for i, m in enumerate(matrices)
            ],
            [
                numpy_helper.from_array(matrix, f"w{i}")
                for i, matrix in enumerate(matrices)
            ],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        )
        self.session = self.onnx_session(model.SerializeToString())
        self.inputs: Any = {f"x{n}": np.ones((1, n), "float32") for n in sizes}

    def step(self) -> None:
        self.session.run(None, self.inputs)


SUBJECTS: dict[str, Any] = {
    "kv_ring": Ring,
    "hidden": Hidden,
    "kv": KeyValue,
    "openvino": OpenVino,
    "genai": GenAI,
    "litert": LiteRT,
    "bound": RuntimeBound,
}
