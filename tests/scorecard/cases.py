"""The cases of the scorecard: a handful for each operator, and right variants of each."""

import itertools


def case(name, dtype, problem, **more):
    """A CaseSpec as a dictionary. `problem` names the operator."""
    operator, fields = problem
    return {"name": f"{operator} {name}", operator: fields, "dtype": f"DTYPE_{dtype}", "provider": "builtin",
            "pattern": "normal", "seed": 7, "all_criteria": True, "criterion": "CRITERION_BOUND", **more}


def gemm(m, n, k, **more):
    return "gemm", {"m": m, "n": n, "k": k, **more}


def conv(batch, channels, filters, size, kernel, **more):
    return "conv", {"batch": batch, "channels": channels, "filters": filters, "input": size, "kernel": kernel, **more}


def attention(heads, seq, dim, **more):
    return "attention", {"heads": heads, "seq": seq, "dim": dim, **more}


def rows(operator, height, cols, **more):
    return operator, {"rows": height, "cols": cols, **more}


def dequant(m, n, k, **more):
    return "dequant_softmax", {"m": m, "n": n, "k": k, **more}


def reduce(kind, extents, **more):
    return "reduce", {"kind": kind, "extents": extents, **more}


def rope(seq, heads, dim, **more):
    return "rope", {"seq": seq, "heads": heads, "dim": dim, **more}


def copy(count):
    return "copy", {"count": count}


F32, F16, BF16, F64, E4M3 = "FP32", "FP16", "BF16", "FP64", "E4M3FN"


def out(dtype):
    return {"out_dtype": f"DTYPE_{dtype}"}


CASES = [
    case("ragged", F32, gemm(65, 67, 300)),
    case("several tiles", F32, gemm(250, 270, 70)),
    case("transposed", F32, gemm(45, 51, 257, trans_a=True, trans_b=True, alpha=0.5, beta=-1.0, batch=2)),
    case("epilogue", F32, gemm(33, 70, 64, bias=True, channel_scale=True, activation="gelu")),
    case("half", F16, gemm(48, 80, 300)),
    case("bfloat", BF16, gemm(100, 33, 260, bias=True, activation="relu"), **out(F32)),
    case("positive", BF16, gemm(40, 40, 128), pattern="all-positive"),
    case("integers", "INT8", gemm(37, 41, 131, trans_b=True), pattern="integers:-50:50"),
    case("dequantised", "INT8", gemm(37, 41, 130, bias=True, channel_scale=True), pattern="integers:-50:50", **out(F16)),
    case("eight bits", E4M3, gemm(40, 50, 96, scale_a=0.5, scale_b=2.0), **out(BF16)),
    case("double", F64, gemm(40, 50, 96)),
    case("plain", F32, conv(2, 5, 7, [13, 11], [3, 3], padding=[1])),
    case("strided", F32, conv(1, 6, 8, [17, 14], [3, 2], stride=[2], padding=[1], dilation=[2], groups=2)),
    case("channels last", F16, conv(2, 16, 20, [9, 10], [3, 3], padding=[1], layout="nhwc")),
    case("one axis", BF16, conv(2, 40, 33, [64], [5], padding=[2])),
    case("volume", F32, conv(1, 3, 4, [6, 7, 8], [3, 3, 3], padding=[1], stride=[2])),
    case("integers", "INT8", conv(1, 6, 9, [12, 12], [3, 3], padding=[1]), pattern="integers:-20:20"),
    case("plain", F32, attention(2, 65, 48)),
    case("causal", F32, attention(2, 150, 40, causal=True)),
    case("grouped", F16, attention(4, 31, 32, kv_heads=2, kv_seq=60, causal=True)),
    case("masked", BF16, attention(2, 50, 32, mask_density=0.3, masked_rows="nan")),
    case("almost empty", F32, attention(1, 40, 24, mask_density=0.05)),
    case("half", F16, attention(1, 60, 64)),
    case("eight bits", E4M3, attention(8, 192, 64, scale_q=0.5, scale_v=2.0), **out(F16)),
    case("large values", F32, attention(1, 40, 32, causal=True), pattern="normal/normal/large-small"),
    case("ragged", F32, rows("softmax", 37, 333)),
    case("short", F32, rows("softmax", 70, 13)),
    case("long", F32, rows("softmax", 5, 4099)),
    case("half", F16, rows("softmax", 33, 257)),
    case("bfloat", BF16, rows("softmax", 33, 200), **out(F32)),
    case("extremes", F32, rows("softmax", 16, 100), pattern="extremes:80"),
    case("eight bits", E4M3, rows("softmax", 16, 100), **out(BF16)),
    case("plain", F32, rows("layer_norm", 33, 333)),
    case("affine", F32, rows("layer_norm", 20, 1000, affine=True)),
    case("eps", F32, rows("layer_norm", 20, 500, eps=1e-3), pattern="normal:0.1"),
    case("root mean square", F16, rows("layer_norm", 33, 256, rms=True, affine=True, weight_format="input")),
    case("bfloat", BF16, rows("layer_norm", 33, 130, affine=True)),
    case("large mean", F32, rows("layer_norm", 16, 250), pattern="normal:1:100"),
    case("eight bits", E4M3, rows("layer_norm", 16, 100), **out(F32)),
    case("plain", F32, dequant(33, 70, 130)),
    case("transposed", F16, dequant(20, 130, 64, transpose_w=True)),
    case("bfloat", BF16, dequant(40, 33, 100), **out(F32)),
    case("wide", F32, dequant(9, 600, 300)),
    case("sum of rows", F32, reduce("sum", [33, 333])),
    case("sum of columns", F32, reduce("sum", [20, 77, 19], axis=1)),
    case("half sum", F16, reduce("sum", [70, 300])),
    case("bfloat sum", BF16, reduce("sum", [130, 40], axis=0), **out(F32)),
    case("bfloat sum of rows", BF16, reduce("sum", [40, 700])),
    case("positive sum", F32, reduce("sum", [40, 700]), pattern="all-positive"),
    case("sum of wide columns", F32, reduce("sum", [3, 9, 600], axis=1)),
    case("place in long rows", BF16, reduce("argmax", [5, 5000])),
    case("maximum", F32, reduce("max", [33, 333])),
    case("maximum of columns", F16, reduce("max", [40, 77], axis=0)),
    case("place", F32, reduce("argmax", [33, 130])),
    case("place of columns", BF16, reduce("argmax", [40, 77, 3], axis=1), pattern="integers:-3:3"),
    case("neighbours", F32, rope(33, 3, 66, interleaved=True)),
    case("halves", F32, rope(33, 3, 64, start=1000)),
    case("half", F16, rope(40, 2, 34, batch=2)),
    case("bfloat", BF16, rope(20, 2, 128, interleaved=True, theta=500000.0), **out(F32)),
    case("add", F32, rows("elementwise", 33, 333, kind="add", broadcast=True)),
    case("add half", F16, rows("elementwise", 33, 130, kind="add")),
    case("silu", F32, rows("elementwise", 33, 333, kind="silu_mul")),
    case("silu bfloat", BF16, rows("elementwise", 33, 100, kind="silu_mul"), **out(F32)),
    case("wide", BF16, rows("elementwise", 3, 5000, kind="silu_mul")),
    case("gelu", F32, rows("elementwise", 33, 333, kind="gelu"), pattern="normal:3"),
    case("gelu half", F16, rows("elementwise", 33, 100, kind="gelu")),
    case("gelu by tanh", F32, rows("elementwise", 33, 333, kind="gelu_tanh"), pattern="normal:3"),
    case("plain", F32, copy(4099)),
    case("short", F16, copy(63)),
    case("bytes", E4M3, copy(1031)),
    case("half bytes", "E2M1", copy(1030)),
    case("long", BF16, copy(300000)),
]


def widened(spec, seed, provider):
    return {**spec, "name": f"{spec['name']}, {provider}, seed {seed}", "seed": seed, "provider": provider}


def right_variants():
    """Kernels without a defect on other data: libraries with orders and tilings of their own, and built-in kernels."""
    for spec, seed in itertools.product(CASES, (11, 12)):
        yield widened(spec, seed, "builtin")
    others = [*CASES, *LONGER]
    for spec, provider in itertools.product(others, ("onednn", "openblas", "planted/correct")):
        yield widened(spec, 13, provider)
    for spec in LONGER:
        yield widened(spec, 14, "builtin")


LONGER = [
    *(case(f"{dtype} {pattern} {k}", dtype, gemm(48, 48, k), pattern=pattern)
      for dtype in (F32, F16, BF16) for k in (256, 1024, 4096) for pattern in ("normal", "all-positive")),
    *(case(f"{dtype} {keys}", dtype, attention(1, 32, 64, kv_seq=keys)) for dtype in (F32, F16, BF16) for keys in (64, 1024)),
    *(case(f"{dtype} {cols}", dtype, rows(op, 16, cols))
      for dtype in (F32, F16, BF16) for op in ("softmax", "layer_norm") for cols in (256, 4096)),
    *(case(f"{dtype} wide", dtype, conv(1, 64, 32, [12, 12], [3, 3], padding=[1])) for dtype in (F32, F16, BF16)),
]
