"""What a daemon measured of one case: statistics, findings, probes and times, as frozen dataclasses.

They have the names of the API's messages and fields (proto/assay/v1/case.proto). results.py makes them of messages. A
value that was not measured is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional


@dataclass(frozen=True)
class Element:
    """One element of an output, beside what it should be."""

    index: tuple[int, ...]
    actual: float
    expected: float
    bound: float  # the error that this element may have
    actual_bits: str
    expected_bits: str

    def __str__(self) -> str:
        return (f"[{', '.join(map(str, self.index))}]  got {self.actual:.9g} ({self.actual_bits})  expected "
                f"{self.expected:.9g} ± {self.bound:.2g} ({self.expected_bits})")


@dataclass(frozen=True)
class Finding:
    """One reason for a verdict. `message` is for people."""

    reason: str
    message: str
    blame: str
    phase: str
    headline: str
    device: str
    subject: str
    quarantined: bool


@dataclass(frozen=True)
class ErrorStats:
    """Statistics of every element of an output."""

    count: int
    mismatches: int
    rho: Optional[float]  # the largest |error| / bound, with the probabilistic bound
    rho_proven: Optional[float]  # the same with the proven bound
    max_abs_error: Optional[float]
    mean_abs_error: Optional[float]
    rms_error: Optional[float]
    max_rel_error: Optional[float]
    max_ulp: Optional[float]
    cosine: Optional[float]
    bias_z: Optional[float]
    nan_count: int
    inf_count: int
    reference_nan_count: int
    reference_inf_count: int
    class_mismatches: int
    unwritten: int
    guard_hits: int
    zero_count: int
    mismatch_samples: tuple[Element, ...]
    worst: Optional[Element]
    max_abs_reference: Optional[float]
    max_abs_score: Optional[float]

    @property
    def first(self) -> Optional[Element]:
        """The first mismatch in index order."""
        return self.mismatch_samples[0] if self.mismatch_samples else None


@dataclass(frozen=True)
class Precision:
    """How exactly a kernel computed, judged by the errors of all elements together."""

    bits: Optional[float]
    declared_bits: Optional[float]
    rms: Optional[float]
    gain: Optional[float]
    gain_error: Optional[float]
    offset: Optional[float]
    looks_like: str


@dataclass(frozen=True)
class Provenance:
    """Where NaN or infinities came from."""

    kind: str
    origin: str
    expected: bool
    count: int
    first_index: tuple[int, ...]


@dataclass(frozen=True)
class ProbeResult:
    """The outcome of an exact case or an identity."""

    name: str
    verdict: str
    message: str
    count: int
    mismatches: int
    digest: str
    golden: Optional[bool]
    first_mismatch: Optional[Element]
    refused: bool


@dataclass(frozen=True)
class Digests:
    """Digests of an output."""

    raw: str
    canonical: str


@dataclass(frozen=True)
class BaselineChange:
    """A time against that of a baseline."""

    baseline: str
    baseline_seconds: float
    seconds: float
    ratio: float
    noise: float
    threshold: float
    change: str
    name: str
    least_ratio: Optional[float]
    most_ratio: Optional[float]
    runs: Optional[int]


def time_text(seconds: Optional[float]) -> str:
    """A time for people: "12.3 µs". "" if there is none."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _rate_text(rate: float, unit: str) -> str:
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if rate >= size:
            return f"{rate / size:.3g} {prefix}{unit}"
    return f"{rate / 1e6:.3g} M{unit}"


@dataclass(frozen=True)
class BenchStats:
    """How fast a kernel was."""

    median_seconds: Optional[float]
    p10_seconds: Optional[float]
    p90_seconds: Optional[float]
    samples: int
    noise: Optional[float]
    flops_per_second: Optional[float]
    bytes_per_second: Optional[float]
    efficiency: Optional[float]
    roof: str
    ceiling_flops_per_second: Optional[float]
    ceiling_bytes_per_second: Optional[float]
    noisy: bool
    profile: Mapping[str, float]
    baseline: Optional[BaselineChange]
    profile_note: str
    launches_per_sample: Optional[int]
    median_standard_error: Optional[float]

    def __str__(self) -> str:
        """What was measured, for people: "12.3 µs, 45.1 GFLOP/s, 0.86 of the compute roof"."""
        parts = [time_text(self.median_seconds) + " (noisy)" * self.noisy] * (self.median_seconds is not None)
        moves = self.bytes_per_second is not None and (self.flops_per_second is None or self.roof not in ("", "compute"))
        rate, unit = (self.bytes_per_second, "B/s") if moves else (self.flops_per_second, "FLOP/s")
        parts += [] if rate is None else [_rate_text(rate, unit)]
        parts += [] if self.efficiency is None else [f"{self.efficiency:.2f} of the {self.roof} roof"]
        return ", ".join(parts)


@dataclass(frozen=True)
class Slice:
    """Elements that the caller asked for."""

    name: str
    shape: tuple[int, ...]
    values: tuple[float, ...]
    bits: tuple[str, ...]
    begin: tuple[int, ...]
