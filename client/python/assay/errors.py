"""What can go wrong, as exceptions.

`Error` and its subclasses say that there is no verdict, because a request was wrong or a daemon
did not answer it. There is a subclass for each code of gRPC. `Mismatch` and `NotJudged` say that
there is a verdict, and that it does not pass.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, Iterable, Optional, Sequence

import grpc

from ._wire import error_details_pb2, status_pb2

_DETAILS = "grpc-status-details-bin"
_DOMAIN = "assay"
# What stands before a keyword of the caller's in the daemon's name of a field.
_REQUEST = re.compile(r"^header\.(operation\.(\w+\.)?)?")
_INDEX = re.compile(r"(?<=cases)\[\d+\]")


def visible(text: str) -> str:
    """The text without characters that a terminal obeys."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def said_by(error: BaseException) -> str:
    """What an exception of the caller's code says. Its own __str__ may raise."""
    try:
        return str(error)
    except Exception as second:  # whatever it raises
        return f"(its text raised {type(second).__name__})"


@dataclass(frozen=True)
class Violation:
    """A field of a request that was refused."""

    field: str  # the daemon's name for it: "header.operation.gemm.m"
    description: str  # what is wrong, with the value, and what would be right
    reason: str = ""  # UPPER_SNAKE_CASE, may be empty

    def __str__(self) -> str:
        return visible(f"{self.keyword}: {self.description}" if self.field else self.description)

    @property
    def keyword(self) -> str:
        """The field as the caller named it: "m"."""
        return _REQUEST.sub("", self.field)


class Error(Exception):
    """A request that brought no verdict.

    code      the name of gRPC's code, such as "INVALID_ARGUMENT"
    reason    the daemon's reason, such as "DEVICE_NOT_FOUND"; empty if no daemon said one
    violations  the refused fields
    target    the daemon's address; empty if no daemon was asked
    retry_after  [s] when to try again; None if the daemon does not say
    """

    code = "UNKNOWN"

    def __init__(self, message: str, *, reason: str = "", violations: Sequence[Violation] = (),
                 target: str = "", retry_after: Optional[float] = None) -> None:
        super().__init__(visible(message))
        self.reason = reason
        self.violations = tuple(violations)
        self.target = target
        self.retry_after = retry_after


class InvalidArgument(Error, ValueError):
    """The request is malformed; `violations` names its bad fields."""

    code = "INVALID_ARGUMENT"


class NotFound(Error, LookupError):
    """There is no such job, device, suite or baseline."""

    code = "NOT_FOUND"


class OutOfRange(Error):
    """A value is outside of what there is."""

    code = "OUT_OF_RANGE"


class AlreadyExists(Error):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(Error):
    """The thing is in the wrong state for the request."""

    code = "FAILED_PRECONDITION"


class ResourceExhausted(Error):
    """A queue or a memory is full; `retry_after` may say when to try again."""

    code = "RESOURCE_EXHAUSTED"


class Unavailable(Error, ConnectionError):
    """The daemon cannot be reached, was lost, or is stopping."""

    code = "UNAVAILABLE"


class DeadlineExceeded(Error, TimeoutError):
    """There was no answer in time."""

    code = "DEADLINE_EXCEEDED"


class Unauthenticated(Error, PermissionError):
    """The daemon does not know the caller."""

    code = "UNAUTHENTICATED"


class PermissionDenied(Error, PermissionError):
    """The caller's role is too low."""

    code = "PERMISSION_DENIED"


class Unimplemented(Error, NotImplementedError):
    """The daemon does not have this; it may be older than the package."""

    code = "UNIMPLEMENTED"


class Cancelled(Error):
    """The call was ended from this side."""

    code = "CANCELLED"


class Internal(Error):
    """The daemon failed."""

    code = "INTERNAL"


class Incompatible(Error):
    """Package and daemon are of versions that do not fit together."""

    code = "FAILED_PRECONDITION"


class UnsupportedArray(InvalidArgument, TypeError):
    """An array that cannot be sent as it is."""


class Mismatch(AssertionError):
    """The verdict is FAILED. `result` has everything that the daemon found."""

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class NotJudged(AssertionError):
    """The verdict is neither PASSED nor FAILED, so nothing is proven. It is no pass.

    `result` has what the daemon found.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


_CLASSES = {kind.code: kind for kind in (
    InvalidArgument, NotFound, OutOfRange, AlreadyExists, FailedPrecondition, ResourceExhausted,
    Unavailable, DeadlineExceeded, Unauthenticated, PermissionDenied, Unimplemented, Cancelled,
    Internal)}

# A traceback names each of them as its user does: assay.Mismatch.
for _kind in (Error, *_CLASSES.values(), Incompatible, UnsupportedArray, Mismatch, NotJudged):
    _kind.__module__ = "assay"


def refuse(field: str, description: str) -> InvalidArgument:
    """A field that is refused here, before a daemon is asked."""
    violation = Violation(field, description)
    return InvalidArgument(str(violation), violations=(violation,))


def known_words(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest one, and all."""
    words = list(known)
    near = difflib.get_close_matches(word, words, 1)
    guess = f'; did you mean "{near[0]}"?' if near else ";"
    return f"{guess} known: {', '.join(words)}"


@dataclass(frozen=True)
class Details:
    """What a failed call carries."""

    reason: str = ""
    violations: tuple[Violation, ...] = ()
    retry_after: Optional[float] = None
    of_daemon: bool = False  # assayd itself said so, and not gRPC on the way


def details_of(error: grpc.RpcError) -> Details:
    packed = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), None)
    if packed is None:
        return Details()
    status = status_pb2.Status()
    status.ParseFromString(packed)
    reason, violations, retry_after, of_daemon = "", [], None, False
    for item in status.details:
        kind = item.type_url.rpartition(".")[2]
        if kind == "ErrorInfo":
            info = error_details_pb2.ErrorInfo.FromString(item.value)
            reason, of_daemon = info.reason, of_daemon or info.domain == _DOMAIN
        elif kind == "BadRequest":
            for v in error_details_pb2.BadRequest.FromString(item.value).field_violations:
                violations.append(Violation(v.field, v.description, v.reason))
        elif kind == "RetryInfo":
            delay = error_details_pb2.RetryInfo.FromString(item.value).retry_delay
            retry_after = delay.seconds + delay.nanos * 1e-9
    return Details(reason, tuple(violations), retry_after, of_daemon)


def connection_lost(error: grpc.RpcError) -> bool:
    """Whether the call may be made again: the daemon did not refuse it, or it is stopping.

    assayd marks each of its errors. INTERNAL without the mark is a connection that broke in the
    middle of a frame.
    """
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return True
    return error.code() == grpc.StatusCode.INTERNAL and not details_of(error).of_daemon


def _text(violations: Sequence[Violation]) -> str:
    """What is wrong, a line each. What is wrong with several cases is said once."""
    lines: dict[str, int] = {}  # and how many further cases have it
    seen: dict[tuple[str, str], str] = {}
    for violation in violations:
        line = str(violation)
        first = seen.setdefault((_INDEX.sub("[]", violation.field, count=1), violation.description), line)
        lines[first] = lines.get(first, -1) + 1
    return "\n".join(line + (f" (and {more} more cases)" if more else "") for line, more in lines.items())


def from_rpc(error: grpc.RpcError, target: str) -> Error:
    """The exception for a call that failed."""
    code = error.code().name
    details = details_of(error)
    said = error.details() or code
    if details.violations:
        message = _text(details.violations)
    elif details.of_daemon:
        message = f"assayd at {target} refused: {said}"
    elif code == "UNAVAILABLE":
        message = f"cannot reach assayd at {target}: {said}. Is it running? Set target or ASSAY_TARGET."
    elif code == "DEADLINE_EXCEEDED":
        message = f"assayd at {target} gave no answer in time"
    elif code == "UNIMPLEMENTED":
        message = f"assayd at {target} does not have this call: {said}. It may be older than this package."
    else:
        message = f"assayd at {target}: {said}"
    kind = _CLASSES.get(code, Error)
    made = kind(message, reason=details.reason, violations=details.violations, target=target,
                retry_after=details.retry_after)
    made.code = code
    return made
