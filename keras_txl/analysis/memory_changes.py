"""What is changed in a stream, and which losses must or must not move.

Axes: P memories, B rows, N tokens of a stream, T segment, M memory slots,
L layers.
"""

from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from keras import ops

from keras_txl.analysis.leak_probe import LeakProbe
from keras_txl.analysis.leak_probe import Stream
from keras_txl.analysis.leak_report import LeakCheck
from keras_txl.analysis.memory_gradient import memory_gradient
from keras_txl.analysis.memory_paths import ValuePath
from keras_txl.analysis.memory_paths import to_float64

SMALLEST_CHANGE = 1e-9
"""What a control must exceed, in nats."""

MOST_DRAWS = 32
"""Of dropout, since memory dropout may hide a whole slot."""

Find = Callable[[LeakProbe, Stream], Iterator[LeakCheck]]


# === What no loss may notice ===
def another_document(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Change the tokens of some documents of each row, keep the others."""
    blocks = number_blocks(stream.documents)
    masks = [
        half[blocks] & (blocks >= 0) for half in halves(int(blocks.max()) + 1)
    ]
    yield from _tokens_changed(probe, stream, "another document", masks)


def another_row(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Change whole rows, keep the others."""
    masks = [
        np.broadcast_to(half[:, None], stream.documents.shape)
        for half in halves(probe.rows)
    ]
    yield from _tokens_changed(probe, stream, "another row", masks)


def padding(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Change the tokens on padding."""
    masks = [stream.documents < 0]
    yield from _tokens_changed(probe, stream, "a token on padding", masks)


def another_memory(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Change all that is read under one memory, keep the others."""
    moves = np.zeros_like(stream.losses)
    for index in range(len(probe.paths)):
        changed = np.arange(len(probe.paths))[:, None, None] == index
        after = probe.read(
            probe.changed(stream.tokens, changed),
            stream.documents,
            stream.targets,
        )
        found = np.where(changed, 0, _moves(stream.losses, after))
        moves = np.maximum(moves, found)
    yield from _largest(probe, "another memory", moves)


def text_before_a_reset(
    probe: LeakProbe, stream: Stream
) -> Iterator[LeakCheck]:
    """Read another text of the same document, and begin new streams."""
    document = np.zeros_like(stream.documents)
    losses = []
    for _ in range(2):
        other, _ = probe.draw(document.shape[1])
        probe.read(other, document, stream.targets)
        losses.append(probe.read(stream.tokens, document, stream.targets))
    yield from _largest(probe, "the text before a reset", _moves(*losses))


def place_of_padding(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Move the padding of each segment to its end."""
    shape = stream.documents.shape
    parts = (stream.documents < 0).reshape(shape[0], -1, probe.segment_length)
    order = np.argsort(parts, axis=-1, kind="stable")
    starts = np.arange(parts.shape[1])[:, None] * probe.segment_length
    order = (order + starts).reshape(shape)

    def packed(values: np.ndarray) -> np.ndarray:
        indices = np.broadcast_to(order, values.shape)
        return np.take_along_axis(values, indices, axis=-1)

    documents = packed(stream.documents)
    after = probe.read(packed(stream.tokens), documents, packed(stream.targets))
    moves = np.where(documents >= 0, _moves(packed(stream.losses), after), 0)
    yield from _largest(probe, "the place of padding", moves)


def segment_of_padding(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """Put a segment of padding behind each segment."""
    length = probe.segment_length
    count = 2 * stream.documents.shape[1]

    def widened(values: np.ndarray, fill: int) -> np.ndarray:
        parts = values.reshape(*values.shape[:-1], -1, length)
        both = np.stack([parts, np.full_like(parts, fill)], axis=-2)
        return both.reshape(*values.shape[:-1], count)

    after = probe.read(
        widened(stream.tokens, 0),
        widened(stream.documents, -1),
        widened(stream.targets, 0),
    )
    after = after[..., np.arange(count) // length % 2 == 0]
    moves = np.where(stream.documents >= 0, _moves(stream.losses, after), 0)
    yield from _largest(probe, "a segment of padding", moves)


def gradient(probe: LeakProbe, stream: Stream) -> Iterator[LeakCheck]:
    """The gradient of a segment in the states of the memory before it."""
    path = probe.paths[0]
    if not isinstance(path, ValuePath):
        return
    tokens, targets = probe.draw(2 * probe.segment_length)
    first, second = np.split(tokens[0], 2, axis=-1)
    path.start()
    path.losses(_one_document(first), targets[:, : probe.segment_length])
    found = memory_gradient(probe.lm, _one_document(second), path.memory)
    yield LeakCheck(
        path.name, "gradient of the states", float(np.abs(found).max())
    )


ISOLATION: tuple[Find, ...] = (
    another_document,
    another_row,
    padding,
    place_of_padding,
    segment_of_padding,
    another_memory,
    text_before_a_reset,
    gradient,
)


# === What losses must notice ===
def own_document(probe: LeakProbe, max_places: int) -> Iterator[LeakCheck]:
    """Change one token, up to L x M before the segment whose losses move."""
    layers = probe.lm.backbone.num_layers
    reach = np.array([path.reach * layers for path in probe.paths])
    distances = spread(int(reach.max()), max_places) + 1
    within = distances <= reach[:, None]  # (P, places)
    start = -(-int(reach.max()) // probe.segment_length) * probe.segment_length
    tokens, targets = probe.draw(start + probe.segment_length)
    stream = Stream(np.zeros_like(targets), tokens, targets, tokens * 0.0)
    moves = np.zeros(within.shape)
    for draw in range(MOST_DRAWS):
        losses = probe.read(tokens, stream.documents, targets, draw)
        if draw and (losses == stream.losses).all():
            break  # without dropout all draws are the same
        stream = replace(stream, losses=losses)
        unseen = np.flatnonzero((within & (moves <= SMALLEST_CHANGE)).any(0))
        found = _moves_from(probe, stream, start - distances[unseen], draw)
        moves[:, unseen] = np.maximum(moves[:, unseen], found)
        if (moves > SMALLEST_CHANGE)[within].all():
            break
    moves[~within] = np.inf
    for path, length, found in zip(probe.paths, reach, moves, strict=True):
        least = int(found.argmin())
        yield LeakCheck(
            path.name,
            f"its own document, 1 to {length} tokens back",
            float(found[least]),
            control=True,
            threshold=SMALLEST_CHANGE,
            place=f"{distances[least]} tokens back",
        )


def _moves_from(
    probe: LeakProbe, stream: Stream, places: np.ndarray, draw: int
) -> np.ndarray:
    """How the last segment moves `(P, places)` with the token at a place."""
    moves = []
    # One place in each row at a time.
    for first in range(0, len(places), probe.rows):
        chosen = places[first : first + probe.rows]
        rows = np.arange(len(chosen))
        where = np.zeros(stream.documents.shape, bool)
        where[rows, chosen] = True
        changed = probe.changed(stream.tokens, where)
        after = probe.read(changed, stream.documents, stream.targets, draw)
        last = _moves(stream.losses, after)[..., -probe.segment_length :]
        moves.append(last.max(axis=-1)[:, rows])
    return np.concatenate(moves, axis=1)


def own_states(probe: LeakProbe, max_places: int) -> Iterator[LeakCheck]:
    """Change the state of one slot of one layer in a memory value."""
    path = probe.paths[0]
    if not isinstance(path, ValuePath):
        return
    length = probe.segment_length
    layers = probe.lm.backbone.num_layers
    count = -(-path.reach // length) + 1
    tokens, targets = probe.draw(count * length)
    parts = np.split(tokens[0], count, axis=-1)
    path.start()
    for number, part in enumerate(parts[:-1]):
        span = slice(number * length, (number + 1) * length)
        path.losses(_one_document(part), targets[:, span])
    memory = path.memory
    dtype = memory["states"].dtype
    states = to_float64(memory["states"])  # (B, L, M, D)
    last = (_one_document(parts[-1]), targets[:, -length:])
    before = path.losses(*last)
    places = spread(layers * path.reach, max_places)
    moves = []
    for first in range(0, len(places), probe.rows):
        chosen = places[first : first + probe.rows]
        rows = np.arange(len(chosen))
        layer, slot = np.divmod(chosen, path.reach)
        changed = states.copy()
        noise = probe.rng.normal(
            0, states.std(), (len(chosen), *states.shape[3:])
        )
        changed[rows, layer, -1 - slot] += noise
        path.memory = {**memory, "states": ops.cast(changed, dtype)}
        moves += list(_moves(before, path.losses(*last))[rows].max(axis=-1))
    least = int(np.argmin(moves))
    worst = divmod(int(places[least]), path.reach)
    yield LeakCheck(
        path.name,
        f"a state of {layers} x {path.reach} layers and slots",
        float(moves[least]),
        control=True,
        threshold=SMALLEST_CHANGE,
        place=f"layer {worst[0]}, slot {worst[1] + 1} back",
    )


# === Helpers ===
def number_blocks(document_ids: np.ndarray) -> np.ndarray:
    """Number the documents of each row from 0; padding keeps its -1.

    A border lies wherever the id differs from the last token before, so an
    id that comes again later is another document.
    """
    blocks = np.full(document_ids.shape, -1)
    for row, ids in enumerate(document_ids):
        valid = ids >= 0
        borders = np.diff(ids[valid], prepend=ids[valid][:1]) != 0
        blocks[row, valid] = np.cumsum(borders)
    return blocks


def halves(count: int) -> Iterator[np.ndarray]:
    """Masks of `count` that part every ordered pair at least once."""
    numbers = np.arange(count)
    for bit in range(max(count - 1, 0).bit_length()):
        ones = (numbers >> bit & 1).astype(bool)
        yield ones
        yield ~ones


def spread(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers below `count`, the ends among them."""
    places = np.linspace(0, count - 1, min(count, most))
    return np.unique(np.round(places).astype(int))


def _one_document(token_ids: np.ndarray) -> dict[str, np.ndarray]:
    return {"token_ids": token_ids, "document_ids": np.zeros_like(token_ids)}


def _moves(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    moves = np.abs(after - before)
    return np.where(np.isnan(moves), np.inf, moves)


def _tokens_changed(
    probe: LeakProbe, stream: Stream, change: str, masks: list[np.ndarray]
) -> Iterator[LeakCheck]:
    """Change tokens `(B, N)` where a mask holds, watch all others."""
    moves = np.zeros_like(stream.losses)
    for mask in masks:
        after = probe.read(
            probe.changed(stream.tokens, mask),
            stream.documents,
            stream.targets,
        )
        watched = (stream.documents >= 0) & ~mask
        found = np.where(watched, _moves(stream.losses, after), 0)
        moves = np.maximum(moves, found)
    if masks:
        yield from _largest(probe, change, moves)


def _largest(
    probe: LeakProbe, change: str, moves: np.ndarray
) -> Iterator[LeakCheck]:
    for path, found in zip(probe.paths, moves, strict=True):
        row, token = np.unravel_index(found.argmax(), found.shape)
        worst = float(found[row, token])
        place = f"row {row}, token {token}" if worst else ""
        yield LeakCheck(path.name, change, worst, place=place)
