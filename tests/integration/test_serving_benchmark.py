"""The benchmark of servers leaves none behind when it is told to end."""

import importlib
import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.backend("tensorflow")  # the script is the same on each
@pytest.mark.parametrize(
    ("number", "end"),
    [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)],
)
def test_a_signal_ends_its_servers(
    repository, tmp_path, monkeypatch, number, end
):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    bench = importlib.import_module("bench_serving")
    (tmp_path / "v2" / "health").mkdir(parents=True)
    (tmp_path / "v2" / "health" / "ready").touch()
    started, popen = [], subprocess.Popen

    def start(*words, **options):
        started.append(popen(*words, **options))
        return started[-1]

    def words(kind, folder, place, port, most):
        return ["-m", "http.server", port, "-b", "127.0.0.1", "-d", tmp_path]

    def cell(*_):
        assert started[0].poll() is None
        os.kill(os.getpid(), number)
        time.sleep(60)

    memory = {"signatures": {"initial_memory": {"outputs": {}}}}
    monkeypatch.setattr(bench, "export", lambda *_: tmp_path)
    monkeypatch.setattr(bench, "server_words", words)
    monkeypatch.setattr(bench, "cell", cell)
    monkeypatch.setattr(bench.subprocess, "Popen", start)
    monkeypatch.setattr(
        bench.keras_txl.export, "read_manifest", lambda _: memory
    )
    monkeypatch.setattr(
        sys, "argv", ["bench_serving.py", "--servers", "kserve"]
    )
    handlers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(end):
            bench.main()
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    (server,) = started
    assert server.returncode is not None
