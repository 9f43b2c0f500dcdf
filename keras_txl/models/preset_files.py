"""Preset files that KerasHub can read again."""

import json
from pathlib import Path
from typing import Any


class PresetFilesMixin:
    """`save_to_preset` of a backbone or a task, before which it stands."""

    def save_to_preset(
        self, preset_dir: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Save a preset, as KerasHub does; its policy of types is left out.

        A preset is loaded in the policy of the process, or in `dtype`.
        """
        base: Any = super()
        base.save_to_preset(preset_dir, *args, **kwargs)
        name_type_of_weights(Path(preset_dir, "config.json"))


def name_type_of_weights(path: Path) -> None:
    """Replace a mixed policy, whose name KerasHub 0.32 refuses to read."""
    config = json.loads(path.read_text())
    policy = config["config"].get("dtype")
    policy = policy.get("config", {}) if isinstance(policy, dict) else {}
    if str(policy.get("name")).startswith("mixed_"):
        policy["name"] = "float32"  # of the weights of each of them
        path.write_text(json.dumps(config, indent=4))
