"""Shapes that nobody named: the default set of an operator, and shapes near those that a caller named.

The default set follows from the axes of the operator's operands, as the API tells them (OperandInfo.axes of
proto/assay/v1/operator.proto). No operator is known here by its name. The set has

    aligned    multiples of tiles and vectors
    odd        prime extents: every tile and vector has a remainder
    ones       an extent of 1 for rows and batches
    thin       many rows or batches, and an extent of 1 for the next axis: a matrix times a vector
    long       long sums and rows
    deep       long ones that are multiples of tiles and vectors, too
    tall       a long axis that is not summed over
    held out   drawn by the seed: nobody tuned a kernel for them
    other      the odd shape, with another extent for what follows an earlier operand unless it is set
    special    the odd shape with special values

The daemon refuses a shape that an operator cannot have, such as an odd dimension where it must be even. Such a shape
is drawn again. It also refuses special values that kernels need not agree on, and those are left out.
"""

from __future__ import annotations

import math
import random
from typing import Any, Mapping, Optional, Sequence

from . import problems
from ._wire import types_pb2
from .errors import refuse
from .operands import parse_axis

# An extent below this is kept in shapes near another: it counts heads, groups or the taps of a kernel.
_LEAST_DRAWN = 16
_DRAWS = 8  # of a shape near another, before it is given up
_MORE_DRAWS = 40  # of a shape of the default set: it may have to be a multiple of what the caller gave

# The extents of the default set by what an axis is:
#   few     batches, heads, or rows if a case may leave them out
#   extent  any other axis. Several take the numbers in turn, so that no two are equal
#   length  the axis that is summed over, or that errors are plotted over
#   flat    the only axis of an operand
#   grid    each of two axes in space; window: each axis of what moves over them
#   whole   the axes of an operand that has any number of them
_SIZES: dict[str, dict[str, Sequence[Any]]] = {
    "aligned": {"few": [4], "extent": [256, 192, 48], "length": [256], "flat": [4096], "grid": [16, 16],
                "window": [3, 3], "whole": [4, 16, 256]},
    "odd": {"few": [3], "extent": [37, 53, 29], "length": [131], "flat": [1031], "grid": [17, 13], "window": [3, 2],
            "whole": [5, 131]},
    "ones": {"few": [1], "extent": [1, 5, 7], "length": [17], "flat": [7], "grid": [5, 7], "window": [1, 1],
             "whole": [1, 3, 17]},
    "thin": {"few": [150], "extent": [7, 1, 5], "length": [19], "flat": [1], "grid": [6, 5], "window": [1, 1],
             "whole": [3, 1, 17]},
    "long": {"few": [2], "extent": [24, 20, 40], "length": [4099], "flat": [65537], "grid": [40, 9], "window": [2, 3],
             "whole": [2, 4099]},
    "deep": {"few": [1], "extent": [32, 64, 16], "length": [2048], "flat": [65536], "grid": [24, 24], "window": [1, 1],
             "whole": [5, 3, 2048]},
    "tall": {"few": [2], "extent": [40, 24, 6], "length": [16], "flat": [300], "grid": [64, 3], "window": [1, 1],
             "whole": [600, 3, 16]},
}
_TALL = 1000  # of an axis that is not summed over
_MOST_OF_THREE = 60  # the largest held-out extent of three axes
# What follows an earlier operand unless it is set: keys in the place of as many as queries.
_OTHER = 200
# The smallest and the largest extent of a held-out shape.
_RANGES = {"few": (1, 8), "extent": (2, 100), "length": (2, 1000), "flat": (2, 20000), "grid": (4, 24), "window": (1, 3),
           "whole": (5, 300)}
_HELD_OUT = 2  # held-out shapes of the default set, for each one that is asked for
# Special values. An operator that must be told what to compute may turn infinities into zeros, and zeros prove nothing.
# So may one with other operands, which tiny numbers are multiplied by.
_SPECIAL = ("integers", "extremes:100", "normal:1:100")
_SPARSE = ("sparse",)
_INFINITE = ("all-inf", "all-neg-inf")
_TINY = ("denormal",)


class Drawn:
    """A case of a shape that may be drawn again."""

    def __init__(self, spec: Any, left: int) -> None:
        self.spec = spec
        self.drawn = True
        self.left = left

    def draw(self) -> None:
        """Another shape. None is drawn if there is no other, or if the daemon refused too many."""
        self.drawn = False
        while self.left > 0 and not self.drawn:
            self.left -= 1
            other = self._another()
            self.drawn = other is not None and other != self.spec
            if self.drawn:
                self.spec = other

    def _another(self) -> Optional[Any]:
        return None


class Near(Drawn):
    """A shape near one that the caller named."""

    def __init__(self, like: Any, draws: random.Random) -> None:
        super().__init__(like, _DRAWS)
        self._like = like
        self._draws = draws
        self.draw()

    def _another(self) -> Optional[Any]:
        spec = type(self._like)()
        spec.CopyFrom(self._like)
        op = problems.op_of(spec)
        like, problem, fields = getattr(self._like, op), getattr(spec, op), problems.problem_fields(op)
        length = list(problems.info(op).length.fields)
        step = self._draws.uniform(-0.25, 0.25)  # of all fields of a length: their difference stays
        for name in _extents(op):
            value = getattr(problem, name)
            if problems.is_list(fields[name]):
                value[:] = [self._near(n) for n in value]
            elif value >= _LEAST_DRAWN:  # others stay unset if they are
                longest = max([getattr(like, other) for other in length] or [0])
                setattr(problem, name, max(1, value + round(step * longest)) if name in length else self._near(value))
        return None if spec == self._like else spec

    def _near(self, extent: int) -> int:
        if extent < _LEAST_DRAWN:
            return extent
        return extent + self._draws.randint(-(extent // 4), extent // 4)


class OfDefaultSet(Drawn):
    """A shape of the default set. `roles` are the fields that nobody named, and what each is."""

    def __init__(self, spec: Any, roles: Mapping[str, str], draws: random.Random, kind: str = "") -> None:
        super().__init__(spec, _MORE_DRAWS)
        self._roles = roles
        self._draws = draws
        if kind:
            fill_shape(spec, roles, kind)
        else:
            self.spec = self._another()

    def _another(self) -> Any:
        spec = type(self.spec)()
        spec.CopyFrom(self.spec)
        problem = getattr(spec, problems.op_of(spec))
        for name, role in self._roles.items():
            if _is_repeated(problem, name):
                axes = self._draws.choice((2, 3)) if role == "whole" else len(_SIZES["odd"][role])
                most = _MOST_OF_THREE if role == "whole" and axes == 3 else None
                getattr(problem, name)[:] = [self._extent(role, most) for _ in range(axes)]
            else:
                setattr(problem, name, self._extent(role))
        return spec

    def _extent(self, role: str, at_most: Optional[int] = None) -> int:
        """Small ones as likely as large ones."""
        least, most = _RANGES[role]
        return round(math.exp(self._draws.uniform(math.log(least), math.log(at_most or most))))


def fill_shape(spec: Any, roles: Mapping[str, str], kind: str) -> None:
    """Gives the fields their extents of one shape of the default set."""
    problem = getattr(spec, problems.op_of(spec))
    taken = 0
    for name, role in roles.items():
        sizes = _SIZES[kind][role]
        if role == "whole":
            getattr(problem, name).extend(_turned(sizes, problem))
        elif _is_repeated(problem, name):
            getattr(problem, name).extend(sizes)
        else:
            setattr(problem, name, sizes[taken % len(sizes)] if role == "extent" else sizes[0])
            taken += role == "extent"


def _turned(sizes: Sequence[int], problem: Any) -> list[int]:
    """The sizes with the last, which is the long one, on the axis of the problem, if it says one."""
    turned = list(sizes)
    said = "axis" in problem.DESCRIPTOR.fields_by_name and problem.HasField("axis")
    axis = problem.axis if said else -1
    if -len(turned) <= axis < len(turned):
        turned[axis], turned[-1] = turned[-1], turned[axis]
    return turned


def default_set(op: str, keywords: Mapping[str, Any], held_out: int, draws: random.Random) -> Optional[list[Drawn]]:
    """The default set for what the caller said of the operation. None if that names every extent already."""
    name_of = problems.canonical(op)
    roles = extents_by_role(name_of)
    fields = problems.problem_fields(name_of)
    # kv_seq=None: the function takes as many keys as queries alone.
    equal = [name for name in _followers(name_of) if name in keywords and keywords[name] is None]
    keywords = {name: value for name, value in keywords.items() if name not in equal}
    required = [name for name in fields if _required(fields, name)]
    open_roles = {name: role for name, role in roles.items() if name not in keywords}
    if not any(name in open_roles for name in required):
        return None
    for name in required:
        if name not in roles and name not in keywords:
            raise refuse(name, f"is required: {problems.help_of(fields[name])}")
    found: list[Drawn] = []
    for kind in _SIZES:
        tall = _tall(name_of, open_roles) if kind == "tall" else ""
        named = {**keywords, tall: _TALL} if tall else keywords
        left = {name: role for name, role in open_roles.items() if name != tall}
        found += [OfDefaultSet(spec, left, draws, kind) for spec in problems.cases(op, named)]
    # Where causal rows begin if there are more keys than queries is a convention that not all share.
    others = {name: _OTHER for name in _followers(name_of) if name not in keywords and name not in equal}
    if others:
        found += [OfDefaultSet(spec, open_roles, draws, "odd") for spec in problems.cases(op, {**keywords, **others})
                  if not getattr(getattr(spec, name_of), "causal", False)]
    for _ in range(_HELD_OUT * held_out):
        found += [OfDefaultSet(spec, open_roles, draws) for spec in problems.cases(op, keywords)]
    if "pattern" not in keywords:
        told = any(name not in roles for name in required)
        products = len(problems.info(name_of).operands) > 1  # tiny numbers by others are zeros
        # A number that is split into two leaves infinity minus infinity of an infinity. A transform's errors are
        # relative to the neighbours, which is no bound for a result that is 0.
        declared = "operand_roundoff" in keywords
        patterns = [*_SPECIAL, *(() if declared else _SPARSE), *(() if told or declared else _INFINITE),
                    *(() if products else _TINY)]
        found += [OfDefaultSet(spec, open_roles, draws, "odd")
                  for spec in problems.cases(op, {**keywords, "pattern": patterns})]
    return found


def extents_by_role(op: str) -> dict[str, str]:
    """The fields that the default set gives a value, and what each is (_SIZES)."""
    known, fields = problems.info(op), problems.problem_fields(op)
    found: dict[str, str] = {}
    for number, operand in enumerate(known.operands):
        axes = [parse_axis(word) for word in operand.axes.split()]
        for i, axis in enumerate(axes):
            if axis.kind in ("silent", "same", "quotient") or axis.field in found:
                continue
            required = _required(fields, axis.field)
            behind = axes[i + 1:]
            if axis.kind == "any" and any(other.kind == "some" for other in behind):
                continue  # a function of matrices has no such axis
            if number > 0 and not required:
                continue  # it follows an earlier operand's unless it is set (_followers)
            many = sum(other.kind == "one" and _required(fields, other.field) for other in behind) >= 2
            if problems.is_list(fields[axis.field]):
                found[axis.field] = "whole" if len(axes) == 1 else "window" if "grid" in found.values() else "grid"
            elif len(axes) == 1:
                found[axis.field] = "flat"
            else:
                found[axis.field] = "few" if many or not required else "extent"
        if number == 0 and axes:
            length = next((name for name in known.length.fields if name in found), axes[-1].field)
            if found.get(length) == "extent":
                found[length] = "length"
    return found


def _followers(op: str) -> list[str]:
    """The lengths of later operands that follow an earlier one's unless they are set."""
    known, fields = problems.info(op), problems.problem_fields(op)
    axes = [parse_axis(word) for operand in known.operands[1:] for word in operand.axes.split()]
    return [axis.field for axis in axes if axis.field in known.length.fields and not _required(fields, axis.field)][:1]


def _tall(op: str, roles: Mapping[str, str]) -> str:
    """An extent that only one operand has, or rows: nothing is summed over it. "" if there is none."""
    known = problems.info(op).operands

    def alone(name: str) -> bool:
        return sum(any(parse_axis(word).field == name for word in operand.axes.split()) for operand in known) == 1

    extents = [name for name, role in roles.items() if role == "extent"]
    rows = [] if extents else [name for name, role in roles.items() if role == "few"]
    return next((name for name in (*extents, *rows) if alone(name)), "")


def _required(fields: Mapping[str, Any], name: str) -> bool:
    return bool(fields[name].GetOptions().Extensions[types_pb2.must_be_set])


def _is_repeated(problem: Any, name: str) -> bool:
    field = problem.DESCRIPTOR.fields_by_name[name]
    return problems.is_list(field)


def _extents(op: str) -> list[str]:
    """The fields that extents of operands follow from, without those that another must divide."""
    words = [word for operand in problems.info(op).operands
             for word in f"{operand.axes} {operand.other_axes}".split()]
    divided = {part for word in words if "/" in word for part in word.split("/")}
    plain = [word.strip("=+*") for word in words if "/" not in word and word != "..."]
    return [name for name in dict.fromkeys(plain) if name not in divided]
