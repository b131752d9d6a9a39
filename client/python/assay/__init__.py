"""Assay: judges arrays and compute kernels, with the verdicts of the command line.

    import assay
    assay.assert_close(y, op=…, inputs=(x, weight, bias))

`connect` gives a Client for everything else. What stands here is imported when it is first used, so
that `import assay` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._wire import VERSION as __version__
    from .client import Client, connect, default_client, set_default_client
    from .comparison import Comparison, prepare
    from .daemon import Daemon
    from .errors import (AlreadyExists, Cancelled, DeadlineExceeded, Error, FailedPrecondition, Incompatible, Internal,
                         InvalidArgument, Mismatch, NotFound, NotJudged, OutOfRange, PermissionDenied,
                         ResourceExhausted, Unauthenticated, Unavailable, Unimplemented, UnsupportedArray, Violation)
    from .measures import Element, ErrorStats, Finding, Precision
    from .problems import describe, names as operators
    from .qualification import DeviceFit, Qualification
    from .results import CaseResult, Device, Event, Job, Report, ServerInfo
    from .testing import assert_close
    from .validation import validate

# Where each name is: the name there, if it is another.
_PLACES = {
    "_wire": {"__version__": "VERSION"},
    "client": dict.fromkeys(("Client", "connect", "default_client", "set_default_client"), ""),
    "comparison": dict.fromkeys(("Comparison", "prepare"), ""),
    "daemon": {"Daemon": ""},
    "errors": dict.fromkeys(("AlreadyExists", "Cancelled", "DeadlineExceeded", "Error", "FailedPrecondition",
                             "Incompatible", "Internal", "InvalidArgument", "Mismatch", "NotFound", "NotJudged",
                             "OutOfRange", "PermissionDenied", "ResourceExhausted", "Unauthenticated", "Unavailable",
                             "Unimplemented", "UnsupportedArray", "Violation"), ""),
    "measures": dict.fromkeys(("Element", "ErrorStats", "Finding", "Precision"), ""),
    "problems": {"describe": "", "operators": "names"},
    "qualification": dict.fromkeys(("DeviceFit", "Qualification"), ""),
    "results": dict.fromkeys(("CaseResult", "Device", "Event", "Job", "Report", "ServerInfo"), ""),
    "testing": {"assert_close": ""},
    "validation": {"validate": ""},
}
_MODULE_OF = {name: (module, there or name) for module, names in _PLACES.items() for name, there in names.items()}

__all__ = sorted(name for name in _MODULE_OF if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    module, there = _MODULE_OF[name]
    value = getattr(importlib.import_module(f".{module}", __name__), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
