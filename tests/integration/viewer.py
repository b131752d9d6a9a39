"""A client that watches, for tests that end daemons."""

import json
import os
import subprocess
import threading

import harness


class Viewer:
    """A client that watches a job and keeps the lines it was shown."""

    def __init__(self, daemon, job):
        self.seen = []
        self.process = subprocess.Popen(
            [harness.ASSAY, "watch", job, "--format", "jsonl", "--reconnect", "0s"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "ASSAY_TARGET": daemon.grpc})
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.seen.append(json.loads(line))

    def end(self):
        self.process.wait(harness.LONG)
        self.thread.join(harness.LONG)
        self.process.stdout.close()
        return self.seen
