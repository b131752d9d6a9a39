"""What a daemon answers, as frozen dataclasses.

They have the names of the API's messages and fields (proto/assay/v1). A value that was not measured
is None, never 0. Words of enums are as the command line has them: "PASSED", "bf16", "bound". Times
are datetimes in UTC, durations are seconds. `proto` of a CaseResult, Job, Device and Event is the
message itself, with all that is not repeated here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Iterator, Mapping, Optional, Type, TypeVar

from . import errors, notebook, problems, summary
from .measures import (BaselineChange, BenchStats, Digests, Element, ErrorStats, Finding, Precision, ProbeResult,
                       Provenance, Slice)

T = TypeVar("T")


@dataclass(frozen=True)
class CaseResult:
    """The result of a case. It is true if the verdict is PASSED, and only then."""

    index: int
    name: str
    device: str
    verdict: str
    findings: tuple[Finding, ...]
    stats: Optional[ErrorStats]
    bench: Optional[BenchStats]
    digests: Optional[Digests]
    provenance: tuple[Provenance, ...]
    deterministic: Optional[bool]
    implementation: str
    repro: str
    start_time: Optional[datetime]
    duration: Optional[float]
    criterion: str
    probes: tuple[ProbeResult, ...]
    pattern_of_errors: str
    reads_as: str
    next_step: str
    slices: tuple[Slice, ...]
    precision: Optional[Precision]
    refused_calls: tuple[str, ...]
    ran_elsewhere: bool  # in the caller's own process
    loaded_libraries: tuple[str, ...]
    # Of the case's spec.
    op: str = ""
    provider: str = ""
    dtype: str = ""
    out_dtype: str = ""
    pattern: str = ""
    seed: Optional[int] = None
    problem: Mapping[str, Any] = field(default_factory=dict)
    proto: Any = field(default=None, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        return self.verdict == "PASSED"

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return f"{self.verdict or 'no verdict'}  {self.name}" + "".join(
            f"\n  {finding.reason}: {finding.message}" for finding in self.findings)

    @property
    def reason(self) -> str:
        """The word of the most important finding; "" for PASSED."""
        return self.findings[0].reason if self.findings else ""

    @property
    def length(self) -> Optional[int]:
        """The length that errors are plotted over: keys of an attention. None if it has none."""
        if not self.op:
            return None
        fields = problems.info(self.op).length.fields
        return next((int(self.problem[name]) for name in fields if self.problem.get(name)), None)

    def row(self) -> dict[str, Any]:
        """The result as one row of a table."""
        stats, bench, precision = self.stats, self.bench, self.precision
        return {
            "verdict": self.verdict, "name": self.name, "reason": self.reason, "op": self.op,
            "provider": self.provider, "dtype": self.dtype, "out_dtype": self.out_dtype, "device": self.device,
            "pattern": self.pattern, "seed": self.seed, "criterion": self.criterion,
            "rho": stats and stats.rho, "max_abs_error": stats and stats.max_abs_error,
            "max_rel_error": stats and stats.max_rel_error, "rms_error": stats and stats.rms_error,
            "max_ulp": stats and stats.max_ulp, "mismatches": stats and stats.mismatches,
            "count": stats and stats.count, "bits": precision and precision.bits,
            "median_seconds": bench and bench.median_seconds, "flops_per_second": bench and bench.flops_per_second,
            "bytes_per_second": bench and bench.bytes_per_second, "efficiency": bench and bench.efficiency,
            "digest": self.digests and self.digests.canonical,
            **{f"problem.{key}": value for key, value in self.problem.items()},
        }

    def _repr_html_(self) -> str:
        return notebook.of_results([self])

    def to_pandas(self) -> Any:
        return _frame([self.row()])


@dataclass(frozen=True)
class VerdictCounts:
    """How many cases have which verdict."""

    total: int
    passed: int
    failed: int
    inconclusive: int
    unsupported: int
    errors: int
    skipped: int

    def __str__(self) -> str:
        words = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "total"}
        return ", ".join(f"{count} {'error' if name == 'errors' and count == 1 else name}"
                         for name, count in words.items() if count or name in ("passed", "failed"))


@dataclass(frozen=True)
class Job:
    """A job. `verdict` is "" until it has ended."""

    name: str
    state: str
    verdict: str
    counts: Optional[VerdictCounts]
    create_time: Optional[datetime]
    start_time: Optional[datetime]
    end_time: Optional[datetime]
    devices: tuple[str, ...]
    findings: tuple[Finding, ...]
    last_sequence: int
    suite: str
    suite_version: str
    environment: Mapping[str, str]
    proto: Any = field(default=None, repr=False, compare=False)

    @property
    def ended(self) -> bool:
        return self.state not in ("", "QUEUED", "RUNNING")

    @property
    def passed(self) -> bool:
        return self.verdict == "PASSED"


@dataclass(frozen=True)
class Event:
    """An event of a job.

    kind      "started", "progress", "case_result", "state_change" or "finished"
    sequence  its number, from 1 without gaps; a progress event is not stored and has 0
    result    of a case_result, job of a finished event; `proto` has what the other kinds carry
    """

    kind: str
    sequence: int
    create_time: Optional[datetime]
    result: Optional[CaseResult] = None
    job: Optional[Job] = None
    proto: Any = field(default=None, repr=False, compare=False)


# What the daemon says under this name of a result that passed: by what it could have been judged more sharply.
_WEAKER = "magnitudes"


@dataclass(frozen=True)
class Report:
    """A job and the results of its cases. It is true if the job PASSED, and only then."""

    job: Job
    results: tuple[CaseResult, ...]
    target: str
    # What the function that `validate` ran raised first.
    raised: Optional[BaseException] = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        return self.job.verdict

    @property
    def passed(self) -> bool:
        return self.job.passed

    def __bool__(self) -> bool:
        return self.passed

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> CaseResult:
        return self.results[index]

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The results that do not pass: FAILED, ERROR and INCONCLUSIVE."""
        return tuple(r for r in self.results if r.verdict not in ("PASSED", "UNSUPPORTED", "SKIPPED"))

    def raise_on_failure(self) -> Report:
        """Raises unless the job passed: Mismatch if a case is FAILED, else NotJudged. Returns the report."""
        from . import testing

        __tracebackhide__ = True  # pytest then shows the line of the test
        if self.passed:
            return self
        failed = any(result.verdict == "FAILED" for result in self.results)
        kind = errors.Mismatch if failed else errors.NotJudged
        raise kind(testing.explain_report(self), self) from self.raised

    def __str__(self) -> str:
        lines = []
        for r in self.results:
            said = [r.findings[0].message] if r.findings else [p.message for p in r.probes if p.name == _WEAKER]
            times = f"  {r.bench}" if r.bench else ""
            lines.append(f"{r.verdict:<12} {r.name}{times}" + "".join(f"  ({text})" for text in said))
        return "\n".join([*lines, f"{self.job.name} {self.verdict or self.job.state}: {self.job.counts}"])

    def __repr__(self) -> str:
        return summary.of_report(self)

    def _repr_html_(self) -> str:
        return notebook.of_report(self)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each result."""
        return _frame([result.row() for result in self.results])


@dataclass(frozen=True)
class ContainmentMeasure:
    """One measure that keeps a device's workers from the rest of the node."""

    measure: str
    applied: bool
    detail: str
    proto: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Device:
    """A device, or a backend that could not be loaded."""

    name: str
    id: str
    backend: str
    model: str
    state: str
    memory_bytes: int
    arena_bytes: int
    leased_bytes: int
    compute_units: int
    properties: Mapping[str, str]
    unavailable_reason: str
    quarantine_reason: str
    worker_restarts: int
    queue_depth: int
    containment: tuple[ContainmentMeasure, ...]
    proto: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class ServerInfo:
    """What a daemon says about itself."""

    version: str
    host: str
    address: str
    metrics_address: str
    start_time: Optional[datetime]
    backends: tuple[str, ...]
    versions: Mapping[str, str]
    draining: bool
    default_case_deadline: Optional[float]
    max_cases_per_job: int


# By the full names of the messages.
_CLASSES: dict[str, Any] = {f"assay.v1.{name}": kind for name, kind in {
    "Mismatch": Element, "Finding": Finding, "ErrorStats": ErrorStats, "Precision": Precision,
    "Provenance": Provenance, "ProbeResult": ProbeResult, "Digests": Digests, "BaselineChange": BaselineChange,
    "BenchStats": BenchStats, "Slice": Slice, "ContainmentMeasure": ContainmentMeasure, "CaseResult": CaseResult,
    "VerdictCounts": VerdictCounts, "Job": Job, "Device": Device, "ServerInfo": ServerInfo}.items()}


def _value(descriptor: Any, value: Any) -> Any:
    """A set field's value in Python's own types."""
    if descriptor.message_type is None:
        return problems.word(descriptor.enum_type, value) if descriptor.enum_type else value
    name = descriptor.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return value.ToDatetime().replace(tzinfo=timezone.utc)
    if name == "google.protobuf.Duration":
        return value.seconds + value.nanos * 1e-9
    return of(_CLASSES[name], value)


def of(kind: Type[T], message: Any) -> T:
    """The dataclass of a message. Fields of both have one name."""
    descriptors = message.DESCRIPTOR.fields_by_name
    values: dict[str, Any] = {}
    for f in dataclasses.fields(kind):
        descriptor = descriptors.get(f.name)
        if descriptor is None:
            continue
        value = getattr(message, f.name)
        if problems.is_list(descriptor):
            if descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry:
                values[f.name] = dict(value)
            else:
                values[f.name] = tuple(_value(descriptor, v) for v in value)
        elif descriptor.has_presence and not message.HasField(f.name):
            values[f.name] = None
        else:
            values[f.name] = _value(descriptor, value)
    if "proto" in {f.name for f in dataclasses.fields(kind)}:
        values["proto"] = message
    if kind is CaseResult:
        values.update(_of_spec(message.spec))
    return kind(**values)


def _of_spec(spec: Any) -> dict[str, Any]:
    return {"op": problems.op_of(spec), "provider": spec.provider, "dtype": problems.dtype_word(spec.dtype),
            "out_dtype": problems.dtype_word(spec.out_dtype), "pattern": spec.pattern,
            "seed": spec.seed if spec.HasField("seed") else None, "problem": problems.problem_of(spec)}


def event_of(message: Any) -> Event:
    kind = message.WhichOneof("event") or "unknown"
    return Event(
        kind=kind, sequence=message.sequence,
        create_time=_value(message.DESCRIPTOR.fields_by_name["create_time"], message.create_time),
        result=of(CaseResult, message.case_result) if kind == "case_result" else None,
        job=of(Job, message.finished.job) if kind == "finished" else None, proto=message)


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas needs the package pandas, which is not installed") from None
    return pandas.DataFrame(rows)
