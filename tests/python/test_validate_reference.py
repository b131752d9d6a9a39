"""A function of this process that Assay has no operator for, held against a reference of the caller's own."""

import re

import numpy as np
import pytest

import assay

F = np.float32


def test_a_reference_of_ones_own(client):
    def cumulated(x):
        return np.cumsum(x, -1, dtype=np.float64).astype(x.dtype)

    def reference(x):
        return np.cumsum(x, -1)

    report = assay.validate(cumulated, reference_fn=reference, dtype=["fp32", "fp64"], shapes=[(8, 100), (3, 7)],
                            accumulations=100, client=client)
    assert report.passed and len(report) == 4, report
    assert client.status(report.job).counts.passed == 4  # a job like any other
    assert all(result.ran_elsewhere and result.proto.spec.reference == "external" for result in report)
    assert report[0].name.startswith("custom x=8x100 out=8x100")
    wrong = assay.validate(lambda x: cumulated(x) * x.dtype.type(1.01), reference_fn=reference, shapes=[(8, 100)],
                           accumulations=100, client=client)
    assert not wrong
    with pytest.raises(assay.Mismatch):
        wrong.raise_on_failure()


def test_a_reference_of_ones_own_that_gives_magnitudes_proves_the_bound(client):
    def product(a, b):
        return a @ b

    def with_magnitudes(a, b):
        return a @ b, np.abs(a) @ np.abs(b)

    keywords = {"shapes": [[(16, 64), (64, 8)]], "accumulations": 64, "client": client}
    proven = assay.validate(product, reference_fn=with_magnitudes, **keywords)[0]
    other = assay.validate(product, reference_fn=product, **keywords)[0]
    assert proven.verdict == other.verdict == "PASSED"
    assert "magnitudes" in [probe.name for probe in other.proto.probes]
    assert "magnitudes" not in [probe.name for probe in proven.proto.probes]
    # An error that hides below what the largest element allows, and not below what an element's own terms do.
    for reference, verdict in [(product, "PASSED"), (with_magnitudes, "FAILED")]:
        slight = assay.validate(lambda a, b: product(a, b) + F(4e-4), reference_fn=reference, **keywords)[0]
        assert slight.verdict == verdict, slight


def test_a_reference_whose_bound_hides_most_results_proves_nothing(client):
    def broken(x):
        return np.where(x < 5, F(0), np.exp(x)).astype(F)

    # exp of numbers up to 40: the bound follows from the largest, and most results are far below it.
    keywords = {"patterns": "normal:10", "shapes": [(64, 100)], "accumulations": 1, "client": client}
    result = assay.validate(broken, reference_fn=np.exp, **keywords)[0]
    assert (result.verdict, result.reason) == ("INCONCLUSIVE", "suspect"), result
    assert "magnitudes" in result.findings[0].message
    for fn, verdict in [(lambda x: np.exp(x.astype(np.float64)).astype(F), "PASSED"), (broken, "FAILED")]:
        result = assay.validate(fn, reference_fn=lambda x: (np.exp(x), np.exp(x)), **keywords)[0]
        assert result.verdict == verdict, result


def test_magnitudes_that_allow_anything_prove_nothing(client):
    result = assay.validate(np.ones_like, reference_fn=lambda x: (np.cumsum(x, -1), np.full(x.shape, 1e300)),
                            shapes=[(8, 100)], accumulations=100, client=client)[0]
    assert (result.verdict, result.reason) == ("INCONCLUSIVE", "suspect"), result
    assert "far larger than their sums" in result.findings[0].message


def test_a_reference_that_is_nan_everywhere_proves_nothing(client):
    def nan(x):
        return np.full_like(x, np.nan)

    result = assay.validate(nan, reference_fn=nan, shapes=[(64, 100)], accumulations=1, client=client)[0]
    assert (result.verdict, result.reason) == ("INCONCLUSIVE", "suspect"), result


def test_a_reference_of_ones_own_in_bf16(client):
    def halved(x):
        wide = (x.astype(np.uint32) << 16).view(np.float32) / 2
        return (wide.view(np.uint32) >> 16).astype(np.uint16)

    report = assay.validate(halved, reference_fn=lambda x: x / 2, dtype="bf16", shapes=[(9, 33)], accumulations=1,
                            client=client)
    assert report.passed, report


@pytest.mark.parametrize("shape", [(7,), (5, 6, 7)])
def test_a_reference_of_ones_own_that_gives_one_number(client, shape):
    def total(x):
        return np.sum(x, dtype=np.float64).astype(x.dtype)

    report = assay.validate(total, reference_fn=np.sum, dtype="fp32", shapes=[shape if len(shape) == 1 else [shape]],
                            accumulations=int(np.prod(shape)), client=client)
    assert report[0].verdict in ("PASSED", "INCONCLUSIVE") and report[0].reason != "fault", report


class _Changing:
    """A reference that is another one from its second call on: the first finds the shape."""

    def __init__(self, later):
        self.calls = 0
        self.later = later

    def __call__(self, x):
        self.calls += 1
        return x + 1 if self.calls == 1 else self.later(x, self.calls)


@pytest.mark.parametrize("later, reason, text", [
    (lambda x, n: x + n, "nondeterministic", "the reference gives element 0 as"),
    (lambda x, n: 1 / 0, "crash", "reference_fn raised ZeroDivisionError"),
    (lambda x, n: x[:, 1:], "fault", r"gave an array of the shape \[8,99\]; expected \[8,100\]"),
    (lambda x, n: None, "crash", "returned None"),
    (lambda x, n: (x, np.zeros_like(x)), "fault", "is beyond"),
    (lambda x, n: (x, np.full_like(x, np.inf)), "fault", "the magnitude inf; expected a finite number"),
    (lambda x, n: (x, x[0]), "crash", r"tuple of arrays of the shapes \[8,100\], \[100\]"),
])
def test_a_wrong_reference_is_the_callers_error(client, later, reason, text):
    result = assay.validate(lambda x: x + 1, reference_fn=_Changing(later), shapes=[(8, 100)], accumulations=1,
                            client=client)[0]
    assert (result.verdict, result.reason) == ("ERROR", reason)
    assert re.search(text, result.findings[0].message), result
    assert result.findings[0].blame == "caller"


def test_a_reference_of_ones_own_needs_a_bound(client):
    with pytest.raises(assay.InvalidArgument, match="accumulations"):
        assay.validate(lambda x: x, reference_fn=lambda x: x, shapes=[(8, 100)], client=client)
    assert assay.validate(lambda x: x.copy(), reference_fn=lambda x: x, shapes=[(8, 100)], atol=0, rtol=1e-6,
                          client=client)


def test_a_masked_array_without_a_masked_element_is_a_reference(client):
    assert assay.validate(lambda x: x * 0, reference_fn=lambda x: np.ma.masked_array(x * 0), shapes=[(8, 100)],
                          accumulations=1, client=client)[0].verdict != "ERROR"


@pytest.mark.parametrize("keywords, text", [
    ({"dtype": []}, "dtype.*is empty"),
    ({"shapes": []}, "shapes.*is required"),
    ({"shapes": [()]}, "at least one axis"),
    ({"shapes": [[(8,), 5]]}, "whole numbers"),
    ({"shapes": [(8, 0.5)]}, "whole numbers"),
    ({"shapes": [(-2, 4)]}, "at least 1"),
    ({"reference_fn": lambda a, b: a @ b, "shapes": [(8, 9), (9, 8)]}, r"reference_fn: raised TypeError.*shapes=\[\[\(64"),
    ({"reference_fn": lambda x: 1 / 0}, "reference_fn: raised ZeroDivisionError"),
    ({"reference_fn": lambda x: x + 1j}, "complex"),
    ({"reference_fn": lambda x: x.astype("f2")}, r"^reference_fn: it returned float16, .* with .astype\(np.float64\)$"),
    ({"reference_fn": lambda x: (x, abs(x).astype("f4"))}, "returned float32, .* expected float64"),
    ({"reference_fn": lambda x: np.ma.masked_less(x, 0)}, "returned a masked array; expected an array"),
    ({"shapes": 5}, "shapes: must be a list"),
    ({"reference_fn": lambda x: (x, x, x)}, "returned 3 values"),
    ({"arrays": True}, "arrays.*must be"),
    ({"held_out": 3}, "held_out.*needs op"),
    ({"shapes": ["8x100"]}, "shape of the input"),
    ({"shapes": [(8, 0)]}, "at least 1"),
    ({"dtype": "e4m3fn"}, "dtype.*must be one of"),
    ({"scalar": "eps=1"}, "scalar.*leave it out"),
    ({"op": "softmax"}, "reference_fn.*is for functions"),
    ({"reference_fn": 3}, "must be a function"),
])
def test_a_reference_of_ones_own_and_no_case(client, keywords, text):
    with pytest.raises(assay.InvalidArgument, match=text):
        assay.validate(lambda x: x * 0, **{"reference_fn": lambda x: x, "shapes": [(8, 100)], "accumulations": 1,
                                           **keywords}, client=client)


@pytest.mark.parametrize("fn, verdict, reason", [
    (lambda x: None, "ERROR", "fault"),
    (lambda x: 1 / 0, "ERROR", "crash"),
    (lambda x: np.add(x, 1, out=x) * 1, "FAILED", "guard"),
])
def test_a_reference_of_ones_own_and_a_function_that_misbehaves(client, fn, verdict, reason):
    report = assay.validate(fn, reference_fn=lambda x: x + 1, shapes=[(8, 100)], accumulations=1, client=client)
    assert (report[0].verdict, report[0].reason) == (verdict, reason)
    with pytest.raises(AssertionError):
        report.raise_on_failure()


def test_one_static_buffer_that_changes_is_found(client):
    buffer = np.zeros((8, 100), F)

    def fn(x):
        buffer[...] = x + 1
        buffer[0, 0] += np.random.default_rng().random()
        return buffer

    result = assay.validate(fn, reference_fn=lambda x: x + 1, shapes=[(np.int64(8), np.int64(100))], atol=9, rtol=0,
                            repeats=3, client=client)[0]
    assert (result.verdict, result.reason) == ("FAILED", "nondeterministic"), result


def test_a_case_that_is_not_supported_fails_no_job(client):
    def fn(x):
        if x.shape == (3, 7):
            raise NotImplementedError("too small")
        return x + 1

    report = assay.validate(fn, reference_fn=lambda x: x + 1, shapes=[(8, 100), (3, 7)], accumulations=1, client=client)
    assert [result.verdict for result in report] == ["PASSED", "UNSUPPORTED"]
    assert report.job.verdict == "PASSED" and report.raise_on_failure() is report
