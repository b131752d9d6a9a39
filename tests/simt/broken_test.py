"""A barrier, a mask or an index broken in a copy of a GPU kernel is caught by its test.

Each line below is one change to the sources of a kernel; the kernel's own test, built
with it under the address sanitizer, must fail, and without any change it must pass.
"""

import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILTIN = "kernels/providers/builtin/"
REDUCE = "kernels/runtime/gpu/reduce.h"

# kernel, file, what stands there (and which of them, from 0), what shall, what that breaks
CHANGES = [
    ("softmax", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' results are read"),
    ("softmax", REDUCE, "  SyncBlock();", 1, "", "barrier before they are written again"),
    ("softmax", REDUCE, "if (Lane() == 0) partial", 0, "if (Lane() == 0 && wave > 0) partial", "mask of the writing lanes"),
    ("softmax", REDUCE, "by = WaveWidth() / 2", 0, "by = 16", "half of a 64-wide wave left out"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "at < packs", 0, "at <= packs", "index past a row read"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "at < packs", 1, "at <= packs", "index past a row written"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "j < cols", 0, "j < cols - 1", "last element not summed"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "j < cols", 1, "j <= cols", "index past a long row"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "row * y_ld", 0, "row * cols", "wrong leading dimension"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "s * Weight(m, larger)", 0, "s", "running sum not rescaled"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "  SyncBlock();\n", 0, "", "barrier before the waves' moments are read"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "if (Lane() == 0) {", 0, "if (Lane() == 0 && wave > 0) {", "mask of the writing lanes"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "j < cols", 2, "j <= cols", "index past a row"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "w < kThreads / WaveWidth()", 0, "w < kThreads / 32 - 1", "last wave not merged"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "weight[j]", 0, "weight[j + 1]", "index past the weights"),
]

FLAGS = ["-std=c++20", "-O1", "-g1", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined"]


def changed(text, old, which, new):
    """`text` with occurrence `which` of `old` replaced."""
    parts = text.split(old)
    if len(parts) <= which + 1:
        raise SystemExit(f"broken_test: the {which + 1}. {old!r} is not there any more")
    return old.join(parts[:which + 1]) + new + old.join(parts[which + 1:])


def object_of(source, folder, tree):
    target = folder / (pathlib.Path(source).name + ".o")
    subprocess.run(["g++", *FLAGS, f"-I{tree}", f"-I{tree}/tests", f"-I{ROOT}", f"-I{ROOT}/tests",
                    "-x", "c++", "-c", source, "-o", target], check=True)
    return target


def passes(kernel, shared, change):
    """Whether the kernel's test passes with one change to its sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = folder / "tree"
        for part in ("kernels/runtime/gpu", BUILTIN):
            shutil.copytree(ROOT / part, tree / part)
        if change is not None:
            path = tree / change[1]
            path.write_text(changed(path.read_text(encoding="utf-8"), change[2], change[3],
                                    change[4]), encoding="utf-8")
        objects = [object_of(tree / BUILTIN / f"{kernel}_builtin.cu", folder, tree), *shared]
        program = folder / "test"
        subprocess.run(["g++", *FLAGS, *objects, "-lgtest", "-lgtest_main", "-lboost_context",
                        "-o", program], check=True)
        run = subprocess.run([program, "--gtest_brief=1"], capture_output=True, timeout=300,
                             check=False)
        return run.returncode == 0


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        engine = object_of(ROOT / "tests/simt/engine.cc", folder, ROOT)
        shared = {kernel: [engine, object_of(ROOT / f"tests/simt/{kernel}_test.cc", folder, ROOT)]
                  for kernel in sorted({change[0] for change in CHANGES})}
        runs = [(kernel, None) for kernel in shared] + [(change[0], change) for change in CHANGES]
        results = pool.map(lambda run: passes(run[0], shared[run[0]], run[1]), runs)
        for (kernel, change), passed in zip(runs, results):
            right = passed == (change is None)
            wrong += not right
            what = "as it is" if change is None else change[5]
            print(f"{'ok   ' if right else 'WRONG'} {kernel}: {what}: "
                  f"{'passes' if passed else 'caught'}", flush=True)
    print(f"{len(runs) - wrong} of {len(runs)} as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
