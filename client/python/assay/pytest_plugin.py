"""The pytest plugin: fixture `assay`, marker `assay`, and the verdict's numbers in JUnit files.

    def test_product(assay):
        assay.assert_close(my_product(a, b), op=…, inputs=(a, b))

The daemon is that of --assay-target, else of ASSAY_TARGET. If neither names one, the first test
that needs a daemon starts one, which ends with the session.

pytest imports this file in every session, so nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Iterator, Optional

import pytest

if TYPE_CHECKING:
    from .client import Client
    from .results import CaseResult, Report

_MARKER = ("assay(**keywords): the test asks an Assay daemon; the keywords (device, deadline, …) are defaults of its "
           "comparisons")
_NUMBERS = ("rho", "max_abs_error", "max_rel_error", "rms_error", "max_ulp", "mismatches", "count")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("assay")
    group.addoption("--assay-target", metavar="HOST:PORT", default=None,
                    help="the Assay daemon of the fixture `assay` (default: ASSAY_TARGET, else one is started)")
    group.addoption("--assay-save", metavar="FOLDER", default=None,
                    help="save the arrays of comparisons that do not pass, a folder for each test")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A marked test may call assay.assert_close itself, and then needs the session's daemon, too.
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("assay") and "assay" not in names:
            names.append("assay")


@pytest.fixture(scope="session")
def assay_client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The session's daemon, as an assay.Client."""
    from .client import connect
    from .daemon import Daemon

    target: Optional[str] = request.config.getoption("--assay-target")
    if target is not None or os.environ.get("ASSAY_TARGET"):
        with connect(target) as client:
            yield client
        return
    with Daemon() as daemon, connect(daemon.target) as client:
        client.flags = ()  # the daemon is gone when somebody repeats a verdict
        yield client


class Assay:
    """What the fixture `assay` gives: a Client's methods and assert_close, with the test's defaults."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def assert_close(self, actual: Any, expected: Any = None, **keywords: Any) -> CaseResult:
        from .testing import assert_close

        __tracebackhide__ = True
        return assert_close(actual, expected, client=self.client, **keywords)

    def validate(self, fn: Any, **keywords: Any) -> Report:
        """assay.validate, which raises unless all cases pass that the function computes. Returns the report."""
        __tracebackhide__ = True
        return self.client.validate(fn, **keywords).raise_on_failure()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


@pytest.fixture
def assay(request: pytest.FixtureRequest, assay_client: Client) -> Iterator[Assay]:
    """An Assay daemon: assay.assert_close(…), assay.compare(…), assay.run(…)."""
    from . import client as clients

    count = 0

    def record(result: CaseResult) -> None:
        nonlocal count
        count += 1
        prefix = "assay_" if count == 1 else f"assay_{count}_"
        # As record_property does, which warns of a schema that pytest writes properties into all the same.
        request.node.user_properties.extend((prefix + name, value) for name, value in numbers(result).items())

    marker = request.node.get_closest_marker("assay")
    folder = request.config.getoption("--assay-save")
    if marker and marker.args:
        pytest.fail(f"the marker assay takes keywords, such as device=…; got {marker.args[0]!r}", pytrace=False)
    assay_client.defaults = dict(marker.kwargs) if marker else {}
    assay_client.on_result = record
    assay_client.save_to = folder and os.path.join(folder, re.sub(r"[^\w.-]+", "_", request.node.nodeid))
    before = clients.set_default_client(assay_client)
    try:
        yield Assay(assay_client)
    finally:
        clients.set_default_client(before)
        assay_client.defaults, assay_client.on_result, assay_client.save_to = {}, None, None


def numbers(result: CaseResult) -> dict[str, Any]:
    """What a JUnit file says of a verdict."""
    said: dict[str, Any] = {"verdict": result.verdict, "reason": result.reason, "op": result.op,
                            "criterion": result.criterion, "device": result.device}
    for name in _NUMBERS:
        value = getattr(result.stats, name, None)
        if value is not None:
            said[name] = value
    if result.precision is not None and result.precision.bits is not None:
        said["bits"] = result.precision.bits
    if result.digests is not None:
        said["digest"] = result.digests.canonical
    return {name: value for name, value in said.items() if value != ""}
