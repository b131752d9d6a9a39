"""A user's own tensors: every verdict of `assay compare`, everything it must refuse, and
what becomes of it when the worker, the client or the device's memory gives out.

Files are written by hand (struct), as NumPy writes them."""

import array
import glob
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest

import harness

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz", "npy")


def npy(descr, shape, data, fortran=False):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}".encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def f32(values):
    return array.array("f", values).tobytes()


def f64(values):
    return array.array("d", values).tobytes()


def f16(values):
    return b"".join(struct.pack("<e", v) for v in values)


def bf16(values):
    """Rounded to nearest even, as uint16."""
    words = array.array("I", f32(values))
    return array.array("H", [(w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words]).tobytes()


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon(flags=["--arena-bytes", "268435456"])
        cls.folder = tempfile.mkdtemp(prefix="assay-compare-")
        rng = random.Random(1)
        m, n, k = 24, 20, 64
        cls.shape = (m, n)
        a = array.array("f", [rng.gauss(0, 1) for _ in range(m * k)])
        b = array.array("f", [rng.gauss(0, 1) for _ in range(k * n)])
        cls.product = [math.fsum(a[i * k + t] * b[t * n + j] for t in range(k))
                       for i in range(m) for j in range(n)]
        cls.write("a", "<f4", (m, k), a.tobytes())
        cls.write("b", "<f4", (k, n), b.tobytes())
        cls.write("c64", "<f8", (m, n), f64(cls.product))
        cls.write("c32", "<f4", (m, n), f32(cls.product))
        cls.write("c16", "<f2", (m, n), f16(cls.product))
        cls.write("cbf", "<u2", (m, n), bf16(cls.product))
        cls.write("column", "<f8", (m, n), f64([cls.product[i * n + j] for j in range(n)
                                                 for i in range(m)]), fortran=True)
        wrong = array.array("f", cls.product)
        wrong[5 * n + 7] += 0.01
        cls.write("wrong", "<f4", (m, n), wrong.tobytes())

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name + ".npy")

    @classmethod
    def write(cls, name, descr, shape, data, fortran=False):
        with open(cls.path(name), "wb") as file:
            file.write(npy(descr, shape, data, fortran))
        return cls.path(name)

    def compare(self, *words):
        """The one test of the report; words that name a file of the folder become its path."""
        words = [self.path(w) if os.path.exists(self.path(w)) else w for w in words]
        run = self.daemon.run("compare", *words, "--format", "json")
        self.assertTrue(run.out, (words, run))
        report = run.json()
        self.assertEqual(report["schema"], "assay.report/v1")
        self.assertEqual(report["total"], 1)
        test = report["tests"][0]
        codes = {"PASSED": 0, "FAILED": 1, "ERROR": 1, "INCONCLUSIVE": 4}
        self.assertEqual(run.code, codes[test["verdict"]], run)
        return test

    def refused(self, words, code, *said):
        words = [self.path(w) if os.path.exists(self.path(w)) else w for w in words]
        run = self.daemon.run("compare", *words)
        self.assertEqual(run.code, code, (words, run))
        for word in said:
            self.assertIn(word, run.err, (words, run))
        self.assertEqual(run.out, "", (words, run))

    def test_types_that_differ(self):
        for actual, more in (("c32", []), ("c16", []), ("cbf", ["--dtype", "bf16"])):
            for expected in "c64", "column":
                test = self.compare(actual, expected, *more)
                self.assertEqual(test["verdict"], "PASSED", (actual, test))
                self.assertEqual(test["criterion"], "derived")
                self.assertEqual(test["count"], len(self.product))
                self.assertGreater(test["rtol"], 0)
                self.assertNotIn("rho", test, "without operands there is no bound")

    def test_one_wrong_element(self):
        test = self.compare("wrong", "c64", "--accumulations", "64")
        self.assertEqual(test["verdict"], "FAILED")
        self.assertEqual(test["mismatches"], 1)
        first = test["first_mismatch"]
        self.assertEqual(first["index"], [5, 7])
        expected = self.product[5 * self.shape[1] + 7]
        self.assertAlmostEqual(first["expected"], expected, 12)
        bits, = struct.unpack("<I", struct.pack("<f", first["actual"]))
        self.assertEqual(first["actual_bits"], f"0x{bits:08x}")
        self.assertEqual(test["worst_mismatch"]["index"], [5, 7])
        self.assertTrue(test["repro"].startswith("assay compare "), test["repro"])
        again = self.daemon.run(*test["repro"].split()[1:])
        self.assertEqual(again.code, 1, "the line repeats it")

    def test_integers_have_no_tolerance(self):
        for name, values in (("i4", range(6)), ("i4_other", [0, 1, 2, 3, 5, 5])):
            self.write(name, "<i4", (6,), struct.pack("<6i", *values))
        same = self.compare("i4", "i4")
        self.assertEqual((same["criterion"], same["verdict"]), ("bitwise", "PASSED"))
        other = self.compare("i4_other", "i4")
        self.assertEqual((other["verdict"], other["first_mismatch"]["index"]), ("FAILED", [4]))

    def test_criteria(self):
        self.assertEqual(self.compare("c32", "c64", "--criterion", "bitwise")["verdict"], "PASSED")
        self.assertEqual(self.compare("wrong", "c32", "--criterion", "bitwise")["mismatches"], 1)
        self.assertEqual(self.compare("c32", "c64", "--max-ulp", "0")["criterion"], "ulp")
        test = self.compare("wrong", "c64", "--atol", "0.1")
        self.assertEqual((test["criterion"], test["verdict"]), ("allclose", "PASSED"))
        test = self.compare("c32", "c64", "--atol", "0", "--rtol", "0")
        self.assertEqual((test["verdict"], test["atol"], test["rtol"]), ("FAILED", 0, 0))
        legacy = ["--criterion", "legacy", "--atol", "1e-5", "--rtol", "1e-3"]
        self.assertEqual(self.compare("c32", "c64", *legacy)["verdict"], "PASSED")
        self.assertEqual(self.compare("wrong", "c64", *legacy)["verdict"], "FAILED")

    def test_nan_rejects(self):
        values = list(self.product)
        values[3] = float("nan")
        self.write("nan", "<f4", self.shape, f32(values))
        for words in ["nan", "c32"], ["c32", "nan"]:
            test = self.compare(*words, "--atol", "1e30")
            self.assertEqual((test["verdict"], test["reason"]), ("FAILED", "class"), test)
        self.assertEqual(self.compare("nan", "nan")["verdict"], "PASSED")

    def test_digests(self):
        whole = self.compare("c32", "c64")
        for digest in whole["digest"], whole["digest_raw"].upper():
            test = self.compare("c32", "--expected-digest", digest)
            self.assertEqual(test["verdict"], "PASSED")
            self.assertNotIn("max_abs_error", test, "only the bits were looked at")
        test = self.compare("wrong", "--expected-digest", whole["digest"])
        self.assertEqual((test["verdict"], test["reason"]), ("FAILED", "exact"))

    def test_operands(self):
        operands = ["--inputs", f"{self.path('a')},{self.path('b')}", "--op", "gemm"]
        test = self.compare("c32", *operands)
        self.assertEqual((test["verdict"], test["criterion"]), ("PASSED", "bound"))
        self.assertEqual(test["shape"]["k"], 64)
        self.assertLess(test["rho"], 1)
        test = self.compare("wrong", *operands)
        self.assertEqual((test["verdict"], test["reason"]), ("FAILED", "bound"))
        self.assertEqual(test["first_mismatch"]["index"], [5, 7])
        test = self.compare("c32", "wrong", *operands)
        self.assertEqual((test["verdict"], test["reason"]), ("INCONCLUSIVE", "suspect"))
        self.refused(["c32", *operands, "--trans-a"], 2, "do not multiply")
        self.refused(["c32", *operands, "--lda", "128"], 2, "without padding")
        self.refused(["c64", *operands], 2, "c64.npy: must be fp32 for fp32 inputs, got fp64")

    def test_operands_of_other_operators(self):
        rng = random.Random(2)
        rows, cols = 6, 50
        x = array.array("f", [rng.gauss(0, 2) for _ in range(rows * cols)])
        softmax, norm = [], []
        for r in range(rows):
            row = list(x[r * cols:(r + 1) * cols])
            e = [math.exp(v - max(row)) for v in row]
            softmax += [v / math.fsum(e) for v in e]
            mean = math.fsum(row) / cols
            var = math.fsum((v - mean) ** 2 for v in row) / cols
            norm += [(v - mean) / math.sqrt(var + 1e-5) for v in row]
        self.write("x", "<f4", (2, 3, cols), x.tobytes())
        for op, y in ("softmax", softmax), ("layer_norm", norm):
            self.write("y", "<f4", (2, 3, cols), f32(y))
            words = ["--inputs", self.path("x"), "--op", op]
            self.assertEqual(self.compare("y", *words)["verdict"], "PASSED", op)
            y[70] += 1e-3
            self.write("y", "<f4", (2, 3, cols), f32(y))
            test = self.compare("y", *words)
            self.assertEqual(test["verdict"], "FAILED", op)
            self.assertEqual(test["first_mismatch"]["index"], [0, 1, 20], "the file's own axes")

        # Logits 1 and -2 apart by 3, as unit tests have it by hand.
        self.write("activations", "<f4", (1, 2), f32([3, -1]))
        self.write("weights", "|i1", (2, 2), bytes([2, 255, 4, 5]))
        self.write("scales", "<f4", (2,), f32([0.5, 0.25]))
        large = 1 / (1 + math.exp(-3))
        operands = (self.path(p) for p in ("activations", "weights", "scales"))
        words = ["--inputs", ",".join(operands), "--op", "dequant_softmax"]
        self.write("y", "<f4", (1, 2), f32([large, 1 - large]))
        self.assertEqual(self.compare("y", *words)["verdict"], "PASSED")
        self.assertEqual(self.compare("y", *words, "--transpose-w")["verdict"], "FAILED")

        # One head, uniform scores: every output is the mean of V.
        seq, dim = 8, 4
        v = [rng.gauss(0, 1) for _ in range(seq * dim)]
        v = list(array.array("f", v))
        self.write("q", "<f4", (1, 1, seq, dim), f32([0.0] * (seq * dim)))
        self.write("v", "<f4", (1, 1, seq, dim), f32(v))
        mean = [math.fsum(v[t * dim + d] for t in range(seq)) / seq for d in range(dim)]
        self.write("o", "<f4", (1, 1, seq, dim), f32(mean * seq))
        words = ["--inputs", ",".join(self.path(p) for p in "qqv"), "--op", "attention"]
        self.assertEqual(self.compare("o", *words)["verdict"], "PASSED")
        self.assertEqual(self.compare("o", *words, "--causal")["verdict"], "FAILED")

    def test_fp8_as_bytes(self):
        # e4m3fn: 0x38 is 1, 0x40 is 2, 0xb8 is -1.
        self.write("fp8", "|u1", (3,), bytes([0x38, 0x40, 0xB8]))
        self.write("one_two", "<f4", (3,), f32([1, 2, -1]))
        words = ["fp8", "one_two", "--criterion", "bitwise"]
        self.assertEqual(self.compare(*words, "--dtype", "e4m3fn")["verdict"], "PASSED")
        self.assertEqual(self.compare(*words, "--dtype", "e5m2")["verdict"], "FAILED")
        self.refused(words, 2, "fp8.npy", "--dtype", "e4m3fn")

    def test_nothing_is_no_pass(self):
        self.write("none", "<f4", (0, 7), b"")
        for words in ["none", "none"], ["none", "--expected-digest", "0" * 32]:
            test = self.compare(*words)
            self.assertEqual((test["verdict"], test["reason"]), ("INCONCLUSIVE", "empty"), words)

    def test_every_malformed_file(self):
        files = sorted(glob.glob(os.path.join(CORPUS, "*.npy")))
        self.assertGreaterEqual(len(files), 80)
        for file in files:
            for words in [file, self.path("c32")], [self.path("c32"), file]:
                run = self.daemon.run("compare", *words)
                self.assertEqual(run.code, 2, (file, run))
                self.assertIn(f"assay: {file}: ", run.err, run)
                self.assertEqual(run.out, "")

    def test_usage(self):
        self.refused(["c32", "a"], 2, "a.npy", "[24,64]", "c32.npy", "[24,20]", "the same")
        self.write("big", ">f4", (2,), b"\0" * 8)
        self.refused(["big", "big"], 2, "big.npy", "big-endian", "'<f4'")
        self.refused(["c32"], 2, "EXPECTED", "--expected-digest", "--inputs")
        self.refused(["c32", "c64", "--criterion", "bound"], 2, "--inputs")
        for bad in "-1", "nan", "inf":
            self.refused(["c32", "c64", "--atol", bad], 2, "atol")
        self.write("int8", "|i1", (4,), bytes(4))
        self.refused(["int8", "int8", "--criterion", "derived"], 2, "criterion", "derived", "int8", "bitwise")
        self.refused(["int8", "int8", "--max-ulp", "1"], 2, "int8")
        self.refused(["c32", "c64", "--device", "cuda:0"], 2, "cuda:0")

    def test_more_than_the_arena(self):
        with open(self.path("huge"), "wb") as file:  # sparse
            file.write(npy("<f4", (40 << 20,), b""))
            file.truncate(file.tell() + (160 << 20))
        self.refused(["huge", "huge"], 3, "arena", "268435456")
        os.unlink(self.path("huge"))

    def test_it_counts_as_a_call_only(self):
        def calls():
            return self.daemon.metric("assay_rpc_requests_total", method="CompareTensors",
                                      code="OK") or 0
        before, cases = calls(), self.daemon.metric("assay_cases_total") or 0
        self.compare("c32", "c64")
        # A call is counted once its end has been sent.
        harness.wait_until(lambda: calls() == before + 1, 20, "one call more is counted")
        self.assertEqual(self.daemon.metric("assay_cases_total") or 0, cases)


class WhenSomethingGivesOut(unittest.TestCase):
    def setUp(self):
        self.daemon = harness.Daemon()
        self.folder = tempfile.mkdtemp(prefix="assay-compare-")
        self.big = os.path.join(self.folder, "big.npy")
        with open(self.big, "wb") as file:  # 64 MiB of zeros
            file.write(npy("<f4", (16 << 20,), b""))
            file.truncate(file.tell() + (64 << 20))
        self.small = os.path.join(self.folder, "small.npy")
        with open(self.small, "wb") as file:
            file.write(npy("<f4", (4,), f32([1, 2, 3, 4])))

    def tearDown(self):
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def worker(self):
        """The process id of the device's worker, once it is there."""
        def children():
            listed = subprocess.run(["pgrep", "-P", str(self.daemon.process.pid), "assay-worker"],
                                    capture_output=True, text=True, check=False)
            return [int(pid) for pid in listed.stdout.split()]
        return harness.wait_until(children, 20, "a worker")[0]

    def state(self):
        return self.daemon.run("devices", "--format", "json").json()["devices"][0]["state"]

    def start(self):
        """A comparison whose worker stands still once the device is taken for it."""
        self.assertEqual(self.daemon.run("compare", self.small, self.small).code, 0)
        worker = self.worker()
        os.kill(worker, signal.SIGSTOP)
        client = subprocess.Popen([harness.ASSAY, "compare", self.big, self.big, "--format", "json"],
                                  env={**os.environ, "ASSAY_TARGET": self.daemon.grpc},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        harness.wait_until(lambda: self.state() == "BUSY", 20, "the comparison to begin")
        return worker, client

    def still_works(self):
        harness.wait_until(lambda: self.state() == "READY", 20, "the device to be free")
        self.assertEqual(self.daemon.run("compare", self.small, self.small).code, 0)

    def test_the_worker_dies(self):
        worker, client = self.start()
        os.kill(worker, signal.SIGKILL)
        out, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 1, err)
        self.assertIn('"verdict": "ERROR"', out)
        self.assertIn("worker killed by SIGKILL", out)
        self.still_works()

    def test_the_client_dies(self):
        worker, client = self.start()
        client.kill()
        client.communicate()
        os.kill(worker, signal.SIGCONT)
        self.still_works()

    def test_the_daemon_stops(self):
        worker, client = self.start()
        self.daemon.process.send_signal(signal.SIGTERM)
        _, err = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 3, err)
        os.kill(worker, signal.SIGCONT) if os.path.exists(f"/proc/{worker}") else None

    def test_it_waits_its_turn_and_no_longer(self):
        seeds = ",".join(str(s) for s in range(4000))
        job = self.daemon.run("submit", "gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype",
                              "fp32", "--provider", "builtin", "--seed", seeds).out.strip()

        def newest():
            listed = self.daemon.run("jobs", "--format", "json").json()["jobs"][0]
            return listed["name"], listed["state"]

        # Not the device's BUSY: the check of an idle device makes it so, too.
        harness.wait_until(lambda: newest() == (job, "RUNNING"), 60, "the job to begin")
        self.assertEqual(self.daemon.run("compare", self.small, self.small).code, 0)
        self.assertEqual(newest(), (job, "RUNNING"), "between two cases of a job, not behind all of them")
        self.assertEqual(self.daemon.run("cancel", job).code, 0)


if __name__ == "__main__":
    harness.main()
