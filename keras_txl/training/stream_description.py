"""What a stream must be for a place in it to mean the same place."""

import zlib
from typing import Any

SEGMENTS_READ = 16


def describe_stream(stream: Any) -> dict[str, int]:
    """What must agree for a place in a stream to mean the same place.

    Args:
        stream: a `SegmentStream`.

    Returns:
        Its settings, sizes, and a checksum of some of its segments.
    """
    return {
        "batch_size": stream.batch_size,
        "segment_length": stream.segment_length,
        "num_targets": stream.num_targets,
        "num_segments": len(stream),
        "random_lengths": stream.random_lengths,
        "random_starts": stream.random_starts,
        "seed": stream.seed,
        "text": _checksum(stream),
    }


def check_stream(then: dict[str, int], now: dict[str, int]) -> None:
    """Raise unless two descriptions are of one stream.

    Args:
        then: description in a checkpoint.
        now: description of the stream that is to be read on.
    """
    if then == now:
        return
    told = ", ".join(
        f"{name}={now.get(name)} (checkpoint: {old})"
        for name, old in then.items()
        if old != now.get(name)
    )
    raise ValueError(
        "The stream must be the one that the checkpoint was made with. "
        f"Received: {told}. Use the same text and the same settings, or "
        "another folder."
    )


def _checksum(stream: Any) -> int:
    checksum = 0
    segments = len(stream)
    places = range(min(SEGMENTS_READ, segments))
    for place in places:
        inputs, targets, _ = stream.segment(place * segments // len(places))
        for array in (inputs["token_ids"], targets):
            checksum = zlib.crc32(array.tobytes(), checksum)
    return checksum
