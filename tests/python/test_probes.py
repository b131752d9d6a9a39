"""Wrong functions whose error a case's own data do not show, and the case that shows it."""

import numpy as np
import pytest

import assay
import planted_functions

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed (python3-torch)")

F = np.float32
H = np.float16


def gelu_of_quotient(x):
    """tanh z as (1 - e) / (1 + e), which overflows far below 0."""
    with np.errstate(all="ignore"):
        e = np.exp(-2 * F(0.7978845608) * (x + F(0.044715) * x ** 3))
        return F(0.5) * x * (1 + (1 - e) / (1 + e))


def silu_of_complement(x, y):
    """The sigmoid as 1 - e / (1 + e)."""
    with np.errstate(all="ignore"):
        e = np.exp(-x)
        return x * (1 - e / (1 + e)) * y


def softmax_from_minus_10_000(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - np.maximum(x.max(-1, keepdims=True), F(-1e4)))
        return e / e.sum(-1, keepdims=True)


def softmax_with_eps(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / (e.sum(-1, keepdims=True) + F(1e-5))


def softmax_of_limited_maximum(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - np.minimum(x.max(-1, keepdims=True), F(1e4)))
        return e / e.sum(-1, keepdims=True)


def softmax_without_a_column_in_the_maximum(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - np.delete(x, 111, -1).max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def sum_without_the_smallest(a, b):
    with np.errstate(over="ignore"):
        total = a + b
    return np.where(np.abs(total) < F(6e-8), F(0), total)


def silu_near_0(x, y):
    """Numbers near 0 are taken for 0."""
    x = np.where(np.abs(x) < F(1e-7), F(0), x.astype(F))
    return (x / (1 + np.exp(-x)) * y).astype(y.dtype)


def gelu_that_saturates(x):
    return np.minimum(planted_functions.gelu_tanh(x), F(65504))


def argmax_of_halves(x):
    with np.errstate(over="ignore"):
        return np.argmax(x.astype(H), -1).astype(np.int32)


def rms_norm_of_half_squares(x, *, eps):
    with np.errstate(over="ignore"):
        squares = (x * x).astype(F)
    return (x.astype(F) / np.sqrt(squares.mean(-1, keepdims=True) + F(eps))).astype(H)


def product_of_saturated_sums(a, b):
    """Sums are held in 16 bits."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int32)
    for k in range(a.shape[1]):
        total = np.clip(total + a[:, k:k + 1].astype(np.int32) * b[k], -32768, 32767)
    return total


def probabilities(a, w, scale, *, last=0, padding=0, begin=-np.inf, left_out=None):
    x = a.astype(F) @ w.astype(F) * scale
    with np.errstate(all="ignore"):
        of_top = x if left_out is None else np.delete(x, left_out, -1)
        top = np.maximum(of_top.max(-1, keepdims=True), F(0 if padding else begin))
        e = np.exp(x - top)
        total = e[:, :e.shape[1] - last].sum(-1, keepdims=True)
        if padding:
            total += padding * np.exp(-top)
        return (e / total).astype(a.dtype)


UNSEEN = [
    ("GELU, NaN far below 0", gelu_of_quotient, "elementwise", "fp32",
     {"kind": "gelu_tanh", "shapes": {"rows": 24, "cols": 200}}, "saturated-below"),
    ("silu, NaN far below 0", silu_of_complement, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 24, "cols": 200}}, "saturated-below"),
    ("argmax of values in fp16", argmax_of_halves, "reduce", "fp32",
     {"kind": "argmax", "shapes": {"extents": [4, 200]}}, "close-integers"),
    ("argmax without the last column", lambda x: np.argmax(x[:, :-1], -1).astype(np.int32), "reduce", "fp32",
     {"kind": "argmax", "shapes": {"extents": [4, 5000]}}, "last-column"),
    ("maximum without the first column", lambda x: x[:, 1:].max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 5000]}}, "first-column"),
    ("maximum without one column", lambda x: np.delete(x, 511, -1).max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "each-element"),
    ("maximum that begins at -1e30", lambda x: np.maximum(x.max(-1), F(-1e30)), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "far-below-0"),
    ("sum of clipped values", lambda x: np.clip(x, -100, 100).sum(-1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "exact-significand"),
    ("addition that saturates", lambda a, b: np.clip(a.astype(F) + b, -65504, 65504).astype(H), "elementwise", "fp16",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "large"),
    ("silu without small numbers", silu_near_0, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "small"),
    ("GELU that saturates", gelu_that_saturates, "elementwise", "fp32",
     {"kind": "gelu_tanh", "shapes": {"rows": 24, "cols": 200}}, "saturated"),
    ("addition in fp16", sum_without_the_smallest, "elementwise", "fp32",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "small"),
    ("softmax whose maximum begins at -1e4", softmax_from_minus_10_000, "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "rows-apart"),
    ("softmax whose maximum begins at -1e4, one row", softmax_from_minus_10_000, "softmax", "fp32",
     {"shapes": {"rows": 1, "cols": 300}}, "rows-apart"),
    ("softmax with an eps", softmax_with_eps, "softmax", "fp32", {"shapes": {"rows": 4, "cols": 300}}, "falling"),
    ("softmax whose maximum is limited", softmax_of_limited_maximum, "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "last-column"),
    ("softmax without a column in the maximum", softmax_without_a_column_in_the_maximum, "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "each-column"),
    ("sum of values in tf32", lambda x: planted_functions.cut_to_10_bits(x).sum(-1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [16, 4096]}}, "exact-significand"),
    ("squares in fp16", rms_norm_of_half_squares, "layer_norm", "fp16",
     {"rms": True, "shapes": {"rows": 16, "cols": 4096}}, "last-column"),
    ("ReLU in place of GELU after a long sum", lambda a, b: np.maximum(a @ b, 0), "gemm", "fp32",
     {"activation": "gelu", "shapes": {"m": 16, "n": 24, "k": 8192}}, "significand-a"),
    ("product that fp16 clips", lambda a, b: np.clip(a @ b, -65504, 65504).astype(F), "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 300}}, "exact-significand-b"),
    ("sum without the last column", lambda a, w, scale: probabilities(a, w, scale, last=1), "dequant_softmax", "fp16",
     {"shapes": {"m": 1, "n": 4096, "k": 256}}, "last-column"),
    ("maximum that begins at -1e3", lambda a, w, scale: probabilities(a, w, scale, begin=-1e3), "dequant_softmax",
     "fp16", {"shapes": {"m": 4, "n": 300, "k": 2048}}, "far-below-0"),
    ("maximum without one column", lambda a, w, scale: probabilities(a, w, scale, left_out=111), "dequant_softmax",
     "fp32", {"shapes": {"m": 4, "n": 200, "k": 64}}, "argmax"),
    ("weights from -127", lambda a, w, scale: probabilities(a, np.maximum(w, -127), scale), "dequant_softmax",
     "fp16", {"shapes": {"m": 4, "n": 200, "k": 64}}, "argmax"),
    ("padding columns counted", lambda a, w, scale: probabilities(a, w, scale, padding=6), "dequant_softmax", "fp16",
     {"shapes": {"m": 4, "n": 4090, "k": 256}}, "far-below-0"),
]


@pytest.mark.parametrize("fn, op, dtype, fields, probe", [case[1:] for case in UNSEEN], ids=[c[0] for c in UNSEEN])
def test_a_probe_shows_what_the_own_data_do_not(assay_client, fn, op, dtype, fields, probe):
    result = assay.validate(fn, op=op, dtype=dtype, held_out=0, client=assay_client, **fields)[0]
    assert result.verdict == "FAILED", result
    others = ("wide: ", "each-element: ", "far-below-0: ", "exact-large: ", "significand-a: ", "each-column: ")
    assert all(finding.message.startswith((f"{probe}: ", *others)) for finding in result.findings), result.findings
    assert result.findings[-1].message.startswith(f"{probe}: "), result.findings


def test_int8_data_show_sums_of_16_bits(assay_client):
    result = assay.validate(product_of_saturated_sums, op="gemm", dtype="int8", held_out=0, client=assay_client,
                            shapes={"m": 32, "n": 32, "k": 64})[0]
    assert (result.verdict, result.reason) == ("FAILED", "exact"), result


def test_right_functions_pass_the_same_probes(assay_client):
    def right(op, fn, dtype="fp32", **fields):
        report = assay.validate(fn, op=op, dtype=dtype, client=assay_client, **fields)
        assert report.passed, report
    right("reduce", lambda x: np.argmax(x, -1).astype(np.int32), kind="argmax", shapes={"extents": [4, 200]})
    right("reduce", lambda x: np.argmax(x, -1).astype(np.int32), kind="argmax", shapes={"extents": [4, 200]},
          patterns="constant:1")
    right("softmax", planted_functions.softmax, shapes={"rows": 1, "cols": 300})
    right("softmax", planted_functions.softmax, shapes={"rows": 5, "cols": 3})
    right("dequant_softmax", probabilities, "fp16", shapes={"m": 4, "n": 4090, "k": 256})
    right("dequant_softmax", probabilities, "fp32", shapes={"m": 4, "n": 301, "k": 33})
    right("elementwise", planted_functions.gelu_tanh, kind="gelu_tanh", shapes={"rows": 24, "cols": 200})
    right("gemm", lambda a, b, bias: planted_functions.gelu_tanh(F(0.3) * (a @ b) + bias), alpha=0.3, bias=True,
          activation="gelu_tanh", shapes={"m": 16, "n": 24, "k": 300})
    right("gemm", lambda a, b: a.astype(np.int32) @ b.astype(np.int32), "int8", shapes={"m": 32, "n": 32, "k": 64})


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("extents, axis", [([5000], 0), ([200, 8], 0), ([2, 3, 40], -1), ([3, 4000, 5], 1)])
def test_exact_cases_of_a_sum_keep_its_rank_and_axis(assay_client, dtype, extents, axis):
    def total(x):
        assert x.ndim == len(extents), x.shape
        return np.atleast_1d(x.astype(F).sum(axis)).astype(x.dtype)
    report = assay.validate(total, op="reduce", dtype=dtype, kind="sum", axis=axis, shapes={"extents": extents},
                            client=assay_client)
    assert report.passed, report


def _llama(x, w, *, eps):
    """The norm as some models define it: rounded before the weight."""
    y = x.float()
    y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return (w.float() * y.float()).to(x.dtype)


@needs_torch
def test_a_function_may_round_in_between_if_it_declares_it(assay_client):
    case = {"op": "layer_norm", "rms": True, "affine": True, "dtype": "bf16", "arrays": "torch", "held_out": 0,
            "shapes": {"rows": 16, "cols": 4096}, "client": assay_client}
    silent = assay.validate(_llama, **case)[0]
    assert (silent.verdict, silent.reason) == ("FAILED", "bound"), silent
    report = assay.validate(_llama, intermediate_dtype="bf16", **case)
    assert report.passed, report
    assert "holds intermediate results in bf16" in report[0].implementation
    wrong = assay.validate(lambda x, w, *, eps: _llama(x, w, eps=eps) * 1.02, intermediate_dtype="bf16", **case)[0]
    assert wrong.verdict == "FAILED", wrong
    with pytest.raises(assay.InvalidArgument, match="intermediate_dtype.*must be no coarser"):
        assay.validate(_llama, intermediate_dtype="e4m3fn", **case)
