"""Jobs from Python, connections, and daemons that are not as they should be."""

import math
import os
import types

import grpc
import pytest

import assay as package
from assay import _wire
from assay._wire import job_pb2, types_pb2
from fake import Fake, served


def test_run(assay):
    events = []
    report = assay.run("gemm", m=[16, 32], n=16, k=16, dtype=["fp32", "bf16"], provider="builtin",
                       on_event=events.append)
    assert report and len(report) == 4 and report.verdict == "PASSED"
    assert [r.index for r in report] == [0, 1, 2, 3] and report[1].dtype == "bf16"
    stored = [e.sequence for e in events if e.sequence]
    assert stored == list(range(1, len(stored) + 1)) and events[-1].kind == "finished"
    assert assay.show(report) == report
    assert assay.status(report.job.name) == report.job
    assert report.job.name in [job.name for job in assay.jobs("verdict=PASSED")]
    assert not report.failures and report.job.counts.passed == 4


def test_submit_and_watch(assay):
    job = assay.submit("softmax", rows=4, cols=64, dtype="fp32", provider="builtin", labels={"why": "test"})
    assert not job.passed
    stored = [e.sequence for e in assay.watch(job) if e.sequence]  # progress is not stored and has 0
    again = [e.sequence for e in assay.watch(job.name, after=stored[0]) if e.sequence]
    assert again == stored[1:]
    assert assay.jobs("label.why=test")[0].name == job.name
    assert len(assay.jobs(limit=1)) == 1


def test_cancel(assay):
    job = assay.submit("gemm", m=64, n=64, k=64, dtype="fp32", provider="builtin", seed=list(range(2000)))
    assert assay.cancel(job).name == job.name
    assert [e.job for e in assay.watch(job)][-1].state == "CANCELLED"


def test_an_interrupt_leaves_no_job_and_no_lock_behind(assay_client, monkeypatch):
    # gRPC that Ctrl-C interrupts may leave a lock of its channel held, so nothing of it is used again.
    stub, channel, made = assay_client._stub, assay_client._channel.grpc, []

    class Interrupted:
        def CreateJob(self, request, **keywords):
            made.append(stub.CreateJob(request, **keywords).name)
            raise KeyboardInterrupt

    monkeypatch.setattr(assay_client, "_stub", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        assay_client.run(suite="medium")
    assert assay_client._channel.grpc is not channel
    assert [*assay_client.watch(made[0])][-1].kind == "finished"
    assert assay_client.status(made[0]).state == "CANCELLED"


def test_suites_and_devices(assay, tmp_path):
    assert "smoke" in assay.suites()
    report = assay.run(suite="smoke", ops="copy", dtype="fp32", provider="builtin")
    assert report and {(r.op, r.dtype) for r in report} == {("copy", "fp32")}
    suite = tmp_path / "mine.toml"
    suite.write_text('name = "mine"\ntitle = "t"\nversion = "1"\n\n[[case]]\nop = "copy"\ncount = 64\ndtype = "fp32"\n')
    assert assay.run(suite_file=suite, provider="builtin")
    device = assay.devices()[0]
    assert device.id == "cpu:0" and device.backend == "cpu" and device.arena_bytes > 0
    assert assay.bench("copy", count=1 << 16, dtype="fp32", provider="builtin")[0].bench.median_seconds > 0


@pytest.mark.parametrize("field, keywords", [
    ("device", {"device": 0}), ("priority", {"priority": "x"}), ("labels", {"labels": {"a": 1}}),
    ("threshold", {"threshold": "5%"}), ("job_deadline", {"job_deadline": "soon"})])
def test_a_value_of_another_type_is_refused_by_its_name(assay, field, keywords):
    with pytest.raises(package.InvalidArgument, match=f"^{field}: must be"):
        assay.submit("copy", count=8, dtype="fp32", **keywords)


def test_filters_of_another_type_are_refused_by_their_names(assay):
    for field in ("provider", "name"):
        with pytest.raises(package.InvalidArgument, match=f"^{field}: must be text, got 5"):
            assay.submit(suite="smoke", **{field: 5})


@pytest.mark.parametrize("call, said", [
    (lambda client: client.jobs(3), "filter: must be text"),
    (lambda client: client.jobs(limit="x"), "limit: must be a whole number"),
    (lambda client: list(client.watch(3)), "job: must be a Job, a Report, or the name of one, .* got 3"),
    (lambda client: client.show(None), "job: must be a Job"),
    (lambda client: client.submit(suite=3), "suite: must be text"),
    (lambda client: client.submit("copy", count=8, dtype="fp32", reconnect="soon"), "reconnect: must be seconds"),
    (lambda client: client.submit("copy", count=8, dtype="fp32", job_deadline=1e30), "job_deadline: must be at most"),
    (lambda client: client.submit("copy", count=8, dtype="fp32", job_deadline="1.2.3s"), "job_deadline: must be seconds"),
    (lambda client: list(client.watch("jobs/nosuch", reconnect="soon")), "reconnect: must be seconds"),
    (lambda client: client.run("copy", count=8, dtype="fp32", on_event=3), "on_event: must be a function"),
    (lambda client: client.submit(suite_file=3), "suite_file: must be a path, got 3"),
    (lambda client: list(client.watch(client.jobs(limit=1)[0], after="x")), "after: must be a whole number"),
    (lambda client: client.submit("copy", count=8, dtype="fp32", labels="x"), "labels: must be a dictionary"),
    (lambda client: package.connect(client.target, timeout="soon"), "timeout: must be seconds"),
    (lambda client: package.connect(client.target, timeout="1..5s"), "timeout: must be seconds"),
    (lambda client: package.connect(client.target, timeout=math.nan), "timeout: must be seconds"),
    (lambda client: package.connect(client.target, timeout=0), "timeout: must be more than 0"),
    (lambda client: package.connect(client.target, tls_ca=3), "tls_ca: must be a path, got 3"),
    (lambda client: package.connect(client.target, token=3), "token: must be text, got a value of the type int"),
])
def test_arguments_of_another_type_are_refused_by_their_names(assay, call, said):
    assay.submit("copy", count=8, dtype="fp32")
    with pytest.raises(package.InvalidArgument, match=f"^{said}"):
        call(assay)


# A fork itself is no test: gRPC hangs in a child now and then, even if each client was closed.

def in_a_child(client):
    """What a client is in a child that fork makes."""
    client._pid = os.getppid()
    return client


def test_a_client_is_not_used_in_a_child_and_closes_nothing_there(assay):
    with package.connect(assay.target) as client:
        in_a_child(client)
        with pytest.raises(package.InvalidArgument, match='^client: belongs to process .*"spawn".*before fork'):
            client.server_info()
        client.close()
        assert client.closed
        client.closed, client._pid = False, os.getpid()
        assert client.server_info().host == assay.server_info().host


def test_a_child_may_connect(assay, monkeypatch):
    package.connect(assay.target).close()
    monkeypatch.setattr(os, "getpid", os.getppid)
    with package.connect(assay.target) as client:
        assert client.server_info().host


def test_the_default_client_is_made_again_in_a_child_unless_it_was_set(assay, monkeypatch):
    monkeypatch.setenv("ASSAY_TARGET", assay.target)
    package.set_default_client(None)  # the fixture restores it
    made = package.default_client()
    assert package.default_client() is made
    in_a_child(made)
    with package.default_client() as again:
        assert again is not made and again.server_info().host
    monkeypatch.setenv("ASSAY_TARGET", "127.0.0.1:1")  # nobody is asked there
    with package.connect(assay.target) as named:
        package.set_default_client(in_a_child(named))
        assert package.default_client() is named
        with pytest.raises(package.InvalidArgument, match="client: belongs to process"):
            package.assert_close([1.0], [1.0])
    with pytest.raises(package.InvalidArgument, match="client: is closed"):
        package.assert_close([1.0], [1.0])
    for client in made, named:
        client._pid = os.getpid()
        client.close()


def test_a_default_client_of_another_kind(assay):
    other = types.SimpleNamespace(judge=assay.client.judge, defaults={}, save_to=None)
    package.set_default_client(other)
    assert package.default_client() is other and package.assert_close([1.0], [1.0])


def test_no_end_of_a_wait_and_no_limit(assay):
    report = assay.run("copy", count=8, dtype="fp32", reconnect=math.inf)
    assert report and list(assay.watch(report.job, reconnect="inf"))
    assert assay.jobs(None)[0].name == report.job.name
    assert len(assay.jobs(limit=math.inf)) == len(assay.jobs(limit=None)) >= 1
    for longest in math.inf, 1e12, None:
        with package.connect(assay.target, timeout=longest) as client:
            assert client.server_info().host and client.compare([1.0], [1.0], timeout=longest)


def test_a_suite_file_that_is_no_text_is_refused_by_its_name(assay, tmp_path):
    odd = tmp_path / "s\udcff.toml"
    odd.write_text("")
    for path in odd, "s\0.toml":
        with pytest.raises(package.InvalidArgument, match="^suite_file: must be a file whose path and text are UTF-8, got"):
            assay.submit(suite_file=path)
    with pytest.raises(package.InvalidArgument, match="^tls_ca: cannot read"):
        package.connect(assay.target, tls_ca="ca\0")


def test_wrong_requests_name_their_fields(assay):
    with pytest.raises(package.InvalidArgument) as caught:
        assay.run("gemm", m=3, n=2)
    assert {v.field for v in caught.value.violations} == {"spec.cases[0].gemm.k", "spec.cases[0].dtype"}
    assert caught.value.reason == "BAD_REQUEST" and caught.value.code == "INVALID_ARGUMENT"
    for call, said in ((dict(), "name one of"), (dict(op="gemm", suite="smoke"), "name one of"),
                       (dict(suite="smoke", m=3), "m: belongs to cases"), (dict(suite_file="/no/such"), "cannot read"),
                       (dict(op="gemm", mode="fast"), "unknown word"), (dict(op="gemm", ops="copy"), "suite")):
        with pytest.raises(package.InvalidArgument, match=said):
            assay.submit(**call)
    with pytest.raises(package.NotFound) as missing:
        assay.status("jobs/nosuch")
    assert missing.value.reason == "JOB_NOT_FOUND" and isinstance(missing.value, LookupError)
    with pytest.raises(package.NotFound):
        list(assay.watch("jobs/nosuch"))
    with pytest.raises(package.NotFound):
        assay.run(suite="nosuch")


def test_a_closed_client_says_so(assay):
    with package.connect(assay.target) as client:
        pass
    for call in client.devices, lambda: client.compare([1.0], [1.0]), lambda: client.submit("copy", count=1):
        with pytest.raises(package.InvalidArgument, match="is closed"):
            call()


def test_no_daemon():
    with pytest.raises(package.Unavailable) as caught:
        package.connect("127.0.0.1:1")
    assert "127.0.0.1:1" in str(caught.value) and "Is it running?" in str(caught.value)
    assert isinstance(caught.value, ConnectionError) and caught.value.target == "127.0.0.1:1"


def test_a_target_that_does_not_answer():
    """It takes the connection and says nothing."""
    import socket
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        target = "127.0.0.1:%d" % silent.getsockname()[1]
        with pytest.raises(package.Error) as caught:
            package.connect(target, timeout=1)
    assert isinstance(caught.value, (package.DeadlineExceeded, package.Unavailable)) and target in str(caught.value)


@pytest.mark.parametrize("version, age", [("0.0.9", "older"), ("99.0.0", "newer"), ("", "older")])
def test_another_version_is_refused(version, age):
    with served(Fake(version=version)) as target, pytest.raises(package.Incompatible) as caught:
        package.connect(target)
    for said in (age, _wire.VERSION, version or "none", target):
        assert said in str(caught.value)


def test_a_patch_release_is_no_other_version():
    with served(Fake(version=_wire.VERSION.rpartition(".")[0] + ".77-dirty")) as target:
        package.connect(target).close()


def test_a_call_that_the_daemon_does_not_have():
    with served(Fake()) as target, package.connect(target) as client:
        with pytest.raises(package.Unimplemented, match="older than this package"):
            client.devices()


def event(sequence, **what):
    return job_pb2.JobEvent(job="jobs/1", sequence=sequence, **what)


def test_watch_resumes_where_it_was_cut():
    """Each stored event once and in order, though the stream is cut, ends early and repeats itself."""
    lost = grpc.StatusCode.UNAVAILABLE
    done = job_pb2.JobFinished(job=job_pb2.Job(name="jobs/1", verdict=types_pb2.VERDICT_PASSED))
    fake = Fake(streams=[([event(1), event(0, progress=job_pb2.CaseProgress()), event(2)], lost), ([], lost),
                         ([event(2), event(3)], None), ([], grpc.StatusCode.CANCELLED), ([event(4, finished=done)], None)])
    with served(fake) as target, package.connect(target) as client:
        events = list(client.watch("jobs/1"))
    assert [e.sequence for e in events] == [1, 0, 2, 3, 4]
    assert [r.after_sequence for r in fake.asked] == [0, 2, 2, 3, 3]
    assert events[-1].job.passed


def test_watch_gives_up():
    lost = grpc.StatusCode.UNAVAILABLE
    with served(Fake(streams=[([], lost)] * 9)) as target, package.connect(target) as client:
        with pytest.raises(package.Unavailable):
            list(client.watch("jobs/1", reconnect=0))
    with served(Fake(streams=[([event(1)], grpc.StatusCode.NOT_FOUND)])) as target, package.connect(target) as client:
        with pytest.raises(package.NotFound):
            list(client.watch("jobs/1"))


def test_watch_of_progress_alone_gives_up():
    streams = [([event(0, progress=job_pb2.CaseProgress())], end) for end in (grpc.StatusCode.UNAVAILABLE, None)] * 9
    with served(Fake(streams=streams)) as target, package.connect(target) as client:
        with pytest.raises(package.Unavailable):
            list(client.watch("jobs/1", reconnect=0.3))


def test_watch_after_the_last_event_ends():
    ended = job_pb2.Job(name="jobs/1", last_sequence=4)
    ended.end_time.GetCurrentTime()
    fake = Fake(streams=[([], None)] * 2, job=ended)
    with served(fake) as target, package.connect(target) as client:
        assert list(client.watch("jobs/1", after=4)) == []
    assert len(fake.asked) == 1


def resolved(target=None, **keywords):
    from assay.connection import Tls, resolve
    tls = {k[4:]: v for k, v in keywords.items() if k.startswith("tls_")}
    return resolve(target, keywords.get("targets_file"), Tls(**tls), keywords.get("token_file"))


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """An environment that names no target."""
    for name in "ASSAY_TARGET", "ASSAY_TARGETS", "ASSAY_TOKEN_FILE":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return monkeypatch


def test_targets_come_from_where_the_command_line_takes_them(alone, tmp_path):
    assert resolved().address == "127.0.0.1:7575"
    alone.setenv("ASSAY_TARGET", "a07")
    assert resolved().address == "a07:7575" and resolved("b:1").address == "b:1"
    assert resolved("unix:/run/a").address == "unix:/run/a" and resolved("[::1]").address == "[::1]:7575"
    os.makedirs(tmp_path / "assay")
    (tmp_path / "assay" / "targets.toml").write_text(
        '[targets.lab]\naddress = "a08:1"\ntls-ca = "/ca"\ntoken-file = "/t"\n\n[targets]\nmany = {address = ["a", "b"]}\n'
        .replace("[targets]\nmany", "[targets.x]\naddress = 'x'\n[targets.many]\naddress = ['a', 'b']\n#"))
    lab = resolved("lab", tls_server_name="s")
    assert (lab.address, lab.tls.ca, lab.tls.server_name, lab.token_file) == ("a08:1", "/ca", "s", "/t")
    alone.setenv("ASSAY_TOKEN_FILE", "/other")
    assert resolved("lab").token_file == "/t" and resolved("b").token_file == "/other"
    for target, said in (("many", "several"), ("a,b", "several"), ("http://x", "no address"), ("h:0", "1 to 65535"),
                         ("::1", "IPv6"), ("unix:", "names no socket"), ("", "must be HOST:PORT .*, got ''"), (7575, "got 7575")):
        with pytest.raises(package.InvalidArgument, match=said):
            resolved(target)
    with pytest.raises(package.InvalidArgument, match="come together"):
        resolved("a", tls_cert="/c")
    bad = tmp_path / "bad.toml"
    bad.write_text('[targets.lab]\naddress = "a"\ntls-cs = "x"\n')
    with pytest.raises(package.InvalidArgument, match='did you mean "tls-c'):
        resolved("lab", targets_file=str(bad))


def test_a_token_is_not_shown_to_just_anybody(alone, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("abc\n")
    secret.chmod(0o644)
    with pytest.raises(package.InvalidArgument, match="chmod 0600"):
        package.connect("127.0.0.1:1", token_file=str(secret))
    secret.chmod(0o600)
    with pytest.raises(package.InvalidArgument, match="plaintext"):
        package.connect("example.org:1", token_file=str(secret))
    with pytest.raises(package.InvalidArgument, match="printable"):
        package.connect("127.0.0.1:1", token="a b")


def test_qualify_reads_the_report_of_the_program(assay_client, program):
    if not os.access(program, os.X_OK):
        pytest.skip("the tree has no assay")
    fit = assay_client.qualify("quick", no_selftest=True, budget="2s", no_retry=True)
    assert fit.level == "quick" and fit.verdict in ("QUALIFIED", "INCONCLUSIVE", "DEGRADED"), fit
    assert [(d.target, d.device) for d in fit.devices] == [(assay_client.target, "cpu:0")]
    assert fit.devices[0].cases > 0 and fit.devices[0].code.startswith("A")
    assert bool(fit) == (fit.verdict == "QUALIFIED") and "cpu:0" in str(fit)
    with pytest.raises(package.InvalidArgument, match="no report"):
        assay_client.qualify("thorough")
