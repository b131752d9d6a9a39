"""Operators, their fields and the words of the API, as its descriptors have them.

No operator, field or word is listed here: a package built from another version of the API knows
that version's. What a field means stands in the API too, as `help`.
"""

from __future__ import annotations

import itertools
import math
import operator as operators
import re
from datetime import timedelta
from typing import Any, Iterable, Mapping, Optional, Sequence

from ._wire import case_pb2, operator_pb2, types_pb2
from .errors import known_words, refuse

_SPEC = case_pb2.CaseSpec.DESCRIPTOR
_DTYPE = types_pb2.DESCRIPTOR.enum_types_by_name["DType"]
# Said in upper case wherever people read them.
_UPPER = ("Verdict", "JobState", "DeviceState")
# Output only.
_NOT_KEYWORDS = ("fill",)
_FOREVER = 1e9  # [s] some 30 years
_LONGEST = 315_576_000_000.0  # [s] that a message can hold
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

# What NumPy, torch and others call the formats.
_FORMATS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "int8",
            "float8_e4m3fn": "e4m3fn", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2": "e5m2",
            "float8_e5m2fnuz": "e5m2fnuz"}


def names() -> list[str]:
    """The operators."""
    return [str(field.name) for field in _SPEC.oneofs_by_name["problem"].fields]


def canonical(op: str) -> str:
    """The operator's own name, from it, an alias, or a name with dashes."""
    wanted = str(op).replace("-", "_")
    for field in _SPEC.oneofs_by_name["problem"].fields:
        if wanted == field.name or wanted in info(field.name).aliases:
            return str(field.name)
    raise refuse("op", f'unknown operator "{op}"{known_words(wanted, names())}')


def info(op: str) -> Any:
    """assay.v1.OperatorInfo of an operator."""
    return _SPEC.fields_by_name[op].message_type.GetOptions().Extensions[operator_pb2.operator_info]


def of_ones_own() -> str:
    """The operator of the caller's own: the one of whose operands the API says nothing."""
    return next(name for name in names() if not info(name).operands)


def problem_fields(op: str) -> dict[str, Any]:
    """The fields of an operator's problem, as descriptors by name."""
    return {f.name: f for f in _SPEC.fields_by_name[op].message_type.fields}


def case_fields() -> dict[str, Any]:
    """The fields that every case has beside its problem, and that a keyword can set."""
    problem = _SPEC.oneofs_by_name["problem"]
    return {f.name: f for f in _SPEC.fields
            if f.containing_oneof != problem and f.name not in _NOT_KEYWORDS
            and (f.message_type is None or f.message_type.full_name == "google.protobuf.Duration")}


def help_of(field: Any) -> str:
    """One line that says what a field of a problem means."""
    return str(field.GetOptions().Extensions[types_pb2.help])


def describe(op: str) -> str:
    """The fields of an operator and its inputs with their axes, a line each, for people."""
    fields = problem_fields(canonical(op))
    width = max(map(len, fields))
    lines = [f"{name:<{width}}  {help_of(field)}" for name, field in fields.items()]
    for operand in info(canonical(op)).operands:
        axes = operand.axes + (f"; with {operand.when}: {operand.other_axes}" if operand.when else "")
        shape = f" [{axes}]" if axes else ""
        lines.append(f"{'input':<{width}}  {operand.name.lower()}{shape}" + (", optional" if operand.optional else ""))
    return "\n".join(lines)


def word(enum: Any, number: int) -> str:
    """The word of a value: 5 of DType is "bf16". "" for 0, and a number for one that is not known."""
    if number == 0:
        return ""
    value = enum.values_by_number.get(number)
    if value is None:
        return f"unknown ({number})"
    text = str(value.name)[len(enum.values_by_number[0].name) - len("UNSPECIFIED"):]
    return text if enum.name in _UPPER else text.lower()


def words(enum: Any) -> list[str]:
    return [word(enum, value.number) for value in enum.values if value.number]


def number(enum: Any, what: str, said: Any) -> int:
    """The value of a word, or of a type of NumPy or torch."""
    text = said if isinstance(said, str) else _type_name(said)
    if enum.name == "DType":
        text = _FORMATS.get(text, text)
    for value in enum.values:
        if value.number and word(enum, value.number).lower() == text.lower():
            return int(value.number)
    raise refuse(what, f'unknown word "{said}"{known_words(text.lower(), words(enum))}')


def dtype_number(what: str, said: Any) -> int:
    return number(_DTYPE, what, said)


def dtype_word(value: int) -> str:
    return word(_DTYPE, value)


def _type_name(said: Any) -> str:
    """numpy.float16, dtype('float16') and torch.float16 are all "float16"."""
    name = getattr(said, "name", None) or getattr(said, "__name__", None) or str(said)
    return str(name).rpartition(".")[2]


def seconds(what: str, said: Any, *, endless: bool = False) -> float:
    """A duration: seconds, a timedelta, or text such as "1h30m" or "500ms". If it may be endless, infinity too."""
    try:
        value = _in_seconds(said)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if math.isnan(value) or (math.isinf(value) and not endless):
        raise refuse(what, f'must be seconds, or text such as 10s, 500ms or 1h30m, got "{said}"')
    return value


def _in_seconds(said: Any) -> float:
    if isinstance(said, timedelta):
        return said.total_seconds()
    if isinstance(said, str):
        parts = re.findall(r"([0-9.]+)(h|ms|us|ns|m|s)", said)
        if "".join(n + unit for n, unit in parts) == said and parts:
            return sum(float(n) * _UNITS[unit] for n, unit in parts)
    return float(said)


def patience(what: str, said: Any) -> Optional[float]:
    """The longest wait of a call [s]; None: no limit. So long a wait that gRPC cannot count it has none, either."""
    if said is None:
        return None
    value = seconds(what, said, endless=True)
    if value <= 0:
        raise refuse(what, f"must be more than 0 seconds, got {said}")
    return value if value < _FOREVER else None


def fill_duration(message: Any, what: str, said: Any) -> None:
    value = seconds(what, said)
    nanos = round(min(value, 2 * _LONGEST) * 1e9)
    if nanos <= 0:
        raise refuse(what, f"must be more than 0 seconds, got {said}")
    if value > _LONGEST:
        raise refuse(what, f"must be at most {_LONGEST:.0f} seconds, got {said}")
    message.seconds, message.nanos = divmod(nanos, 1_000_000_000)


def is_list(field: Any) -> bool:
    """Whether a field of a message is repeated. protobuf 7 has no label, and before 6.31 there is no is_repeated."""
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def whole_number(path: str, value: Any) -> int:
    """A whole number, of Python or of NumPy."""
    if isinstance(value, str) or is_bool(value):
        raise refuse(path, f'must be a whole number, got "{value}"')
    try:
        return operators.index(value)
    except TypeError:
        raise refuse(path, f"must be a whole number, got {value!r}") from None


def is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _scalar(path: str, field: Any, value: Any) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_ENUM:
        return number(field.enum_type, path, value)
    if kind == field.CPPTYPE_BOOL:
        if not is_bool(value):
            raise refuse(path, f"must be True or False, got {value!r}")
        return bool(value)
    if kind == field.CPPTYPE_STRING:
        if not isinstance(value, str):
            raise refuse(path, f"must be text, got {value!r}")
        return value
    if kind == field.CPPTYPE_DOUBLE:
        try:
            real = math.nan if isinstance(value, str) or is_bool(value) else float(value)
        except (TypeError, ValueError):
            real = math.nan
        if math.isnan(real):
            raise refuse(path, f"must be a number, got {value!r}")
        return real
    whole = whole_number(path, value)
    # A zero that the wire cannot carry would silently become the default.
    if whole == 0 and field.GetOptions().Extensions[types_pb2.zero_is_default]:
        raise refuse(path, "must be at least 1, got 0")
    return whole


def set_field(message: Any, field: Any, value: Any, path: str) -> None:
    """Sets one field, and refuses what it cannot hold."""
    if field.message_type is not None:
        fill_duration(getattr(message, field.name), path, value)
        return
    try:
        if is_list(field):
            if isinstance(value, str) and field.cpp_type == field.CPPTYPE_INT64:  # "9x11", as elsewhere
                value = [int(n) if n.isdecimal() else n for n in value.split("x")]
            values = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
            getattr(message, field.name).extend(_scalar(path, field, v) for v in values)
        else:
            setattr(message, field.name, _scalar(path, field, value))
    except (ValueError, OverflowError) as error:
        if hasattr(error, "violations"):
            raise
        raise refuse(path, f"{value!r} is out of range") from None


def _axis(field: Any, value: Any) -> list[Any]:
    """The values of a sweep: a list of what one case takes. One value is an axis of one."""
    if not isinstance(value, list):
        return [value]
    if not is_list(field) or any(isinstance(v, (list, tuple)) for v in value):
        if not value:
            raise refuse(field.name, "the list is empty")
        return value
    return [value]


def cases(op: str, keywords: Mapping[str, Any]) -> list[Any]:
    """The CaseSpecs of an operator and its keywords. A list is a sweep: one case for each value.

    The provider varies fastest, so that rivals stand side by side.
    """
    op = canonical(op)
    own, common = problem_fields(op), case_fields()
    for key in keywords:
        if key not in own and key not in common:
            raise refuse(key, f"is no field of {op}{known_words(key, [*own, *common])}")
    order = [*own, *(name for name in common if name != "provider"), "provider"]
    given = [name for name in order if name in keywords]
    made = []
    for values in itertools.product(*(_axis(own.get(n) or common[n], keywords[n]) for n in given)):
        spec = case_pb2.CaseSpec()
        problem = getattr(spec, op)
        problem.SetInParent()
        for name, value in zip(given, values):
            if name in own:
                set_field(problem, own[name], value, f"{op}.{name}")
            else:
                set_field(spec, common[name], value, name)
        made.append(spec)
    return made


def single(op: str, keywords: Mapping[str, Any]) -> Any:
    """The CaseSpec of one operation, from fields of its problem."""
    own = problem_fields(canonical(op))
    for key in keywords:
        if key not in own:
            raise refuse(key, f"is no field of {op}{known_words(key, own)}")
    made = cases(op, keywords)
    if len(made) != 1:
        name = next(n for n, value in keywords.items() if len(_axis(own[n], value)) != 1)
        raise refuse(name, f"must be one value, for one operation is compared; got {keywords[name]!r}")
    return made[0]


def op_of(spec: Any) -> str:
    """The operator of a CaseSpec; "" if it has none that this package knows."""
    return spec.WhichOneof("problem") or ""


def problem_of(spec: Any) -> dict[str, Any]:
    """The fields of a CaseSpec's problem that have a value."""
    op = op_of(spec)
    if not op:
        return {}
    return {field.name: list(value) if is_list(field) else value
            for field, value in getattr(spec, op).ListFields()}


def differences(asked: Any, judged: Any) -> list[str]:
    """What was asked for and is not in what was judged: a daemon that is older than a field drops it.

    A daemon leaves out numbers and words that are their field's default, so those are not looked at.
    """
    op = op_of(asked)
    if op_of(judged) != op:
        return [f"op={op}"]
    fields, there = problem_fields(op), problem_of(judged)
    return [f"{name}={value}" for name, value in problem_of(asked).items()
            if not fields[name].has_presence and there.get(name) != value
            and fields[name].cpp_type not in (fields[name].CPPTYPE_STRING, fields[name].CPPTYPE_DOUBLE)]


def flag(name: str) -> str:
    """A field as the command line spells it."""
    return "--" + name.replace("_", "-")


def in_python(text: str) -> str:
    """Text that names options of the command line, with the keywords of Python in their place.

    "--repeat 250" becomes "repeats=250", and "--criterion bound" becomes 'criterion="bound"'. Options
    that no field of a case has remain as they are.
    """
    known = set(case_fields()).union(*map(problem_fields, names()))

    def keyword(found: re.Match[str]) -> str:
        name, value = found["name"].replace("-", "_"), found["value"]
        name = name if name in known else name + "s"
        if name not in known:
            return found[0]
        if value is None:
            return name
        return f"{name}={value}" if re.fullmatch(r"[0-9.]+", value) else f'{name}="{value}"'

    return re.sub(r"--(?P<name>[a-z][a-z0-9-]*)(?: (?P<value>[a-z0-9][a-z0-9_.:]*))?", keyword, text)


def shape_text(shape: Sequence[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
