"""Servers in other processes, for tests."""

import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ServerProcess:
    """A process that prints `ready` when it serves; it can be killed."""

    def __init__(self, *words):
        self.words = [str(word) for word in words]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, *self.words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise AssertionError(f"{self.words} ended: {self.process.wait()}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def running(*words):
    """A `ServerProcess`, ended in the end."""
    server = ServerProcess(*words)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def double(kind, folder):
    """`server_double.py` on a port of its own; gives process and port."""
    port = free_port()
    script = Path(__file__).with_name("server_double.py")
    with running(script, kind, folder, port) as server:
        yield server, port
