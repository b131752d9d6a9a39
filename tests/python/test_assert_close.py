"""assert_close passes only what the daemon PASSED, and says everything else in its message."""

import os
import shlex
import subprocess

import numpy as np
import pytest

import assay as package
from assay._wire import case_pb2, types_pb2
from fake import Fake, served


def product(rng, m=64, n=32, k=48):
    a, b = rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")
    return a, b


def repeat_line(text):
    return next(line.split(None, 1)[1] for line in text.splitlines() if line.split()[:1] == ["repeat"])


def test_a_right_result_passes(assay, rng):
    a, b = product(rng)
    result = assay.assert_close(a @ b, op="gemm", inputs=(a, b))
    assert result.passed and result and result.verdict == "PASSED"
    assert 0 < result.stats.rho < 1 and result.precision.bits == 24
    assert assay.assert_close(a, a)
    assert assay.assert_close(np.float32(3), np.float32(3)), "0-d"
    assert assay.assert_close(a[::-1, ::-1], a[::-1, ::-1].copy()), "negative strides"


def test_a_wrong_result_says_everything(assay, rng, tmp_path, program):
    a, b = product(rng)
    with pytest.raises(package.Mismatch) as caught:
        assay.assert_close(a[:, :40] @ b[:40], op="gemm", inputs=(a, b), save_to=tmp_path)
    text, result = str(caught.value), caught.value.result
    assert isinstance(caught.value, AssertionError)
    worst = result.stats.worst
    for said in ("gemm [64,32] fp32: FAILED (bound)", "first     [0, 0]", worst.actual_bits, worst.expected_bits,
                 f"[{worst.index[0]}, {worst.index[1]}]", "times its bound", "max ulp", "of 24 bits",
                 "reads as  the last 8 terms", "next      look at"):
        assert said in text, said
    # The line is a command, and it gives the same verdict.
    words = shlex.split(repeat_line(text))
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False,
                          env={**os.environ, "ASSAY_TARGET": assay.target})
    assert done.returncode == 1 and "the last 8 terms" in done.stdout, done
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "actual.npy", "b.npy"]


def test_without_a_folder_it_says_how_to_save(assay, rng):
    a, _ = product(rng)
    with pytest.raises(package.Mismatch, match="save_to=FOLDER"):
        assay.assert_close(a + 1, a, atol=1e-3)


def test_criteria_and_tolerances(assay, rng):
    a, _ = product(rng)
    near = a * np.float32(1 + 1e-5)
    assert assay.assert_close(near, a, rtol=1e-4).criterion == "allclose"
    for rule in dict(rtol=1e-7), dict(max_ulp=1), dict(criterion="bitwise"), dict(criterion="derived"):
        with pytest.raises(package.Mismatch):
            assay.assert_close(near, a, **rule)
    digest = assay.assert_close(a, a).digests.canonical
    assert assay.assert_close(a, expected_digest=digest)
    with pytest.raises(package.Mismatch):
        assay.assert_close(near, expected_digest=digest)


@pytest.mark.parametrize("kind, dtype", [("V2", "bf16"), ("u2", "bf16"), ("V1", "e5m2"), ("u1", "e2m1"), ("?", None)])
def test_words_of_every_kind_arrive(assay, rng, kind, dtype):
    words = rng.integers(0, 2, (3, 5)).astype("u2" if kind[1:] == "2" else "u1").view(kind)
    other = words.copy()
    other.view("u1").flat[4] ^= 1
    result = assay.assert_close(words, words.copy(), dtype=dtype, criterion="bitwise")
    assert result.stats.count == (30 if dtype == "e2m1" else 15)
    with pytest.raises(package.Mismatch):
        assay.assert_close(words, other, dtype=dtype, criterion="bitwise")


@pytest.mark.parametrize("kind", ["i4", "i1", "?"])
def test_integers_must_be_equal(assay, kind):
    expected = np.arange(24).reshape(4, 6).astype(kind)
    assert assay.assert_close(expected.copy(), expected).criterion == "bitwise"
    wrong = expected.copy()
    wrong[2, 3] = not wrong[2, 3]
    with pytest.raises(package.Mismatch, match=r"\[2,3\]"):
        assay.assert_close(wrong, expected)


def test_nan_never_passes(assay, rng):
    a, b = product(rng)
    wrong = a @ b
    wrong[3, 4] = np.nan
    with pytest.raises(package.Mismatch) as caught:
        assay.assert_close(wrong, op="gemm", inputs=(a, b))
    assert caught.value.result.stats.nan_count == 1
    assert "nan" in str(caught.value)
    with pytest.raises(package.Mismatch):
        assay.assert_close(wrong, a @ b, atol=1e30)


def test_what_proves_nothing_is_no_pass(assay):
    empty = np.zeros((0, 3), "f4")
    with pytest.raises(package.NotJudged, match="INCONCLUSIVE.*\n.*no pass") as caught:
        assay.assert_close(empty, empty)
    assert caught.value.result.reason == "empty" and not isinstance(caught.value, package.Mismatch)


@pytest.mark.parametrize("verdict", [0, 3, 4, 5, 6, 99])
def test_no_other_verdict_passes(verdict, rng):
    """Of a newer daemon even one that this package does not know."""
    a, _ = product(rng)

    def answer(header):
        return case_pb2.CaseResult(verdict=verdict, stats=case_pb2.ErrorStats(count=a.size))

    with served(Fake(result=answer)) as target, package.connect(target) as client:
        assert not client.compare(a, a)
        with pytest.raises(package.NotJudged, match="no pass"):
            package.assert_close(a, a, client=client)


def test_a_pass_of_something_else_is_no_pass(rng):
    """Too few elements, another operation, a field that an older daemon dropped."""
    a, b = product(rng)

    def passing(count=2048, **fields):
        def answer(header):
            result = case_pb2.CaseResult(verdict=types_pb2.VERDICT_PASSED, spec=header.operation,
                                         stats=case_pb2.ErrorStats(count=count))
            for name in fields.get("clear", ()):
                result.spec.gemm.ClearField(name)
            if fields.get("other"):
                result.spec.softmax.cols = 3
            return result
        return answer

    fake = Fake(result=passing())
    with served(fake) as target, package.connect(target) as client:
        right = dict(op="gemm", inputs=(a.T.copy(), b), trans_a=True, client=client)
        package.assert_close(a @ b, **right)
        for answer, said in ((passing(count=2047), "expected 2048"), (passing(clear=["trans_a"]), "trans_a=True"),
                             (passing(other=True), "op=gemm")):
            fake.result = answer
            with pytest.raises(package.Incompatible, match=said):
                package.assert_close(a @ b, **right)


def test_malformed_calls(assay, rng):
    a, b = product(rng)
    for call, said in (
            (dict(expected=a[:2]), "expected: has the shape"),
            (dict(), "nothing to compare with"),
            (dict(op="gemm"), "inputs"),
            (dict(inputs=(a, b)), "op"),
            (dict(op="gem", inputs=(a, b)), 'did you mean "gemm"'),
            (dict(op="gemm", inputs=(a, b), trans_q=True), "trans_q: is no field"),
            (dict(op="gemm", inputs=(a,)), "at least A,B"),
            (dict(op="gemm", inputs=(a, a)), "do not multiply"),
            (dict(op="gemm", inputs=(a[0], b)), "must have the axes"),
            (dict(op="gemm", inputs=(a, b), trans_a=1), "must be True or False"),
            (dict(op="gemm", inputs=(a, b), alpha="x"), "must be a number"),
            (dict(op="gemm", inputs=(a, b), activation="swish"), "activation"),
            (dict(op="attention", inputs=(a, a, a), kv_heads=0), "at least 1"),
            (dict(expected=a, tolerance=3), "tolerance: is no keyword"),
            (dict(expected=a, criterion="close"), "unknown word"),
            (dict(expected=a, atol=-1.0), "atol"),
            (dict(expected=a, deadline=3), "deadline"),
            (dict(expected=a, dtype="bf16"), "dtype: no array can hold bf16: actual is fp32, expected is fp32"),
            (dict(op="gemm", inputs=(a, b), inputs_dtype="e5m2"), "no array can hold e5m2: inputs[0] is fp32"),
            (dict(expected=a, timeout="soon"), "timeout: must be seconds"),
            (dict(expected=a, timeout=-1), "timeout: must be more than 0 seconds, got -1"),
            (dict(op="gemm", inputs=(a, b), alpha=[1, 2]), "alpha: must be one value"),
            (dict(expected=a, expected_digest="00"), "takes the place")):
        with pytest.raises(package.InvalidArgument) as caught:
            assay.assert_close(a, **call)
        assert said in str(caught.value), (call, str(caught.value))
        assert caught.value.violations, call
    with pytest.raises(package.NotFound) as missing:
        assay.assert_close(a, a, device="cuda:77")
    assert missing.value.reason == "DEVICE_NOT_FOUND"
    with pytest.raises(package.InvalidArgument) as wrong:
        assay.assert_close(a, op="gemm", inputs=(a, b))
    assert "shape" in str(wrong.value), "of the output"


def test_torch_tensors(assay):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    x, w, b = torch.randn(64, 1000), torch.randn(1000), torch.randn(1000)
    norm = torch.nn.functional.layer_norm
    assay.assert_close(norm(x, (1000,), w, b), op="layer_norm", inputs=(x, w, b))
    with pytest.raises(package.Mismatch, match="a scale is wrong"):
        assay.assert_close(norm(x, (1000,), eps=1e-3), op="layer_norm", inputs=(x,))
    half = x.bfloat16().requires_grad_()
    result = assay.assert_close(torch.softmax(half.float(), -1).bfloat16(), op="softmax", inputs=half)
    assert (result.dtype, result.out_dtype) == ("bf16", "bf16")
    with pytest.raises(package.Mismatch, match="--actual-dtype bf16.*--inputs-dtype bf16"):
        assay.assert_close(torch.softmax(half.float() * 1.1, -1).bfloat16(), op="softmax", inputs=half)


def test_a_folder_that_cannot_be_written_hides_no_verdict(assay, tmp_path):
    a, b = np.ones((4, 8), "f4"), np.ones((8, 4), "f4")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(package.Mismatch, match="The files could not be saved: .*file"):
        assay.assert_close(2 * (a @ b), op="gemm", inputs=(a, b), save_to=tmp_path / "file")


@pytest.mark.parametrize("folder", ["a\0b", "half \ud800"])
def test_a_folder_that_cannot_be_named_hides_no_verdict(assay, folder):
    with pytest.raises(package.Mismatch, match="The files could not be saved: "):
        assay.assert_close([2.0], [1.0], save_to=folder)


def test_what_is_no_client_and_no_folder_is_refused_before_a_verdict(assay, monkeypatch):
    a = np.ones(3, "f4")
    with pytest.raises(package.InvalidArgument, match="client: must be what assay.connect.. gives, got '127.0.0.1:1'"):
        package.assert_close(a, a, client="127.0.0.1:1")
    monkeypatch.setattr(package.Client, "judge", None)  # nobody is asked
    with pytest.raises(package.InvalidArgument, match="save_to: must be a path, got 3"):
        assay.assert_close(a, a + 1, save_to=3)


def test_a_refusal_names_the_caller_s_keyword(assay):
    x, w = np.ones((1, 8, 8, 5), "f4"), np.ones((4, 3, 3, 3), "f4")
    with pytest.raises(package.InvalidArgument) as caught:
        assay.assert_close(np.ones((1, 4, 6, 3), "f4"), op="conv", inputs=(x, w))
    assert str(caught.value).startswith("inputs[1].shape: w must be [4,4,3,3]")
    assert caught.value.violations[0].field == "header.inputs[1].shape"
