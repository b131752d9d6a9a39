"""Builds test programs from rewritten sources beside an ordinary build, and runs them.

The build tree's own commands are used. A rewritten source lies in a folder that comes first among
the include folders. What depends on one is compiled again, put into copies of the libraries, and
linked. Neither the sources nor the build tree are changed.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
HERE = ROOT / "build" / "judge_mutants"
TREE = HERE / "tree"
# Programs that may find a mutant. The self-test comes last: it is asked only for what the unit tests do not reach or kill.
PROGRAMS = ("numerics_test", "compare_test", "runtime_test", "judge_test", "narrowing_test", "overflow_test",
            "validate_test", "external_test", "probes_test", "precision_run_test", "accumulator_test", "flash_test",
            "checksum_test", "compare_tensors_test", "ops_test", "planted_test", "patterns_test")
MEMORY = 12 << 30  # a mutant that asks for more is stopped
PROCESSORS = os.cpu_count() or 1


def ninja(*arguments):
    return subprocess.run(["ninja", "-C", BUILD, "-t", *arguments], check=True, capture_output=True, text=True).stdout


class Program:
    def __init__(self, name):
        self.name = name
        lines = ninja("commands", name).strip().splitlines()
        self.words = shlex.split(lines[-1])
        self.out = self.words[self.words.index("-o") + 1]
        self.path = HERE / "bin" / name
        self.folder = BUILD / pathlib.Path(self.out).parent
        self.changed = False  # whether it holds a mutant
        self.tests = {}       # name: seconds


class Build:
    def __init__(self, names):
        shutil.rmtree(TREE, ignore_errors=True)
        for folder in ("tree", "obj", "lib", "bin", "trace"):
            (HERE / folder).mkdir(parents=True, exist_ok=True)
        self.programs = [Program(name) for name in names]
        self.commands = {}
        for entry in json.loads(ninja("compdb")):
            if entry["output"].endswith(".o"):
                self.commands[entry["output"]] = entry
        self.depends = {}
        current = None
        for line in ninja("deps").splitlines():
            if line and not line.startswith(" "):
                current = self.depends.setdefault(line.split(":")[0], set())
            elif line.strip():
                path = os.path.normpath(BUILD / line.strip())
                if path.startswith(str(ROOT) + "/"):
                    current.add(path[len(str(ROOT)) + 1:])
        self.members = {}  # library: its objects
        for line in ninja("commands", *names).splitlines():
            m = re.search(r"ar qc (\S+\.a) (.*?) &&", line)
            if m:
                self.members[m.group(1)] = m.group(2).split()

    def wanted_objects(self):
        """The objects of the programs that were compiled."""
        seen = set()
        for program in self.programs:
            seen.update(w for w in program.words if w.endswith(".o"))
            for w in program.words:
                seen.update(self.members.get(w, ()))
        return seen

    def dependants(self, files):
        files = set(files)
        return sorted(o for o in self.wanted_objects() if self.depends.get(o, set()) & files)

    def compile(self, output, source=None):
        """Compiles an object again. What the compiler says, or None."""
        entry = self.commands[output]
        words = shlex.split(entry["command"])
        file = entry["file"]
        own = os.path.relpath(os.path.join(entry["directory"], file), ROOT)
        if (TREE / own).exists():
            file = str(TREE / own)
        target = HERE / "obj" / output.replace("/", "+")
        made = []
        skip = False
        for i, w in enumerate(words):
            if skip:
                skip = False
            elif w in ("-MD",):
                continue
            elif w in ("-MT", "-MF", "-o", "-c"):
                skip = True
            elif w == f"-I{ROOT}":
                made += [f"-I{TREE}", w]
            elif w not in ("-Werror", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"):
                made.append(w)
        made += ["-w", "-o", str(target), "-c", str(source or file)]
        done = subprocess.run(made, cwd=entry["directory"], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else None

    def compile_all(self, outputs):
        with concurrent.futures.ThreadPoolExecutor(PROCESSORS) as pool:
            said = list(pool.map(self.compile, outputs))
        return {o: s for o, s in zip(outputs, said) if s is not None}

    def compile_switch(self):
        subprocess.run(["g++", "-std=c++20", "-O2", f"-I{ROOT}/tests/mutants", "-c", ROOT / "tests/mutants/mutant_switch.cc",
                        "-o", HERE / "obj" / "mutant_switch.o"], check=True)

    def link(self, outputs):
        """Links the programs that hold one of the objects."""
        outputs = set(outputs)
        libraries = {}
        for library, members in self.members.items():
            new = [o for o in members if o in outputs]
            if new:
                copy = HERE / "lib" / library.replace("/", "+")
                copy.unlink(missing_ok=True)
                paths = [str(HERE / "obj" / o.replace("/", "+")) if o in outputs else str(BUILD / o) for o in members]
                subprocess.run(["ar", "qcs", copy, *paths], check=True)
                libraries[library] = str(copy)

        def one(program):
            words = [libraries.get(w, w) for w in program.words]
            words = [str(HERE / "obj" / w.replace("/", "+")) if w in outputs else w for w in words]
            program.changed = words != program.words
            if not program.changed:
                return
            at = words.index("-o")
            words[at + 1] = str(program.path)
            words = words[words.index(":") + 2:-2]  # ": && g++ … && :"
            words.insert(1, str(HERE / "obj" / "mutant_switch.o"))
            subprocess.run(words, cwd=BUILD, check=True)

        with concurrent.futures.ThreadPoolExecutor(PROCESSORS) as pool:
            list(pool.map(one, self.programs))


def run(program, worker, tests=None, mutant=None, trace=None, limit=1800, environment=()):
    """Runs tests of a program, to the first that fails. (whether all passed, what was said)"""
    scratch = HERE / "tmp" / f"{worker}"
    scratch.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TEST_TMPDIR": str(scratch), "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive",
                   **dict(environment)}
    environment.pop("GTEST_OUTPUT", None)
    if mutant is not None:
        environment["ASSAY_MUTANT"] = str(mutant)
    if trace is not None:
        environment["ASSAY_MUTANT_TRACE"] = str(trace)
    command = [program.path, "--gtest_brief=1"]
    if trace is None:
        command.append("--gtest_fail_fast")
    if tests is not None and len(tests) < len(program.tests):
        command.append("--gtest_filter=" + ":".join(tests))

    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    with subprocess.Popen(command, cwd=program.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", preexec_fn=limits, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, f"no end after {limit:.0f} s"
    return process.returncode == 0, said
