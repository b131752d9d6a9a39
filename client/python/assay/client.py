"""Client: one daemon to talk to, and what it can be asked for.

A Client may be used by several threads. It is a context manager; leaving it closes the channel.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import grpc

from . import _wire, errors, problems, results
from ._wire import case_pb2, job_pb2, service_pb2, service_pb2_grpc
from .comparison import Comparison, prepare
from .connection import Channel, Tls, cancelled_after, path_text, resolve
from .errors import refuse
from .results import CaseResult, Device, Event, Job, Report, ServerInfo

if TYPE_CHECKING:
    from .qualification import Qualification

# The longest wait for an answer that is not a stream [s].
CALL_TIMEOUT = 30.0
_RETRY_PAUSE = 0.2  # [s] between attempts to come back
_INTERRUPTED_TIMEOUT = 5.0  # [s] to find and cancel the job of an interrupted request

JobLike = Union[str, Job, Report]
Path = Union[str, "os.PathLike[str]"]


def connect(target: Optional[str] = None, *, tls_ca: Path = "", tls_cert: Path = "", tls_key: Path = "",
            tls_server_name: str = "", token: Optional[str] = None, token_file: Optional[Path] = None,
            targets_file: Optional[Path] = None, timeout: Any = CALL_TIMEOUT) -> Client:
    """Connects to a daemon, and asks it for its version.

    target        HOST:PORT, HOST, unix:PATH or a name in the targets file. Default: ASSAY_TARGET, else
                  127.0.0.1:7575
    tls_*         files of PEM; they override the targets file's
    token         the caller's bearer token itself, in place of token_file
    token_file    a file with the token. Default: the target's own, else ASSAY_TOKEN_FILE
    targets_file  named targets, TOML. Default: ASSAY_TARGETS, else ~/.config/assay/targets.toml
    timeout       the longest wait for the first answer, and for every later one: seconds, text such as "10s", or
                  None for no limit

    Unavailable: no daemon answers there. Incompatible: its version and the package's do not fit.
    """
    longest = problems.patience("timeout", timeout)
    files = {name: path_text(name, path) for name, path in (("targets_file", targets_file), ("tls_ca", tls_ca),
             ("tls_cert", tls_cert), ("tls_key", tls_key), ("token_file", token_file))}
    for name, text in (("tls_server_name", tls_server_name), ("token", token)):
        if not isinstance(text or "", str):
            raise refuse(name, f"must be text, got a value of the type {type(text).__name__}")
    meant = resolve(target, files["targets_file"], Tls(files["tls_ca"], files["tls_cert"], files["tls_key"],
                                                       tls_server_name), files["token_file"])
    client = Client(Channel(meant, token), longest)
    options = {"target": target, **files, "tls_server_name": tls_server_name}
    client.token_given = token is not None
    client.flags = tuple(word for name, value in options.items() if value for word in (problems.flag(name), value))
    try:
        _check_version(client.server_info(), client.target)
    except BaseException:
        client.close()
        raise
    return client


def _release(version: str) -> tuple[int, ...]:
    """The part of a version whose change may change the API: "1" of 1.2.3, "0.2" of 0.2.3."""
    parts = tuple(int(n) for n in re.findall(r"\d+", version.partition("-")[0])[:2])
    return parts if parts[:1] == (0,) else parts[:1]


def _check_version(server: ServerInfo, target: str) -> None:
    ours, theirs = _release(_wire.VERSION), _release(server.version)
    if ours == theirs:
        return
    age = "older" if theirs < ours else "newer"
    fits = ".".join(map(str, ours)) + ".*"
    raise errors.Incompatible(
        f"assayd at {target} is {age} than this package: expected version {fits} (the package is {_wire.VERSION}), "
        f"got {server.version or 'none'}. Install the package that came with the daemon.", target=target)


class Client:
    """A daemon. `connect` makes one."""

    def __init__(self, channel: Channel, timeout: Optional[float] = CALL_TIMEOUT) -> None:
        self._channel = channel
        self._stub: Any = self._make_stub()
        self._timeout = timeout
        self._pid = os.getpid()  # gRPC's threads do not live on in a child that fork makes
        # The words after `assay` that say which daemon is meant.
        self.flags: tuple[str, ...] = ()
        self.closed = False
        self.token_given = False  # itself, and not in a file
        # Keywords that every comparison of this client has, unless the call says otherwise.
        self.defaults: Mapping[str, Any] = {}
        # Called with the result of every comparison.
        self.on_result: Optional[Callable[[CaseResult], None]] = None
        # A folder for the arrays of comparisons that do not pass; None saves none.
        self.save_to: Optional[str] = None

    @property
    def target(self) -> str:
        return self._channel.target

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the channel. In a child that fork made it is the parent's, and stays as it is."""
        self.closed = True
        if not self._of_parent():
            self._channel.grpc.close()

    def _of_parent(self) -> bool:
        return self._pid != os.getpid()

    def __repr__(self) -> str:
        return f"<assay.Client of {self.target}{', closed' if self.closed else ''}>"

    def _check_open(self) -> None:
        if self.closed:
            raise refuse("client", f"is closed, so it cannot ask {self.target}; connect again")
        if self._of_parent():
            raise refuse("client", f"belongs to process {self._pid}, which forked this one, and gRPC does not live on in a "
                                   'child; start processes with multiprocessing\'s "spawn", or close every client before fork '
                                   "and connect again in the child")

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        # gRPC that is interrupted by Ctrl-C leaves a lock of its channel held now and then, and the next call would
        # wait for it for ever.
        try:
            yield
        except KeyboardInterrupt:
            self._channel.renew()
            self._stub = self._make_stub()
            raise

    def _make_stub(self) -> Any:
        return service_pb2_grpc.ValidationServiceStub(self._channel.grpc)  # type: ignore[no-untyped-call]

    def _call(self, method: str, request: Any, timeout: Optional[float] = None) -> Any:
        self._check_open()
        try:
            with self._interruptible():
                return getattr(self._stub, method)(request, timeout=timeout or self._timeout,
                                                   metadata=self._channel.metadata)
        except grpc.RpcError as error:
            raise errors.from_rpc(error, self.target) from None

    def _pages(self, method: str, request: Any, field: str) -> Iterator[Any]:
        while True:
            page = self._call(method, request)
            yield from getattr(page, field)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    # What the daemon is and has.

    def server_info(self) -> ServerInfo:
        """What the daemon says about itself."""
        return results.of(ServerInfo, self._call("GetServerInfo", service_pb2.GetServerInfoRequest()))

    def devices(self, *, measure_ceilings: bool = False) -> list[Device]:
        """The devices, and the backends that could not be loaded."""
        request = service_pb2.ListDevicesRequest(measure_ceilings=measure_ceilings)
        answer = self._call("ListDevices", request, 600.0 if measure_ceilings else None)
        return [results.of(Device, device) for device in answer.devices]

    def suites(self) -> dict[str, str]:
        """The names of the daemon's suites, and what each is for."""
        return {suite.name: suite.title for suite in
                self._call("ListSuites", service_pb2.ListSuitesRequest()).suites}

    # Jobs.

    def submit(self, op: Optional[str] = None, *, suite: Optional[str] = None, suite_file: Optional[Path] = None,
               ops: Sequence[str] = (), device: str = "", mode: Optional[str] = None, priority: int = 0,
               labels: Optional[Mapping[str, str]] = None, resume: bool = False, baseline: str = "",
               threshold: Optional[float] = None, profiler: str = "", case_deadline: Any = None,
               job_deadline: Any = None, wait_for_others: Any = None, reconnect: Any = 30.0,
               **keywords: Any) -> Job:
        """Sends a job and returns at once.

        op            an operator, whose fields are the other keywords: submit(op, m=64, n=64, k=64,
                      dtype="bf16"). A list is a sweep: dtype=["bf16", "fp16"] makes two cases.
                      `assay.describe(op)` lists the fields.
        suite         in place of op: the name of a suite that the daemon has; suite_file is a file of
                      your own. `ops`, `provider`, `dtype` and `name` then choose among its cases, and
                      `seed`, `repeats` and `deadline` are for cases that have none.
        reconnect     how long to try again if the connection is lost: seconds, text such as "10m", or math.inf
        """
        if sum(x is not None for x in (op, suite, suite_file)) != 1:
            raise refuse("op", f"name one of an operator ({', '.join(problems.names())}), suite or suite_file")
        patience = problems.seconds("reconnect", reconnect, endless=True)
        spec = job_pb2.JobSpec()
        fields = spec.DESCRIPTOR.fields_by_name
        given: dict[str, Any] = {"device": device, "priority": priority, "resume": resume, "baseline": baseline,
                                 "profiler": profiler}
        for name, value in given.items():
            problems.set_field(spec, fields[name], value, name)
        spec.labels.update(checked_labels(labels))
        if mode is not None:
            problems.set_field(spec, fields["mode"], mode, "mode")
        if threshold is not None:
            problems.set_field(spec, fields["baseline_threshold"], threshold, "threshold")
        for name, keyword, value in (("deadline", "job_deadline", job_deadline),
                                     ("case_deadline", "case_deadline", case_deadline),
                                     ("wait_for_others", "wait_for_others", wait_for_others)):
            if value is not None:
                problems.fill_duration(getattr(spec, name), keyword, value)
        if op is not None:
            if ops:
                raise refuse("ops", "chooses among the cases of a suite")
            seed = keywords.get("seed")
            if seed is not None and not isinstance(seed, list):  # one seed is the whole job's
                problems.set_field(spec, fields["seed"], keywords.pop("seed"), "seed")
            spec.cases.cases.extend(problems.cases(op, keywords))
        else:
            _fill_suite(spec, suite, suite_file, ops, keywords)
        return results.of(Job, self._create(spec, patience))

    def _cancel_request(self, request: Any) -> None:
        # Nobody knows whether the daemon has the job, nor its name: the same request tells it.
        with contextlib.suppress(errors.Error):
            self._cancel_interrupted(self._call("CreateJob", request, _INTERRUPTED_TIMEOUT).name)

    def _cancel_interrupted(self, job: JobLike) -> None:
        with contextlib.suppress(errors.Error):
            self._call("CancelJob", service_pb2.CancelJobRequest(name=_name(job)), _INTERRUPTED_TIMEOUT)

    def _create(self, spec: Any, reconnect: float) -> Any:
        # With a request id a second arrival gives the same job.
        request = service_pb2.CreateJobRequest(spec=spec, request_id=uuid.uuid4().hex)
        give_up = time.monotonic() + reconnect
        self._check_open()
        try:
            while True:
                try:
                    with self._interruptible():
                        return self._stub.CreateJob(request, timeout=self._timeout, metadata=self._channel.metadata)
                except grpc.RpcError as error:
                    if not errors.connection_lost(error) or time.monotonic() >= give_up:
                        raise errors.from_rpc(error, self.target) from None
                time.sleep(_RETRY_PAUSE)
        except KeyboardInterrupt:
            self._cancel_request(request)
            raise

    def run(self, op: Optional[str] = None, *, on_event: Optional[Callable[[Event], None]] = None,
            **keywords: Any) -> Report:
        """Sends a job, waits for its end, and returns all results. Takes what `submit` takes.

        If it is interrupted from the keyboard, the job is cancelled.
        """
        if on_event is not None and not callable(on_event):
            raise refuse("on_event", f"must be a function of an assay.Event, got {on_event!r}")
        job = self.submit(op, **keywords)
        found: list[CaseResult] = []
        try:
            for event in self.watch(job, reconnect=keywords.get("reconnect", 30.0)):
                if event.result is not None:
                    found.append(event.result)
                if event.job is not None:
                    job = event.job
                if on_event is not None:
                    on_event(event)
        except KeyboardInterrupt:
            self._cancel_interrupted(job)
            raise
        return Report(job, tuple(sorted(found, key=lambda r: r.index)), self.target)

    def bench(self, op: Optional[str] = None, **keywords: Any) -> Report:
        """`run` with repeated timed launches, the last of which is verified."""
        return self.run(op, mode=keywords.pop("mode", "benchmark"), **keywords)

    def watch(self, job: JobLike, *, after: int = 0, reconnect: Any = 30.0) -> Iterator[Event]:
        """The events of a job after the number `after`, until the job has ended.

        Each stored event has a number, Event.sequence, that is larger than the one before it: with the last one that
        you have as `after`, the iterator goes on where you stopped. Events of progress have the number 0.
        If the connection is lost, the iterator comes back and goes on with the next event: each
        stored event comes once and in order. Unavailable: no daemon was there for `reconnect` seconds.
        """
        name, after = _name(job), problems.whole_number("after", after)
        reconnect = problems.seconds("reconnect", reconnect, endless=True)
        alive = time.monotonic()
        while True:
            self._check_open()
            begin, heard, lost = time.monotonic(), False, None
            with self._interruptible():
                call = self._stub.WatchJob(service_pb2.WatchJobRequest(name=name, after_sequence=after),
                                           metadata=self._channel.metadata)
            try:
                with self._interruptible(), cancelled_after(call):
                    for message in call:
                        if message.sequence:
                            if message.sequence <= after:
                                continue
                            after = message.sequence
                            heard = True  # progress is told anew to each who comes, and proves nothing
                        event = results.event_of(message)
                        yield event
                        if event.kind == "finished":
                            return
            except grpc.RpcError as error:
                # A daemon that stops cancels the stream, which is an end like any other.
                if error.code() != grpc.StatusCode.CANCELLED or self.closed:
                    if not errors.connection_lost(error):
                        raise errors.from_rpc(error, self.target) from None
                    lost = error
            # A stream may be silent for long and yet alive: the time counts from its loss.
            now = time.monotonic()
            if heard or now - begin > 1:
                alive = now
            if lost is None and not heard and self._told_all(name, after, reconnect):
                return
            if now - alive >= reconnect:
                if lost is not None:
                    raise errors.from_rpc(lost, self.target) from None
                raise errors.Unavailable(f"assayd at {self.target} ends the stream of {name} before the job ends",
                                         target=self.target)
            time.sleep(_RETRY_PAUSE)

    def _told_all(self, name: str, after: int, patience: float) -> bool:
        # A watcher who has the last event of a job that has ended gets an empty stream.
        try:
            longest = min(self._timeout or CALL_TIMEOUT, max(patience, 1))
            with self._interruptible():
                job = self._stub.GetJob(service_pb2.GetJobRequest(name=name), timeout=longest,
                                        metadata=self._channel.metadata)
        except grpc.RpcError:
            return False  # the next stream says why
        return bool(job.HasField("end_time") and job.last_sequence <= after)

    def status(self, job: JobLike) -> Job:
        """Where a job stands."""
        return results.of(Job, self._call("GetJob", service_pb2.GetJobRequest(name=_name(job))))

    def show(self, job: JobLike) -> Report:
        """A job and the results that it has so far."""
        name = _name(job)
        found = self._pages("ListCaseResults", service_pb2.ListCaseResultsRequest(job=name, page_size=1000), "results")
        cases = tuple(results.of(CaseResult, message) for message in found)
        return Report(self.status(name), cases, self.target)

    def jobs(self, filter: Optional[str] = "", *, limit: Optional[float] = 100) -> list[Job]:
        """Jobs, newest first. `filter` is as the API has it: "state=RUNNING", "suite=smoke". limit=None: all."""
        if not isinstance(filter or "", str):
            raise refuse("filter", f'must be text, such as "state=RUNNING", got {filter!r}')
        if limit is not None and limit != math.inf:
            limit = problems.whole_number("limit", limit)
        page = 1000 if limit is None else int(min(limit, 1000))
        request = service_pb2.ListJobsRequest(filter=filter, page_size=page)
        found: list[Job] = []
        for message in self._pages("ListJobs", request, "jobs"):
            if len(found) == limit:
                break
            found.append(results.of(Job, message))
        return found

    def cancel(self, job: JobLike) -> Job:
        """Ends a job. The results of its finished cases stay."""
        return results.of(Job, self._call("CancelJob", service_pb2.CancelJobRequest(name=_name(job))))

    # Devices as a whole.

    def qualify(self, level: str = "quick", **options: Any) -> Qualification:
        """Whether the daemon's devices are fit for work: `assay qualify LEVEL`, which must be installed.

        level    "quick", "medium", "nightly" or "extended"
        options  those of the program: device="cuda:0", expect_devices="cuda:8", baseline=…, no_retry=True
        """
        from .qualification import qualify

        if self.token_given:
            raise refuse("token", "is not shown to another program; connect with token_file")
        self._check_open()
        named = () if "--target" in self.flags else ("--target", self.target)
        return qualify((*named, *self.flags), level, options)

    # Arrays of one's own.

    def compare(self, actual: Any, expected: Any = None, *, op: Optional[str] = None, inputs: Any = None,
                dtype: Any = None, actual_dtype: Any = None, expected_dtype: Any = None, inputs_dtype: Any = None,
                deadline: Any = None, timeout: Any = None, **keywords: Any) -> CaseResult:
        """The daemon's verdict on an array.

        actual     the array under test: NumPy, torch, or any that arrays.take reads
        expected   what it is compared with; with op and inputs it is checked too
        op         the operation that made `actual` from `inputs`. The daemon then computes the reference
                   and the error bound of each element. Further keywords are fields of the operation:
                   trans_b=True. The extents follow from the shapes of the inputs.
        dtype      the format in words that do not say it (uint8, uint16), or tf32 for float32; the
                   other *_dtype speak of one array alone
        criterion, atol, rtol, max_ulp, accumulations, split_k, expected_digest, device, deadline
                   as `assay compare` has them
        timeout    for the whole call: seconds, or text such as "10s". Default: none, the daemon's limits apply
        """
        prepared = prepare(actual, expected, op=op, inputs=inputs, dtype=dtype, actual_dtype=actual_dtype,
                           expected_dtype=expected_dtype, inputs_dtype=inputs_dtype, deadline=deadline,
                           **{**self.defaults, **keywords})
        return self.judge(prepared, timeout)

    def judge(self, comparison: Comparison, timeout: Any = None) -> CaseResult:
        """Sends a comparison that `prepare` made."""
        self._check_open()
        longest = problems.patience("timeout", timeout)
        call = self._channel.grpc.stream_unary(
            "/assay.v1.ValidationService/CompareTensors", request_serializer=bytes,
            response_deserializer=case_pb2.CaseResult.FromString)
        try:
            with self._interruptible():
                message = call(comparison.messages(), timeout=longest, metadata=self._channel.metadata)
        except grpc.RpcError as error:
            raise errors.from_rpc(error, self.target) from None
        comparison.check(message, self.target)
        result = results.of(CaseResult, message)
        if self.on_result is not None:
            self.on_result(result)
        return result

    def validate(self, fn: Callable[..., Any], **keywords: Any) -> Report:
        """Validates a function of this process. Takes what assay.validate takes."""
        from .validation import validate

        return validate(fn, client=self, **keywords)

    def serve(self, session: Any, header: Any) -> None:
        """Has a Session of external.py serve the launches of its job, until the job has ended."""
        self._check_open()
        try:
            with self._interruptible():
                session.run(self._channel.grpc, header, self._channel.metadata)
        except KeyboardInterrupt:
            if session.job is not None:
                self._cancel_interrupted(session.job)
            raise


def _fill_suite(spec: Any, suite: Optional[str], suite_file: Optional[Path], ops: Sequence[str],
                keywords: Mapping[str, Any]) -> None:
    if suite is not None:
        problems.set_field(spec, spec.DESCRIPTOR.fields_by_name["suite"], suite, "suite")
    else:
        path = path_text("suite_file", suite_file)
        try:
            with open(path, encoding="utf-8") as file:
                spec.suite_text = file.read()
            spec.suite_file = path[-256:]
        except OSError as error:
            raise refuse("suite_file", f"cannot read {path}: {error}") from None
        except ValueError as error:
            raise refuse("suite_file", f"must be a file whose path and text are UTF-8, got {path!r}: {error}") from None
    spec.filter.ops.extend(problems.canonical(op) for op in ([ops] if isinstance(ops, str) else ops))
    lists = {"provider": spec.filter.providers, "dtype": spec.filter.dtypes}
    fields = spec.DESCRIPTOR.fields_by_name
    for name, value in keywords.items():
        if name in lists:
            values = value if isinstance(value, (list, tuple)) else [value]
            if name == "dtype":
                lists[name].extend(problems.dtype_number(name, v) for v in values)
            else:
                problems.set_field(spec.filter, spec.filter.DESCRIPTOR.fields_by_name["providers"],
                                   [v for v in values if v != "all"], name)
        elif name == "name":
            problems.set_field(spec.filter, spec.filter.DESCRIPTOR.fields_by_name["name"], value, name)
        elif name == "deadline":
            problems.fill_duration(spec.case_deadline, name, value)
        elif name in ("seed", "repeats"):
            problems.set_field(spec, fields[name], value, name)
        else:
            known = [*lists, "name", "seed", "repeats", "deadline"]
            raise refuse(name, f"belongs to cases; a suite lists its own{errors.known_words(name, known)}")


def checked_labels(labels: Any) -> dict[str, str]:
    """The labels of a job, as the caller gave them."""
    if not isinstance(labels or {}, Mapping):
        raise refuse("labels", f"must be a dictionary of texts, got {labels!r}")
    for key, text in (labels or {}).items():
        if not (isinstance(key, str) and isinstance(text, str)):
            raise refuse("labels", f"must be texts, got {key!r}: {text!r}")
    return dict(labels or {})


def _name(job: JobLike) -> str:
    if isinstance(job, Report):
        return job.job.name
    if isinstance(job, Job):
        return job.name
    if not isinstance(job, str):
        raise refuse("job", f"must be a Job, a Report, or the name of one, such as jobs/k3v9x2mp, got {job!r}")
    return job


_default: Optional[Client] = None
_made: Optional[Client] = None  # the default client that was made here, and not set by a caller
_default_lock = threading.Lock()


def default_client() -> Client:
    """The client of functions that are called without one: made for the default target, and again if that one is closed or
    its process forked this one. A client that set_default_client got is never replaced by one for another target."""
    global _default, _made
    with _default_lock:
        if _default is None or (_default is _made and (_default.closed or _default._of_parent())):
            _default = _made = connect()
        return _default


def client_or_default(client: Optional[Client], method: str) -> Client:
    """The client that a caller named, else the default one. It needs the method."""
    if client is None:
        return default_client()
    if not hasattr(client, method):
        raise refuse("client", f"must be what assay.connect() gives, got {client!r}")
    return client


def set_default_client(client: Optional[Client]) -> Optional[Client]:
    """Has such functions use this client from now on, also after it was closed, which they then say. None: one for the
    default target again. Returns the one before."""
    global _default
    with _default_lock:
        before, _default = _default, client
    return before
