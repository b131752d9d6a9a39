"""Draws random cases for correct kernels from a seed: small and odd shapes, every option of
every operator, every format and every kind of data.

suite(seed, count) returns the text of a suite. The same arguments give the same text.
"""

import random

WIDE = ["fp64", "fp32", "tf32", "fp16", "bf16"]
EIGHT = ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"]
DTYPES = {
    "gemm": WIDE + EIGHT + ["e2m1", "int8"],
    "conv": WIDE + EIGHT + ["int8"],
    "attention": WIDE + EIGHT,
    "softmax": WIDE + EIGHT,
    "layer_norm": WIDE + EIGHT,
    "dequant_softmax": ["fp32", "fp16", "bf16"],
    "copy": WIDE + EIGHT + ["e2m1", "int8", "int32"],
    "reduce": WIDE + EIGHT + ["int8"],
    "elementwise": WIDE + EIGHT,
    "rope": WIDE + EIGHT,
}
SHARES = {"gemm": 8, "conv": 4, "attention": 5, "softmax": 3, "layer_norm": 3,
          "dequant_softmax": 3, "copy": 1, "reduce": 3, "elementwise": 3, "rope": 2}

RANDOM_DATA = ["normal", "normal:0.01", "normal:0.5", "normal:3", "uniform:-1:1", "uniform:-10:10",
               "sparse", "sparse:0.5:2", "integers", "extremes", "extremes:100", "exact-sparse"]
PLACED_DATA = ["uniform", "integers:0:5", "constant:2", "ones", "diagonal", "checkerboard",
               "one-hot:8", "sequential", "sequential:0.5:65536", "all-positive", "row-vary",
               "col-vary", "one-large", "large-small", "near-constant", "normal:1:100", "bernoulli",
               "exact-ints", "extremes:1000", "constant:1000", "denormal", "zeros"]
INFINITE = ["all-inf", "all-neg-inf"]
NO_INFINITY = ["e2m1", "int8", "int32"]
EQUAL_ROWS = ["constant", "ones", "zeros", "row-vary", "denormal"]
INTEGERS = ["int8", "int32"]


class Draw:
    """The draws of one case."""

    def __init__(self, rng):
        self.rng = rng

    def extent(self, most):
        """1 to `most`, small ones as likely as large ones."""
        return min(most, int(2 ** self.rng.uniform(0, (most + 1).bit_length() - 1)))

    def maybe(self, chance):
        return self.rng.random() < chance

    def one(self, values):
        return self.rng.choice(values)


def output_of(draw, op, dtype):
    """A format of the output, or None for the default."""
    if op == "dequant_softmax":
        return draw.one([None, "fp32", "fp16", "bf16"])
    if dtype in ("fp16", "bf16"):
        return draw.one([None, "fp32"]) if op != "copy" else None
    if dtype in EIGHT + ["e2m1"] and op != "copy":
        return draw.one([None, "fp32", "fp16", "bf16"])
    return None


def gemm(draw, case):
    dtype = case["dtype"]
    case.update(m=draw.extent(96), n=draw.extent(96), k=draw.extent(draw.one([64, 512, 2048])))
    if draw.maybe(0.3):
        case["trans_a"] = True
    if draw.maybe(0.3):
        case["trans_b"] = True
    if draw.maybe(0.2):
        case["batch"] = draw.extent(4)
    epilogue = draw.maybe(0.3)
    if dtype == "int8":
        if draw.maybe(0.3):
            case["beta"] = 1.0
        if epilogue:  # what leaves the whole numbers has another output
            case.update(out_dtype=draw.one(["fp32", "fp16", "bf16"]), bias=True)
    else:
        if draw.maybe(0.3):
            case["alpha"] = draw.one([0.5, -2.0, 0.3])
        if draw.maybe(0.3):
            case["beta"] = draw.one([1.0, -1.0, 0.7])
    if draw.maybe(0.2):  # padded rows
        rows_a = case["m"] if case.get("trans_a") else case["k"]
        rows_b = case["k"] if case.get("trans_b") else case["n"]
        case.update(lda=rows_a + draw.extent(9), ldb=rows_b + draw.extent(9),
                    ldc=case["n"] + draw.extent(9))
    if epilogue:
        if draw.maybe(0.5):
            case["bias"] = True
        if draw.maybe(0.3):
            case["channel_scale"] = True
        if draw.maybe(0.5):
            case["activation"] = draw.one(["relu", "gelu", "gelu_tanh"])
        if draw.maybe(0.4):
            case.update(scale_a=draw.one([0.5, 0.013]), scale_b=draw.one([2.0, 0.7]))
    return 3 if case.get("beta", 0.0) != 0.0 else 2


def conv(draw, case):
    axes = draw.one([1, 2, 2, 3])
    group = draw.one([1, 1, 1, 2, 3])
    case.update(channels=group * draw.extent(8), filters=group * draw.extent(8))
    if group > 1:
        case["groups"] = group
    if draw.maybe(0.3):
        case["batch"] = draw.extent(3)
    case["kernel"] = [draw.one([1, 2, 3, 5]) for _ in range(axes)]
    dilation = draw.one([1, 1, 2])
    case["input"] = [dilation * (k - 1) + draw.extent(12 if axes < 3 else 6) for k in case["kernel"]]
    if dilation > 1:
        case["dilation"] = [dilation]
    if draw.maybe(0.5):
        case["padding"] = [draw.one([1, 2])]
    if draw.maybe(0.3):
        case["stride"] = [2]
    if draw.maybe(0.4):
        case["layout"] = "nhwc"
    return 2


def attention(draw, case):
    kv_heads = draw.one([1, 1, 2])
    case.update(heads=kv_heads * draw.one([1, 1, 2, 4]), seq=draw.extent(96), dim=draw.extent(96))
    if kv_heads != case["heads"]:
        case["kv_heads"] = kv_heads
    if draw.maybe(0.3):
        case["kv_seq"] = draw.extent(160)
    if draw.maybe(0.2):
        case["batch"] = draw.extent(3)
    if draw.maybe(0.4):
        case["causal"] = True
    if draw.maybe(0.2):
        case.update(mask_density=draw.one([0.05, 0.5, 0.9]), masked_rows=draw.one(["zero", "nan"]))
    if draw.maybe(0.2):
        case["scale"] = draw.one([0.05, 1.0])
    if draw.maybe(0.2):
        case.update(scale_q=draw.one([0.5, 2.0]), scale_k=draw.one([0.25, 1.5]),
                    scale_v=draw.one([0.1, 4.0]))
    return 3


def softmax(draw, case):
    case.update(rows=draw.extent(24), cols=draw.extent(draw.one([64, 1024, 4096])))
    return 1


def layer_norm(draw, case):
    case.update(rows=draw.extent(24), cols=draw.extent(draw.one([64, 1024, 4096])))
    operands = 1
    if draw.maybe(0.4):
        case["rms"] = True
    if draw.maybe(0.5):
        case["affine"] = True
        operands += 1 if case.get("rms") else 2
        if draw.maybe(0.5):
            case["weight_format"] = "input"
    if draw.maybe(0.3):
        case["eps"] = draw.one([1e-3, 1e-6, 0.0])
    return operands


def dequant_softmax(draw, case):
    case.update(m=draw.extent(24), n=draw.extent(draw.one([64, 1024])),
                k=draw.extent(draw.one([64, 1024])))
    if draw.maybe(0.4):
        case["transpose_w"] = True
    return 1


def copy(draw, case):
    case["count"] = draw.extent(8192)
    return 1


def reduce(draw, case):
    case["extents"] = [draw.extent(draw.one([8, 64, 512])) for _ in range(draw.one([1, 2, 2, 3]))]
    case["kind"] = draw.one(["sum", "sum", "max", "argmax"])
    if draw.maybe(0.5):
        case["axis"] = draw.rng.randrange(len(case["extents"]))
    if case["kind"] == "argmax":
        case.pop("out_dtype", None)  # an index is int32
        if draw.maybe(0.4):
            case["ties"] = "any"
    return 1


def elementwise(draw, case):
    case.update(rows=draw.extent(24), cols=draw.extent(draw.one([64, 1024])),
                kind=draw.one(["add", "silu_mul", "gelu", "gelu_tanh"]))
    if case["kind"].startswith("gelu"):
        return 1
    if draw.maybe(0.4):
        case["broadcast"] = True
    return 2


def rope(draw, case):
    case.update(seq=draw.extent(64), heads=draw.extent(8), dim=2 * draw.extent(96))
    if draw.maybe(0.3):
        case["batch"] = draw.extent(3)
    if draw.maybe(0.5):
        case["interleaved"] = True
    if draw.maybe(0.4):
        case["start"] = draw.extent(100000)
    if draw.maybe(0.3):
        case["theta"] = draw.one([1.0, 5e5])
    return 1


OPS = {"gemm": gemm, "conv": conv, "attention": attention, "softmax": softmax,
       "layer_norm": layer_norm, "dequant_softmax": dequant_softmax, "copy": copy,
       "reduce": reduce, "elementwise": elementwise, "rope": rope}


def one_pattern(draw, case):
    kinds = [RANDOM_DATA] * 5 + [PLACED_DATA] * 4 + [INFINITE]
    pattern = draw.one(draw.one(kinds))
    dtype = case["dtype"]
    if pattern in INFINITE and (dtype in NO_INFINITY or not infinities_agree(case)):
        return "normal"
    if pattern == "denormal" and dtype in INTEGERS:
        return "integers"
    return pattern


def infinities_agree(case):
    """Whether infinite data has a result that all kernels agree on; assayd refuses the rest."""
    return not case.get("activation", "").startswith("gelu") and "padding" not in case


def with_finite_values(case):
    """An attention with infinite values and finite scores has no agreed result."""
    patterns = case.get("pattern", "").split("/")
    if case["op"] != "attention" or patterns[-1] not in INFINITE:
        return case
    if not all(p in INFINITE for p in patterns):
        case["pattern"] = "/".join(patterns[:-1] + ["normal"])
    return case


def with_a_deviation(case):
    """Rows of equal elements, or of tiny ones, and no eps are 0/0; assayd refuses them."""
    first = case.get("pattern", "").split("/")[0].split(":")[0]
    if case.get("eps") == 0.0 and (first in EQUAL_ROWS or case["cols"] == 1):
        case["eps"] = 1e-6
    return case


def random_case(rng):
    draw = Draw(rng)
    op = rng.choices(list(SHARES), weights=list(SHARES.values()))[0]
    case = {"op": op, "dtype": draw.one(DTYPES[op])}
    out = output_of(draw, op, case["dtype"])
    if out is not None:
        case["out_dtype"] = out
    operands = OPS[op](draw, case)
    if draw.maybe(0.1):
        return with_a_deviation(case)  # the operator's own data
    if operands == 1 or draw.maybe(0.6):
        case["pattern"] = one_pattern(draw, case)
    else:
        case["pattern"] = "/".join(one_pattern(draw, case) for _ in range(operands))
    if case["op"] == "conv" and "padding" in case and case["dtype"] == "fp16":
        case["pattern"] = case["pattern"].replace("1000", "100")
    return with_a_deviation(with_finite_values(case))


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return repr(value)


def suite(seed, count):
    """A suite of `count` cases for every provider."""
    rng = random.Random(seed)
    lines = ['name = "random"', f'title = "{count} random cases of seed {seed}"', 'version = "1"']
    for _ in range(count):
        lines += ["", "[[case]]"]
        lines += [f"{key} = {toml(value)}" for key, value in random_case(rng).items()]
    return "\n".join(lines) + "\n"
