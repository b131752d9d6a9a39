"""Mistakes that begin beyond the usual shapes and numbers, and unusual right functions: the default set tells them
apart."""

import numpy as np
import pytest

import assay
import planted_functions as planted

F = np.float32
I = np.int32


def quiet(fn):
    def call(*inputs):
        with np.errstate(all="ignore"):
            return fn(*inputs)
    return call


def scores_of(q, k):
    return (q @ k.swapaxes(-1, -2)) * F(1 / np.sqrt(q.shape[-1]))


def attention_from_zero(q, k, v):
    """The running maximum begins at 0."""
    s = scores_of(q, k)
    p = np.exp(s - np.maximum(s.max(-1, keepdims=True), 0))
    return p @ v / p.sum(-1, keepdims=True)


def attention_of_queries(q, k, v):
    """As many keys as queries."""
    n = min(q.shape[2], k.shape[2])
    return planted.softmax(scores_of(q, k[:, :, :n])) @ v[:, :, :n]


def batch_stride(x):
    """A sum over axis 1 of three, with the stride of a batch of one row."""
    if x.ndim < 3:
        return x.sum(1)
    batch, rows, cols = x.shape
    flat = np.concatenate([x.reshape(-1), np.zeros(rows * cols, F)])
    return np.stack([flat[b * cols:b * cols + rows * cols].reshape(rows, cols).sum(0) for b in range(batch)])


def doubled(fn, when):
    return lambda *inputs: fn(*inputs) * F(2 if when(*inputs) else 1)


def silu_mul(a, b):
    return a / (1 + np.exp(-a)) * b


def softmax_above_17(x):
    y = x - x.max(-1, keepdims=True)
    e = np.where(y < -17, F(0), np.exp(y))
    return e / e.sum(-1, keepdims=True)


def vectors_of_four(x, *_):
    return x.shape[-1] % 4 == 0 and x.shape[-1] > 256


def rope_of_256(x):
    """A table of 256 positions."""
    seq, dim = x.shape[1], x.shape[3]
    at = np.minimum(np.arange(seq), 255)[:, None] * 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    angles = at[None, :, None]
    low, high = x[..., :dim // 2].astype(float), x[..., dim // 2:].astype(float)
    return np.concatenate([low * np.cos(angles) - high * np.sin(angles),
                           high * np.cos(angles) + low * np.sin(angles)], -1).astype(F)


def half_of_bf16(a, b):
    """bf16 that is read as fp16, whose range is smaller."""
    def widened(words):
        return (words.astype(np.uint32) << 16).view(F).astype(np.float16).astype(F)
    y = (widened(a) @ widened(b)).view(np.uint32)
    return ((y + 0x7fff + ((y >> 16) & 1)) >> 16).astype(np.uint16)


WRONG = {
    "a maximum from 0": (attention_from_zero, "attention", "fp32", {"dim": 16, "heads": 2}),
    "as many keys as queries": (attention_of_queries, "attention", "fp32", {"dim": 16, "heads": 2}),
    "the stride of a batch": (batch_stride, "reduce", "fp32", {"kind": "sum", "axis": 1}),
    "128 rows of a sum": (lambda x: x[:128].sum(0), "reduce", "fp32", {"kind": "sum", "axis": 0}),
    "silu far below 0": (lambda a, b: np.where(a < -10, F(0), silu_mul(a, b)), "elementwise", "fp32", {"kind": "silu_mul"}),
    "vectors of a long row": (doubled(planted.softmax, vectors_of_four), "softmax", "fp32", {}),
    "vectors of a long sum": (doubled(planted.product, vectors_of_four), "gemm", "fp32", {}),
    "small weights": (softmax_above_17, "softmax", "fp32", {}),
    "256 positions": (rope_of_256, "rope", "fp32", {}),
    "bf16 as fp16": (half_of_bf16, "gemm", "bf16", {}),
    "int8 summed in fp32": (lambda a, b: (a.astype(F) @ b.astype(F)).astype(I), "gemm", "int8", {}),
    "int8 without -128": (lambda a, b: np.maximum(a, -127).astype(I) @ np.maximum(b, -127).astype(I), "gemm", "int8", {}),
}


@pytest.mark.parametrize("fn, op, dtype, fields", list(WRONG.values()), ids=list(WRONG))
def test_a_wrong_function_fails(assay_client, fn, op, dtype, fields):
    report = assay.validate(quiet(fn), op=op, dtype=dtype, client=assay_client, **fields)
    assert report.verdict == "FAILED", report


def split(x):
    high = ((x.view(I) + 0x1000) & -0x2000).view(F)
    rest = x - high
    return high, ((rest.view(I) + 0x1000) & -0x2000).view(F)


def three_tf32(a, b):
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    return a_low @ b_high + a_high @ b_low + a_high @ b_high


def shifted_moments(x):
    """One pass over the differences from the first element."""
    first = x[:, :1]
    y = x - first
    mean = y.mean(-1, keepdims=True)
    variance = np.maximum((y * y).mean(-1, keepdims=True) - mean * mean, 0)
    return y, mean, variance, first


def norm_of_shifted(x):
    y, mean, variance, _ = shifted_moments(x)
    return (y - mean) / np.sqrt(variance + F(1e-5))


def norm_with_shifted_mean(x):
    _, mean, variance, first = shifted_moments(x)
    return (x - (first + mean)) / np.sqrt(variance + F(1e-5))


def linear(a, b, bias=None):
    return a @ b if bias is None else a @ b + bias


RIGHT = {
    "3xTF32": (three_tf32, "gemm", "fp32", {"operand_roundoff": 2.0 ** -22}),
    "a shifted norm": (norm_of_shifted, "layer_norm", "fp32", {}),
    "a shifted mean": (norm_with_shifted_mean, "layer_norm", "fp32", {}),
    "an index of 64 bits": (lambda x: np.argmax(x, -1), "reduce", "fp32", {"kind": "argmax"}),
    "a sum over the first axis": (lambda x: x.sum(0), "reduce", "fp32", {"kind": "sum", "axis": 0}),
    "silu": (silu_mul, "elementwise", "fp32", {"kind": "silu_mul"}),
    "int8": (lambda a, b: a.astype(I) @ b.astype(I), "gemm", "int8", {}),
}


@pytest.mark.parametrize("seed", [1, 4])
@pytest.mark.parametrize("fn, op, dtype, fields", list(RIGHT.values()), ids=list(RIGHT))
def test_an_unusual_right_function_passes(assay_client, fn, op, dtype, fields, seed):
    report = assay.validate(quiet(fn), op=op, dtype=dtype, client=assay_client, seed=seed, **fields)
    assert report.passed, report


@pytest.mark.parametrize("bias", [True, False])
def test_a_parameter_that_takes_an_operand_gets_no_field(assay_client, bias):
    report = assay.validate(linear, op="gemm", dtype="fp32", bias=bias, client=assay_client, m=33, n=17, k=65)
    assert report.passed, report


def test_a_function_may_take_as_many_keys_as_queries_alone(assay_client):
    def of_equal(q, k, v, *, causal=None):
        assert q.shape == k.shape
        return planted.attention(q, k, v, causal=causal)

    for causal in (True, False):
        report = assay.validate(quiet_with(of_equal), op="attention", dtype="fp32", causal=causal, kv_seq=None, dim=8,
                                client=assay_client)
        assert report.passed, report


def quiet_with(fn):
    def call(q, k, v, *, causal=None):
        with np.errstate(all="ignore"):
            return fn(q, k, v, causal=causal)
    return call


def test_a_sweep_has_the_shapes_of_each_of_its_values(assay_client):
    report = assay.validate(quiet_with(lambda q, k, v, causal: attention_of_queries(q, k, v) if not causal else
                                       planted.attention(q, k, v, causal=True)),
                            op="attention", dtype="fp32", causal=[True, False], dim=8, patterns="normal",
                            client=assay_client)
    assert report.verdict == "FAILED", report
    assert {result.problem.get("causal", False) for result in report if not result.passed} == {False}


def test_sums_have_two_axes_and_three(assay_client):
    ranks = {len(result.problem["extents"]) for result in
             assay.validate(lambda x: x.sum(-1), op="reduce", kind="sum", dtype="fp32", client=assay_client)}
    assert ranks == {2, 3}
