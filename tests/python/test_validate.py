"""A function of this process, validated: right ones pass, planted ones fail with the right reason."""

import inspect
import operator
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import assay
import fake
import planted_functions
from assay import connection

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed (python3-torch)")

F = np.float32


def by_name(case):
    return case.name


SEEDS = range(1, 1 + int(os.environ.get("ASSAY_VALIDATE_SEEDS", "1")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("case", planted_functions.RIGHT, ids=by_name)
def test_right_functions_pass(client, case, seed):
    report = assay.validate(case.fn, op=case.op, dtype="fp32", seed=seed, client=client, **case.fields)
    assert report.passed, report
    assert len(report) == 2, "the shape and one that was drawn"
    assert report[0].problem != report[1].problem
    for result in report:
        assert result.ran_elsewhere and result.provider == "external"
        assert result.bench is None and result.repro == ""
        assert result.deterministic
    assert report.raise_on_failure() is report


@pytest.mark.parametrize("case", planted_functions.PLANTED, ids=by_name)
def test_planted_functions_fail_with_the_right_reason(client, case):
    fields = {"held_out": 0, **case.fields}
    report = assay.validate(case.fn, op=case.op, dtype="fp32", client=client, **fields)
    assert not report, report
    assert report[0].verdict == "FAILED", report
    assert report[0].reason == case.reason, report
    looks = report[0].precision.looks_like if report[0].precision else ""
    assert case.reads in f"{report[0].reads_as} {looks}"
    with pytest.raises(assay.Mismatch, match=case.reason):
        report.raise_on_failure()


MANY = {"shapes": {"batch": 1, "channels": 32, "filters": 8, "input": [17, 18], "kernel": [3, 3]}, "padding": [1]}
MOST = 2.0 ** -15


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fn", [planted_functions.winograd, planted_functions.winograd_of_four])
def test_a_function_may_transform_its_operands_if_it_declares_it(client, fn, seed):
    case = {"op": "conv", "dtype": "fp32", "seed": seed, "client": client, **MANY}
    silent = assay.validate(fn, **case)[0]
    # All errors together may show it, too.
    assert silent.verdict == "FAILED" and {"exact"} <= {f.reason for f in silent.findings} <= {"exact", "precision"}
    assert "operand_roundoff, at most 3.0517578125e-05" in str(silent.findings)
    report = assay.validate(fn, operand_roundoff=MOST, **case)
    assert report.passed, report
    assert "takes operands to a relative 2^-15" in report[0].implementation
    # An error below the bound and above what was declared.
    wrong = assay.validate(lambda x, w: fn(x, w) * F(1 + 2.0 ** -12), operand_roundoff=MOST, **case)[0]
    assert wrong.verdict == "FAILED" and "exact-significand" in str(wrong.findings), wrong


def test_a_product_may_transform_its_operands_if_it_declares_it(client):
    case = {"op": "gemm", "dtype": "fp32", "shapes": {"m": 128, "n": 64, "k": 256}, "held_out": 0, "client": client}
    silent = assay.validate(planted_functions.strassen, **case)[0]
    assert (silent.verdict, silent.reason) == ("FAILED", "exact"), silent
    assert "operand_roundoff, at most 1.52587890625e-05" in str(silent.findings)
    report = assay.validate(planted_functions.strassen, operand_roundoff=2.0 ** -16, **case)
    assert report.passed, report


def test_a_convolution_that_transforms_in_double_declares_nothing(client):
    report = assay.validate(planted_functions.by_fourier, op="conv", dtype="fp32", client=client, **MANY)
    assert report.passed, report


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_the_bound_of_few_products_has_room_for_a_transform(client, channels):
    few = {"batch": 4, "channels": channels, "filters": 8, "input": [33, 34], "kernel": [3, 3]}
    report = assay.validate(planted_functions.winograd_of_four, op="conv", dtype="fp32", operand_roundoff=MOST,
                            shapes=few, padding=[1], client=client)
    assert report.passed, report


def test_a_function_that_transforms_its_operands_sums_every_product(client):
    def without_one(x, w):
        w = w.copy()
        w[0, 0, 0, 0] = 0
        return planted_functions.winograd(x, w)
    wrong = assay.validate(without_one, op="conv", dtype="fp32", operand_roundoff=MOST, client=client, **MANY)[0]
    assert wrong.verdict == "FAILED" and "exact-integers" in str(wrong.findings), wrong


def test_what_a_function_declares_is_within_limits(client):
    with pytest.raises(assay.InvalidArgument, match="operand_roundoff.*must be from 0 to"):
        assay.validate(planted_functions.winograd, op="conv", dtype="fp32", operand_roundoff=1e-3, client=client, **MANY)
    # A case that is refused for it does not vanish among the shapes that are drawn.
    with pytest.raises(assay.InvalidArgument, match="operand_roundoff"):
        assay.validate(np.matmul, op="gemm", dtype=["fp32", "fp64"], operand_roundoff=1e-7, client=client)
    # A declaration that allows next to nothing leaves the judgement of the errors together as it is.
    coarse = assay.validate(lambda a, b: planted_functions.product(a, b) * F(1 + 3e-6), op="gemm", dtype="fp32",
                            operand_roundoff=1e-30, client=client, shapes={"m": 96, "n": 96, "k": 2048})[0]
    assert (coarse.verdict, coarse.reason) == ("FAILED", "structure"), coarse


@pytest.mark.parametrize("dtype", ["fp16", "tf32"])
def test_a_function_may_cut_sums_off_if_it_declares_it(client, dtype):
    case = {"op": "gemm", "dtype": dtype, "out_dtype": "fp32", "shapes": {"m": 64, "n": 48, "k": 1024},
            "held_out": 0, "patterns": "normal", "client": client}
    function = planted_functions.product_that_cuts_off
    silent = assay.validate(function, **case)[0]
    assert (silent.verdict, silent.reason) == ("INCONCLUSIVE", "suspect"), silent
    assert "declare it: cuts_off_sums" in str(silent.findings)
    declared = assay.validate(function, cuts_off_sums=True, **case)
    assert declared.passed, declared
    assert "cuts sums off at a relative 2^-23" in declared[0].implementation
    wrong = assay.validate(lambda a, b: function(a, b) * F(1 + 1e-3), cuts_off_sums=True, **case)[0]
    assert wrong.verdict == "FAILED", wrong
    with pytest.raises(assay.InvalidArgument, match="cuts_off_sums.*changes nothing for gemm of fp32"):
        assay.validate(function, cuts_off_sums=True, **{**case, "dtype": "fp32"})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_function_may_flush_subnormal_results_if_it_declares_it(client, seed):
    case = {"op": "gemm", "dtype": "fp32", "seed": seed, "patterns": "normal:1e-18", "client": client,
            **planted_functions.PRODUCT}
    flushing = planted_functions.flushing_product
    silent = assay.validate(flushing, **case)[0]
    assert (silent.verdict, silent.reason) == ("FAILED", "bound"), silent
    report = assay.validate(flushing, flushes_subnormals=True, **case)
    assert report.passed, report
    assert "gives 0 for subnormal results" in report[0].implementation

    def far(a, b):
        y = flushing(a, b)
        return np.where(np.abs(y) < F(5e-36), F(0), y)
    wrong = assay.validate(far, flushes_subnormals=True, **case)[0]
    assert (wrong.verdict, wrong.reason) == ("FAILED", "bound"), wrong
    # Where all results are as small as what may be flushed, nothing is proven.
    tiny = assay.validate(flushing, flushes_subnormals=True, **{**case, "patterns": "normal:1e-19"})[0]
    assert (tiny.verdict, tiny.reason) == ("INCONCLUSIVE", "suspect"), tiny


@needs_torch
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("op, fields, fn", [
    ("softmax", planted_functions.ROWS, lambda x: torch.softmax(x, -1)),
    ("layer_norm", planted_functions.NORM, lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b)),
    ("gemm", planted_functions.PRODUCT, torch.matmul if torch else None),
    ("conv", planted_functions.IMAGES, lambda x, w: torch.nn.functional.conv2d(x, w, padding=1)),
    ("attention", {"shapes": {"heads": 4, "seq": 48, "dim": 32}},
     lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v),
    ("attention", {"shapes": {"heads": 4, "seq": 48, "dim": 32}},
     lambda q, k, v: getattr(torch.nn.functional, "scaled_dot_product_attention",
                             getattr(torch.nn.functional, "_scaled_dot_product_attention", None))(q, k, v)),
], ids=["softmax", "layer_norm", "matmul", "conv2d", "attention", "scaled_dot_product_attention"])
def test_functions_of_torch_pass(client, op, fields, fn, seed):
    def first(*inputs):  # torch 1.13's returns the weights, too
        output = fn(*inputs)
        return output[0] if isinstance(output, tuple) else output

    report = assay.validate(first, op=op, dtype="fp32", arrays="torch", seed=seed, client=client, **fields)
    assert report.passed, report
    assert any(probe.verdict == "PASSED" for result in report for probe in result.probes)


@needs_torch
def test_a_function_of_torch_that_gets_arrays_of_numpy_is_told_how_it_gets_tensors(client):
    case = {"op": "softmax", "dtype": "fp32", "rows": 4, "cols": 8, "client": client}
    hint = 'arrays="torch" gives it tensors'
    for fn in (lambda x: x.softmax(-1), torch.nn.functional.softmax, torch.relu, torch.nn.Softmax(-1)):
        assert hint in assay.validate(fn, **case)[0].findings[0].message
    with_tensors = assay.validate(lambda x: x.soft(-1), arrays="torch", **case)[0]
    assert with_tensors.verdict == "ERROR" and hint not in with_tensors.findings[0].message
    elsewhere = assay.validate(operator.methodcaller("soft"), **case)[0].findings[0].message
    assert "raised AttributeError" in elsewhere and hint not in elsewhere, "not of torch"


@needs_torch
def test_formats_that_numpy_lacks_go_by_their_bits(client):
    def softmax(x):
        return torch.softmax(x.float(), -1).to(x.dtype)

    report = assay.validate(softmax, op="softmax", dtype=["bf16", "fp16"], arrays="torch", client=client, rows=8,
                            cols=100)
    assert report.passed, report
    assert {result.dtype for result in report} == {"bf16", "fp16"}


def test_an_output_has_the_strides_that_it_has(client):
    report = assay.validate(lambda x: planted_functions.softmax(x)[::-1, ::-1].copy()[::-1, ::-1], op="softmax",
                            dtype="fp32", rows=5, cols=8, client=client)
    assert report.passed, report


def test_words_of_8_bits(client):
    report = assay.validate(lambda x: x.copy(), op="copy", dtype=["e4m3fn", "int8"], client=client, count=999)
    assert report.passed, report


HOLDS_THE_GIL = """
import ctypes
import numpy as np
import assay
import assay.connection
from assay.daemon import Daemon

short = {"grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 3000}
assay.connection._CHANNEL_OPTIONS = [(name, short.get(name, value)) for name, value in assay.connection._CHANNEL_OPTIONS]
sleep = ctypes.PyDLL(None).sleep  # a call of a PyDLL keeps the GIL
calls = []

def softmax(x):
    left = 0 if calls else 10
    calls.append(left)
    while left > 0:
        left = sleep(left)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

with Daemon(options=["--keepalive-time", "1s", "--keepalive-timeout", "3s"]) as daemon, assay.connect(daemon.target) as client:
    client.validate(softmax, op="softmax", dtype="fp32", rows=4, cols=8).raise_on_failure()
"""


def test_a_function_may_hold_the_gil():
    """gRPC answers while no thread of Python runs: it looks for pings every 5 s, and here as often as the waits are
    shorter. A wait must be longer than that time."""
    waits = dict(connection._CHANNEL_OPTIONS)  # pylint: disable=protected-access
    assert waits["grpc.keepalive_timeout_ms"] >= 2 * 5000
    done = subprocess.run([sys.executable, "-c", HOLDS_THE_GIL], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                               "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS": "200"})
    assert done.returncode == 0, done.stderr


def test_a_job_without_a_failure_says_what_was_not_judged(client):
    def none(x):
        raise NotImplementedError("fp32 alone")

    report = assay.validate(none, op="softmax", dtype="fp64", rows=4, cols=8, client=client)
    with pytest.raises(assay.NotJudged, match="(?s)UNSUPPORTED.*does not compute this case: fp32 alone"):
        report.raise_on_failure()


def test_a_function_may_say_that_it_does_not_compute_a_case(client):
    def some(x):
        if x.shape[1] > 8:
            raise NotImplementedError("more than 8 columns")
        return planted_functions.softmax(x)

    report = assay.validate(some, op="softmax", dtype="fp32", rows=4, cols=[8, 9], held_out=0, client=client)
    assert [r.verdict for r in report] == ["PASSED", "UNSUPPORTED"]
    assert "more than 8 columns" in report[1].findings[0].message


def test_an_output_that_is_given_must_be_used(client):
    report = assay.validate(lambda x, out: x + 1, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, client=client)
    assert "returned another array" in report[0].findings[0].message


def test_keyboard_interrupt_ends_the_job(client):
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assay.validate(interrupted, op="softmax", dtype="fp32", rows=4, cols=8, client=client,
                       labels={"test": "interrupt"})
    job = client.jobs("label.test=interrupt")[0]
    ended = [event.job for event in client.watch(job) if event.job][-1]
    assert ended.state == "CANCELLED"


def test_a_slow_function_is_the_callers_fault_and_frees_the_device(client):
    wait = threading.Event()

    def slow(x):
        wait.wait(0.5)
        return planted_functions.softmax(x)

    report = assay.validate(slow, op="softmax", dtype="fp32", rows=4, cols=[8, 9, 10], held_out=0, launch_deadline="50ms",
                            client=client)
    assert [r.verdict for r in report] == ["ERROR", "SKIPPED", "SKIPPED"]
    assert {(r.reason, r.findings[0].blame) for r in report} == {("timeout", "caller")}
    assert client.devices()[0].worker_restarts == 0, "the worker went on"
    assert client.run("softmax", rows=4, cols=8, dtype="fp32", provider="builtin")


def test_inputs_that_have_not_changed_are_sent_once(client):
    seen = []

    def softmax(x):
        seen.append(x.copy())
        return planted_functions.softmax(x)

    assay.validate(softmax, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0, repeats=3, probes=False,
                   client=client).raise_on_failure()
    assert len(seen) >= 3 and all(np.array_equal(x, seen[0]) for x in seen)


def test_leading_dimensions_are_the_daemons_own(client):
    report = assay.validate(lambda a, b: a @ b, op="gemm", dtype="fp32", m=9, n=7, k=33, lda=40, ldc=11, held_out=0,
                            client=client)
    assert report.passed, report


def test_the_job_is_stored_as_any_other(client):
    report = assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", rows=4, cols=8, held_out=0,
                            labels={"who": "me"}, client=client)
    shown = client.show(report.job)
    assert shown.results == report.results
    assert client.jobs("label.who=me")[0].name == report.job.name
    assert "softmax" in report._repr_html_()


def test_no_other_job_runs_such_a_function(client):
    with pytest.raises(assay.InvalidArgument, match='unknown provider "external"'):
        client.run("softmax", rows=4, cols=8, dtype="fp32", provider="external")


@pytest.mark.parametrize("keywords, text", [
    ({"op": None}, "name the operation"),
    ({"shapes": []}, "is empty"),
    ({"shapes": [3]}, "must be dictionaries"),
    ({"shapes": {"rows": 3}, "rows": 4}, "sets rows"),
    ({"mode": "benchmark"}, "no times are taken"),
    ({"provider": "builtin"}, "must be empty"),
    ({"min_efficiency": 0.5}, "none is taken"),
    ({"arrays": "jax"}, "must be"),
    ({"colls": 3}, "no field"),
    ({"launch_deadline": 0}, "more than 0 seconds"),
    ({"cols": 0}, "cols: must be"),
    ({"held_out": "1"}, "held_out: must be a whole number"),
    ({"held_out": -1}, "held_out: must be at least 0"),
    ({"patterns": 3}, "pattern: must be text"),
    ({"labels": {"a": 3}}, "labels: must be texts"),
    ({"on_event": 3}, "on_event: must be a function"),
    ({"out": "yes"}, "out: must be True, False or None"),
    pytest.param({"arrays": "torch:nosuch"}, "arrays: torch cannot use the device nosuch", marks=needs_torch),
])
def test_bad_requests_name_the_field(client, keywords, text):
    with pytest.raises(assay.InvalidArgument, match=text):
        assay.validate(planted_functions.softmax, **{"op": "softmax", "dtype": "fp32", "cols": 8, **keywords},
                       client=client)
    with pytest.raises(assay.InvalidArgument, match="must be a function"):
        assay.validate("softmax", op="softmax", client=client)


def test_what_is_wrong_with_all_cases_is_said_once(client):
    with pytest.raises(assay.InvalidArgument) as refused:
        assay.validate(planted_functions.softmax, op="gemm", dtype="fp32", activation="swish", client=client)
    lines = str(refused.value).splitlines()
    assert len(lines) == 1 and "more cases" in lines[0] and "got \"swish\"" in lines[0], lines
    assert len(refused.value.violations) > 10  # nothing is lost


def test_an_older_daemon_is_explained():
    with fake.served(fake.Fake()) as address, assay.connect(address) as old:
        with pytest.raises(assay.Unimplemented, match="older than this package"):
            assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", cols=8, client=old)


def test_the_fixture_raises(assay):  # the plugin's
    with pytest.raises(AssertionError, match="bound"):
        assay.validate(planted_functions.zeros, op="softmax", dtype="fp32", rows=4, cols=8)
    assert assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", rows=4, cols=8)


def test_a_function_gets_the_fields_that_the_case_has(client):
    got = {}

    def fields_of(name, **keywords):
        def fn(*inputs, **fields):
            got.setdefault(name, fields)
            raise NotImplementedError("only looks")

        fn.__signature__ = inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL), *(
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY) for field in keywords.pop("take"))])
        assay.validate(fn, op=name, dtype="fp32", client=client, **keywords)
        return got[name]

    assert fields_of("layer_norm", take=["eps", "rms"], rows=2, cols=8) == {"eps": 1e-5, "rms": False}
    assert fields_of("gemm", take=["alpha", "beta", "batch", "lda", "activation"], m=4, n=5, k=6) == {
        "alpha": 1.0, "beta": 0.0, "batch": 1, "lda": 6, "activation": "none"}
    assert fields_of("conv", take=["stride", "padding", "dilation", "groups"], channels=2, filters=3, input=[5, 6],
                     kernel=[3, 3], padding=[1]) == {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1],
                                                     "groups": 1}
    attention = fields_of("attention", take=["scale", "kv_heads", "kv_seq"], heads=4, seq=8, dim=64)
    assert attention == {"scale": 0.125, "kv_heads": 4, "kv_seq": 8}
    assert fields_of("rope", take=["theta", "heads"], seq=3, dim=8) == {"theta": 10000.0, "heads": 1}


def _gelu_of_product(a, b):
    x = a.astype(np.float64) @ b
    return (x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))).astype(F)


# The exact cases of these problems have another activation, another factor, other positions.
@pytest.mark.parametrize("fn, op, fields", [
    (lambda a, b: F(0.3) * (a @ b), "gemm", {"m": 8, "n": 9, "k": 32, "alpha": 0.3}),
    (_gelu_of_product, "gemm", {"m": 8, "n": 9, "k": 32, "activation": "gelu_tanh"}),
])
def test_a_function_that_is_made_for_its_fields(client, fn, op, fields):
    report = assay.validate(fn, op=op, dtype="fp32", client=client, **fields)
    assert report.passed, report
    assert "changes a field" in " ".join(probe.message for probe in report[0].probes)


def test_a_parameter_with_a_default_gets_the_field(client):
    def layer_norm(x, weight=None, bias=None, eps=1e-5):
        d = x - x.mean(-1, keepdims=True, dtype=np.float64)
        return (d / np.sqrt((d ** 2).mean(-1, keepdims=True) + eps)).astype(F)

    assert assay.validate(layer_norm, op="layer_norm", dtype="fp32", rows=4, cols=50, eps=1e-2, client=client)


def test_extents_that_are_named_get_no_drawn_neighbour(client):
    report = assay.validate(planted_functions.softmax, op="softmax", dtype="fp32", rows=40, cols=64, client=client)
    assert [result.problem for result in report] == [{"rows": 40, "cols": 64}]


def test_a_function_may_reshape_its_own_arrays(client):
    def flat(x):
        x.shape = (-1,)
        x.setflags(write=False)
        return planted_functions.softmax(x.reshape(4, 9))

    assert assay.validate(flat, op="softmax", dtype="fp32", rows=4, cols=9, held_out=0, client=client)


def test_a_function_made_for_its_extents_is_asked_for_no_others(client):
    def norm(x):
        assert x.shape == (3, 40)
        d = x - x.mean(-1, keepdims=True, dtype=np.float64)
        return (d / np.sqrt((d ** 2).mean(-1, keepdims=True) + 1e-5)).astype(F)

    assert assay.validate(norm, op="layer_norm", dtype="fp32", rows=3, cols=40, held_out=0, client=client)


def test_what_the_page_shows_works(client, monkeypatch):
    """The code of README.md's section runs as it stands."""
    page = os.path.join(os.path.dirname(__file__), "..", "..", "client", "python", "README.md")
    with open(page, encoding="utf-8") as file:
        section = file.read().partition("## validate")[2].partition("\n## ")[0]
    code = "\n".join(line[4:] if line.startswith("    ") else "" for line in section.splitlines())
    assert "softmax" in code and "reference_fn" in code
    monkeypatch.setattr("assay.client.default_client", lambda: client)

    def my_cumsum(x):
        return np.cumsum(x, -1)

    names = {"np": np, "assay": assay, "my_cumsum": my_cumsum}
    exec(compile(code, page, "exec"), names)  # pylint: disable=exec-used
    assert names["report"].passed
