"""validate without shapes: the default set is enough for right functions to pass, and for wrong ones to fail."""

import inspect
import os

import numpy as np
import pytest

import assay
import planted_functions as planted
from assay import problems, shapes
from assay._wire import types_pb2

F = np.float32
SEEDS = range(1, 1 + int(os.environ.get("ASSAY_VALIDATE_SEEDS", "1")))


def rope(x):
    seq, dim = x.shape[1], x.shape[3]
    angles = (np.arange(seq)[:, None] * 10000.0 ** (-2 * np.arange(dim // 2) / dim))[None, :, None]
    low, high = x[..., :dim // 2].astype(np.float64), x[..., dim // 2:].astype(np.float64)
    turned = [low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)]
    return np.concatenate(turned, -1).astype(F)


def dequantised(a, w, scale):
    return planted.softmax((a @ w.astype(F)) * scale)


def one_head_at_a_time(q, k, v, *, causal):
    return planted.attention(q, k, v, causal=causal)


# Every operator, with what must be said of it beside shapes.
RIGHT = {
    "gemm": (planted.product, {}),
    "conv": (planted.conv, {"padding": [1]}),
    "attention": (one_head_at_a_time, {"causal": True}),
    "softmax": (planted.softmax, {}),
    "layer_norm": (planted.layer_norm, {"affine": True}),
    "copy": (np.copy, {}),
    "dequant_softmax": (dequantised, {}),
    "reduce": (lambda x: np.argmax(x, -1).astype(np.int32), {"kind": "argmax"}),
    "elementwise": (planted.gelu_tanh, {"kind": "gelu_tanh"}),
    "rope": (rope, {}),
}


def quiet(fn):
    """Infinities make NumPy warn."""
    def call(*arguments, **keywords):
        with np.errstate(all="ignore"):
            return fn(*arguments, **keywords)

    call.__signature__ = inspect.signature(fn)
    return call


def test_every_operator_is_here():
    assert set(RIGHT) == {op for op in assay.operators() if shapes.extents_by_role(op)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("op", sorted(RIGHT))
def test_two_lines_pass_a_right_function(assay_client, op, seed):
    fn, fields = RIGHT[op]
    report = assay.validate(quiet(fn), op=op, dtype="fp32", seed=seed, client=assay_client, **fields)
    assert report.passed, report
    assert len(report) >= 9
    assert len({str(result.problem) for result in report}) >= 5, "five shapes or more"
    patterns = {result.pattern.partition(":")[0].partition("/")[0] for result in report}
    assert {"integers", "extremes", "sparse"} <= patterns, patterns
    if not problems.info(op).moves_values:
        assert any(probe.verdict == "PASSED" for result in report for probe in result.probes)


def without_a_remainder(a, b):
    """Right where k is a multiple of 32."""
    k = a.shape[-1] // 32 * 32
    return a[:, :k] @ b[:k]


def of_short_rows(x):
    """Right for rows of at most 512: the rest of a row is not seen."""
    y = planted.softmax(x)
    y[:, 512:] = 0
    return y


def without_infinities(x):
    return np.nan_to_num(planted.softmax(x), nan=0.0)


@pytest.mark.parametrize("fn, op", [
    (without_a_remainder, "gemm"), (of_short_rows, "softmax"), (without_infinities, "softmax")])
def test_two_lines_find_a_wrong_function(assay_client, fn, op):
    report = assay.validate(quiet(fn), op=op, dtype="fp32", client=assay_client)
    assert report.verdict == "FAILED", report
    assert any(result.passed for result in report), "the mistake shows in some of the cases alone"


def test_extents_that_are_named_stay(assay_client):
    report = assay.validate(quiet(planted.softmax), op="softmax", dtype="fp32", rows=6, client=assay_client)
    assert report.passed and {result.problem["rows"] for result in report} == {6}
    report = assay.validate(quiet(one_head_at_a_time), op="attention", dtype="fp32", causal=False, dim=8, kv_heads=2, seq=16,
                            client=assay_client)
    assert report.passed, report
    assert {(r.problem["dim"], r.problem["seq"], r.problem["heads"] % 2) for r in report} == {(8, 16, 0)}


def test_all_extents_named_are_one_shape(assay_client):
    report = assay.validate(planted.softmax, op="softmax", dtype="fp32", cols=8, held_out=0, client=assay_client)
    assert report.passed and len(report) == 1


def test_patterns_that_are_named_are_the_only_ones(assay_client):
    report = assay.validate(planted.softmax, op="softmax", dtype="fp32", patterns="normal:2", client=assay_client)
    assert report.passed and {result.pattern.partition("/")[0] for result in report} <= {"normal:2", "normal:2:0"}


def test_the_seed_draws_the_shapes_that_are_held_out(assay_client):
    def drawn(seed):
        report = assay.validate(np.copy, op="copy", dtype="fp32", seed=seed, patterns="normal", client=assay_client)
        return [result.problem["count"] for result in report]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again and first[:7] == other[:7] and first[7:] != other[7:]
    without = assay.validate(np.copy, op="copy", dtype="fp32", held_out=0, patterns="normal", client=assay_client)
    assert len(without) == 7


@pytest.mark.parametrize("keywords, text", [
    ({"op": "reduce"}, "kind: is required: sum, max or argmax"),
    ({"op": "softmax", "depth": 3}, "depth: is no field"),
    ({"op": "softmax", "dtype": "fp12"}, "unknown word"),
    ({"op": "dequant_softmax", "dtype": "fp64"}, "dtype"),
])
def test_what_is_wrong_with_all_shapes_is_said(assay_client, keywords, text):
    with pytest.raises(assay.InvalidArgument, match=text):
        assay.validate(planted.softmax, **{"dtype": "fp32", **keywords}, client=assay_client)


def test_roles():
    """The axes of the API as the default set reads them."""
    found = {op: shapes.extents_by_role(op) for op in problems.names()}
    assert found["gemm"] == {"m": "extent", "k": "length", "n": "extent"}
    assert found["softmax"] == {"rows": "few", "cols": "length"}
    assert found["attention"] == {"batch": "few", "heads": "few", "seq": "length", "dim": "extent"}
    assert found["conv"]["input"] == "grid" and found["conv"]["kernel"] == "window"
    for op in RIGHT:
        must = [n for n, f in problems.problem_fields(op).items() if f.GetOptions().Extensions[types_pb2.must_be_set]]
        assert set(must) - {"kind"} <= set(found[op]), op
