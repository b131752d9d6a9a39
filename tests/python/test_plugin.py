"""The pytest plugin: its daemon, its marker, its options, and what it writes for JUnit."""

import os
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as tree

import pytest

MODULE = """
    import os
    import numpy as np
    import pytest
    import assay as package

    def test_passes(assay):
        a = np.ones((8, 8), "f4")
        assay.assert_close(a @ a, op="gemm", inputs=(a, a))
        open("pid", "w").write(str(os.getppid()))

    @pytest.mark.assay(atol=0.5)
    def test_default_of_the_marker():
        package.assert_close(np.full(4, 1.25, "f4"), np.ones(4, "f4"))

    def test_fails(assay):
        a = np.arange(64, dtype="f4").reshape(8, 8)
        assay.assert_close(a, a)
        assay.assert_close(a @ a + 1, op="gemm", inputs=(a, a))
"""


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.delenv("ASSAY_TARGET", raising=False)


def children(parent):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    name, _, rest = file.read().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == parent:
                found.append(name.partition("(")[2])
    return found


def properties(path, test):
    case = next(c for c in tree.parse(path).iter("testcase") if c.get("name") == test)
    return {p.get("name"): p.get("value") for p in case.iter("property")}


def test_an_embedded_daemon_and_junit(pytester, alone):
    pytester.makepyfile(MODULE)
    before = children(os.getpid())
    done = pytester.runpytest_subprocess("--junit-xml=out.xml", "--assay-save=saved", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*gemm ?8,8? fp32: FAILED (bound)*", "*repeat*assay compare saved*actual.npy*"])
    done.stdout.no_fnmatch_line("*asked = client_or_default*")  # the test's own line is shown, not the package's
    passed, failed = properties("out.xml", "test_passes"), properties("out.xml", "test_fails")
    assert passed["assay_verdict"] == "PASSED" and passed["assay_op"] == "gemm" and float(passed["assay_rho"]) < 1
    assert failed["assay_verdict"] == "PASSED" and failed["assay_2_verdict"] == "FAILED"
    assert float(failed["assay_2_rho"]) > 1 and failed["assay_2_reason"] == "bound"
    folder = next(os.scandir("saved")).path
    assert sorted(os.listdir(folder)) == ["a.npy", "actual.npy", "b.npy"]
    assert children(os.getpid()) == before


def test_the_daemon_ends_with_the_session(pytester, alone):
    pytester.makepyfile("""
        def test_it(assay_client, pytestconfig):
            import assay.daemon, os, gc
            daemon = next(o for o in gc.get_objects() if isinstance(o, assay.daemon.Daemon))
            open("pid", "w").write(f"{daemon.pid} {daemon._folder}")
            assert os.path.isdir(daemon._folder)
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
    pid, folder = (pytester.path / "pid").read_text().split()
    assert not os.path.exists(f"/proc/{pid}") and not os.path.exists(folder)


@pytest.mark.parametrize("fork", ["0", "os.fork()"], ids=["alone", "with a forked child that lives on"])
def test_the_daemon_ends_if_the_session_is_killed(fork):
    code = ("import assay, os, time; d = assay.Daemon(); line = f'{d._folder} {d.target}'\n"
            f"child = {fork}\n"
            "if child or not d._folder == '': print(line, child, flush=True)\n"
            "time.sleep(600)")
    session = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    folder, target, child = session.stdout.readline().split()
    host, _, port = target.rpartition(":")
    socket.create_connection((host, int(port))).close()
    session.kill()
    session.wait()
    session.stdout.close()
    try:
        end = time.monotonic() + 60
        while os.path.exists(folder):
            assert time.monotonic() < end, "the daemon's folder is still there"
            time.sleep(0.05)
    finally:
        if int(child):
            os.kill(int(child), signal.SIGKILL)
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)))


def test_a_daemon_that_is_named(pytester, alone, assay):
    pytester.makepyfile("""
        def test_it(assay):
            open("target", "w").write(assay.target)
    """)
    pytester.runpytest_subprocess(f"--assay-target={assay.target}").assert_outcomes(passed=1)
    assert (pytester.path / "target").read_text() == assay.target
    pytester.runpytest_subprocess("--assay-target=127.0.0.1:1").assert_outcomes(errors=1)
    os.environ["ASSAY_TARGET"] = "127.0.0.1:1"
    pytester.runpytest_subprocess().assert_outcomes(errors=1)


def test_no_assayd_is_an_error_that_says_so(pytester, alone, monkeypatch):
    monkeypatch.setenv("ASSAYD", "/no/such/assayd")
    pytester.makepyfile("def test_it(assay): pass")
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*cannot start /no/such/assayd*"])


def test_the_marker_is_known_and_nothing_is_imported_for_nothing(pytester, alone):
    pytester.makepyfile("""
        import sys, pytest
        @pytest.mark.assay
        def test_marked(request): assert "assay" in request.fixturenames
        def test_plain(): pass
    """)
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)
    pytester.makepyfile("def test_it():\n    import sys\n    assert 'grpc' not in sys.modules")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
