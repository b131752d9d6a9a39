"""What hides below the bound, in a user's own tensors: NumPy computes what right and wrong fp32
kernels would, and `assay compare` judges it.

A wrong kernel of WRONG must be FAILED, or INCONCLUSIVE where its row says so: the order of the
data may explain it. A right one of RIGHT must pass, in whatever order it adds."""

import os
import shutil
import tempfile
import unittest

import numpy as np

import harness

F = np.float32


def rounded(x, bits):
    """x with so many of the 23 stored bits of its significand, to nearest even."""
    drop = 23 - bits
    words = x.view(np.uint32).astype(np.uint64)
    words += (1 << (drop - 1)) - 1 + ((words >> drop) & 1)
    return (words >> drop << drop).astype(np.uint32).view(F)


def tf32(x):
    return rounded(x, 10)


def bf16(x):
    return rounded(x, 7)


def sum_in_order(terms):
    """The sum over the last axis, one term after the other, in fp32."""
    total = np.zeros(terms.shape[:-1], F)
    for i in range(terms.shape[-1]):
        total = total + terms[..., i]
    return total


# Products: functions of A [m, k] and B [k, n].

def sequential(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), F)
    for k in range(a.shape[1]):
        c += a[:, k:k + 1] * b[k:k + 1, :]
    return c


def split(parts):
    def product(a, b):
        total = F(0)
        for x, y in zip(np.array_split(a, parts, 1), np.array_split(b, parts, 0)):
            total = total + sequential(x, y)
        return total
    return product


def wide(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(F)


def two_bf16(a, b):
    ah, bh = bf16(a), bf16(b)
    return wide(ah + bf16(a - ah), bh + bf16(b - bh))


def gain(relative):
    return lambda a, b: (wide(a, b).astype(np.float64) * (1 + relative)).astype(F)


# Rows: functions of x [rows, cols].

def softmax(total):
    def kernel(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / total(e)[:, None]
    return kernel


def wide_softmax(exponential):
    def kernel(x):
        d = x.astype(np.float64)
        e = exponential(d - d.max(1, keepdims=True))
        return (e / e.sum(1, keepdims=True)).astype(F)
    return kernel


def softmax_by_logarithm(x):
    """exp(x − max − log Σ): the logarithm rounds the argument."""
    z = x - x.max(1, keepdims=True)
    return np.exp(z - np.log(np.exp(z).sum(1, keepdims=True, dtype=F)))


def attention(q, k, v):
    """One head, key after key, in fp32."""
    scores = np.zeros((q.shape[0], k.shape[0]), F)
    for d in range(q.shape[1]):
        scores += q[:, d:d + 1] * k[:, d]
    weights = np.exp((scores * F(q.shape[1] ** -0.5)) - scores.max(1, keepdims=True) * F(q.shape[1] ** -0.5))
    total, out = np.zeros((q.shape[0], 1), F), np.zeros_like(q)
    for j in range(k.shape[0]):
        total += weights[:, j:j + 1]
        out += weights[:, j:j + 1] * v[j]
    return out / total


def coarse_exp(relative):
    """exp wrong by so much, up or down."""
    def exponential(d):
        return np.exp(d) * (1 + relative * np.random.default_rng(9).choice([-1, 1], d.shape))
    return exponential


def layer_norm(total):
    def kernel(x):
        n = F(x.shape[1])
        d = x - (total(x) / n)[:, None]
        return d * (F(1) / np.sqrt(total(d * d) / n + F(1e-5)))[:, None]
    return kernel


def welford(x):
    mean, squares = np.zeros(len(x), F), np.zeros(len(x), F)
    for i in range(x.shape[1]):
        d = x[:, i] - mean
        mean = mean + d / F(i + 1)
        squares = squares + d * (x[:, i] - mean)
    return (x - mean[:, None]) / np.sqrt(squares / F(x.shape[1]) + F(1e-5))[:, None]


def wide_layer_norm(eps=1e-5, missing=0, last=None):
    """In fp64; `missing` is subtracted from n in the variance; columns from `last` are not summed."""
    def kernel(x):
        d, n = x.astype(np.float64), x.shape[1]
        mean = d[:, :last].sum(1, keepdims=True) / n
        variance = ((d[:, :last] - mean) ** 2).sum(1, keepdims=True) / (n - missing)
        return ((d - mean) / np.sqrt(variance + eps)).astype(F)
    return kernel


def by_numpy(x):
    return x.sum(1, dtype=F)


NORMAL = ("normal", lambda rng, shape: rng.standard_normal(shape))
POSITIVE = ("uniform(0,1)", lambda rng, shape: rng.random(shape))
SHIFTED = ("N(5,3)", lambda rng, shape: 5 + 3 * rng.standard_normal(shape))
FAR = ("N(100,1)", lambda rng, shape: 100 + rng.standard_normal(shape))

# Operator, data, sizes: k of a product of 32 rows and 32 columns, or rows and columns.
PLACES = {
    "gemm": ((NORMAL, POSITIVE), (256, 1000, 4096, 8192, 16384, 65536)),
    "softmax": ((NORMAL, SHIFTED), ((64, 256), (64, 768), (16, 4096), (64, 65536))),
    "layer_norm": ((NORMAL, SHIFTED, FAR), ((64, 256), (64, 1000), (16, 4096), (64, 8192),
                                            (16, 65536))),
}
RIGHT = {
    "gemm": {"one after the other": sequential, "BLAS": np.matmul, "fp64": wide,
             "split into 7": split(7), "split into 64": split(64)},
    "softmax": {"one after the other": softmax(sum_in_order), "NumPy": softmax(by_numpy),
                "fp64": wide_softmax(np.exp), "by logarithm": softmax_by_logarithm},
    "layer_norm": {"one after the other": layer_norm(sum_in_order),
                   "NumPy": layer_norm(by_numpy), "Welford": welford, "fp64": wide_layer_norm()},
}
WRONG = {
    "gemm": {"TF32 inputs": lambda a, b: tf32(a) @ tf32(b), "A in TF32": lambda a, b: tf32(a) @ b,
             "two bf16 numbers": two_bf16,
             "output through fp16": lambda a, b: (a @ b).astype(np.float16).astype(F),
             "gain 3e-5": gain(3e-5), "last k left out": lambda a, b: a[:, :-1] @ b[:-1]},
    "softmax": {"exp wrong by 3e-6": wide_softmax(coarse_exp(3e-6)),
                "argument of exp 3e-6 too large": wide_softmax(lambda d: np.exp(d * (1 + 3e-6)))},
    "layer_norm": {"eps 1e-3": wide_layer_norm(eps=1e-3),
                   "variance over n - 1": wide_layer_norm(missing=1),
                   "last column left out": wide_layer_norm(last=-1)},
}
# Too small beside the roundings of a sum so long: the most columns at which it is found.
FOUND_TO = {"variance over n - 1": 8192, "last column left out": 8192}


class BelowTheBound(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()
        cls.folder = tempfile.mkdtemp(prefix="assay-below-")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def judged(self, op, inputs, output):
        def saved(name, tensor):
            path = os.path.join(self.folder, name + ".npy")
            np.save(path, np.ascontiguousarray(tensor))
            return path
        paths = [saved(f"input{i}", tensor) for i, tensor in enumerate(inputs)]
        run = self.daemon.run("compare", saved("output", output), "--op", op, "--inputs",
                              ",".join(paths), "--format", "json")
        self.assertTrue(run.out, run)
        return run.json()["tests"][0]

    def test_right_kernels_pass_and_wrong_ones_do_not(self):
        rng = np.random.default_rng(16)
        hidden = 0
        for op, (kinds, sizes) in PLACES.items():
            for (data, draw), size in ((kind, size) for kind in kinds for size in sizes):
                shapes = ((32, size), (size, 32)) if op == "gemm" else (size,)
                inputs = [draw(rng, shape).astype(F) for shape in shapes]
                length = shapes[0][1]
                for name, kernel in RIGHT[op].items():
                    with self.subTest(op=op, data=data, size=size, right=name):
                        test = self.judged(op, inputs, kernel(*inputs))
                        self.assertEqual(test["verdict"], "PASSED", test)
                for name, kernel in WRONG[op].items():
                    if op == "layer_norm" and length > FOUND_TO.get(name, length):
                        continue
                    with self.subTest(op=op, data=data, size=size, wrong=name):
                        test = self.judged(op, inputs, kernel(*inputs))
                        self.assertIn(test["verdict"], ("FAILED", "INCONCLUSIVE"), test)
                        if length <= 16384:
                            self.assertEqual(test["verdict"], "FAILED", test)
                        hidden += test["rho"] <= 1
        # What the bound of each element cannot see.
        self.assertGreater(hidden, 40)

    def test_keys_that_repeat_accuse_no_attention(self):
        """Equal terms round alike, so that errors add up which usually do not."""
        rng = np.random.default_rng(6)
        q = rng.standard_normal((8, 32)).astype(F)
        for name in ("random", "padded with zeros", "repeated"):
            k, v = (rng.standard_normal((2048, 32)).astype(F) for _ in "kv")
            if name != "random":
                k[200:] = 0 if name == "padded with zeros" else k[200]
                v[200:] = 0 if name == "padded with zeros" else v[200]
            with self.subTest(name):
                test = self.judged("attention", [x[None, None] for x in (q, k, v)], attention(q, k, v)[None, None])
                self.assertIn(test["verdict"], ("PASSED",) if name == "random" else ("PASSED", "INCONCLUSIVE"), test)

    def test_data_that_leave_nothing_to_prove(self):
        """The rounding of huge logits is as large as what they differ by; FP64 cannot hold the terms' sum."""
        rng = np.random.default_rng(7)
        x = (1e8 + 8 * rng.integers(0, 4, (16, 64))).astype(F)
        right = softmax(lambda e: e.sum(1))(x)
        for output in (right, np.zeros_like(right)):
            test = self.judged("softmax", [x], output)
            self.assertEqual((test["verdict"], test["reason"]), ("INCONCLUSIVE", "suspect"), test)
            self.assertIn("as large as the results", test["message"])
        a = np.tile(np.array([1e308, -1e308]), (32, 2))
        test = self.judged("gemm", [a, np.ones((4, 32))], np.full((32, 32), 7.0))
        self.assertEqual((test["verdict"], test["reason"]), ("INCONCLUSIVE", "suspect"), test)
        self.assertIn("overflow FP64", test["message"])

    def test_too_few_elements_prove_nothing(self):
        """One element is too few for a statistic: the bound alone decides."""
        one = np.ones((1, 1), F)
        test = self.judged("gemm", [one, one], one)
        self.assertEqual(test["verdict"], "PASSED", test)
        test = self.judged("softmax", [np.ones((1, 64), F)], np.full((1, 64), 1 / 64, F))
        self.assertEqual(test["verdict"], "PASSED", test)
        test = self.judged("layer_norm", [np.ones((3, 1), F)], np.zeros((3, 1), F))
        self.assertEqual((test["verdict"], test["reason"]), ("INCONCLUSIVE", "zeros"), test)


if __name__ == "__main__":
    unittest.main()
