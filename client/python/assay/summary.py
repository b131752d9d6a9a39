"""A report as lines of text, as Python's prompt shows it: a line for each case, with what judged it."""

from __future__ import annotations

from typing import Any, Optional

from .errors import visible


def _checks(result: Any) -> list[str]:
    """The checks that a case passed: "bound 0.42", "5 of 5 probes", "determinism", "11.0 of 11 bits".

    The largest error/bound is said only where the bound judged. Beside a tolerance of the caller's it may be above 1.
    """
    stats, precision = result.stats, result.precision
    probes = [probe.verdict for probe in result.probes if probe.verdict in ("PASSED", "FAILED")]
    rho: Optional[float] = stats and stats.rho
    criterion = result.criterion or "bound"
    parts = [] if rho is None else ["exact" if rho == 0 else f"bound {rho:.2f}" if criterion == "bound" else criterion]
    parts += [f"{probes.count('PASSED')} of {len(probes)} probes"] * bool(probes)
    parts += ["determinism"] * bool(result.deterministic)
    if precision is not None and precision.bits is not None and precision.declared_bits is not None:
        parts.append(f"{precision.bits:.1f} of {precision.declared_bits:g} bits")
    parts += [str(result.bench)] * bool(result.bench and str(result.bench))
    return parts


def _word(result: Any) -> str:
    return "passed" if result.passed else result.verdict or "no verdict"


def _said(result: Any) -> str:
    if result.passed:
        return " · ".join(_checks(result))
    return "".join(finding.message if finding.reason == result.verdict.lower() else f"{finding.reason}: {finding.message}"
                   for finding in result.findings[:1])


def of_report(report: Any) -> str:
    """A line for each case, and how the job ended."""
    rows = [(result.name, _word(result), _said(result)) for result in report.results]
    name, word = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    lines = [f"{row[0]:<{name}}   {row[1]:<{word}}   {row[2]}".rstrip() for row in rows]
    job = report.job
    lines.append(f"{job.name} {report.verdict or job.state}: {job.counts}")
    return "\n".join(map(visible, lines))
