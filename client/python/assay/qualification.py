"""qualify: whether devices are fit for work, by the program `assay qualify`.

A qualification is many jobs, and decisions between them: the self-test, the suite of the level, and further runs of
what was wrong, to find out who is to blame. The program makes these decisions. Here it is run, and its JSON is read.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from . import problems
from .daemon import find_program
from .errors import Error, Internal, InvalidArgument, Unavailable

# Exit codes of the program after which there is no report: a wrong request, and no daemon.
_WITHOUT_REPORT: Mapping[int, Any] = {2: InvalidArgument, 3: Unavailable}


@dataclass(frozen=True)
class DeviceFit:
    """Whether one device is fit. `json` has what is not repeated here."""

    target: str
    device: str
    model: str
    verdict: str  # "QUALIFIED", "DEGRADED", "FAILED" or "INCONCLUSIVE"
    severity: str
    code: str  # "A101": client/qualify/README.md
    next_step: str
    job: str
    cases: int
    duration_seconds: Optional[float]
    findings: tuple[Mapping[str, Any], ...]
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.verdict == "QUALIFIED"


@dataclass(frozen=True)
class Qualification:
    """The report of a qualification. It is true if every device is qualified and none is missing."""

    level: str
    verdict: str
    devices: tuple[DeviceFit, ...]
    missing: tuple[Mapping[str, Any], ...]  # nodes and devices, with code, reason and next_step
    json: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.verdict == "QUALIFIED"

    def __str__(self) -> str:
        lines = [f"{d.verdict:<12} {d.target} {d.device} {d.code}  {d.next_step}".rstrip() for d in self.devices]
        lines += [f"{'MISSING':<12} {m.get('target', '')} {m.get('code', '')}  {m.get('reason', '')}"
                  for m in self.missing]
        return "\n".join([*lines, f"{self.level}: {self.verdict}"])


def qualify(flags: Sequence[str], level: str, options: Mapping[str, Any]) -> Qualification:
    """Runs the program. `flags` say which daemon; `options` are the program's, as keywords."""
    words = [find_program("assay"), *flags, "qualify", str(level), "--format", "json"]
    for name, value in options.items():
        if value is True:
            words.append(problems.flag(name))
        elif value is not None and value is not False:
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            words += [problems.flag(name), text]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    kind = _WITHOUT_REPORT.get(done.returncode)
    if kind is not None:
        raise _failed(kind, done)
    try:
        return _read(json.loads(done.stdout))
    except (ValueError, KeyError):
        raise _failed(Internal, done) from None


def _failed(kind: Any, done: Any) -> Error:
    said = done.stderr.strip() or "it said nothing"
    made: Error = kind(f"assay qualify ended with {done.returncode} and no report: {said}")
    return made


def _read(report: Any) -> Qualification:
    devices = tuple(DeviceFit(
        target=d["target"], device=d["device"], model=d.get("model", ""), verdict=d["verdict"], severity=d["severity"],
        code=d["code"], next_step=d["next_step"], job=d.get("job", ""), cases=d["cases"],
        duration_seconds=d.get("duration_seconds"), findings=tuple(d["findings"]), json=d) for d in report["devices"])
    return Qualification(report["level"], report["verdict"], devices, tuple(report["missing"]), report)
