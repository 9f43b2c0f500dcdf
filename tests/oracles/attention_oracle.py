"""Loops over pairs: the parts of Transformer-XL attention, in float64.

Written from Dai et al. 2019 (arXiv 1901.02860), sections 3.2 and 3.3 and
Appendix B, and from the rules for documents and padding; nothing here is
shared with the library. Every function favours the shortest way to say what
must hold over speed.

Axes: B rows, T segment, M memory, S = M + T keys, N heads, H head width,
D hidden width, R distances.
"""

from collections.abc import Sequence

import numpy as np

PADDING = -1


def distance_encoding(distances: Sequence[int], hidden_dim: int) -> np.ndarray:
    """Sinusoids of each distance, all sines first: `(R, D)`."""
    half = hidden_dim // 2
    rows = np.zeros((len(distances), hidden_dim))
    for row, distance in enumerate(distances):
        for column in range(half):
            angle = distance * 10000.0 ** (-2.0 * column / hidden_dim)
            rows[row, column] = np.sin(angle)
            rows[row, half + column] = np.cos(angle)
    return rows


def score_terms(
    query: np.ndarray,
    key: np.ndarray,
    relative_key: np.ndarray,
    content_bias: np.ndarray,
    position_bias: np.ndarray,
) -> dict[str, np.ndarray]:
    """The four terms (a) to (d) of one row, unscaled, NaN in the future.

    Args:
        query: `(T, N, H)`, queries of the segment.
        key: `(S, N, H)`, keys of memory and segment.
        relative_key: `(S, N, H)`, entry r is `W_kR R_r` for distance r.
        content_bias: `(N, H)`, the paper's u.
        position_bias: `(N, H)`, the paper's v.

    Returns:
        Four arrays `(N, T, S)` under "a", "b", "c" and "d".
    """
    segment_length, num_heads, _ = query.shape
    key_length = key.shape[0]
    memory_length = key_length - segment_length
    shape = (num_heads, segment_length, key_length)
    terms = {name: np.full(shape, np.nan) for name in "abcd"}
    for head in range(num_heads):
        u = content_bias[head]
        v = position_bias[head]
        for i in range(segment_length):
            for j in range(memory_length + i + 1):
                r = relative_key[memory_length + i - j, head]
                k = key[j, head]
                q = query[i, head]
                terms["a"][head, i, j] = q @ k  # content addressing
                terms["b"][head, i, j] = q @ r  # content-dependent position
                terms["c"][head, i, j] = u @ k  # global content bias
                terms["d"][head, i, j] = v @ r  # global position bias
    return terms


def relative_attention_scores(
    query: np.ndarray,
    key: np.ndarray,
    relative_key: np.ndarray,
    content_bias: np.ndarray,
    position_bias: np.ndarray,
) -> np.ndarray:
    """Sum of the four terms of one row over sqrt(H): `(N, T, S)`."""
    terms = score_terms(query, key, relative_key, content_bias, position_bias)
    total = terms["a"] + terms["b"] + terms["c"] + terms["d"]
    return total / np.sqrt(query.shape[-1])


def relative_shift(scores: np.ndarray) -> np.ndarray:
    """Scores by distance to scores by key: `(..., T, S)`, NaN in the future.

    Column c of the input belongs to distance S - 1 - c. A key j of query i
    lies M + i - j tokens back.
    """
    segment_length, key_length = scores.shape[-2:]
    memory_length = key_length - segment_length
    shifted = np.full(scores.shape, np.nan)
    for i in range(segment_length):
        for j in range(memory_length + i + 1):
            distance = memory_length + i - j
            column = key_length - 1 - distance
            shifted[..., i, j] = scores[..., i, column]
    return shifted


def resolve_window(window: int | str | None, memory_length: int) -> int | None:
    """Number of keys a query may see, itself always included; None is all."""
    if window == "memory_length":
        return max(memory_length, 1)
    if window == "memory_length+1":
        return memory_length + 1
    if isinstance(window, str):
        raise ValueError(f"no such window: {window}")
    return window


def runs_of_row(document_ids: Sequence[int]) -> list[int | None]:
    """Which uninterrupted piece of a document each token belongs to.

    Piece 0 is the one of the first token. The number rises wherever the id
    differs from the last token that was not padding, so equal ids never
    reconnect. Padding gets None.
    """
    runs: list[int | None] = []
    run = 0
    previous = None
    for current in document_ids:
        if current == PADDING:
            runs.append(None)
            continue
        if previous is not None and current != previous:
            run += 1
        previous = current
        runs.append(run)
    return runs


def usable_length(
    document_ids: Sequence[int], length: int, document: int
) -> int:
    """Valid memory slots of a row, none if its first token starts anew."""
    for current in document_ids:
        if current != PADDING:
            return length if current == document else 0
    return length


def distances_and_mask(
    document_ids: np.ndarray,
    length: Sequence[int],
    document: Sequence[int],
    memory_length: int,
    window: int | str | None = None,
    attend_empty_memory: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Distance and visibility of every key for every query.

    Padding may stand anywhere; distances count valid tokens only.

    Args:
        document_ids: `(B, T)`, -1 is padding.
        length: per row the number of valid memory slots, newest last.
        document: per row the document of those slots.
        memory_length: M, the number of slots.
        window: keys a query may see, itself included.
        attend_empty_memory: whether slots that hold nothing are keys of the
            first token's document. (One that starts later sees none.)

    Returns:
        `(B, T, M + T)` int distances, -1 where there is none, and a bool
        array of the same shape, True where the query sees the key.
    """
    batch_size, segment_length = document_ids.shape
    limit = resolve_window(window, memory_length)
    shape = (batch_size, segment_length, memory_length + segment_length)
    distances = np.full(shape, -1)
    visible = np.zeros(shape, dtype=bool)
    for row in range(batch_size):
        runs = runs_of_row(document_ids[row])
        usable = usable_length(document_ids[row], length[row], document[row])
        for t in range(segment_length):
            if runs[t] is None:
                continue
            distance = 0
            # Walk back from the query; only tokens make distance grow.
            for s in range(t, -1, -1):
                if runs[s] is None:
                    continue
                key = memory_length + s
                distances[row, t, key] = distance
                near = limit is None or distance < limit
                visible[row, t, key] = near and runs[s] == runs[t]
                distance += 1
            for slot in range(memory_length - 1, -1, -1):
                filled = slot >= memory_length - usable
                if not (filled or attend_empty_memory):
                    continue
                distances[row, t, slot] = distance
                near = limit is None or distance < limit
                visible[row, t, slot] = near and runs[t] == 0
                distance += 1
    return distances, visible


def attention_mask(
    document_ids: np.ndarray,
    length: Sequence[int],
    document: Sequence[int],
    memory_length: int,
    window: int | str | None = None,
    attend_empty_memory: bool = False,
) -> np.ndarray:
    """Only the visibility of `distances_and_mask`: `(B, T, M + T)`."""
    return distances_and_mask(
        document_ids,
        length,
        document,
        memory_length,
        window,
        attend_empty_memory,
    )[1]


def update_memory(
    states: np.ndarray,
    length: Sequence[int],
    document: Sequence[int],
    hidden: np.ndarray,
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memory after a segment, of one layer, by a list of tokens per row.

    Args:
        states: `(B, M, D)`, oldest first.
        length: per row the number of valid slots.
        document: per row the document of those slots.
        hidden: `(B, T, D)`, what the layer received for the segment.
        document_ids: `(B, T)`, -1 is padding.

    Returns:
        New states (zeros where nothing is remembered), lengths, documents.
    """
    batch_size, memory_length, _ = states.shape
    new_states = np.zeros(states.shape)
    new_length = np.zeros(batch_size, dtype=int)
    new_document = np.full(batch_size, PADDING)
    for row in range(batch_size):
        count = length[row]
        remembered = list(states[row, memory_length - count :])
        current = document[row]
        for t, token_document in enumerate(document_ids[row]):
            if token_document == PADDING:
                continue
            if token_document != current:
                remembered = []  # only the newest document is ever kept
                current = token_document
            remembered.append(hidden[row, t])
        remembered = remembered[max(0, len(remembered) - memory_length) :]
        for age, state in enumerate(reversed(remembered)):
            new_states[row, memory_length - 1 - age] = state
        new_length[row] = len(remembered)
        new_document[row] = current
    return new_states, new_length, new_document
