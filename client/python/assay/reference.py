"""A reference of the user's own, for what Assay has no operator for: an operator of the caller's own.

The job is one like any other (external.py). The daemon draws the inputs and compares, and asks for the reference as it
asks for a launch of the function.
"""

from __future__ import annotations

import inspect
import operator
import re
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from . import problems
from .errors import refuse, said_by
from .function import RAISED, RETURNED, UNUSABLE, Kernel, Operand, Outcome

_OURS = "external"  # the reference that this process computes
_FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "int8", "int32")  # that are widened here
_MOST_TEXT = 2000  # characters of what the reference raised
_TAKEN = ("input", "out", "scalar")


class _Unusable(TypeError):
    """What the reference returned is no array to compare with."""


class Reference:
    """The user's reference.

    reference_fn   computes the expected output in FP64 from FP64 inputs. It may return a pair: the output, and the
                   sum of the magnitudes of each element's terms, of the same shape. Then the error bound is proven
    """

    def __init__(self, reference_fn: Callable[..., Any]) -> None:
        if not callable(reference_fn):
            raise refuse("reference_fn", f"must be a function of the inputs, got {type(reference_fn).__name__}")
        self._fn = reference_fn

    def names(self, count: int) -> list[str]:
        """Names for the inputs: those of the function's parameters, if they say them."""
        try:
            parameters = inspect.signature(self._fn).parameters.values()
        except (TypeError, ValueError):  # a function in C that does not say
            parameters = ()  # type: ignore[assignment]
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
        reserved = ("actual", "expected", "bound", "debug", "out")
        good = len(named) == count and all(re.fullmatch(r"[A-Za-z_]\w{0,30}", name, re.ASCII) and name not in reserved
                                           for name in named)
        return named if good else [f"x{i}" for i in range(count)]

    def output_shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """The shape of the output, found by a run on inputs that are drawn here."""
        rng = np.random.default_rng(1)
        try:
            value, _ = self._run([rng.standard_normal(shape) for shape in shapes])
        except _Unusable as error:
            raise refuse("reference_fn", str(error)) from None
        except Exception as error:  # whatever the user's code raises
            listed = ", ".join(map(problems.shape_text, shapes))
            plural = "a NumPy array" if len(shapes) == 1 else f"{len(shapes)} NumPy arrays"
            raise refuse("reference_fn", f"raised {type(error).__name__}: {said_by(error)}. It got {plural} of FP64, of the "
                                         f"shape {listed}. One case of two inputs is shapes=[[(64, 100), (100, 32)]]") from error
        return tuple(value.shape) or (1,)

    def launch(self, kernel: Kernel) -> Outcome:
        """Runs the reference on a kernel's inputs, as they came."""
        try:
            value, magnitude = self._run([_widened(came, operand) for came, operand in zip(kernel.came, kernel.inputs)])
        except _Unusable as error:
            return Outcome(RAISED, f"reference_fn: {error}")
        except Exception as error:  # whatever the user's code raises
            return Outcome(RAISED, f"reference_fn raised {type(error).__name__}: {said_by(error)}"[:_MOST_TEXT])
        if value.shape != kernel.output.shape and not (kernel.output.count == 1 and value.shape == ()):
            return Outcome(UNUSABLE, f"reference_fn gave an array of the shape {problems.shape_text(value.shape)}; "
                                     f"expected {problems.shape_text(kernel.output.shape)}")
        number = len(kernel.inputs) + 1
        tensors = {number: np.ascontiguousarray(value).reshape(-1)}
        if magnitude is not None:
            tensors[number + 1] = np.ascontiguousarray(magnitude).reshape(-1)
        return Outcome(RETURNED, "", tensors)

    def _run(self, inputs: Sequence[Any]) -> tuple[Any, Any]:
        returned = self._fn(*inputs)
        if returned is None:
            raise _Unusable("it returned None; expected an array. Does it return its result?")
        if not isinstance(returned, tuple):
            return _real(returned), None
        if len(returned) != 2:
            raise _Unusable(f"it returned {len(returned)} values; expected an array, or a pair: the output and the "
                            "magnitudes of its terms")
        arrays = [_real(one) for one in returned]
        if arrays[0].shape != arrays[1].shape:
            shapes = ", ".join(problems.shape_text(one.shape) for one in arrays)
            raise _Unusable(f"it returned a tuple of arrays of the shapes {shapes}; expected one array, or a pair of "
                            "the same shape: the output and the magnitudes of its terms")
        return arrays[0], arrays[1]


def _real(returned: Any) -> Any:
    if isinstance(returned, np.ma.MaskedArray) and np.any(returned.mask):
        raise _Unusable("it returned a masked array; expected an array all of whose elements are numbers")
    array = np.asarray(returned)
    if array.dtype.kind == "c":
        raise _Unusable("it returned complex numbers; expected real ones")
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        raise _Unusable(f"it returned {array.dtype}, which has an error of its own; expected float64, computed from the "
                        "float64 that it got. Leave out what makes it narrower; if it is meant to round, let it end "
                        "with .astype(np.float64)")
    return np.array(array, np.float64)


def _widened(words: Any, operand: Operand) -> Any:
    if operand.word == "bf16":
        return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return words.astype(np.float64)


def cases_of(reference: Reference, shapes: Any, dtype: Any, keywords: Mapping[str, Any]) -> list[Any]:
    """The CaseSpecs: one for each format and each of `shapes`."""
    if not isinstance(shapes or (), Iterable):
        raise refuse("shapes", f"must be a list, with the shapes of all inputs for each case, got {shapes!r}")
    listed = list(shapes or ())
    if not listed:
        raise refuse("shapes", "is required: a list, with the shapes of all inputs for each case")
    words = [problems.dtype_word(problems.dtype_number("dtype", one))
             for one in (dtype if isinstance(dtype, (list, tuple)) else [dtype or "fp32"])]
    if not words:
        raise refuse("dtype", "is empty: name a format, or a list of them")
    for word in words:
        if word not in _FORMATS:
            raise refuse("dtype", f"with reference_fn it must be one of {', '.join(_FORMATS)}, got {word}")
    for name in _TAKEN:
        if name in keywords:
            raise refuse(name, "follows from shapes and reference_fn; leave it out")
    specs: list[Any] = []
    for inputs in listed:
        one = _shapes_of(inputs)
        problem = {"input": [_tensor(name, shape) for name, shape in zip(reference.names(len(one)), one)],
                   "out": [_tensor("out", reference.output_shape(one))]}
        specs += problems.cases(problems.of_ones_own(), {**keywords, **problem, "dtype": words, "reference": _OURS})
    return specs


def _shapes_of(inputs: Any) -> list[tuple[int, ...]]:
    if isinstance(inputs, (str, Mapping)) or not hasattr(inputs, "__iter__"):
        raise refuse("shapes", f"with reference_fn each must be the shape of the input, or a list of the inputs' "
                               f"shapes, got {inputs!r}")
    listed = list(inputs)
    if not any(hasattr(one, "__iter__") for one in listed):
        listed = [listed]
    try:
        shapes = [tuple(operator.index(n) for n in shape) for shape in listed]
    except TypeError:
        raise refuse("shapes", f"must hold whole numbers, got {inputs!r}") from None
    if any(n < 1 for shape in shapes for n in shape):
        raise refuse("shapes", f"extents must be at least 1, got {inputs!r}")
    if not all(shapes):
        raise refuse("shapes", f"every input must have at least one axis, got {inputs!r}")
    return shapes


def _tensor(name: str, shape: Sequence[int]) -> str:
    return f"{name}={'x'.join(map(str, shape))}"
