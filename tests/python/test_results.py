"""Results have the API's fields, show themselves in a notebook, and are true only if they pass."""

import dataclasses
import html.parser
import pickle
import sys

import pytest

from assay import notebook, results
from assay._wire import case_pb2, device_pb2, job_pb2, types_pb2

# Fields of the API that a dataclass does not repeat: `proto` has them, or others say the same.
LEFT_OUT = {
    "CaseResult": {"spec", "phases", "criteria", "inputs", "checksum"}, "Job": {"spec", "selftest"},
    "Finding": {"reason_code", "phase_code", "death"}, "BenchStats": {"conditions"}, "Device": {"ceilings", "telemetry"}}


@pytest.mark.parametrize("name", sorted(results._CLASSES))
def test_every_field_of_the_api_is_there(name):
    kind = results._CLASSES[name]
    short = name.rpartition(".")[2]
    pool = device_pb2.DESCRIPTOR.pool
    api = {f.name for f in pool.FindMessageTypeByName(name).fields}
    ours = {f.name for f in dataclasses.fields(kind)}
    assert api - ours == LEFT_OUT.get(short, set())
    assert ours - api <= {"proto", "op", "provider", "dtype", "out_dtype", "pattern", "seed", "problem"}


def case(verdict=types_pb2.VERDICT_PASSED, seq=64, rho=0.5, **fields):
    message = case_pb2.CaseResult(verdict=verdict, name="attention", **fields)
    message.spec.attention.seq = seq
    message.spec.dtype = types_pb2.DTYPE_FP16
    message.stats.rho = rho
    return results.of(results.CaseResult, message)


def test_only_passed_is_true():
    for value in types_pb2.Verdict.values():
        result = case(value)
        assert bool(result) == result.passed == (value == types_pb2.VERDICT_PASSED)
    assert case(42).verdict == "unknown (42)" and not case(42)
    job = results.of(results.Job, job_pb2.Job(name="jobs/1", state=job_pb2.JOB_STATE_RUNNING))
    assert not results.Report(job, (case(),), "") and not job.ended


def test_what_was_not_measured_is_none():
    result = case()
    assert result.stats.max_ulp is None and result.stats.count == 0 and result.bench is None
    assert result.deterministic is None and result.start_time is None
    assert result.length == 64


def report(*cases):
    job = results.of(results.Job, job_pb2.Job(name="jobs/<1>", verdict=types_pb2.VERDICT_FAILED))
    return results.Report(job, cases, "here")


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("br", "meta"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_html_has_a_table_a_verdict_and_a_plot():
    finding = case_pb2.Finding(reason="bound", message="<script>alert(1)</script>\x1b[2J")
    wrong = case(types_pb2.VERDICT_FAILED, 256, 3.0, findings=[finding], reads_as="a & b")
    text = report(case(), case(seq=128), wrong)._repr_html_()
    tags = Tags(text)
    assert tags.seen.count("tr") == 5 and "svg" in tags.seen and "script" not in tags.seen
    assert "FAILED" in text and "jobs/&lt;1&gt;" in text and "a &amp; b" in text and "\x1b" not in text
    assert tags.seen.count("circle") == 4, "three points and the legend's"
    Tags(wrong._repr_html_())


def test_a_plot_needs_two_lengths():
    assert notebook.error_plot([case(), case()]) == ""
    assert "polyline" in notebook.error_plot([case(), case(seq=128)])
    assert notebook.error_plot([case(rho=0.0), case(rho=float("inf"), seq=128)]) == ""


def test_the_prompt_shows_a_line_for_each_case():
    """And not every field of every result."""
    probes = [case_pb2.ProbeResult(name=name, verdict=types_pb2.VERDICT_PASSED) for name in ("exact-sparse", "row-sums")]
    precision = case_pb2.Precision(bits=11.0, declared_bits=11)
    right = case(rho=0.42, probes=probes, deterministic=True, precision=precision)
    wrong = case(types_pb2.VERDICT_FAILED, rho=3.0, findings=[case_pb2.Finding(reason="bound", message="too far\x1b[2J")])
    assert repr(report(right, wrong)).splitlines() == [
        "attention   passed   bound 0.42 · 2 of 2 probes · determinism · 11.0 of 11 bits",
        "attention   FAILED   bound: too far\\x1b[2J",
        "jobs/<1> FAILED: None"]
    assert repr(report(case())).startswith("attention   passed   bound 0.50\n"), "what was not checked is not named"
    tolerant = case(rho=1.13, criterion=types_pb2.CRITERION_ALLCLOSE, deterministic=True)
    assert repr(report(tolerant)).startswith("attention   passed   allclose · determinism\n"), "1.13 times what did not judge"
    lacking = case_pb2.Finding(reason="unsupported", message="onednn has no fp16")
    shown = repr(report(case(rho=0.0), case(types_pb2.VERDICT_UNSUPPORTED, findings=[lacking]))).splitlines()
    assert shown[:2] == ["attention   passed        exact", "attention   UNSUPPORTED   onednn has no fp16"]


def test_a_report_of_a_benchmark_shows_the_times():
    times = case_pb2.BenchStats(median_seconds=12.34e-6, flops_per_second=45.12e9, bytes_per_second=1.5e12, efficiency=0.864,
                                roof="compute")
    product = case(bench=times)
    assert repr(report(product)).startswith(
        "attention   passed   bound 0.50 · 12.3 µs, 45.1 GFLOP/s, 0.86 of the compute roof\n")
    assert str(report(product)).startswith("PASSED       attention  12.3 µs, 45.1 GFLOP/s, 0.86 of the compute roof\n")
    times.roof, times.noisy = "memory", True
    assert str(case(bench=times).bench) == "12.3 µs (noisy), 1.5 TB/s, 0.86 of the memory roof"
    assert str(case(bench=case_pb2.BenchStats(bytes_per_second=2.5e6)).bench) == "2.5 MB/s"
    assert repr(report(case(bench=case_pb2.BenchStats()))).startswith("attention   passed   bound 0.50\n"), "unknown is absent"


@pytest.mark.parametrize("counts, text", [((1, 0, 0, 0, 0, 1, 0), "0 passed, 0 failed, 1 error"),
                                          ((4, 1, 1, 0, 0, 2, 0), "1 passed, 1 failed, 2 errors"),
                                          ((2, 1, 0, 1, 0, 0, 0), "1 passed, 0 failed, 1 inconclusive")])
def test_counts_are_in_the_singular_and_plural(counts, text):
    total, passed, failed, inconclusive, unsupported, errors, skipped = counts
    assert str(results.VerdictCounts(total, passed, failed, inconclusive, unsupported, errors, skipped)) == text


def test_pickle():
    result = case()
    assert pickle.loads(pickle.dumps(result)) == result


def test_pandas(monkeypatch):
    pandas = pytest.importorskip("pandas")
    frame = report(case(), case(seq=128)).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["problem.seq"]) == [64, 128] and list(frame["rho"]) == [0.5, 0.5]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs the package pandas"):
        report(case()).to_pandas()
