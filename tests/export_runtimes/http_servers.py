"""Servers of others, ready when they answer over HTTP."""

import subprocess
import threading
import time
import urllib.request


class HttpServer:
    """A process that serves; it can be killed and started again."""

    def __init__(self, words, ready, environment, seconds=120):
        self.words = [str(word) for word in words]
        self.ready = ready
        self.environment = environment
        self.seconds = seconds
        self.starter = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.words,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.words} ended")
            try:
                with urllib.request.urlopen(self.ready, timeout=5):
                    return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"{self.ready} does not answer")

    def start_later(self):
        """Start again while clients are already waiting."""
        self.starter = threading.Thread(target=self.start)
        self.starter.start()

    def kill(self):
        if self.starter is not None:
            self.starter.join()
        self.process.kill()
        self.process.wait()
