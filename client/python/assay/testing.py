"""assert_close: an assertion whose tolerance is the arithmetic of the operation itself.

Only PASSED passes. FAILED raises Mismatch. Whatever else the daemon answers proves nothing and
raises NotJudged, and a daemon that gives no answer raises assay.Error.
"""

from __future__ import annotations

import os
import shlex
from typing import Any, Optional

import numpy as np

from . import problems
from .client import Client, client_or_default
from .comparison import Comparison, prepare
from .connection import path_text
from .errors import Mismatch, NotJudged, visible
from .measures import Element
from .results import CaseResult, Report

_LABEL = 10  # columns


def assert_close(actual: Any, expected: Any = None, *, op: Optional[str] = None, inputs: Any = None,
                 client: Optional[Client] = None, save_to: Any = None, timeout: Any = None,
                 **problem: Any) -> CaseResult:
    """Raises unless the daemon passes `actual`. Returns the verdict's numbers.

    The arguments are those of Client.compare, and:

    client    the daemon to ask. Default: the one of the pytest session, else ASSAY_TARGET's
    save_to   a folder: the arrays are saved there as .npy if the verdict is not PASSED, and the
              message's command line repeats the verdict from them
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    asked = client_or_default(client, "judge")
    folder = asked.save_to if save_to is None else path_text("save_to", save_to)
    comparison = prepare(actual, expected, op=op, inputs=inputs, **{**asked.defaults, **problem})
    result = asked.judge(comparison, timeout)
    if result.passed:
        return result
    not_saved = "" if folder else ("The files are not saved; assert_close(…, save_to=FOLDER) or pytest --assay-save "
                                   "FOLDER saves them.")
    paths = _names(comparison)
    if folder:
        try:
            paths = _save(comparison, folder)
        except (OSError, ValueError) as error:  # the verdict is what counts
            not_saved = f"The files could not be saved: {error}"
    text = explain(comparison, result, repro(comparison, result, paths, asked.flags), not_saved)
    if result.verdict == "FAILED":
        raise Mismatch(text, result)
    raise NotJudged(text, result)


def title(comparison: Comparison, result: CaseResult) -> str:
    """"gemm 512x512x512 fp16", or "[512,512] fp32 against float64 …" without an operation."""
    shape = problems.shape_text(comparison.actual.shape)
    if not result.op:
        other = comparison.tensors[1]
        against = "a digest" if other is None else f"expected ({other.dtype})"
        return f"{shape} {comparison.actual.dtype} against {against}"
    types = result.dtype if result.out_dtype in ("", result.dtype) else f"{result.dtype} to {result.out_dtype}"
    return f"{result.op} {shape} {types}"


def _line(label: str, text: str) -> str:
    return f"  {label + ' ':<{_LABEL}}{text}"


def _numbers(result: CaseResult) -> str:
    stats = result.stats
    if stats is None:
        return ""
    parts = []
    if stats.rho is not None:
        proven = "" if stats.rho_proven is None else f" ({stats.rho_proven:.4g} of the proven bound)"
        parts.append(f"error/bound {stats.rho:.4g}{proven}")
    if stats.max_abs_error is not None:
        parts.append(f"max abs {stats.max_abs_error:.2g}")
    if stats.max_ulp is not None:
        parts.append(f"max ulp {stats.max_ulp:.4g}")
    if result.precision is not None and result.precision.bits is not None:
        parts.append(f"precision {result.precision.bits:.1f} of {result.precision.declared_bits:g} bits")
    return ", ".join(parts)


def _beyond(element: Element) -> str:
    error = abs(element.actual - element.expected)
    if not np.isfinite(error) or element.bound == 0:
        return ""
    return f", {error / element.bound:.4g} times its bound"


def explain(comparison: Comparison, result: CaseResult, command: str, not_saved: str) -> str:
    """What the daemon found, for people: verdict, findings, elements, numbers, and how to go on. `not_saved` says why
    the files of `command` are not there; empty if they are."""
    judged = result.verdict == "FAILED"
    reason = f" ({result.reason})" if result.reason else ""
    lines = [f"{title(comparison, result)}: {result.verdict or 'no verdict'}{reason}"]
    if not judged:
        lines.append(_line("", "This is no pass: nothing is proven of the array."))
    lines += _found(result)
    lines.append(_line("repeat", command))
    if not_saved:
        lines.append(_line("", not_saved))
    return visible("\n".join(lines))


def explain_report(report: Report) -> str:
    """What the daemon found in the cases that did not pass, for people."""
    most = 5
    lines = [f"{report.job.name or 'validation'}: {report.verdict or report.job.state}, {report.job.counts}"]
    # If none has failed, the cases that were not judged are why the job has not passed.
    found = report.failures or tuple(result for result in report.results if not result.passed)
    for result in found[:most]:
        lines += ["", f"{result.name}: {result.verdict}", *_found(result)]
    if len(found) > most:
        lines += ["", f"and {len(found) - most} more"]
    return visible("\n".join(lines))


def _found(result: CaseResult) -> list[str]:
    """The lines of a result, without its title."""
    judged = result.verdict == "FAILED"
    lines = []
    for finding in result.findings:
        headline = finding.headline if judged and result.stats and result.stats.worst else ""
        text = headline or finding.message
        if finding is result.findings[0] and result.pattern_of_errors:
            text += f", {result.pattern_of_errors}"
        lines.append(_line(finding.reason, text))
    if result.stats is not None and judged:
        first, worst = result.stats.first, result.stats.worst
        if first is not None:
            lines.append(_line("first", str(first) + _beyond(first)))
        if worst is not None and worst != first:
            lines.append(_line("worst", str(worst) + _beyond(worst)))
        numbers = _numbers(result)
        if numbers:
            lines.append(_line("numbers", numbers))
    told = {finding.subject for finding in result.findings}
    for probe in result.probes:
        if probe.verdict == "FAILED" and probe.name not in told:
            lines.append(_line("probe", f"{probe.name}: {probe.message}"))
    for place in result.provenance:
        if not place.expected:
            lines.append(_line(place.kind, f"{place.count:,}, origin {place.origin}, first at "
                                           f"{problems.shape_text(place.first_index)}"))
    if result.reads_as:
        lines.append(_line("reads as", result.reads_as))
    if result.precision is not None and result.precision.looks_like:
        lines.append(_line("looks like", result.precision.looks_like))
    if result.next_step:
        lines.append(_line("next", problems.in_python(result.next_step)))
    return lines


def _operand_names(comparison: Comparison) -> list[str]:
    known = [operand.name.lower() for operand in problems.info(comparison.op).operands] if comparison.op else []
    count = len(comparison.tensors) - 2
    return [known[i] if i < len(known) else f"input{i}" for i in range(count)]


def _names(comparison: Comparison, folder: str = "") -> list[str]:
    """The file of each tensor of the comparison; "" for one that it does not have."""
    names = ["actual", "expected", *_operand_names(comparison)]
    return ["" if tensor is None else os.path.join(folder, name + ".npy")
            for name, tensor in zip(names, comparison.tensors)]


def _save(comparison: Comparison, folder: str) -> list[str]:
    os.makedirs(folder, exist_ok=True)
    paths = _names(comparison, folder)
    for path, tensor in zip(paths, comparison.tensors):
        if tensor is not None:
            np.save(path, tensor.words)
    return paths


def _option(name: str, value: Any) -> list[str]:
    if name == "deadline":
        return [problems.flag(name), f"{problems.seconds(name, value):g}s"]
    if isinstance(value, (bool, np.bool_)):
        return [problems.flag(name)] + ([] if value else ["false"])
    if isinstance(value, (list, tuple)):
        return [problems.flag(name), "x".join(map(str, value))]
    return [problems.flag(name), str(value)]


def repro(comparison: Comparison, result: CaseResult, paths: list[str], flags: tuple[str, ...] = ()) -> str:
    """The `assay compare` line that gives the same verdict from the files."""
    words = ["assay", *flags, "compare", paths[0]] + ([paths[1]] if paths[1] else [])
    for tensor, name in zip(comparison.tensors[:2], ("actual_dtype", "expected_dtype")):
        if tensor is not None and tensor.raw:
            words += _option(name, tensor.dtype)
    if comparison.op:
        words += ["--inputs", ",".join(paths[2:]), "--op", comparison.op]
        raw = next((t.dtype for t in comparison.tensors[2:] if t is not None and t.raw), None)
        if raw is not None:
            words += _option("inputs_dtype", raw)
    for name, value in comparison.keywords.items():
        if name != "device":
            words += _option(name, value)
    if result.device:
        words += ["--device", result.device]
    return " ".join(shlex.quote(word) for word in words)
