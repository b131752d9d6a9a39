"""Operators and their fields come from the API, and extents from the shapes of operands."""

import numpy as np
import pytest

import assay
from assay import operands, problems


def test_operators_are_those_of_the_api():
    assert "attention" in assay.operators()
    assert problems.canonical("layer-norm") == "layer_norm" and problems.canonical("convolution") == "conv"
    assert "trans_a" in assay.describe("gemm") and "stored transposed" in assay.describe("gemm")


def test_a_list_is_a_sweep_and_the_provider_varies_fastest():
    made = problems.cases("gemm", dict(provider=["a", "b"], dtype=["fp32", np.float16], m=[1, 2], n=3, k=4))
    assert [(s.gemm.m, problems.dtype_word(s.dtype), s.provider) for s in made] == [
        (m, d, p) for m in (1, 2) for d in ("fp32", "fp16") for p in ("a", "b")]
    made = problems.cases("conv", dict(channels=1, filters=1, input=[8, 9], kernel=[[3, 3], [5, 5]], dtype="fp32"))
    assert [(list(s.conv.input), list(s.conv.kernel)) for s in made] == [([8, 9], [3, 3]), ([8, 9], [5, 5])]


@pytest.mark.parametrize("keywords, said", [
    (dict(m="8"), "gemm.m: must be a whole number"), (dict(m=8.0), "whole number"), (dict(m=2 ** 70), "out of range"),
    (dict(m=True), "whole number"), (dict(rows=3), "rows: is no field of gemm"), (dict(dtype="fp31"), "unknown word"),
    (dict(alpha=float("nan")), "must be a number"), (dict(repeats=0), "at least 1"), (dict(m=[]), "list is empty"),
    (dict(deadline="soon"), "must be seconds"), (dict(deadline="1..5s"), "must be seconds"), (dict(deadline=0), "more than 0")])
def test_wrong_values_are_refused_by_name(keywords, said):
    with pytest.raises(assay.InvalidArgument) as caught:
        problems.cases("gemm", keywords)
    assert said in str(caught.value)


@pytest.mark.parametrize("text, said", [
    ("a race (--repeat 250)", "a race (repeats=250)"),
    ("declare it: --intermediate-dtype bf16", 'declare it: intermediate_dtype="bf16"'),
    ("declare it with --intermediate-dtype", "declare it with intermediate_dtype"),
    ("say --masked-rows nan where", 'say masked_rows="nan" where'),
    ("compute-sanitizer --tool racecheck", "compute-sanitizer --tool racecheck")])
def test_options_of_the_command_line_become_keywords(text, said):
    assert problems.in_python(text) == said


@pytest.mark.parametrize("what, seconds", [("10s", 10), ("1h30m", 5400), ("500ms", 0.5), (3, 3), (0.25, 0.25)])
def test_durations(what, seconds):
    assert problems.seconds("deadline", what) == seconds


def extents(op, shapes, **given):
    spec = problems.single(op, given)
    operands.fill_extents(spec, shapes)
    return problems.problem_of(spec)


@pytest.mark.parametrize("op, shapes, given, want", [
    ("gemm", [(2, 3), (3, 5)], {}, dict(m=2, k=3, n=5)),
    ("gemm", [(3, 2), (5, 3)], dict(trans_a=True, trans_b=True), dict(m=2, k=3, n=5)),
    ("gemm", [(7, 2, 3), (7, 3, 5)], {}, dict(batch=7, m=2, k=3, n=5)),
    ("gemm", [(7, 2, 3), (3, 5)], {}, dict(m=14, k=3, n=5)),
    ("conv", [(2, 4, 9, 8), (6, 2, 3, 5)], {}, dict(batch=2, channels=4, input=[9, 8], filters=6, groups=2, kernel=[3, 5])),
    ("conv", [(2, 9, 8, 4), (6, 3, 5, 4)], dict(layout="nhwc"),
     dict(batch=2, channels=4, input=[9, 8], filters=6, groups=1, kernel=[3, 5])),
    ("attention", [(4, 16, 8), (2, 24, 8), (2, 24, 8)], {}, dict(heads=4, seq=16, dim=8, kv_heads=2, kv_seq=24)),
    ("attention", [(4, 16, 8)] * 3 + [(16, 16)], {}, dict(heads=4, seq=16, dim=8, kv_heads=4, kv_seq=16, mask_density=0.5)),
    ("softmax", [(2, 3, 50)], {}, dict(rows=6, cols=50)),
    ("softmax", [(50,)], {}, dict(cols=50)),
    ("layer_norm", [(3, 50), (50,)], {}, dict(rows=3, cols=50, affine=True)),
    ("reduce", [(2, 3, 4)], dict(kind="sum"), dict(extents=[2, 3, 4])),
    ("copy", [(2, 3)], {}, dict(count=6)),
    ("rope", [(2, 5, 3, 8)], {}, dict(batch=2, seq=5, heads=3, dim=8))])
def test_extents_follow_from_the_operands(op, shapes, given, want):
    found = extents(op, shapes, **given)
    assert {name: found.get(name) for name in want} == want, found
