"""A daemon of one's own: assayd on this machine, for as long as a session needs it.

It listens on loopback at a free port, and has its state in a temporary folder. It ends with the
object, and also if the process that made the object is killed.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import weakref
from typing import Optional, Sequence

from .errors import Unavailable

# Ends the daemon when its standard input does: also if the session that started it was killed.
_GUARD = 'folder=$1; shift; "$@" & child=$!; exec >&-; read -r _; kill -TERM "$child"; wait "$child"; rm -rf "$folder"'
_READY = re.compile(r"^assayd ready: grpc ([^,\s]+)")
_START = 120.0  # [s] what a busy machine may take to start it
_STOP = 60.0  # [s] to end it politely


def find_program(name: str = "assayd") -> str:
    """A program: ASSAYD names assayd. Else it is in bin of the tree that this package is installed in, else in PATH."""
    named = os.environ.get("ASSAYD") if name == "assayd" else None
    if named:
        return named
    folder = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.normpath(os.path.join(folder, *[os.pardir] * 4, "bin", name))
    found = tree if os.access(tree, os.X_OK) else shutil.which(name)
    if found is None and name != "assayd":
        raise Unavailable(f"no program {name}: it is neither {tree} nor in PATH")
    if found is None:
        raise Unavailable(f"no assayd: it is neither {tree} nor in PATH. Name it in ASSAYD, or name a daemon that "
                          "runs: --assay-target or ASSAY_TARGET")
    return found


# Those that run. A child of this process must not hold their pipes: they would outlive this process with it.
_running: weakref.WeakSet[Daemon] = weakref.WeakSet()


def _leave_in_child() -> None:
    for daemon in list(_running):
        daemon._leave()


os.register_at_fork(after_in_child=_leave_in_child)


class Daemon:
    """A running assayd. `target` is its address. Leaving it as a context manager ends it."""

    def __init__(self, options: Sequence[str] = (), program: Optional[str] = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="assay-python-")
        self._process: Optional[subprocess.Popen[str]] = None
        try:
            self.target = self._start(program or find_program(), options)
        except BaseException:
            self.stop()
            raise

    def _start(self, program: str, options: Sequence[str]) -> str:
        command = [program, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--state-dir",
                   os.path.join(self._folder, "state"), "--config", os.devnull, *options]
        self._log = os.path.join(self._folder, "log")
        if not os.access(program, os.X_OK):
            raise Unavailable(f"cannot start {program}: it is no program that may be run")
        with open(self._log, "wb") as log:
            # In a group of its own: Ctrl-C in the terminal is for the tests, which then end it.
            self._process = subprocess.Popen(["/bin/sh", "-c", _GUARD, "assayd", self._folder, *command], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        _running.add(self)
        stdout = self._process.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], _START)
        line = stdout.readline() if readable else ""
        ready = _READY.match(line)
        if ready is None:
            raise Unavailable(f"{program} did not get ready: {line.strip() or 'it said nothing'}\n{self.log()}")
        return ready.group(1)

    def log(self) -> str:
        """What it logged."""
        try:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    @property
    def pid(self) -> int:
        """Of the process that holds the daemon, and that ends with it."""
        assert self._process is not None
        return self._process.pid

    def _leave(self) -> None:
        """In a child of this process, to which the daemon does not belong."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._left = process  # so that nobody waits for it
        self._folder = ""

    def stop(self) -> None:
        _running.discard(self)
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            # A line, and not only the end: a child of this process may hold the pipe open.
            try:
                process.stdin.write("\n")
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended by itself
            try:
                process.wait(_STOP)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
