"""Builds scorecard_cases with every mutant of the built-in CPU kernels, and runs it."""

import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

import gpu_sites  # noqa: E402  pylint: disable=wrong-import-position
import kernel_sites  # noqa: E402  pylint: disable=wrong-import-position
import programs  # noqa: E402  pylint: disable=wrong-import-position

HERE = ROOT / "build" / "scorecard"
BUILTIN = "kernels/providers/builtin/"
NUMBERS_A_FILE = 3000
OPERATORS = ("gemm", "conv", "attention", "softmax", "layer_norm", "dequant_softmax", "reduce", "rope", "elementwise", "copy")


@dataclasses.dataclass(frozen=True)
class Kernels:
    """Sources whose mutants a program runs. Headers come first, because the others use their constants."""
    program: str
    folder: pathlib.Path
    headers: tuple
    sources: tuple
    rules: type       # of sites.Source
    flags: str = ""
    namespace: tuple = ("", "")  # in headers: replaced by another, so that other objects keep the header's own functions

    def files(self):
        return (*self.headers, *self.sources)

    def objects(self, made):
        """The objects to compile again: with a namespace of their own, the kernels' only."""
        return made.dependants(self.sources if self.namespace[0] else self.files())


CPU = Kernels("scorecard_cases", HERE,
              tuple(f"{BUILTIN}{name}" for name in ("blocking.h", "common.h", "codes-inl.h", "epilogue-inl.h", "simd-inl.h",
                                                    "softmax_rows-inl.h", "tile-inl.h")),
              tuple(f"{BUILTIN}{op}_builtin_cpu.cc" for op in OPERATORS), kernel_sites.KernelSource,
              # The best vectors that the processor has, and the baseline. More targets only take time to compile.
              "-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_AVX2|HWY_AVX3_DL)")
GPU = Kernels("scorecard_gpu_cases", HERE / "gpu",
              ("kernels/runtime/gpu/reduce.h", "kernels/runtime/gpu/element.h",
               *(f"{BUILTIN}{name}_gpu.h" for name in ("divisor", "store", "epilogue", "fma_tile", "attention_common",
                                                       "attention_fma"))),
              tuple(f"{BUILTIN}{op}_builtin.cu" for op in OPERATORS), gpu_sites.GpuSource,
              namespace=("namespace assay::inline kernels::gpu {", "namespace assay::inline kernels::gpu::inline mutants {"))


def operator_of(file):
    name = pathlib.Path(file).name
    return name.split("_builtin")[0] if name.endswith(("_cpu.cc", ".cu")) else "shared"


def sources(kernels, left_out):
    found, constants = {}, {}
    for number, file in enumerate(kernels.files()):
        text = (ROOT / file).read_text(encoding="utf-8")
        found[file] = kernels.rules(file, text, number * NUMBERS_A_FILE, constants, left_out=left_out[file])
        if file in kernels.headers:
            constants |= found[file].own_constants
    return found


def rewrite(kernels, found):
    for file, source in found.items():
        target = programs.TREE / file
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.rewritten()
        if file in kernels.headers and kernels.namespace[0]:
            text = text.replace(*kernels.namespace)
        target.write_text(text, encoding="utf-8")


def build(kernels):
    """Builds the program with all mutants. What does not compile so is left out. (program, {file: source})"""
    programs.HERE, programs.TREE = kernels.folder, kernels.folder / "tree"
    subprocess.run(["cmake", "--build", programs.BUILD, "--target", kernels.program], check=True, stdout=subprocess.DEVNULL)
    made = programs.Build([kernels.program])
    made.compile_switch()
    left_out = collections.defaultdict(set)
    objects = kernels.objects(made)
    for output in objects:
        made.commands[output]["command"] += f" '{kernels.flags}'" if kernels.flags else ""
    waiting = objects
    while waiting:
        found = sources(kernels, left_out)
        rewrite(kernels, found)
        failed = made.compile_all(waiting)
        before = sum(map(len, left_out.values()))
        for said in failed.values():
            for file, line in re.findall(r"^(?:\S*scorecard/(?:gpu/)?tree/)?(kernels/[\w./-]+):(\d+):\d+: +(?:error|  required|required)",
                                         said, re.M):
                left_out[file].add(int(line))
        if failed and sum(map(len, left_out.values())) == before:
            raise SystemExit("scorecard: a rewritten source does not compile:\n" + "\n".join(failed.values())[:4000])
        # A header's change is in every object.
        waiting = objects if failed and any(f in kernels.headers for f in left_out) else list(failed)
    made.link(objects)
    return made.programs[0], found, left_out


class Runner:
    """Runs cases, all in one process."""

    def __init__(self, program, folder=HERE, environment=()):
        self.program, self.folder = program, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cases, self.results = folder / "cases", folder / "results"
        self.environment = {**dict(environment), "SCORECARD_CASES": str(self.cases), "SCORECARD_RESULTS": str(self.results)}

    def run(self, specs, mutant=None, trace=None, limit=1800):
        """{name: CaseResult} of those that ended."""
        self.cases.write_text("".join(f"{s['name']}\t{without_name(s)}\n" for s in specs), encoding="utf-8")
        self.results.unlink(missing_ok=True)
        _, said = programs.run(self.program, self.folder.name, mutant=mutant, trace=trace, limit=limit,
                               environment=self.environment)
        if not self.results.exists():
            return {}, said
        lines = self.results.read_text(encoding="utf-8", errors="replace").splitlines()
        pairs = (line.split("\t", 1) for line in lines if line.endswith("}"))
        return {name: json.loads(result) for name, result in pairs}, said


def without_name(spec):
    return json.dumps({k: v for k, v in spec.items() if k != "name"})
