"""Texts to token files, in parallel and at bounded memory."""

import itertools
import multiprocessing
import os
import signal
import time
import zlib
from collections import deque
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from contextlib import suppress
from typing import Any

import numpy as np

from keras_txl.checks import check_integer
from keras_txl.data.text_pieces import TextPiece
from keras_txl.data.text_pieces import pieces_of_texts
from keras_txl.data.token_file import TokenFile
from keras_txl.data.token_file_writer import TokenFileWriter

SAFE_SECONDS = 10.0
"""What an interruption may cost at most."""

WAITING = 3
"""Pieces that wait for each worker, so that none stands idle."""

_encode: Callable[[bytes], np.ndarray]
"""The encoder of a worker process, there once `_begin_worker` has run."""


def encode_corpus(
    texts: Iterable[str | bytes | TextPiece],
    path: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    make_encoder: Callable[[], Callable[[bytes], np.ndarray]] | None = None,
    vocabulary_size: int | None = None,
    num_workers: int = 1,
    settings: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> TokenFile:
    """Encode texts once, into a folder that `TokenFile` reads.

    Texts are read as they are needed and written as they are done, so that
    neither has to fit in memory. An interrupted run goes on where it was when
    it is called again with the same texts, tokenizer and `settings`.

    Args:
        texts: strings or bytes, a document each; or pieces of documents, as
            `read_text_pieces` gives them.
        path: folder for the encoded corpus.
        tokenizer: a tokenizer of `keras_txl.tokenizers`.
        make_encoder: instead of `tokenizer`: a function that each worker
            process calls once for a function from bytes to ids. With several
            workers it must be one that can be pickled.
        vocabulary_size: ids are below it. Needed with `make_encoder`.
        num_workers: processes that encode. More than 1 needs `make_encoder`.
        settings: what else must agree to go on, for JSON; it is kept in the
            header.
        progress: called as `progress(bytes_done)` after each piece.

    Returns:
        The encoded corpus.

    Raises:
        ValueError: if the arguments do not fit together, or an id is outside
            of the vocabulary, or an interrupted run read other texts.
        OSError: if it cannot be written.
        RuntimeError: if a worker process dies.

    Example:
    ```python
    encode_corpus(["a text", "another"], "my_ids", tokenizer=tokenizer)
    ```
    """
    _check_encoder(tokenizer, make_encoder, num_workers)
    told = dict(settings or {})
    if tokenizer is not None:
        vocabulary_size = tokenizer.vocabulary_size()
        told.setdefault("tokenizer", type(tokenizer).__name__)
        told.setdefault("tokenizer_sha256", tokenizer.fingerprint)
    size = check_integer("vocabulary_size", vocabulary_size, 1)
    writer = TokenFileWriter(path, size, told)
    pieces = pieces_of_texts(texts)
    done, text_sum = _skip_encoded(pieces, writer)
    safe = time.monotonic()
    try:
        with closing(
            _encoded(pieces, tokenizer, make_encoder, num_workers)
        ) as encoded:
            for piece, ids in encoded:
                text_sum = zlib.crc32(piece.data, text_sum)
                writer.write(ids, piece.ends_document, text_sum)
                done += len(piece.data)
                if time.monotonic() - safe > SAFE_SECONDS:
                    writer.save_progress()
                    safe = time.monotonic()
                if progress is not None:
                    progress(done)
    except BaseException:
        for step in (writer.save_progress, writer.close):
            with suppress(OSError):  # on a full disk what was safe stays so
                step()
        raise
    writer.finish(num_bytes=done, settings=told)
    return TokenFile(path, verify=False)


def _check_encoder(tokenizer: Any, make_encoder: Any, num_workers: int) -> None:
    check_integer("num_workers", num_workers, 1)
    if (tokenizer is None) == (make_encoder is None) or (
        num_workers > 1 and make_encoder is None
    ):
        raise ValueError(
            "Either `tokenizer` or `make_encoder` must be given, and several "
            f"workers need `make_encoder`. Received: tokenizer={tokenizer}, "
            f"make_encoder={make_encoder}, num_workers={num_workers}."
        )


def _skip_encoded(
    pieces: Iterator[TextPiece], writer: TokenFileWriter
) -> tuple[int, int]:
    """Take what an interrupted run has encoded: its bytes and their sum."""
    done = text_sum = 0
    for piece in itertools.islice(pieces, writer.pieces):
        done += len(piece.data)
        text_sum = zlib.crc32(piece.data, text_sum)
    if text_sum != writer.text_sum:
        writer.close()
        raise ValueError(
            "The texts must be those of the run that was interrupted. "
            f"Received: other texts for {str(writer.path)!r}. Pass the same, "
            f"or remove {str(writer.folder)!r} to begin anew."
        )
    return done, text_sum


def _encoded(
    pieces: Iterator[TextPiece],
    tokenizer: Any,
    make_encoder: Callable[[], Callable[[bytes], np.ndarray]] | None,
    num_workers: int,
) -> Generator[tuple[TextPiece, np.ndarray], None, None]:
    """Each piece with its ids, in order."""
    if num_workers == 1:
        encode = make_encoder() if make_encoder else _encoder_of(tokenizer)
        for piece in pieces:
            yield piece, encode(piece.data)
        return
    waiting: deque[tuple[TextPiece, Future[np.ndarray]]] = deque()
    # Not forked: TensorFlow's threads would not be there, but their locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        num_workers,
        context,
        initializer=_begin_worker,
        initargs=(make_encoder,),
    ) as pool:
        try:
            for piece in pieces:
                waiting.append((piece, pool.submit(_work, piece.data)))
                if len(waiting) >= WAITING * num_workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "Worker processes must live until all is encoded. Received: "
                f"one of {num_workers} that ended early, maybe for want of "
                "memory. Encode again, which goes on where this ended, with "
                "fewer workers; a script that calls this needs "
                '`if __name__ == "__main__":`.'
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _encoder_of(tokenizer: Any) -> Callable[[bytes], np.ndarray]:
    return lambda data: np.asarray(tokenizer.tokenize(data))


def _begin_worker(make_encoder: Any) -> None:
    global _encode
    # Ctrl-C is for the process that writes; it ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _encode = make_encoder()


def _work(data: bytes) -> np.ndarray:
    return _encode(data)
