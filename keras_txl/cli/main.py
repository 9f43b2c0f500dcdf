"""`keras-txl VERB`: the parser, and what happens when a verb fails.

Nothing here imports Keras, so that help and usage errors come at once.
"""

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from types import FrameType

from keras_txl import __version__
from keras_txl.cli import compare
from keras_txl.cli import convert
from keras_txl.cli import data
from keras_txl.cli import doctor
from keras_txl.cli import evaluate
from keras_txl.cli import export
from keras_txl.cli import generate
from keras_txl.cli import inspect
from keras_txl.cli import quickstart
from keras_txl.cli import score
from keras_txl.cli import tokenizer
from keras_txl.cli import train
from keras_txl.cli.lost_interrupts import remembered_interrupts
from keras_txl.cli.quiet_libraries import import_keras_quietly

VERBS = (
    quickstart,
    train,
    evaluate,
    generate,
    score,
    tokenizer,
    data,
    inspect,
    compare,
    convert,
    export,
    doctor,
)

EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130  # as shells report SIGINT

_DESCRIPTION = """\
Transformer-XL language models: train on your text, see what the
memory buys, score, generate and save."""

_EPILOG = """\
Results go to stdout, progress to stderr. Exit codes: 0 success, 1 failure,
2 wrong usage, 130 interrupted (Ctrl-C), 143 terminated (SIGTERM). The
environment variable KERAS_BACKEND chooses tensorflow (the default), jax or
torch.

Start here:
  keras-txl quickstart
Then with your own text:
  keras-txl train my_text.txt --output my_model --minutes 10
  keras-txl generate my_model --prompt "Once upon a time"
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="keras-txl",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"keras-txl {__version__}"
    )
    _add_debug(parser, default=False)
    verbs = parser.add_subparsers(
        title="verbs", dest="verb", metavar="VERB", required=True
    )
    for module in VERBS:
        verb = verbs.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=_HelpFormatter,
        )
        module.add_arguments(verb)
        _add_debug(verb, default=argparse.SUPPRESS)
        verb.set_defaults(
            check=module.check,
            run=module.run,
            # The doctor tells itself what an import has to say.
            imports_keras=module is not doctor,
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: words after the program's name. Defaults to `sys.argv`.

    Returns:
        The exit code: 0 for success, 1 for failure, 130 when interrupted.
        Wrong usage leaves through `SystemExit` with code 2, SIGTERM with 143.
    """
    options = build_parser().parse_args(arguments)
    try:
        with terminating_in_order(), remembered_interrupts():
            options.check(options)
            if options.imports_keras and not options.debug:
                import_keras_quietly()
            options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        # A verb that has more to tell puts it in the exception.
        _tell(f"interrupted. {interrupt}".rstrip(), options.debug)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # `keras-txl ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except Exception as error:
        _tell(str(error) or type(error).__name__, options.debug)
        return EXIT_FAILURE
    return 0


@contextmanager
def terminating_in_order() -> Iterator[None]:
    """SIGTERM ends the program through its `finally` blocks."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _HelpFormatter(
    argparse.ArgumentDefaultsHelpFormatter,
    argparse.RawDescriptionHelpFormatter,
):
    """Shows defaults, and keeps the line breaks of the examples."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        # "(default: None)" and "(default: False)" tell nobody anything.
        if action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def _add_debug(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="show tracebacks and the messages of the libraries underneath",
    )


def _tell(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(f"keras-txl: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
