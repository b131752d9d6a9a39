"""Validation against a reference of the caller's own, for what Assay has no operator for.

The inputs are drawn here and the reference runs here, in FP64. The daemon compares, as Client.compare does: with a
tolerance that follows from the formats, or the caller's own.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import problems, results
from ._wire import case_pb2, job_pb2, types_pb2
from .client import Client
from .errors import refuse
from .function import RAISED, RETURNED, UNSUPPORTED, WROTE_OUTSIDE, Function, Kernel, Operand, Outcome
from .results import CaseResult, Job, Report

_FORMATS = ("fp64", "fp32", "fp16")  # that NumPy rounds to


def validate_by_reference(function: Function, reference_fn: Callable[..., Any], client: Client, dtype: Any, shapes: Any,
                          seed: int, repeats: int, keywords: Mapping[str, Any]) -> Report:
    """One case for each format and each of `shapes`. `keywords` are those of Client.compare."""
    listed_shapes = list(shapes or ())
    if not listed_shapes:
        raise refuse("shapes", "is required: a list, with the shapes of all inputs for each case")
    if isinstance(dtype, (list, tuple)) and not dtype:
        raise refuse("dtype", "is empty: name a format, or a list of them")
    words = [problems.dtype_word(problems.dtype_number("dtype", one))
             for one in (dtype if isinstance(dtype, (list, tuple)) else [dtype or "fp32"])]
    for word in words:
        if word not in _FORMATS:
            raise refuse("dtype", f"with reference_fn it must be one of {', '.join(_FORMATS)}, got {word}")
    found: list[CaseResult] = []
    for word in words:
        for inputs in listed_shapes:
            listed = [tuple(inputs)] if all(isinstance(n, int) for n in inputs) else [tuple(one) for one in inputs]
            found.append(_case(len(found), function, reference_fn, client, word, listed, seed, repeats, keywords))
    return Report(_job(found), tuple(found), client.target, function.raised)


def _case(index: int, function: Function, reference_fn: Callable[..., Any], client: Client, word: str,
          shapes: Sequence[tuple[int, ...]], seed: int, repeats: int, keywords: Mapping[str, Any]) -> CaseResult:
    name = f"{word} " + " ".join(map(problems.shape_text, shapes))
    number = problems.dtype_number("dtype", word)
    rng = np.random.default_rng([seed, index])
    operands = [Operand(f"inputs[{i}]", number, shape) for i, shape in enumerate(shapes)]
    drawn = [rng.standard_normal(shape).astype(operand.words().dtype) for operand, shape in zip(operands, shapes)]
    expected = np.asarray(reference_fn(*(x.astype(np.float64) for x in drawn)), np.float64)
    kernel = Kernel(None, operands, Operand("output", number, expected.shape))
    for i, x in enumerate(drawn):
        kernel.take(i, x.tobytes())
    poison = (1 << 8 * drawn[0].itemsize) - 1  # a NaN
    outcomes = [function.launch(kernel, poison) for _ in range(max(1, repeats))]
    for outcome in outcomes:
        if outcome.end != RETURNED or outcome.changed:
            return _ended(index, name, outcome, operands)
    if any(outcome.output.tobytes() != outcomes[0].output.tobytes() for outcome in outcomes[1:]):
        return _local(index, name, types_pb2.VERDICT_FAILED, case_pb2.REASON_NONDETERMINISTIC,
                      f"{len(outcomes)} launches did not agree bit by bit")
    result = client.compare(outcomes[0].output, expected, **keywords)
    message = type(result.proto)()
    message.CopyFrom(result.proto)
    message.index, message.name, message.ran_elsewhere = index, f"{name}: {message.name}", True
    return results.of(CaseResult, message)


def _ended(index: int, name: str, outcome: Outcome, operands: Sequence[Operand]) -> CaseResult:
    if outcome.end == RETURNED:
        names = ", ".join(operands[i].name for i in outcome.changed)
        return _local(index, name, types_pb2.VERDICT_FAILED, case_pb2.REASON_GUARD, f"the function changed {names}")
    if outcome.end == WROTE_OUTSIDE:
        return _local(index, name, types_pb2.VERDICT_FAILED, case_pb2.REASON_GUARD, outcome.message)
    if outcome.end == UNSUPPORTED:
        return _local(index, name, types_pb2.VERDICT_UNSUPPORTED, case_pb2.REASON_UNSUPPORTED, outcome.message)
    reason = case_pb2.REASON_CRASH if outcome.end == RAISED else case_pb2.REASON_FAULT
    return _local(index, name, types_pb2.VERDICT_ERROR, reason, outcome.message)


def _local(index: int, name: str, verdict: Any, reason: Any, text: str) -> CaseResult:
    """A result that no daemon was needed for."""
    word = problems.word(case_pb2.DESCRIPTOR.enum_types_by_name["Reason"], reason)
    finding = case_pb2.Finding(reason=word, reason_code=reason, blame=case_pb2.BLAME_KERNEL, message=text)
    return results.of(CaseResult, case_pb2.CaseResult(index=index, name=name, verdict=verdict, findings=[finding],
                                                      ran_elsewhere=True))


def _job(found: Sequence[CaseResult]) -> Job:
    """The cases as a job that no daemon has: its name is empty."""
    verdicts = [result.verdict for result in found]
    fields = {"passed": "PASSED", "failed": "FAILED", "inconclusive": "INCONCLUSIVE", "unsupported": "UNSUPPORTED",
              "errors": "ERROR", "skipped": "SKIPPED"}
    counts = job_pb2.VerdictCounts(total=len(found), **{name: verdicts.count(word) for name, word in fields.items()})
    # Nothing has passed where nothing ran.
    worst = next((word for word in ("FAILED", "ERROR", "INCONCLUSIVE", "UNSUPPORTED", "SKIPPED") if word in verdicts),
                 "PASSED" if verdicts else "INCONCLUSIVE")
    return results.of(Job, job_pb2.Job(state=job_pb2.JOB_STATE_FINISHED, counts=counts,
                                       verdict=types_pb2.Verdict.Value(f"VERDICT_{worst}")))
