"""Random arrays judged twice: from Python, and by `assay compare` from files of them.

The command line is the one that assert_close prints, so the line is shown to repeat the verdict too.
Every number of the verdict must be the same, to the bit.
"""

import json
import math
import os
import random
import shlex
import subprocess

import numpy as np

from assay import errors, testing
from assay.comparison import prepare

NAN_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
STATS = ("count", "mismatches", "rho", "rho_proven", "max_abs_error", "mean_abs_error", "rms_error", "max_rel_error",
         "max_ulp", "cosine", "bias_z", "nan_count", "inf_count", "reference_nan_count", "reference_inf_count",
         "class_mismatches", "unwritten", "guard_hits", "zero_count", "max_abs_reference", "max_abs_score")
PRECISION = ("bits", "declared_bits", "rms", "gain", "gain_error", "offset")
ELEMENT = ("index", "actual", "expected", "bound", "actual_bits", "expected_bits")


class Draw:
    """One random comparison: the arguments of Client.compare."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def extent(self, most):
        return min(most, int(2 ** self.rng.uniform(0, (most + 1).bit_length() - 1)))

    def data(self, *shape, dtype=None):
        kind = self.rng.randrange(8)
        array = self.numpy.standard_normal(shape)
        if kind == 0:
            array = np.floor(4 * array)
        elif kind == 1:
            array = np.abs(array) * 100
        elif kind == 2 and array.size:
            array.flat[self.rng.randrange(array.size)] = self.rng.choice([math.nan, math.inf, -math.inf, 1e4, 0.0])
        return array.astype(dtype or self.dtype)

    def laid_out(self, array):
        """The same elements in another order of memory."""
        kind = self.rng.randrange(6)
        if kind == 0 and array.ndim:
            return np.asfortranarray(array)
        if kind == 1 and array.ndim:
            return array[::-1].copy()[::-1]
        if kind == 2 and array.ndim:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        return array

    def wrong(self, array):
        """A right result, or one with a mistake."""
        with np.errstate(all="ignore"):
            out = np.array(array.astype(self.dtype))
            kind = self.rng.randrange(7)
            if out.size and kind == 0:
                out.flat[self.rng.randrange(out.size)] = self.rng.choice([0.0, 1e3, math.nan, math.inf])
            elif kind == 1:
                out = (out.astype("f8") * (1 + 1e-3)).astype(self.dtype)
            elif kind == 2:
                out = (out.astype("f8") + 1e-2 * self.numpy.standard_normal(out.shape)).astype(self.dtype)
            elif kind == 3 and out.ndim > 1:
                out[-1] = 0
        return out

    def arguments(self):
        self.dtype = self.rng.choice(["f2", "f4", "f4", "f8"])
        make = self.rng.choice([self.gemm, self.gemm, self.softmax, self.layer_norm, self.reduce, self.elementwise,
                                self.attention, self.conv, self.copy, self.rope, self.expected, self.expected, self.raw])
        with np.errstate(all="ignore"):
            actual, keywords = make()
        for name in "expected", "actual":
            if isinstance(keywords.get(name), np.ndarray):
                keywords[name] = self.laid_out(keywords[name])
        if "inputs" in keywords:
            keywords["inputs"] = tuple(self.laid_out(array) for array in keywords["inputs"])
        return self.laid_out(actual), keywords

    def gemm(self):
        m, n, k = self.extent(48), self.extent(48), self.extent(200)
        a, b = self.data(m, k), self.data(k, n)
        keywords, out = {}, a.astype("f8") @ b.astype("f8")
        inputs = [a, b]
        if self.rng.random() < 0.3:
            keywords["alpha"] = 0.3
            out = 0.3 * out
        if self.rng.random() < 0.3:
            keywords["beta"] = -0.7
            inputs.append(self.data(m, n))
            out = out - 0.7 * inputs[2].astype("f8")
        if self.rng.random() < 0.3:
            keywords["bias"] = True
            inputs.append(self.data(n, dtype="f8" if self.dtype == "f8" else "f4"))
            out = out + inputs[-1]
        if self.rng.random() < 0.3:
            keywords["activation"] = "relu"
            out = np.maximum(out, 0)
        for i, name in enumerate(("trans_a", "trans_b")):
            if self.rng.random() < 0.3:
                keywords[name] = True
                inputs[i] = np.ascontiguousarray(inputs[i].T)
        return self.wrong(out), dict(op="gemm", inputs=inputs, **keywords)

    def softmax(self):
        x = self.data(self.extent(12), self.extent(500))
        e = np.exp(x.astype("f8") - x.astype("f8").max(1, keepdims=True))
        return self.wrong(e / e.sum(1, keepdims=True)), dict(op="softmax", inputs=[x])

    def layer_norm(self):
        x = self.data(self.extent(12), 1 + self.extent(500))
        d = x.astype("f8")
        keywords = {"eps": 1e-3} if self.rng.random() < 0.4 else {}
        rms = self.rng.random() < 0.3
        if rms:
            keywords["rms"] = True
        else:
            d = d - d.mean(1, keepdims=True)
        out = d / np.sqrt((d * d).mean(1, keepdims=True) + keywords.get("eps", 1e-5))
        inputs = [x]
        if self.rng.random() < 0.5:
            inputs.append(self.data(x.shape[1]))
            out = out * inputs[1].astype("f8")
            if not rms:
                inputs.append(self.data(x.shape[1]))
                out = out + inputs[2].astype("f8")
        return self.wrong(out), dict(op="layer-norm", inputs=inputs, **keywords)

    def reduce(self):
        x = self.data(*(self.extent(20) for _ in range(self.rng.randint(1, 3))))
        axis = self.rng.randrange(x.ndim)
        kind = self.rng.choice(["sum", "max"])
        out = getattr(x.astype("f8"), kind)(axis)
        return self.wrong(np.asarray(out)), dict(op="reduce", inputs=[x], kind=kind, axis=axis)

    def elementwise(self):
        a, b = self.data(self.extent(12), self.extent(200)), None
        b = self.data(*a.shape)
        if self.rng.random() < 0.5:
            return self.wrong(a.astype("f8") + b), dict(op="elementwise", inputs=[a, b], kind="add")
        silu = a.astype("f8") / (1 + np.exp(-a.astype("f8")))
        return self.wrong(silu * b), dict(op="elementwise", inputs=[a, b], kind="silu_mul")

    def attention(self):
        heads, seq, dim = self.extent(3), self.extent(24), self.extent(24)
        q, k, v = (self.data(heads, seq, dim) for _ in range(3))
        s = q.astype("f8") @ k.astype("f8").transpose(0, 2, 1) / math.sqrt(dim)
        causal = self.rng.random() < 0.5
        if causal:
            s = np.where(np.tri(seq, dtype=bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        out = p / p.sum(-1, keepdims=True) @ v.astype("f8")
        return self.wrong(out), dict(op="attention", inputs=[q, k, v], **({"causal": True} if causal else {}))

    def conv(self):
        x, w = self.data(1, self.extent(4), 8, 9), None
        w = self.data(self.extent(4), x.shape[1], 3, 3)
        windows = np.lib.stride_tricks.sliding_window_view(x.astype("f8"), (3, 3), axis=(2, 3))[:, :, ::2, ::2]
        out = np.einsum("bchwij,fcij->bfhw", windows, w.astype("f8"))
        return self.wrong(out), dict(op="conv", inputs=[x, w], stride=self.rng.choice([2, (2, 2)]))

    def copy(self):
        x = self.data(self.extent(500))
        return self.wrong(x), dict(op="copy", inputs=[x])

    def rope(self):
        x = self.data(self.extent(8), self.extent(3), 2 * self.extent(16))
        return self.wrong(x.astype("f8")), dict(op="rope", inputs=[x], start=self.rng.choice([0, 7]))

    def expected(self):
        want = self.data(*(self.extent(12) for _ in range(self.rng.randint(0, 4))), dtype="f8")
        rule = self.rng.choice([{}, dict(atol=1e-3), dict(rtol=0.01, atol=0.0), dict(max_ulp=2.0),
                                dict(criterion="bitwise"), dict(accumulations=64, split_k=2)])
        return self.wrong(want), dict(expected=want, **rule)

    def raw(self):
        """8- and 16-bit words whose format is named."""
        word = self.rng.choice(["bf16", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"])
        kind, top = ("u2", 1 << 16) if word == "bf16" else ("u1", 1 << 8)
        m, n, k = self.extent(16), self.extent(16), self.extent(32)
        a, b = (self.numpy.integers(0, top, shape).astype(kind) for shape in ((m, k), (k, n)))
        if self.rng.random() < 0.5:
            return a, dict(expected=a.copy() if self.rng.random() < 0.5 else self.numpy.permutation(a), dtype=word)
        out = self.data(m, n, dtype="f4")
        return out, dict(op="gemm", inputs=[a, b], dtype=word)


def number(value):
    return NAN_WORDS.get(value, value) if isinstance(value, str) else value


def same(ours, theirs):
    """Equal to the bit, with NaN equal to itself."""
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours):
        return math.isnan(theirs)
    return ours == theirs and (not isinstance(ours, float) or math.copysign(1, ours) == math.copysign(1, theirs))


def differences(result, test):
    """The numbers that are not the same in a CaseResult and in the test of a JSON report."""
    found = []

    def hold(name, ours, theirs):
        if not same(ours, number(theirs)):
            found.append(f"{name}: {ours!r} from Python, {theirs!r} from the command line")

    hold("verdict", result.verdict, test["verdict"])
    hold("reason", result.reason, test["reason"])
    hold("criterion", result.criterion, test["criterion"])
    hold("findings", [f.message for f in result.findings], [f["message"] for f in test.get("findings", [])])
    for name in STATS:
        hold(name, getattr(result.stats, name), test.get(name, 0 if name in ("unwritten", "guard_hits") else None))
    for name in PRECISION:
        hold("precision." + name, getattr(result.precision, name, None), test.get("precision", {}).get(name))
    for name, element in (("worst_mismatch", result.stats.worst), ("first_mismatch", result.stats.first)):
        other = test.get(name)
        hold(name, element is None, other is None)
        if element is not None and other is not None:
            for part in ELEMENT:
                ours = getattr(element, part)
                hold(f"{name}.{part}", list(ours) if part == "index" else ours, other[part])
    hold("digest", result.digests.canonical, test["digest"])
    hold("digest_raw", result.digests.raw, test["digest_raw"])
    hold("reads_as", result.reads_as, test.get("reads_as", ""))
    hold("next_step", result.next_step, test.get("next_step", ""))
    for name, value in result.problem.items():
        hold("shape." + name, value, test["shape"].get(name, None if value else value))
    return found


def judged_twice(client, program, folder, seed):
    """The result from Python and the differences, or None and the refusal if both refuse it."""
    actual, keywords = Draw(seed).arguments()
    comparison = prepare(actual, **keywords)
    paths = testing._save(comparison, os.path.join(folder, str(seed)))
    try:
        result = client.judge(comparison)
    except errors.InvalidArgument as error:
        from assay.results import CaseResult  # a result with nothing but a device, for the line
        from assay._wire import case_pb2
        from assay import results
        empty = results.of(CaseResult, case_pb2.CaseResult(device="cpu:0"))
        words = shlex.split(testing.repro(comparison, empty, paths))
        done = run(program, words, client.target)
        return None, [] if done.returncode == 2 else [f"refused from Python ({error}), and not from {words}: {done}"]
    words = shlex.split(testing.repro(comparison, result, paths))
    done = run(program, words, client.target)
    if not done.stdout:
        return result, [f"{' '.join(words)}: {done.stderr}"]
    return result, [f"{' '.join(words)}: {line}" for line in differences(result, json.loads(done.stdout)["tests"][0])]


def run(program, words, target):
    return subprocess.run([program, *words[1:], "--format", "json"], capture_output=True, text=True, check=False,
                          env={**os.environ, "ASSAY_TARGET": target})
