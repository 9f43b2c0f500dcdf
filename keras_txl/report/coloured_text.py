"""The text of a report as HTML, coloured by what memory changed.

Everything is there without a script: the readings are chosen by the style
sheet, and a piece that is pointed at or tapped tells its numbers.
"""

from collections.abc import Sequence
from html import escape

import numpy as np

from keras_txl.report.shown_text import Piece
from keras_txl.report.shown_text import printable

LEVELS = 8
"""Shades of a loss."""

STEPS = 4
"""Shades of a change, up and down."""

FULL_SHADE = 95
"""Percentile of what is shown from which on the shade is full."""


def draw_text(pieces: Sequence[Piece], unit: str) -> str:
    """The text with its three readings.

    Args:
        pieces: what is shown; at least one has a loss.
        unit: what a token is called.

    Returns:
        HTML, everything from the text escaped.
    """
    loss, change = full_shades(pieces)
    return "".join(
        [
            _choices(),
            _loss_scale(loss),
            _change_scale(change),
            '<pre tabindex="0" aria-label="The text">',
            *(_piece(piece, loss, change) for piece in pieces),
            "</pre>",
        ]
    )


def shade_rules() -> str:
    """Style rules of all shades."""
    rules = []
    for level in range(LEVELS + 1):
        colour = f"rgb(var(--orange) / {0.72 * level / LEVELS:.2f})"
        rules.append(
            f"#with:checked ~ pre .w{level}, #without:checked ~ pre "
            f".o{level}, .scale .w{level} {{ background: {colour}; }}"
        )
    for step in range(-STEPS, STEPS + 1):
        name = "blue" if step < 0 else "orange"
        colour = f"rgb(var(--{name}) / {0.62 * abs(step) / STEPS:.2f})"
        rules.append(
            f"#difference:checked ~ pre .d{step + STEPS}, "
            f".scale .d{step + STEPS} {{ background: {colour}; }}"
        )
    return "\n".join(rules)


def full_shades(pieces: Sequence[Piece]) -> tuple[float, float]:
    """The loss and the change, in bits, from which on shades are full."""
    told = [
        (piece.with_memory, piece.without_memory)
        for piece in pieces
        if piece.with_memory is not None and piece.without_memory is not None
    ]
    bits = np.array(told or [(1.0, 0.0)])
    change = np.abs(bits[:, 0] - bits[:, 1])
    return (
        max(float(np.percentile(bits, FULL_SHADE)), 0.1),
        max(float(np.percentile(change, FULL_SHADE)), 0.1),
    )


def loss_level(bits: float, full: float) -> int:
    """Number of the shade of a loss, from 0 to `LEVELS`."""
    return min(round(LEVELS * bits / full), LEVELS)


def change_level(bits: float, full: float) -> int:
    """Number of the shade of a change, from `-STEPS` to `STEPS`."""
    return max(min(round(STEPS * bits / full), STEPS), -STEPS)


def _piece(piece: Piece, loss: float, change: float) -> str:
    text = escape(printable(piece.text))
    # The end of a line is a sign of its own, and still ends the line.
    line_end = " n" if piece.text.endswith("\n") else ""
    warm, cold = piece.with_memory, piece.without_memory
    if warm is None or cold is None:
        return f'<b tabindex="-1" class="g{line_end}">{text}</b>'
    classes = (
        f"w{loss_level(warm, loss)} o{loss_level(cold, loss)} "
        f"d{change_level(warm - cold, change) + STEPS}{line_end}"
    )
    return (
        f'<b tabindex="-1" class="{classes}" data-w="{warm:.2f}" '
        f'data-o="{cold:.2f}" data-d="{warm - cold:+.2f}">{text}</b>'
    )


def _choices() -> str:
    parts = []
    for name, label in (
        ("difference", "Change"),
        ("with", "With memory"),
        ("without", "Without memory"),
    ):
        checked = " checked" if name == "difference" else ""
        parts.append(
            f'<input type="radio" name="reading" id="{name}"{checked}>'
            f'<label for="{name}">{label}</label>'
        )
    return "".join(parts)


def _loss_scale(full: float) -> str:
    shades = "".join(f'<i class="w{n}"></i>' for n in range(LEVELS + 1))
    return f'<div class="scale loss">0 bits {shades} {full:.1f} or more</div>'


def _change_scale(full: float) -> str:
    shades = "".join(f'<i class="d{n}"></i>' for n in range(2 * STEPS + 1))
    return (
        f'<div class="scale difference">saves {full:.1f} bits or more '
        f"{shades} costs {full:.1f} or more</div>"
    )
