"""Derives the extents of an operation from the shapes of its operands.

How they follow stands in the API, in OperandInfo.axes of proto/assay/v1/operator.proto:

    k                 one axis; its extent is the field `k`
    =k                the same; an earlier operand has this axis too, and both must agree
    channels/groups   one axis; its extent is `channels` divided by `groups`
    m+                one axis or more; `m` is their product, or their list if `m` is repeated
    batch*            any number of axes; `batch` is their product
    ...               any number of axes, which say nothing
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Sequence

from . import problems
from ._wire import types_pb2
from .errors import refuse
from .problems import shape_text


@dataclass(frozen=True)
class Axis:
    kind: str  # one, same, quotient, some, any or silent
    field: str = ""
    divisor: str = ""

    @property
    def at_least_one(self) -> bool:
        return self.kind not in ("any", "silent")


def parse_axis(word: str) -> Axis:
    if word == "...":
        return Axis("silent")
    if word.startswith("="):
        return Axis("same", word[1:])
    if word.endswith("+"):
        return Axis("some", word[:-1])
    if word.endswith("*"):
        return Axis("any", word[:-1])
    field, _, divisor = word.partition("/")
    return Axis("quotient" if divisor else "one", field, divisor)


class _Operand:
    """An operand that was given, and which axes have which of its extents."""

    def __init__(self, name: str, shape: Sequence[int], axes: str) -> None:
        self.name = name
        self.shape = tuple(shape)
        self.axes = [parse_axis(word) for word in axes.split()]
        self.least = sum(axis.at_least_one for axis in self.axes)
        self.extents: list[tuple[int, ...]] = []

    def repeats(self, field: str) -> bool:
        return len(self.shape) > self.least and any(a.kind == "any" and a.field == field for a in self.axes)

    def split(self, later: Sequence[_Operand]) -> None:
        """Gives each axis its extents. Outer axes that no word takes say nothing."""
        spare = len(self.shape) - self.least
        has_some = any(axis.kind == "some" for axis in self.axes)
        counts = []
        for axis in self.axes:
            if axis.kind == "any" and has_some:
                takes = any(operand.repeats(axis.field) for operand in later)
            else:
                takes = axis.kind == "some" or not axis.at_least_one
            counts.append(int(axis.at_least_one) + (spare if takes else 0))
            spare = 0 if takes else spare
        at = spare
        for count in counts:
            self.extents.append(self.shape[at:at + count])
            at += count


def _assignment(text: str) -> tuple[str, str]:
    field, _, value = text.partition("=")
    return field, value


def _is_set(problem: Any, field: Any) -> bool:
    value = getattr(problem, field.name)
    if problems.is_list(field):
        return len(value) > 0
    return bool(problem.HasField(field.name)) if field.has_presence else bool(value != field.default_value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fill_extents(spec: Any, shapes: Sequence[Sequence[int]]) -> None:
    """Sets the fields of the spec's problem that follow from the operands, in the operator's order.

    Fields that are set stay. The daemon checks whether all of them fit together.
    """
    op = problems.op_of(spec)
    known = problems.info(op)
    fields = problems.problem_fields(op)
    problem = getattr(spec, op)
    required = [operand.name for operand in known.operands if not operand.optional]
    if len(shapes) < len(required):
        raise refuse("inputs", f"must be at least {','.join(required)}, got {len(shapes)} of them")

    given: list[_Operand] = []
    for about, shape in zip(known.operands, shapes):
        axes = about.axes
        if about.when:
            field, value = _assignment(about.when)
            axes = about.other_axes if _text(getattr(problem, field)) == value else axes
        given.append(_Operand(about.name, shape, axes))
    for operand in given:
        if len(operand.shape) < operand.least:
            raise refuse(f"inputs ({operand.name})", f"must have the axes {_axes_text(operand, fields)}, "
                                                     f"its shape is {shape_text(operand.shape)}")
    for i, operand in enumerate(given):
        operand.split(given[i + 1:])
    for i, operand in enumerate(given):
        _check_same(operand, given[:i], known)

    extent_of: dict[str, int] = {}
    for operand, about in zip(given, known.operands):
        for axis, extents in zip(operand.axes, operand.extents):
            if axis.kind != "silent":
                _fill(problem, fields, axis, extents, extent_of)
        if about.implies:
            name, value = _assignment(about.implies)
            if not _is_set(problem, fields[name]):
                problems.set_field(problem, fields[name], _value(fields[name], value), name)


def _value(field: Any, text: str) -> Any:
    if field.cpp_type == field.CPPTYPE_BOOL:
        return text == "true"
    return float(text) if field.cpp_type == field.CPPTYPE_DOUBLE else text


def _fill(problem: Any, fields: Any, axis: Axis, extents: tuple[int, ...], extent_of: dict[str, int]) -> None:
    field = fields[axis.field]
    if axis.kind == "quotient":
        if extents[0] > 0 and not _is_set(problem, fields[axis.divisor]):
            setattr(problem, axis.divisor, extent_of[axis.field] // extents[0])
    elif problems.is_list(field):
        if not _is_set(problem, field):
            getattr(problem, axis.field).extend(extents)
    elif extents or field.GetOptions().Extensions[types_pb2.must_be_set]:
        product = math.prod(extents)
        extent_of.setdefault(axis.field, product)
        if not _is_set(problem, field):
            setattr(problem, axis.field, product)


def _axes_text(operand: _Operand, fields: Any) -> str:
    words = []
    for axis in operand.axes:
        if not axis.at_least_one:
            words.append("...")
        elif axis.kind == "quotient":
            words.append(f"{axis.field}/{axis.divisor}")
        else:
            words.append(axis.field + ("..." if problems.is_list(fields[axis.field]) else ""))
    return "[" + ", ".join(words) + "]"


def _check_same(operand: _Operand, earlier: Sequence[_Operand], known: Any) -> None:
    """Holds an axis that two operands share against the earlier one."""
    for axis, extents in zip(operand.axes, operand.extents):
        if axis.kind != "same":
            continue
        for other in earlier:
            for its, theirs in zip(other.axes, other.extents):
                if its.field != axis.field or theirs[0] == extents[0]:
                    continue
                ways = [_assignment(about.when)[0] for about in known.operands if about.when]
                raise refuse("inputs", f"{other.name} {shape_text(other.shape)} and {operand.name} "
                                       f"{shape_text(operand.shape)} do not multiply: {axis.field} is {theirs[0]} in "
                                       f"the one and {extents[0]} in the other"
                                       + (f" ({', '.join(ways)})" if ways else ""))
