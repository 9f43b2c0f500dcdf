"""A report as files: a page, its numbers, and pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_txl.export.staging import staged_folder
from keras_txl.report.figures import make_charts
from keras_txl.report.measurements import ReadingMeasurements
from keras_txl.report.page import make_page
from keras_txl.report.pictures import draw_pictures

PAGE, NUMBERS = "index.html", "report.json"


def write_report(
    folder: str | Path,
    found: ReadingMeasurements,
    *,
    title: str = "What memory does",
    facts: Mapping[str, Any] | None = None,
) -> bool:
    """Write `index.html`, `report.json` and a PNG file for each figure.

    The page loads nothing and runs no script. Files of an earlier report in
    the folder are replaced when all new ones are written.

    Args:
        folder: where to.
        found: the measurements.
        title: heading of the page.
        facts: facts about the model, by name, that are told as well.

    Returns:
        Whether there are PNG files, which need matplotlib.
    """
    facts = dict(facts or {})
    charts = make_charts(found)
    with staged_folder(Path(folder)) as stage:
        numbers = json.dumps({"model": facts, **found.to_json()}, indent=1)
        (stage / NUMBERS).write_text(numbers, encoding="utf-8")
        page = make_page(title, facts, found, charts)
        (stage / PAGE).write_text(page, encoding="utf-8")
        return draw_pictures(stage, charts, found.pieces)
