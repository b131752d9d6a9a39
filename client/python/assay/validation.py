"""validate: a function of this process, judged as a kernel of the daemon's own.

external.py follows one case from here to the daemon and back.
"""

from __future__ import annotations

import random
import re
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import errors, problems
from ._wire import external_pb2
from .client import Client, checked_labels, client_or_default
from .errors import refuse
from .external import Session
from .function import Function
from .reference import Reference, cases_of
from .results import Event, Report
from .shapes import Drawn, Near, default_set

_CASE = re.compile(r"(?:job\.)?spec\.cases\[(\d+)\]\.?(.*)")

Shape = Mapping[str, Any]


def validate(fn: Callable[..., Any], *, op: Optional[str] = None, dtype: Any = None,
             shapes: Union[None, Shape, Sequence[Any]] = None, seed: int = 1, client: Optional[Client] = None,
             patterns: Union[None, str, Iterable[str]] = None, held_out: Optional[int] = None, repeats: int = 2,
             arrays: Union[str, Callable[[Any], Any]] = "numpy", out: Optional[bool] = None,
             reference_fn: Optional[Callable[..., Any]] = None, device: str = "", launch_deadline: Any = None,
             labels: Optional[Mapping[str, str]] = None, on_event: Optional[Callable[[Event], None]] = None,
             **fields: Any) -> Report:
    """Has the daemon draw inputs, runs fn(*inputs) on them here, and has the daemon judge what comes back.

    fn        the function under test. It gets the operator's inputs in order. A parameter behind them that is
              keyword-only or has a default gets the field of its name: def f(x, *, eps). NotImplementedError makes the
              case UNSUPPORTED.
    op        the operation. Its fields are the other keywords: causal=True. A list is a sweep.
    dtype     the format of the inputs, or a list of them
    shapes    the fields that differ from case to case: a dictionary, or a list of dictionaries. Default, unless other
              keywords name every extent: the shapes of shapes.py
    patterns  the data, such as "normal:0.5"; a list is a sweep. Default: the operator's own. With the default shapes,
              special values as well
    held_out  the number of further shapes near each of `shapes`, drawn by the seed: nobody tuned the kernel for them.
              Default 1, and 0 if keywords name every extent
    repeats   launches of each case whose outputs must agree bit by bit
    arrays    what fn takes: "numpy", "torch", "torch:cuda", or a function that makes it of a NumPy array
    out       whether fn writes into a tensor that it gets as `out`. Only then elements that it never writes are seen.
              Default: if it has a parameter of that name
    reference_fn     for what Assay has no operator for, in place of op: computes the expected output in FP64 from FP64
              inputs. `shapes` are then the shapes of the inputs: a tuple for one input, a list of tuples for several.
              The error bound follows from accumulations=, the number of terms that are summed for an element. It is
              proven if reference_fn returns a pair: the output, and the sum of the magnitudes of each element's terms.
              Or give atol= and rtol=
    launch_deadline  the longest time for one call of fn, at most half an hour. Default: the daemon's. The daemon then
              ends the job. A call of fn that never returns is yours to interrupt: this function returns after fn has.
              Such calls do not count towards the deadline of a case

    Returns the report whatever the verdict is; Report.raise_on_failure raises.
    """
    asked = client_or_default(client, "serve")
    function = Function(fn, arrays, out)
    common: dict[str, Any] = {**fields, "repeats": repeats}
    if patterns is not None:
        many = isinstance(patterns, Iterable) and not isinstance(patterns, (str, bytes))
        common["pattern"] = list(patterns) if many else patterns
    reference = None if reference_fn is None else Reference(reference_fn)
    listed, drawn = _cases(op, reference, dtype, shapes, seed, held_out, common)
    header = external_pb2.ExternalJob()
    if not isinstance(device, str):
        raise refuse("device", f'must be the name of a device, such as "cpu:0", got {device!r}')
    header.spec.device = device or str(asked.defaults.get("device", ""))
    header.spec.labels.update({**_name_of(fn), **checked_labels(labels)})
    problems.set_field(header.spec, header.spec.DESCRIPTOR.fields_by_name["seed"], seed, "seed")
    if launch_deadline is not None:
        problems.fill_duration(header.launch_deadline, "launch_deadline", launch_deadline)
    session = _run(asked, lambda: Session(function, asked.target, on_event, reference), header, listed, drawn)
    assert session.job is not None
    found = tuple(sorted(session.results, key=lambda result: result.index))
    if asked.on_result is not None:
        for result in found:
            asked.on_result(result)
    return Report(session.job, found, asked.target, function.raised)


def _name_of(fn: Any) -> dict[str, str]:
    """A label by which its author knows the job."""
    name = getattr(fn, "__name__", type(fn).__name__)
    return {"function": name} if name.isidentifier() else {}


def _cases(op: Optional[str], reference: Optional[Reference], dtype: Any, shapes: Any, seed: int, held_out: Optional[int],
           common: dict[str, Any]) -> tuple[list[Any], list[Drawn]]:
    """The cases that were asked for, and those whose shapes are drawn."""
    if reference is not None:
        if op is not None:
            raise refuse("reference_fn", f"is for functions that Assay has no operator for; op is {op}")
        if held_out:
            raise refuse("held_out", f"needs op: which extents belong together is not known with reference_fn; got "
                                     f"{held_out}, leave it out")
        return cases_of(reference, shapes, dtype, common), []  # nobody knows which extents belong together
    if op is None:
        raise refuse("op", f"name the operation that fn computes ({', '.join(problems.names())}), or give reference_fn")
    if dtype is not None:
        common["dtype"] = dtype
    if dtype is None and "dtype" not in common:
        raise refuse("dtype", "is required: the format of the inputs, such as fp32")
    if held_out is not None:
        held_out = int(held_out) if problems.is_bool(held_out) else problems.whole_number("held_out", held_out)
        if held_out < 0:
            raise refuse("held_out", f"must be at least 0, got {held_out}")
    draws = random.Random(seed)
    if shapes is None:
        drawn = default_set(op, common, 1 if held_out is None else held_out, draws)
        if drawn is not None:
            return [], drawn
    listed = [spec for shape in _shapes(shapes, common) for spec in problems.cases(op, {**common, **shape})]
    # Extents that keywords name are kept, unless a drawn shape is asked for.
    near_each = held_out if held_out is not None else 0 if shapes is None else 1
    near = (Near(spec, draws) for _ in range(near_each) for spec in listed)
    return listed, [shape for shape in near if shape.drawn]


def _shapes(shapes: Any, common: Mapping[str, Any]) -> list[Shape]:
    if shapes is None:
        return [{}]
    if not isinstance(shapes, (Mapping, Iterable)):
        raise refuse("shapes", f"must be a dictionary of the operation's fields, or a list of them, got {shapes!r}")
    listed = [shapes] if isinstance(shapes, Mapping) else list(shapes)
    if not listed:
        raise refuse("shapes", "is empty: give a dictionary of fields, or a list of them")
    for shape in listed:
        if not isinstance(shape, Mapping):
            raise refuse("shapes", f"must be dictionaries of the operation's fields, got {shape!r}")
        for name in shape:
            if name in common:
                raise refuse("shapes", f"sets {name}, which is a keyword of this call, too")
    return listed


def _run(client: Client, make: Callable[[], Session], header: Any, listed: Sequence[Any],
         drawn: list[Drawn]) -> Session:
    """Runs the job. A drawn shape that the daemon refuses is drawn again."""
    while True:
        del header.spec.cases.cases[:]
        header.spec.cases.cases.extend([*listed, *(shape.spec for shape in drawn)])
        session = make()
        try:
            client.serve(session, header)
            return session
        except errors.Unimplemented as error:
            raise errors.Unimplemented(
                f"assayd at {client.target} cannot validate functions of other processes: expected a daemon that has "
                "ValidateExternal, and it is older than this package", target=client.target) from error
        except errors.InvalidArgument as error:
            found = [match for match in map(_CASE.fullmatch, (v.field for v in error.violations)) if match]
            bad = {int(match[1]) for match in found}
            # If no case is well, it is not the shapes that are wrong.
            if not bad or min(bad) < len(listed) or len(bad) == len(listed) + len(drawn):
                raise
            # Nor would another shape help, if it is another field.
            if any("." not in match[2] and match[2] != "pattern" for match in found):
                raise
            for match in found:
                if match[2] == "pattern":  # no shape would help
                    drawn[int(match[1]) - len(listed)].left = 0
            for n in bad:
                drawn[n - len(listed)].draw()
            drawn = [shape for shape in drawn if shape.drawn]
