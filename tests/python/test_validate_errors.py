"""A function of this process that raises, or that gives what cannot be its output."""

import inspect
import os
import types

import numpy as np
import pytest

import assay
import planted_functions

F = np.float32


class OnGpu:
    """An array of another device, which cannot be copied."""

    __cuda_array_interface__ = {"shape": (4, 8), "typestr": "<f4", "data": (1, False), "version": 3}


@pytest.mark.parametrize("fn, text", [
    (lambda x: None, r"returned None; expected an array \[4,8\] fp32"),
    (lambda x: x[:2], "view of its input"),
    (lambda x: x, "view of its input"),
    (lambda x: np.ones((2, 8), F), r"returned \[2,8\] fp32; expected \[4,8\] fp32"),
    (lambda x: F(1), r"returned \[\] fp32; expected"),
    (lambda x: x.astype(np.float64) + 0, r"returned \[4,8\] fp64; expected"),
    (lambda x: np.array([[None] * 8] * 4), "Python objects"),
    (lambda x: "x", "an array is expected"),
    (lambda x: np.ma.masked_array(x + 1), "masked"),
    (lambda x: (x + 1).astype(">f4"), "byte order"),
    (lambda x: np.zeros((0, 8), F), r"returned \[0,8\] fp32; expected \[4,8\] fp32"),
    (lambda x: OnGpu(), "memory of cuda.*no way to copy"),
], ids=["None", "part of the input", "the input", "shape", "0-d", "type", "objects", "text", "masked", "byte order",
        "no elements", "another device"])
def test_what_cannot_be_an_output_is_an_error_of_the_function(client, fn, text):
    report = assay.validate(fn, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, client=client)
    assert report[0].verdict == "ERROR"
    assert report[0].findings[0].blame == "kernel"
    with pytest.raises(assay.NotJudged, match=text):
        report.raise_on_failure()


def test_what_a_function_raises_is_the_cause(client):
    def fails(x):
        raise KeyError("the tile")

    report = assay.validate(fails, op="softmax", dtype="fp32", rows=4, cols=[8, 9], held_out=0, client=client)
    assert [(r.verdict, r.reason, r.findings[0].blame) for r in report] == [("ERROR", "crash", "kernel")] * 2
    with pytest.raises(assay.NotJudged, match=r"the function raised KeyError \(test_validate_errors.py:\d+\): 'the tile'") as caught:
        report.raise_on_failure()
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_a_function_raises_is_no_order_to_anybodys_terminal(client):
    def fails(x):
        raise ValueError("in \x1b[31mred\u202e\nand on")

    report = assay.validate(fails, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, client=client)
    assert report.results[0].findings[0].message.endswith("in ?[31mred? and on")


@pytest.mark.parametrize("fn", [lambda x, weight, bias: x, lambda: None, lambda x, *, gain: x, lambda *, x: x])
def test_parameters_that_do_not_fit_say_what_the_case_gives(client, fn):
    report = assay.validate(fn, op="layer_norm", dtype="fp32", rows=4, cols=8, client=client)
    message = report[0].findings[0].message
    assert report[0].verdict == "ERROR" and "raised TypeError" in message, message
    assert 'This case gives it x [4,8] fp32; some fields of layer_norm add inputs: assay.describe("layer_norm")' in message


def test_parameters_that_do_not_fit_name_out(client):
    report = assay.validate(lambda x: x, out=np.True_, op="softmax", dtype="fp32", rows=4, cols=8, client=client)
    assert "This case gives it x [4,8] fp32, and out= to write into; some" in report[0].findings[0].message


@pytest.mark.parametrize("signature", ["none", inspect.Signature()])
def test_an_error_of_the_function_itself_says_nothing_of_its_parameters(client, signature):
    def fails(x):
        raise ValueError("the tile")

    fails.__signature__ = signature
    report = assay.validate(fails, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, client=client)
    assert report[0].findings[0].message.endswith("the tile")


@pytest.mark.parametrize("out", [1, "yes"])
def test_out_of_another_type_is_refused(client, out):
    with pytest.raises(assay.InvalidArgument, match="^out: must be True, False or None, got"):
        assay.validate(planted_functions.softmax, out=out, op="softmax", dtype="fp32", rows=4, cols=8, client=client)


@pytest.mark.parametrize("patterns", [{"normal": 1, "uniform": 2}.keys(), {"normal", "uniform"},
                                      (p for p in ("normal", "uniform")), np.array(["normal", "uniform"])],
                         ids=["keys", "set", "generator", "array"])
def test_patterns_are_of_any_kind_that_can_be_listed(client, patterns):
    report = assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", patterns=patterns, held_out=False,
                            rows=4, cols=8, client=client)
    assert report.passed and len(report) == 2, report


def test_a_client_of_another_kind_needs_what_is_called(client):
    other = types.SimpleNamespace(serve=client.serve, defaults={}, target=client.target, on_result=None)
    assert assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", rows=4, cols=8, client=other)
    with pytest.raises(assay.InvalidArgument, match="^client: must be what assay.connect"):
        assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", rows=4, cols=8,
                       client=types.SimpleNamespace(judge=client.judge))


def test_what_arrays_raises_is_not_put_on_the_function(client):
    report = assay.validate(planted_functions.softmax, arrays=lambda array: array.no_such_method(), op="softmax",
                            dtype="fp32", rows=4, cols=8, client=client)
    assert report[0].findings[0].message.startswith("the function of arrays= raised AttributeError (test_validate_errors.py:")


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("nothing")


@pytest.mark.parametrize("error, text", [
    (FileNotFoundError(os.fsdecode(b"/data/\xff.npy")), r"/data/\udcff.npy"),  # what Python calls such a file
    (Mute(), "raised Mute (test_validate_errors.py:"),
])
def test_no_text_of_an_exception_ends_the_job(client, error, text):
    def fails(x):
        raise error

    report = assay.validate(fails, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, client=client)
    assert (report[0].verdict, report[0].reason) == ("ERROR", "crash") and text in report[0].findings[0].message
