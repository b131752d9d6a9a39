"""Runs the parts of tests/parts.tsv that a run asks for, in the table's order, and counts.

Called by tests/run, which installs the packages first and turns names into rows of the table. A
part is a command of its own (format, clang-tidy) or tests of ctest, a row each. A GoogleTest
program is one test for ctest; it is counted by the cases in the XML file that it writes.
"""

import argparse
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
# A part that has not begun by then fails, so that a run ends before those who wait for it give up.
LIMIT_SECONDS = {"run": 60 * 60, "all": 80 * 60}
SHOWN_LINES = 60  # of a failed test's output
WRITE_THEIR_CASES = ("unit.", "selftest.", "simt.", "tsan.")  # programs of GoogleTest
SKIPPED = 77  # the exit code of a test that cannot run here, whose last line says why
NO_GPU = "no GPU on this machine; with one: tests/gpu/check"


class Row:
    """A line of tests/parts.tsv."""

    def __init__(self, line):
        self.name, self.when, self.how, self.why = line.split("\t")
        self.part = self.name.split(".")[0]


def read_table():
    lines = (ROOT / "tests" / "parts.tsv").read_text(encoding="utf-8").splitlines()
    return [Row(line) for line in lines if line and not line.startswith("#")]


class Totals:
    """What has passed, failed and been skipped so far, and how long each part took."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skips = []
        self.times = []

    def fail(self, name, output):
        self.failed += 1
        print(f"FAILED  {name}")
        for line in output.strip().splitlines()[-SHOWN_LINES:]:
            print(f"        {line[:300]}")

    def skip(self, name, reason):
        self.skips.append(f"{name}: {reason}")

    def summary(self):
        lines = []
        if self.skips:
            lines += ["skipped:"] + [f"  {skip}" for skip in self.skips]
        lines.append(f"{self.passed} passed, {self.failed} failed, {len(self.skips)} skipped")
        return lines


class Run:
    """One run of the tests."""

    def __init__(self, rows):
        self.rows = rows
        self.limit = LIMIT_SECONDS["all" if any(row.when == "all" for row in rows) else "run"]
        self.totals = Totals()
        self.built = []  # trees
        self.began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began

    def check(self, name, *command):
        """A command that is one test. True if it passed."""
        log = LOGS / f"{name}.log"
        with open(log, "w", encoding="utf-8") as output:
            done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 0:
            self.totals.passed += 1
            print(f"passed  {name}")
            return True
        text = log.read_text(encoding="utf-8", errors="replace")
        if done.returncode == SKIPPED:
            self.totals.skip(name, text.strip().splitlines()[-1])
        else:
            self.totals.fail(name, text)
        return False

    def build(self, preset, *targets):
        """Configures and builds a preset's tree. Of a long log the errors are shown."""
        name = f"build-{preset}"
        log = LOGS / f"{name}.log"
        tests = "OFF" if preset == "release" else "ON"
        commands = [["cmake", "--preset", preset, f"-DASSAY_TESTS={tests}"],
                    ["cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])]]
        with open(log, "w", encoding="utf-8") as output:
            for command in commands:
                if subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode:
                    break
            else:
                self.totals.passed += 1
                self.built.append(preset)
                print(f"passed  {name}")
                return True
        text = log.read_text(encoding="utf-8", errors="replace")
        errors = [line for line in text.splitlines() if re.search(r"error:|^FAILED:|undefined|CMake Error", line)]
        self.totals.fail(name, "\n".join(errors) or text)
        if re.search(r"CMakeCache\.txt directory .* is different|[Dd]oes not match the (source|generator)\b", text):
            print(f"        build/{preset} is of another checkout or build tool: rm -rf build/{preset}, then run again")
        return False

    def programs(self):
        """The GoogleTest programs of the chosen rows."""
        labels = [LABELS[row.name] for row in self.rows if row.part == "programs"]
        self.ctest("programs", "dev", "-L", f"^({'|'.join(labels)})$", *PROCESSORS)

    def tests(self, part):
        """The tests of the chosen rows of a part, which have the rows' names."""
        names = [re.escape(row.name) for row in self.rows if row.part == part]
        self.ctest(part, "dev", "-R", f"^({'|'.join(names)})$", *PROCESSORS)

    def ctest(self, name, preset, *arguments):
        """The tests of a build tree that the arguments choose, counted by case."""
        junit, log = LOGS / f"{name}.xml", LOGS / f"{name}.log"
        junit.unlink(missing_ok=True)
        results = ROOT / "build" / preset / "test-results"
        for old in results.glob("*.xml") if results.is_dir() else ():
            old.unlink()
        with open(log, "w", encoding="utf-8") as output:
            done = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--output-on-failure", "--no-tests=error",
                                   "--output-junit", str(junit), "--test-output-size-passed", "1000000",
                                   "--test-output-size-failed", "1000000", *arguments],
                                  cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False)
        if not junit.exists():
            self.totals.fail(name, log.read_text(encoding="utf-8", errors="replace"))
            return
        before = self.totals.passed, self.totals.failed, len(self.totals.skips)
        slowest = []
        for test in tree.parse(junit).iter("testcase"):
            slowest.append((float(test.get("time") or 0), test.get("name")))
            self.count(test, results)
        if done.returncode != 0 and self.totals.failed == before[1]:
            self.totals.fail(name, f"ctest ended with {done.returncode}, and no test of it failed; see {log}")
        passed, failed, skipped = (self.totals.passed - before[0], self.totals.failed - before[1],
                                   len(self.totals.skips) - before[2])
        print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped; longest: " +
              ", ".join(f"{test} {seconds:.0f} s" for seconds, test in sorted(slowest, reverse=True)[:3]))

    def count(self, test, results):
        """One test of ctest: a program's cases if it wrote them, else the test itself."""
        name, output = test.get("name"), test.findtext("system-out") or ""
        written = results / f"{name}.xml"
        if written.exists():
            if self.count_cases(name, written) == 0 and test.get("status") == "fail":
                self.totals.fail(name, output)  # it failed after its last case: a leak, a crash at exit
            return
        skip = test.find("skipped")
        skipped = skip is not None and skip.get("message", "").startswith("SKIP_")
        if test.get("status") == "run" and name.startswith(WRITE_THEIR_CASES):
            self.totals.fail(name, f"it ended well and wrote no results: a case of it ends the program\n{output}")
        elif test.get("status") == "run":
            self.totals.passed += 1
            for case, reason in re.findall(r"^(test_\w+) .*\.\.\. skipped '(.*)'$", output, re.M):
                self.totals.skip(f"{name} {case}", reason)
        elif skipped or test.get("status") == "disabled":
            said = re.search(r"[Ss]kipp?e?d?:? (.+)", output)
            self.totals.skip(name, said.group(1).strip() if said else "see build/test-logs")
        else:
            self.totals.fail(name, output)  # failed, or could not run

    def count_cases(self, program, written):
        """The cases of a GoogleTest program; how many failed."""
        failed = 0
        for case in tree.parse(written).iter("testcase"):
            name = f"{program} {case.get('classname')}.{case.get('name')}"
            failure, skip = case.find("failure"), case.find("skipped")
            if failure is not None:
                failed += 1
                self.totals.fail(name, "\n".join(f.get("message", "") for f in case.findall("failure")))
            elif skip is not None:
                self.totals.skip(name, skip.get("message", "").strip().splitlines()[-1])
            elif case.get("status") == "notrun":
                self.totals.skip(name, "disabled")
            else:
                self.totals.passed += 1
        return failed


def tracked(*patterns):
    """The repository's files, those not yet committed among them."""
    listed = subprocess.run(["git", "ls-files", "-z", "-c", "-o", "--exclude-standard", *patterns], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0")[:-1]
    if listed.returncode != 0:  # an unpacked archive, or somebody else's checkout
        names = [str(path.relative_to(ROOT)) for pattern in patterns or ("*",)
                 for path in ROOT.rglob(pattern) if path.relative_to(ROOT).parts[0] not in ("build", ".git")]
    return sorted(name for name in names if (ROOT / name).is_file())


def shell_scripts():
    def is_script(name):
        with open(ROOT / name, "rb") as file:
            return re.match(rb"#!.*\b(bash|sh)\b", file.readline())
    return [name for name in tracked() if is_script(name)]


def sanitizer_environment():
    # Tests that crash on purpose want the signal and not a report of it.
    os.environ["ASAN_OPTIONS"] = "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0"
    os.environ["LSAN_OPTIONS"] = f"suppressions={ROOT}/tests/lsan.supp:print_suppressions=0"
    os.environ["TSAN_OPTIONS"] = f"suppressions={ROOT}/tests/tsan.supp"


LABELS = {"programs.unit": "unit", "programs.selftest": "selftest", "programs.emulator": "simt"}
# What has to be built before a part can run.
NEEDS = {"programs": "build", "integration": "build", "long": "build", "headers": "build", "clang-tidy": "build",
         "judge_mutants": "build", "scorecard": "build", "gpu_mutants": "build", "packages": "release", "installed": "release"}
PROCESSORS = ("-j", str(os.cpu_count() or 1))
PARTS = {
    "format": lambda run: run.check("format", "clang-format", "--dry-run", "-Werror", *tracked("*.h", "*.cc", "*.cu")),
    "layering": lambda run: run.check("layering", "tests/layering"),
    "shellcheck": lambda run: run.check("shellcheck", "shellcheck", *shell_scripts()),
    "build": lambda run: run.build("dev"),
    "programs": lambda run: run.programs(),
    "integration": lambda run: run.tests("integration"),
    "long": lambda run: run.tests("long"),
    "headers": lambda run: run.check("headers", "tests/headers"),
    "scorecard": lambda run: run.check("scorecard", "tests/scorecard/run"),
    "gpu_mutants": lambda run: run.check("gpu_mutants", "tests/scorecard/run", "--gpu"),
    "clang-tidy": lambda run: run.check("clang-tidy", "tests/tidy"),
    "judge_mutants": lambda run: run.check("judge_mutants", "tests/judge_mutants", "--programs",
                                           "judge_test,overflow_test,compare_tensors_test,numerics_test,"
                                           "compare_test,checksum_test,validate_test,external_test"),
    "release": lambda run: run.build("release"),
    "packages": lambda run: run.check("packages", "env", "ASSAY_BUILD=build/release", sys.executable,
                                      "tests/integration/packages_test.py"),
    "installed": lambda run: run.check("installed", "env", "ASSAY_BUILD=build/release", sys.executable,
                                       "tests/integration/installed_test.py"),
    "asan": lambda run: run.build("asan", "asan_tests", "fuzz") and run.ctest("asan", "asan", "-L", "^(unit|simt)$", *PROCESSORS),
    "fuzz": lambda run: run.build("asan", "fuzz") and run.check("fuzz", "tests/fuzz/run"),
    "tsan": lambda run: run.build("tsan", "tsan_tests") and run.ctest("tsan", "tsan", "-L", "^tsan$", *PROCESSORS),
}


def choose(table, names, everything):
    """The rows to run, in the table's order: those that are named with the builds they need, or a whole run's."""
    if not names:
        return [row for row in table if row.when == "run" or everything]
    needed = {NEEDS.get(name.split(".")[0]) for name in names}
    return [row for row in table if row.name in names or row.name in needed]


def fingerprint(everything):
    """Of all that could change a result: the sources as they are, the machine, and the mode."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        processor = next((line for line in file if line.startswith("model name")), "")
    cards = sorted(str(path) for path in pathlib.Path("/dev").glob("nvidia*"))
    digest = hashlib.sha1(f"{everything} {platform.release()} {processor} {cards}".encode())
    for name in tracked():
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


def show(table):
    for row in table:
        print(f"{row.name:<32}{'tests/run' if row.when == 'run' else 'tests/run --all':<17}{row.why}")


def what_was_not_built(totals, trees):
    for backend, compiler in (("cuda", "nvcc"), ("hip", "hipcc")):
        built = [tree for tree in trees if (ROOT / "build" / tree / f"kernels/backends/libassay_{backend}.so").exists()]
        if not built:
            why = f"{compiler} is not found" if "release" in trees else "tests/run --all builds it"
            totals.skip(f"{backend} backend", f"no library was built: {why}")
    log = LOGS / "build-release.log"
    missing = re.search(r"gfx942 (?:wants|needs).*", log.read_text(encoding="utf-8")) if "release" in trees else None
    if missing:
        totals.skip("hip backend for gfx942", missing.group())
    if not pathlib.Path("/dev/kfd").exists() and not any(pathlib.Path("/dev").glob("nvidia[0-9]*")):
        totals.skip("gpu", NO_GPU)
    else:
        totals.skip("gpu", "tests/gpu/check is a command of its own")


def main():
    parser = argparse.ArgumentParser(prog="tests/run")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args()
    rows = choose(read_table(), options.rows, options.all or options.list)
    if options.list:
        show(rows)
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    stamp = LOGS / "passed"
    now = fingerprint(options.all)
    if not options.rows and not options.force and stamp.exists() and stamp.read_text(encoding="utf-8").splitlines()[:1] == [now]:
        print("nothing has changed since this run passed (tests/run --force runs again):")
        print("\n".join(stamp.read_text(encoding="utf-8").splitlines()[1:]))
        return 0
    sanitizer_environment()
    run = Run(rows)
    for part in dict.fromkeys(row.part for row in rows):
        print(f"\n== {part} ({run.seconds():.0f} s)", flush=True)
        if NEEDS.get(part) == "release" and "release" not in run.built:
            run.totals.fail(part, "there is no release tree to pack")
            continue
        if run.seconds() > run.limit:
            run.totals.fail(part, f"not begun: the run has had its {run.limit // 60} minutes")
            continue
        began = run.seconds()
        worked = PARTS[part](run)
        run.totals.times.append(f"{part} {run.seconds() - began:.0f} s")
        if part == "build" and worked is False:
            break  # there is nothing to run
    if not options.rows:
        what_was_not_built(run.totals, [tree for tree in ("dev", "release") if tree in run.built])
    print(f"\ntook {run.seconds():.0f} s: {', '.join(run.totals.times)}")
    print("\n".join(run.totals.summary()))
    if run.totals.failed:
        return 1
    if options.rows:
        return 0
    stamp.write_text("\n".join([now, *run.totals.summary()]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
