"""Bad input gets a clear error that names the field, the value and what would be
right; nothing hangs and nothing is lost."""

import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import harness

GEMM = ["gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32", "--provider", "builtin"]


def gemm(**changed):
    fields = {"m": "8", "n": "8", "k": "8", "dtype": "fp32", "provider": "builtin", **changed}
    words = ["run", "gemm"]
    for name, value in fields.items():
        words += ["--" + name.replace("_", "-"), value]
    return words


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def refused(self, words, code, *said):
        run = self.daemon.run(*words)
        self.assertEqual(run.code, code, (words, run))
        for word in said:
            self.assertIn(word, run.err, (words, run))
        self.assertEqual(run.out, "", (words, run))

    def test_shapes(self):
        self.refused(gemm(m="0"), 2, "gemm.m: must be at least 1, got 0")
        self.refused(gemm(m="-4"), 2, "gemm.m: must be at least 1, got -4")
        self.refused(gemm(m="9223372036854775807"), 2, "gemm.m")
        self.refused(gemm(m="99999999999999999999"), 2, "m")
        self.refused(gemm(m="eight"), 2, "m", "eight")
        self.refused(gemm(lda="4"), 2, "gemm.lda")
        self.refused(gemm(batch="0"), 2, "gemm.batch")

    def test_all_bad_fields_at_once(self):
        self.refused(gemm(m="0", n="-1", pattern="nrmal"), 2, "gemm.m", "gemm.n", "nrmal")

    def test_more_bytes_than_the_device_has(self):
        self.refused(gemm(m="1048576", n="1048576"), 3, "bytes")

    def test_unknown_words(self):
        self.refused(gemm(dtype="fp15"), 2, "fp15", "bf16")
        self.refused(gemm(provider="onednm"), 2, "onednm", "onednn")
        self.refused(gemm(pattern="normall"), 2, "normall", "normal")
        self.refused(["run", "gem", "--m", "8"], 2, "gem")
        self.refused(["run", "--suite", "nightlyy"], 2, "nightlyy")
        self.refused(["run", "--suite", "kernel-lap"], 2, "did you mean", "kernel-lab")
        self.refused(gemm(device="cuda:7"), 2, "cuda:7")
        self.refused(["show", "jobs/zzzzzzzz"], 2, "zzzzzzzz")
        self.refused(["watch", "jobs/../etc"], 2, "jobs/")

    def test_a_case_no_provider_supports(self):
        run = self.daemon.run(*gemm(dtype="fp16", provider="openblas"), "--format", "json")
        self.assertEqual(run.code, 4, run)
        self.assertEqual(run.json()["tests"][0]["verdict"], "UNSUPPORTED")

    def test_tolerances(self):
        self.refused(gemm(atol="-1"), 2, "atol")
        self.refused(gemm(rtol="nan"), 2, "rtol")
        run = self.daemon.run(*gemm(criterion="allclose", atol="0", rtol="0"), "--format", "json")
        self.assertEqual(run.json()["tests"][0]["atol"], 0)
        self.assertEqual(run.code, 1, "an explicit zero tolerance is a tolerance")

    def test_too_many_cases(self):
        seeds = ",".join(str(s) for s in range(10001))
        self.refused(gemm(seed=seeds), 2, "10000")

    def test_deadlines_of_zero(self):
        self.refused(gemm(deadline="0s"), 2, "deadline")
        self.refused(gemm(job_deadline="0s"), 2, "deadline")

    def test_a_suite_file_with_a_typo(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('name = "t"\ntitle = "t"\nversion = "1"\n[[case]]\nop = "gemm"\ndtyp = "fp32"\n')
            file.flush()
            self.refused(["run", "--suite-file", file.name], 2, file.name + ":6:1", "dtyp", "dtype")
        self.refused(["run", "--suite-file", "/nowhere/x.toml"], 2, "/nowhere/x.toml")

    def test_nobody_there(self):
        run = harness.run_client("devices", environment={"ASSAY_TARGET": "127.0.0.1:1"})
        self.assertEqual(run.code, 3, run)
        self.assertIn("127.0.0.1:1", run.err)
        self.assertIn("ASSAY_TARGET", run.err)

    def test_standard_output_that_takes_nothing(self):
        for words, code in (["suites"], 3), (["run", *GEMM, "--format", "jsonl"], 3), \
                (gemm(atol="0", rtol="0", criterion="allclose"), 1):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([harness.ASSAY, *words, "--target", self.daemon.grpc],
                                      stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, code, (words, done))
            self.assertIn("cannot write standard output: No space left on device", done.stderr)

    def test_a_standard_stream_that_is_closed_becomes_no_other_file(self):
        done = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", harness.ASSAY, "suites", "--target", self.daemon.grpc],
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("cannot write standard output: ", done.stderr)
        with tempfile.TemporaryDirectory(prefix="assay-closed-") as folder, subprocess.Popen(
                ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", harness.ASSAYD, "--listen", f"unix:{folder}/socket",
                 "--metrics-listen", "off", "--state-dir", f"{folder}/state"]) as daemon:
            harness.wait_until(lambda: os.path.exists(f"{folder}/socket"), 60, "the daemon serves")
            # A library takes one for an event of its own before the program begins.
            held = {os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in range(3)}
            self.assertLessEqual(held, {"/dev/null", "anon_inode:[eventfd]"})
            daemon.terminate()
            self.assertEqual(daemon.wait(60), 0)

    def test_the_daemon_still_works(self):
        self.assertEqual(self.daemon.run("run", *GEMM).code, 0)


class Starting(unittest.TestCase):
    """A daemon that cannot start says why in one line, and which environment it wants."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-start-")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def refused(self, code, flags, *said):
        base = ["--metrics-listen", "127.0.0.1:0"]
        if "--listen" not in flags:
            base += ["--listen", "127.0.0.1:0"]
        if "--state-dir" not in flags:
            base += ["--state-dir", os.path.join(self.folder, "state")]
        done = subprocess.run([harness.ASSAYD, *base, *flags], capture_output=True, text=True,
                              timeout=harness.LONG, check=False)
        self.assertEqual(done.returncode, code, done)
        for word in said:
            self.assertIn(word, done.stderr, done)
        self.assertEqual(done.stdout, "", done)

    def test_config_with_an_unknown_key(self):
        path = os.path.join(self.folder, "assayd.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('listen = "127.0.0.1:0"\nmetrcs-listen = "127.0.0.1:0"\n')
        self.refused(2, ["--config", path], "assayd.toml:2", "metrcs-listen", "metrics-listen")
        self.refused(2, ["--config", "/nowhere.toml"], "/nowhere.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write('"a\\u001b[2Jb" = 1\n')  # a terminal would obey it
        self.refused(2, ["--config", path], 'unknown key "a?[2Jb"')

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.refused(3, ["--listen", address], address)

    def test_a_state_folder_that_cannot_be_written(self):
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="utf-8"):
            pass
        self.refused(3, ["--state-dir", path], path)
        self.refused(3, ["--state-dir", "/proc/assay"], "/proc/assay")

    def test_a_state_folder_that_is_taken(self):
        with harness.Daemon() as daemon:
            self.refused(3, ["--state-dir", daemon.state], daemon.state)

    def test_a_store_that_is_full_by_its_own_limit_waits_for_nothing(self):
        self.refused(3, ["--store-max-bytes", "8KiB"], "database or disk is full")

    def test_plaintext_beyond_loopback_must_be_said(self):
        self.refused(2, ["--listen", "0.0.0.0:0"], "--insecure")

    def test_unknown_flags_and_devices(self):
        self.refused(2, ["--lisen", "127.0.0.1:0"], "--lisen")
        self.refused(2, ["--devices", "tpu:0"], "tpu:0")

    def test_a_folder_of_suites_that_is_not_there(self):
        self.refused(2, ["--suites-dir", "/nowhere"], "--suites-dir: /nowhere is no folder")

    def test_devices_that_cannot_be_used_are_said(self):
        with harness.Daemon() as daemon:
            listed = daemon.run("devices", "--format", "json").json()["devices"]
        missing = [d["id"] for d in listed if d["state"] == "UNAVAILABLE"]
        if not missing:
            self.skipTest("every backend has a device here")
        backend = missing[0].split(":")[0]
        self.refused(2, ["--devices", f"{backend}:0"], f"--devices: none of {backend}:0 can be",
                     backend)
        # Beside a device that works it is an error of the log, not the daemon's end.
        with harness.Daemon(flags=("--devices", f"cpu:0,{backend}:0")) as daemon:
            self.assertIn("device.missing", daemon.log_text())
            self.assertEqual(daemon.run("devices").code, 0)
        with harness.Daemon(flags=("--devices", f"cpu:0,{backend}:*")) as daemon:
            self.assertNotIn("device.missing", daemon.log_text())


if __name__ == "__main__":
    harness.main()
