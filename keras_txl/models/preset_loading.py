"""What saving and loading of presets needs beyond KerasHub.

Weights do not depend on the batch size, the memory length, the windows, the
dropout and the like: a preset may be loaded with other values of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from keras_txl.models.backbone import CONFIG
from keras_txl.models.preset_files import PresetFilesMixin


class PresetTaskMixin(PresetFilesMixin):
    """Presets of a task; it stands before the class of KerasHub."""

    head_arguments: tuple[str, ...] = ()
    """Arguments of the task that have the name of one of the backbone."""

    @classmethod
    def from_preset(
        cls, preset: str, load_weights: bool = True, **kwargs: Any
    ) -> Any:
        """Load a preset; backbone arguments that change no weight may differ,
        such as `batch_size`, `memory_length` or `dropout`."""
        own = {
            name: kwargs.pop(name)
            for name in set(kwargs) & set(CONFIG) - set(cls.head_arguments)
        }
        base: Any = super()
        task = base.from_preset(preset, load_weights, **kwargs)
        return with_backbone_arguments(task, own) if own else task

    def save_task_weights(self, filepath: Any) -> None:
        """Save the weights outside the backbone, without the optimizer."""
        base: Any = super()
        with without_optimizer(self):
            base.save_task_weights(filepath)

    def load_task_weights(self, filepath: Any) -> None:
        """Load the weights outside the backbone."""
        base: Any = super()
        with without_optimizer(self):
            base.load_task_weights(filepath)


@contextmanager
def without_optimizer(task: Any) -> Iterator[None]:
    """KerasHub would write the optimizer into presets and miss it later."""
    optimizer = getattr(task, "optimizer", None)  # a task may have none
    task.optimizer = None
    try:
        yield
    finally:
        task.optimizer = optimizer


def with_backbone_arguments(task: Any, arguments: dict[str, Any]) -> Any:
    """A model like `task`, with its weights, and some arguments changed.

    Args:
        task: a task over a `TransformerXLBackbone`.
        arguments: arguments of `TransformerXLBackbone`.

    Returns:
        A new model.

    Raises:
        ValueError: if the weights do not fit the arguments.
    """
    config = {**task.backbone.get_config(), **arguments}
    backbone = type(task.backbone).from_config(config)
    parts = {"backbone": backbone, "preprocessor": task.preprocessor}
    changed = type(task).from_config({**task.get_config(), **parts})
    new, old = lasting_weights(changed), lasting_weights(task)
    shapes = [tuple(v.shape) for v in new], [tuple(v.shape) for v in old]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "The weights of the preset must fit the arguments. Received: "
            f"{arguments}, which change the number or shape of weights. Leave "
            "out what belongs to the architecture."
        )
    if all("float" in variable.dtype for variable in old):
        for variable, value in zip(new, old, strict=True):
            variable.assign(value)
        return changed
    # Layers of integers keep more than weights, such as that they were
    # calibrated, and find it in a file.
    with (
        TemporaryDirectory() as folder,
        without_optimizer(task),
        without_optimizer(changed),
    ):
        path = str(Path(folder, "model.weights.h5"))
        task.save_weights(path)
        changed.load_weights(path)
    return changed


def lasting_weights(task: Any) -> list[Any]:
    """The weights of a task, frozen or not, without the banks of memory."""
    banks = {
        id(variable)
        for layer in task.backbone.memory_layers
        for variable in layer.variables
    }
    return [weight for weight in task.weights if id(weight) not in banks]
