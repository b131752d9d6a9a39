"""Starts real daemons and runs the real client, for the integration tests.

Everything listens on loopback at ports the system chooses, lives in a temporary
folder, and is ended by its own process id. ASSAY_INSTALL names the install tree.
"""

import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

INSTALL = os.environ.get("ASSAY_INSTALL", "build/dev/install")
ASSAY = os.path.join(INSTALL, "bin", "assay")
ASSAYD = os.path.join(INSTALL, "bin", "assayd")
# What a busy machine may take for anything at all [s]: deadlines end tests that would hang, and
# time nothing.
LONG = 120
READY = re.compile(r"^assayd ready: grpc (\S+), metrics (\S+)(?:, health (\S+))?, state in (.*)$")


class Result:
    """What a finished command said."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Daemon:
    """An assayd of its own, with its state in a folder that may outlive it."""

    def __init__(self, state=None, flags=(), listen="127.0.0.1:0", environment=None,
                 program=None):
        self.own_state = state is None
        self.state = state or tempfile.mkdtemp(prefix="assay-state-")
        self.log_path = os.path.join(self.state + ".log")
        self.log = open(self.log_path, "ab")
        command = [program or ASSAYD, "--listen", listen, "--metrics-listen", "127.0.0.1:0",
                   "--state-dir", self.state, *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **(environment or {})}, text=True)
        line = self._first_line(LONG)
        ready = READY.match(line)
        if not ready:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()
            said = self.log_text()
            if self.own_state:
                shutil.rmtree(self.state, ignore_errors=True)
                os.unlink(self.log_path)
            raise RuntimeError(f"assayd did not get ready: {line!r}\n{said}")
        self.grpc, self.metrics, self.health = ready.group(1, 2, 3)

    def _first_line(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return self.process.stdout.readline().rstrip("\n") if ready else ""

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def run(self, *arguments, timeout=300, environment=None, text_input=None):
        """Runs `assay` against this daemon."""
        return run_client(*arguments, timeout=timeout, text_input=text_input,
                          environment={"ASSAY_TARGET": self.grpc, **(environment or {})})

    def scrape(self):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=LONG) as answer:
            return answer.read().decode()

    def metric(self, name, **labels):
        """Sum of the series of a family that carry all the labels; None where there is none."""
        total = None
        for line in self.scrape().splitlines():
            match = re.match(r"^(\w+)(?:\{(.*)\})? (\S+)$", line)
            if not match or match.group(1) != name:
                continue
            have = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
            if all(have.get(k) == v for k, v in labels.items()):
                total = (total or 0.0) + float(match.group(3))
        return total

    def kill(self):
        """As a power cut would end it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self, timeout=120):
        """Ends it politely; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
            self.log.close()
        if self.own_state:
            shutil.rmtree(self.state, ignore_errors=True)
            os.unlink(self.log_path)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


def run_client(*arguments, timeout=300, environment=None, text_input=None):
    """Runs `assay` with the environment given on top of this one's."""
    return Result(subprocess.run([ASSAY, *arguments], capture_output=True, text=True,
                                 timeout=timeout, input=text_input,
                                 env={**os.environ, **(environment or {})}, check=False))


def free_ports(count):
    """Ports that nobody has, and that the system gives to no connection meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest, highest = map(int, file.read().split())
    rest = [*range(10000, lowest), *range(highest + 1, 65536)]
    found = []
    for port in random.SystemRandom().sample(rest, len(rest)):
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError("no free ports")


def wait_until(condition, seconds, what):
    """Polls a condition to a deadline, of two minutes or what is longer; its value once it holds."""
    seconds = max(seconds, LONG)
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def main():
    unittest.main(verbosity=2)
