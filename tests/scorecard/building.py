"""Builds scorecard_cases with every mutant of the built-in CPU kernels, and runs it."""

import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import kernel_sites  # noqa: E402  pylint: disable=wrong-import-position
import programs  # noqa: E402  pylint: disable=wrong-import-position

HERE = ROOT / "build" / "scorecard"
programs.HERE, programs.TREE = HERE, HERE / "tree"
PROGRAM = "scorecard_cases"
BUILTIN = "kernels/providers/builtin/"
# The headers come first, because the others use their constants.
SHARED = tuple(f"{BUILTIN}{name}" for name in ("blocking.h", "common.h", "codes-inl.h", "epilogue-inl.h", "simd-inl.h",
                                               "softmax_rows-inl.h", "tile-inl.h"))
OPERATORS = ("gemm", "conv", "attention", "softmax", "layer_norm", "dequant_softmax", "reduce", "rope", "elementwise", "copy")
FILES = (*SHARED, *(f"{BUILTIN}{op}_builtin_cpu.cc" for op in OPERATORS))
NUMBERS_A_FILE = 3000
# The best vectors that the processor has, and the baseline. More targets only take time to compile.
TARGETS = "-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX2|HWY_AVX3_DL)"


def operator_of(file):
    name = pathlib.Path(file).name
    return name.removesuffix("_builtin_cpu.cc") if name.endswith("_cpu.cc") else "shared"


def sources(left_out):
    found, constants = {}, {}
    for number, file in enumerate(FILES):
        text = (ROOT / file).read_text(encoding="utf-8")
        found[file] = kernel_sites.KernelSource(file, text, number * NUMBERS_A_FILE, constants, left_out=left_out[file])
        if file in SHARED:
            constants |= found[file].own_constants
    return found


def build():
    """Builds the program with all mutants. What does not compile so is left out. (program, {file: source})"""
    subprocess.run(["cmake", "--build", programs.BUILD, "--target", PROGRAM], check=True, stdout=subprocess.DEVNULL)
    made = programs.Build([PROGRAM])
    made.compile_switch()
    left_out = collections.defaultdict(set)
    objects = made.dependants(FILES)
    for output in objects:
        made.commands[output]["command"] += f" '{TARGETS}'"
    waiting = objects
    while waiting:
        found = sources(left_out)
        for file, source in found.items():
            target = programs.TREE / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source.rewritten(), encoding="utf-8")
        failed = made.compile_all(waiting)
        before = sum(map(len, left_out.values()))
        for said in failed.values():
            for file, line in re.findall(r"^(?:\S*scorecard/tree/)?(kernels/[\w./-]+):(\d+):\d+: +(?:error|  required|required)",
                                         said, re.M):
                left_out[file].add(int(line))
        if failed and sum(map(len, left_out.values())) == before:
            raise SystemExit("scorecard: a rewritten source does not compile:\n" + "\n".join(failed.values())[:4000])
        # A header's change is in every object.
        waiting = objects if failed and any(f in SHARED for f in left_out) else list(failed)
    made.link(objects)
    return made.programs[0], found, left_out


class Runner:
    """Runs cases, all in one process."""

    def __init__(self, program):
        self.program = program
        self.cases, self.results = HERE / "cases", HERE / "results"

    def run(self, specs, mutant=None, trace=None, limit=1800):
        """{name: CaseResult} of those that ended."""
        self.cases.write_text("".join(f"{s['name']}\t{without_name(s)}\n" for s in specs), encoding="utf-8")
        self.results.unlink(missing_ok=True)
        programs.os.environ["SCORECARD_CASES"] = str(self.cases)
        programs.os.environ["SCORECARD_RESULTS"] = str(self.results)
        _, said = programs.run(self.program, "cases", mutant=mutant, trace=trace, limit=limit)
        if not self.results.exists():
            return {}, said
        lines = self.results.read_text(encoding="utf-8", errors="replace").splitlines()
        pairs = (line.split("\t", 1) for line in lines if line.endswith("}"))
        return {name: json.loads(result) for name, result in pairs}, said


def without_name(spec):
    return json.dumps({k: v for k, v in spec.items() if k != "name"})
