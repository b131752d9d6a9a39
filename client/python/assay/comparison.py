"""Comparison: a user's own arrays and the rule that they are held to, ready to be sent."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Optional, Sequence

from . import errors, operands, problems
from ._wire import compare_pb2, types_pb2
from .arrays import Tensor, take
from .errors import refuse
from .pieces import chunks

# Keywords that are not the operation's.
_OWN = ("criterion", "atol", "rtol", "max_ulp", "accumulations", "split_k", "expected_digest", "device")


class Comparison:
    """Arrays and a rule, checked and ready to be sent."""

    def __init__(self, header: Any, tensors: Sequence[Optional[Tensor]], keywords: Mapping[str, Any]) -> None:
        self.header = header
        self.tensors = tuple(tensors)  # actual, expected, inputs…
        self.keywords = dict(keywords)  # as the caller gave them

    @property
    def actual(self) -> Tensor:
        assert self.tensors[0] is not None
        return self.tensors[0]

    @property
    def op(self) -> str:
        return problems.op_of(self.header.operation)

    def messages(self) -> Iterator[bytes]:
        """The stream, message by message, as bytes on the wire."""
        yield compare_pb2.CompareTensorsRequest(header=self.header).SerializeToString()
        for number, tensor in enumerate(self.tensors):
            if tensor is None or tensor.words.nbytes == 0:
                continue
            yield from chunks(compare_pb2.CompareTensorsRequest, number, tensor.words)

    def check(self, message: Any, target: str) -> None:
        """Whether the result is of what was asked for. An older daemon drops fields that it does not know."""
        if self.header.HasField("operation"):
            dropped = problems.differences(self.header.operation, message.spec)
            if dropped:
                raise errors.Incompatible(
                    f"assayd at {target} judged another operation than this package asked for: expected "
                    f"{', '.join(dropped)}, and it is not in the result. The daemon may be older than the package.",
                    target=target)
        passed = message.verdict == types_pb2.VERDICT_PASSED
        if passed and not self.header.expected_digest and message.stats.count != self.actual.size:
            raise errors.Incompatible(f"assayd at {target} passed {message.stats.count} elements; expected "
                                      f"{self.actual.size}, all that were sent", target=target)


def prepare(actual: Any, expected: Any = None, *, op: Optional[str] = None, inputs: Any = None, dtype: Any = None,
            actual_dtype: Any = None, expected_dtype: Any = None, inputs_dtype: Any = None, deadline: Any = None,
            **keywords: Any) -> Comparison:
    """Reads the arrays of a comparison and checks what needs no daemon. Client.compare tells the arguments."""
    given = {name: value for name, value in keywords.items() if value is not None}
    own = {name: given.pop(name) for name in _OWN if name in given}
    if (op is None) != (inputs is None):
        raise refuse("op" if inputs is None else "inputs",
                     "needs the operands, inputs=(a, b)" if inputs is None
                     else "need the operation they are operands of, op=…")
    if given and op is None:
        name = next(iter(given))
        raise refuse(name, f"is no keyword of a comparison without op{errors.known_words(name, _OWN)}")
    if expected is None and op is None and "expected_digest" not in own:
        raise refuse("expected", "nothing to compare with: give expected, expected_digest, or op and inputs")
    if "expected_digest" in own and (expected is not None or op is not None):
        raise refuse("expected_digest", "takes the place of expected, op and inputs")

    tensors: list[Optional[Tensor]] = [take(actual, "actual", actual_dtype, dtype)]
    tensors.append(None if expected is None else take(expected, "expected", expected_dtype, dtype))
    for i, array in enumerate(_listed(inputs)):
        tensors.append(_take_input(array, f"inputs[{i}]", inputs_dtype, dtype))
    _check_used("dtype", dtype, tensors)
    _check_used("inputs_dtype", inputs_dtype, tensors[2:])
    first, second = tensors[0], tensors[1]
    assert first is not None
    if second is not None and second.shape != first.shape:
        raise refuse("expected", f"has the shape {problems.shape_text(second.shape)}, actual has "
                                 f"{problems.shape_text(first.shape)}; they must be the same")
    header = compare_pb2.CompareHeader()
    fields = header.DESCRIPTOR.fields_by_name
    for name, value in own.items():
        problems.set_field(header, fields[name], value, name)
    _describe(first, header.actual)
    if second is not None:
        _describe(second, header.expected)
    operand_tensors = [t for t in tensors[2:] if t is not None]
    for tensor in operand_tensors:
        _describe(tensor, header.inputs.add())
    if op is not None:
        spec = problems.single(op, given)
        operands.fill_extents(spec, [t.shape for t in operand_tensors])
        if operand_tensors:
            spec.dtype = operand_tensors[0].dtype_number
        spec.out_dtype = first.dtype_number
        header.operation.CopyFrom(spec)
    if deadline is not None:
        if op is None:
            raise refuse("deadline", "belongs to the operation: give op and inputs")
        problems.fill_duration(header.operation.deadline, "deadline", deadline)
    return Comparison(header, tensors, {**own, **given, **({} if deadline is None else {"deadline": deadline})})


def _listed(inputs: Any) -> Sequence[Any]:
    """The operands: a tuple or list of arrays, or one array alone."""
    if inputs is None:
        return ()
    return list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]


def _take_input(array: Any, name: str, own: Any, common: Any) -> Tensor:
    """Operands differ: a bias of float32 beside products of bf16 keeps its type."""
    return take(array, name, None, common if own is None else own)


def _check_used(name: str, dtype: Any, tensors: Sequence[Optional[Tensor]]) -> None:
    """A format that no array can hold is a mistake: nothing would be taken for it."""
    if dtype is None:
        return
    word = problems.dtype_word(problems.dtype_number(name, dtype))
    there = [tensor for tensor in tensors if tensor is not None]
    if not any(tensor.dtype == word for tensor in there):
        raise refuse(name, f"no array can hold {word}: {', '.join(f'{t.name} is {t.dtype}' for t in there)}")


def _describe(tensor: Tensor, header: Any) -> None:
    header.dtype = tensor.dtype_number
    header.shape.extend(tensor.shape)
