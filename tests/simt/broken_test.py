"""Checks that a GPU kernel's test finds a broken barrier, mask or index in a copy of the kernel.

Each change is one line of the tables in broken_*.py. The kernel's own test, built with the
change and the address sanitizer, must fail. Without a change it must pass.

broken_test.py [--all] [--only TEXT] [LIBRARY…]

LIBRARY…: the host's libraries, which the tests of references need; without them these tests
are left out. By default each kernel gets one broken barrier, one mask and one index. --all
makes every change and also tests each unchanged kernel, which takes half an hour. --only makes
the changes whose line of output contains TEXT, and tests their unchanged kernels.
"""

import argparse
import concurrent.futures
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile

import broken_builtin
import broken_primitives
import broken_runtime

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILTIN = "kernels/providers/builtin/"
REDUCE = "kernels/runtime/gpu/reduce.h"
OPS = "kernels/ops/"
PRODUCT = OPS + "common/product_gpu.h"
ORDERS = OPS + "common/sum_orders_gpu.h"
SPREAD = OPS + "attention/attention_spread_gpu.h"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The files of a kernel and its test, and what else the test needs."""
    source: str
    test: str
    others: tuple = ()  # sources that are not changed
    host: bool = False  # whether the test needs the host's libraries
    tests: str = "*"    # a filter for the tests that suffice


def builtin(name):
    return Kernel(f"{BUILTIN}{name}_builtin.cu", f"tests/simt/{name}_test.cc")


# The references' tests use the code that selects a reference, which needs all references.
REFERENCES = tuple(f"{OPS}{name}.cu" for name in (
    "attention/attention_identities", "attention/attention_key_groups", "attention/attention_reference",
    "conv/conv_reference", "copy/copy_reference",
    "dequant_softmax/dequant_softmax_identities", "dequant_softmax/dequant_softmax_reference",
    "elementwise/elementwise_reference", "gemm/gemm_reference", "layer_norm/layer_norm_reference",
    "reduce/reduce_reference", "rope/rope_reference", "softmax/softmax_identities",
    "softmax/softmax_reference"))
# The host code that launches them.
ON_GPU = (*(f"{OPS}{op}/{op}_on_gpu.cc" for op in (
    "attention", "conv", "copy", "dequant_softmax", "elementwise", "gemm", "layer_norm", "reduce", "rope", "softmax")),
    OPS + "common/device_words.cc")


ENGINE = ("kernels/simt/context.cc", "kernels/simt/engine.cc")
# The sources that explain why a launch failed.
HOST = ("kernels/runtime/gpu/error_status.cc", "kernels/runtime/gpu/host.cu", "tests/simt/host_simt.cc")


def reference(source, test):
    others = tuple(r for r in REFERENCES if r != OPS + source)
    return Kernel(OPS + source, f"tests/simt/reference_{test}_test.cc",
                  (*others, *ON_GPU, OPS + "gpu/references_gpu.cc", *HOST), True)


KERNELS = {
    "softmax": builtin("softmax"),
    "layer_norm": builtin("layer_norm"),
    "gemm reference": reference("gemm/gemm_reference.cu", "gemm"),
    "conv reference": reference("conv/conv_reference.cu", "conv"),
    "attention reference": reference("attention/attention_reference.cu", "attention"),
    "attention identities": reference("attention/attention_identities.cu", "attention"),
    "softmax reference": reference("softmax/softmax_reference.cu", "rows"),
    "softmax identities": reference("softmax/softmax_identities.cu", "rows"),
    "layer_norm reference": reference("layer_norm/layer_norm_reference.cu", "rows"),
    "dequant_softmax reference": reference("dequant_softmax/dequant_softmax_reference.cu",
                                           "dequant_softmax"),
    "dequant_softmax identities": reference("dequant_softmax/dequant_softmax_identities.cu",
                                            "dequant_softmax"),
    "reduce reference": reference("reduce/reduce_reference.cu", "elements"),
    "elementwise reference": reference("elementwise/elementwise_reference.cu", "elements"),
    "rope reference": reference("rope/rope_reference.cu", "elements"),
}

KERNELS |= {name: Kernel(*paths) for name, paths in broken_builtin.KERNELS.items()}
KERNELS |= {name: Kernel(*paths) for name, paths in broken_primitives.KERNELS.items()}
KERNELS |= {name: Kernel(*paths) for name, paths in broken_runtime.KERNELS.items()}

# Kernel, file, old text (and its occurrence, from 0), new text, what the change breaks.
CHANGES = [
    ("softmax", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' results are read"),
    ("softmax", REDUCE, "  SyncBlock();", 1, "", "barrier before they are written again"),
    ("softmax", REDUCE, "if (Lane() == 0) partial", 0, "if (Lane() == 0 && wave > 0) partial", "mask of the writing lanes"),
    ("softmax", REDUCE, "by = WaveWidth() / 2", 0, "by = 16", "half of a 64-wide wave left out"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "at < packs", 0, "at <= packs", "index past a row read"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "at < packs", 1, "at <= packs", "mask of what is summed"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "at < packs", 2, "at <= packs", "index past a row written"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "j < cols", 0, "j < cols - 1", "last element not summed"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "j < cols", 1, "j <= cols", "index past a long row"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "row * y_ld", 0, "row * cols", "wrong leading dimension"),
    ("softmax", BUILTIN + "softmax_builtin.cu", "s * Weight(m, larger)", 0, "s", "running sum not rescaled"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "  SyncBlock();\n", 0, "", "barrier before the waves' moments are read"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "if (Lane() == 0) {", 0, "if (Lane() == 0 && wave > 0) {", "mask of the writing lanes"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "j < cols", 2, "j <= cols", "index past a row"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "w < kThreads / WaveWidth()", 0, "w < kThreads / 32 - 1", "last wave not merged"),
    ("layer_norm", BUILTIN + "layer_norm_builtin.cu", "weight[j]", 0, "weight[j + 1]", "index past the weights"),
    ("gemm reference", PRODUCT, "    SyncBlock();  // the terms before", 0, "    // the terms before", "barrier before terms are written again"),
    ("gemm reference", PRODUCT, "    SyncBlock();  // all of these", 0, "    // all of these", "barrier before terms are read"),
    ("gemm reference", PRODUCT, "term < terms", 0, "true", "mask of the last terms"),
    ("gemm reference", OPS + "gemm/gemm_reference.cu", "row >= g.m", 0, "row > g.m", "row past the output"),
    ("gemm reference", PRODUCT, "kProductPitch = kProductTile + 1", 0, "kProductPitch = kProductTile - 1", "pitch below the tile"),
    ("gemm reference", OPS + "gemm/gemm_reference.cu", "col >= g.n", 0, "col > g.n", "index past a row of the output"),
    ("gemm reference", OPS + "gemm/gemm_reference.cu", "batch * g.a.batch_stride", 0, "0", "batch left out"),
    ("conv reference", PRODUCT, "kProductTile + sums.Col(j)] != 0", 0, "kProductTile + sums.Col(j)] > 1", "mask of the padding"),
    ("conv reference", PRODUCT, "!std::isfinite(from_a.value[i])", 0, "false", "infinite weights not looked at"),
    ("conv reference", OPS + "conv/conv_reference.cu", "y < s.input[1]", 0, "y <= s.input[1]", "index past the input"),
    ("conv reference", OPS + "conv/conv_reference.cu", "t / tiles % s.groups", 0, "0", "group left out"),
    ("attention reference", OPS + "attention/attention_tiles_gpu.h", "    SyncBlock();\n", 0, "", "barrier before queries and keys are read"),
    ("attention reference", OPS + "attention/attention_tiles_gpu.h", "    SyncBlock();\n", 1, "", "barrier before they are written again"),
    ("attention reference", OPS + "attention/attention_reference.cu", "    SyncBlock();  // P and W", 0, "    // P and W", "barrier before weights and values are read"),
    ("attention reference", OPS + "attention/attention_reference.cu", "    SyncBlock();\n", 0, "", "barrier before values are written again"),
    ("attention reference", OPS + "attention/attention_tiles_gpu.h", "key >= SeenBy(o, query)", 0, "false", "causal mask"),
    ("attention reference", OPS + "attention/attention_reference.cu", "std::bit_cast<std::int64_t>(w) < 0", 0, "false", "mask of values not seen"),
    ("attention reference", OPS + "attention/attention_tiles_gpu.h", "by = kTeam / 2", 0, "by = kTeam / 4", "half of a team left out"),
    ("attention reference", OPS + "attention/attention_reference.cu", "by = WaveWidth() / 2", 0, "by = WaveWidth() / 8", "part of a wave's largest score left out"),
    ("attention reference", SPREAD, "  SyncBlock();  // P is there", 0, "  // P is there", "barrier before the weights of a key are summed"),
    ("attention reference", SPREAD, "  SyncBlock();  // Q is written", 0, "  // Q is written", "barrier before the margins are written over"),
    ("attention reference", SPREAD, "if (weight > 0) sum += weight", 0, "sum += weight", "mask of queries that say nothing"),
    ("attention reference", SPREAD, "query >= o.queries", 0, "query > o.queries", "index past the deviations"),
    ("attention identities", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' counts are read"),
    ("attention identities", OPS + "attention/attention_identities.cu", "Thread().x != 0", 0, "Lane() != 0", "mask of the one that counts"),
    ("attention identities", OPS + "attention/attention_identities.cu", "d < o.dim", 1, "d < o.dim - 1", "last element left out"),
    ("softmax reference", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' results are read"),
    ("softmax reference", OPS + "softmax/softmax_reference.cu", "j < s.cols", 3, "j <= s.cols", "index past a row"),
    ("softmax reference", ORDERS, "    SyncBlock();  // and the chunk", 0, "    // and the chunk", "barrier before addends are summed in order"),
    ("softmax reference", ORDERS, "i < count; i += kRowThreads", 0, "i <= count; i += kRowThreads", "index past the addends"),
    ("softmax identities", OPS + "softmax/softmax_identities.cu", "Thread().x == 0", 0, "Lane() == 0", "mask of the one that counts"),
    ("layer_norm reference", OPS + "layer_norm/layer_norm_reference.cu", "j < n; j", 0, "j < n - 1; j", "last element not summed"),
    ("layer_norm reference", OPS + "layer_norm/layer_norm_reference.cu", "row * l.x_ld", 0, "row * (l.x_ld + 1)", "wrong leading dimension"),
    ("reduce reference", OPS + "reduce/reduce_reference.cu", "l < length", 0, "l < length - 1", "last element not summed"),
    ("reduce reference", OPS + "reduce/reduce_reference.cu", "l < length", 1, "l < length - 1", "mask of the last element of a maximum"),
    ("reduce reference", OPS + "reduce/reduce_reference.cu", "largest.index : length", 0, "largest.index : 0", "mask of the threads without the largest"),
    ("reduce reference", OPS + "reduce/reduce_reference.cu", "at % r.shape.inner", 0, "0", "index of the column"),
    ("elementwise reference", OPS + "elementwise/elementwise_reference.cu", "row * e.b_ld", 0, "row * e.cols", "row of b"),
    ("rope reference", OPS + "rope/rope_reference.cu", "row / r.heads % r.seq", 0, "row % r.seq", "index of the position"),
    ("dequant_softmax reference", OPS + "dequant_softmax/dequant_softmax_reference.cu", "row >= g.m", 0, "row > g.m", "row past the output"),
    ("dequant_softmax reference", OPS + "dequant_softmax/dequant_softmax_reference.cu", "j < g.n", 1, "j < g.n - 1", "last element not summed"),
    ("dequant_softmax reference", OPS + "dequant_softmax/dequant_softmax_reference.cu", "g.transpose_w ? 1 : g.w_ld", 0, "1", "stride of the weights' terms"),
    ("dequant_softmax identities", OPS + "dequant_softmax/dequant_softmax_identities.cu", "Thread().x == 0", 0, "Lane() == 0", "mask of the one that counts"),
    ("dequant_softmax identities", OPS + "dequant_softmax/dequant_softmax_identities.cu", "j < g.n", 0, "j < g.n - 1", "last element not summed"),
] + broken_builtin.CHANGES + broken_primitives.CHANGES + broken_runtime.CHANGES

FLAGS = ["-std=c++20", "-O1", "-g1", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=undefined", '-DASSAY_GPU_ARCHITECTURES="emulator"']


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


def host_link(libraries):
    """How a program links the host's libraries and what they need."""
    absl = subprocess.run(["pkg-config", "--libs", "absl_status", "absl_statusor", "absl_strings",
                           "absl_str_format", "libhwy"], check=True, capture_output=True, text=True)
    return [*libraries, *absl.stdout.split(), "-lgomp", "-lpthread"]


def passes(kernel, shared, link, change):
    """Whether the kernel's test passes with one change to its sources."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = folder / "tree"
        parts = {"kernels/runtime/gpu", str(pathlib.Path(kernel.source).parent)}
        if kernel.host:
            parts.add(OPS + "common")
        for part in parts:
            shutil.copytree(ROOT / part, tree / part)
        if change is not None:
            path = tree / change[1]
            path.write_text(changed(path.read_text(encoding="utf-8"), change[2], change[3],
                                    change[4]), encoding="utf-8")
        objects = [object_of(tree / kernel.source, folder, tree), *shared]
        program = folder / "test"
        subprocess.run(["g++", *FLAGS, *objects, *(link if kernel.host else []), "-lgtest",
                        "-lgtest_main", "-o", program], check=True)
        run = subprocess.run([program, "--gtest_brief=1", "--gtest_fail_fast",
                              f"--gtest_filter={kernel.tests}"],
                             capture_output=True, timeout=600, check=False)
        return run.returncode == 0


def kind(what):
    """What a change breaks, in one word."""
    return next((k for k in ("barrier", "mask") if k in what), "index")


def one_of_each(changes):
    """The first change of each kind of each kernel."""
    first = {}
    for change in changes:
        first.setdefault((change[0], kind(change[5])), change)
    return list(first.values())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every change, and each kernel as it is")
    parser.add_argument("--only", metavar="TEXT", help="the changes in whose line this stands")
    parser.add_argument("libraries", metavar="LIBRARY", nargs="*", help="the host's libraries")
    return parser.parse_args()


def main():
    wrong = 0
    given = arguments()
    libraries = given.libraries
    everything = given.all or given.only is not None
    changes = CHANGES if everything else one_of_each(CHANGES)
    link = host_link(libraries) if libraries else []
    kernels = {name: k for name, k in KERNELS.items() if libraries or not k.host}
    if given.only is not None:
        changes = [c for c in changes if given.only in f"{c[0]}: {c[5]}" and c[0] in kernels]
        kernels = {c[0]: kernels[c[0]] for c in changes}
        if not changes:
            raise SystemExit(f"broken_test: no change that could be made is called {given.only!r}")
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        sources = set(ENGINE)
        for kernel in kernels.values():
            sources |= {kernel.test, *kernel.others}
        made = dict(zip(sources, pool.map(lambda s: object_of(ROOT / s, folder, ROOT), sources)))
        shared = {name: [made[s] for s in (*ENGINE, kernel.test, *kernel.others)]
                  for name, kernel in kernels.items()}
        runs = [(kernel, None) for kernel in kernels] if everything else []
        runs += [(change[0], change) for change in changes if change[0] in kernels]
        results = pool.map(lambda run: passes(kernels[run[0]], shared[run[0]], link, run[1]), runs)
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
