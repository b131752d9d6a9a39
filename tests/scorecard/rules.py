"""What each rule makes of a kernel, read from the results of its cases.

Every rule sees the same launches: the kernels are deterministic, and two rules whose tolerances a
case cannot have beside its own get a case of their own with the same data.
"""

import itertools
import math
import struct

# torch.testing.assert_close: rtol, atol by the format of the output; other formats must be equal.
TORCH = {"FP16": (1e-3, 1e-5), "BF16": (1.6e-2, 1e-5), "FP32": (1.3e-6, 1e-5), "FP64": (1e-7, 1e-7)}
KERNELBENCH = (1e-2, 1e-2)
# kernels/README.md, "Precision: below the bound".
RMS_LIMIT, CONV_RMS_LIMIT, GAIN_LIMIT = 2, 8, 8
FLASH_FACTOR, FLASH_ATOL = 2, 1e-5

RULES = ("default", "bound alone", "probes alone", "precision alone", "derived", "legacy", "allclose (torch)",
         "KernelBench", "flash-attention")


def output_format(spec):
    if "out_dtype" in spec:
        return spec["out_dtype"][6:]
    dtype = spec["dtype"][6:]
    if "copy" in spec:
        return dtype
    if spec.get("reduce", {}).get("kind") == "argmax":
        return "INT32"
    return {"INT8": "INT32", "TF32": "FP32", "E4M3FN": "FP32"}.get(dtype, dtype)


def with_tolerance(spec, name, tolerance):
    rtol, atol = tolerance
    return {**spec, "name": f"{spec['name']}/{name}", "criterion": "CRITERION_ALLCLOSE", "atol": atol, "rtol": rtol,
            "probes": False}


def beside(spec):
    """The cases that are run beside a case for the rules with tolerances of their own."""
    return [with_tolerance(spec, "torch", TORCH.get(output_format(spec), (0, 0))),
            with_tolerance(spec, "kernelbench", KERNELBENCH)]


def below_the_bound(spec, result):
    if any(f["reason"] in ("precision", "structure") for f in result.get("findings", ())):
        return True
    # After an element beyond its bound the judge does not ask further; then the figures decide.
    precision = result.get("precision", {})
    gates = spec["pattern"].split(":")[0] in ("normal", "uniform", "all-positive")
    if result["verdict"] != "VERDICT_FAILED" or not gates:
        return False
    gain, error = precision.get("gain", 0), precision.get("gain_error", 0)
    return precision.get("rms", 0) > (CONV_RMS_LIMIT if "conv" in spec else RMS_LIMIT) or \
        (error > 0 and abs(gain) > GAIN_LIMIT * error)


def of_case(spec, results, plain_error):
    """The rules that refuse a case. None as a result: the process ended before it."""
    main, torch, bench = (results.get(s["name"]) for s in (spec, *beside(spec)))
    if main is None or torch is None or bench is None or "stats" not in main:
        return set(RULES) - ({"flash-attention"} if plain_error is None else set())
    passes = {c["criterion"]: c.get("passed", False) for c in main.get("criteria", ())}
    stats = main["stats"]
    wrong_class = int(stats.get("class_mismatches", 0)) > 0
    said = {
        "default": main["verdict"] != "VERDICT_PASSED",
        "bound alone": not passes["CRITERION_BOUND"] or wrong_class,
        "probes alone": any(p["verdict"] == "VERDICT_FAILED" for p in main.get("probes", ())),
        "precision alone": below_the_bound(spec, main),
        "derived": not passes["CRITERION_DERIVED"],
        "legacy": not passes["CRITERION_LEGACY"],
        "allclose (torch)": not allclose(torch),
        "KernelBench": not allclose(bench),
    }
    if plain_error is not None:
        said["flash-attention"] = wrong_class or not stats.get("max_abs_error", 0) <= FLASH_FACTOR * plain_error + FLASH_ATOL
    return {rule for rule, refuses in said.items() if refuses}


def allclose(result):
    return next((c.get("passed", False) for c in result.get("criteria", ()) if c["criterion"] == "CRITERION_ALLCLOSE"), False)


# ---- flash-attention's rule: its tests let a kernel err twice as much as the same formula computed
# plainly in 16 bits (attention_ref without upcasting), which is computed here from the case's inputs.

def has_plain_error(spec):
    return "attention" in spec and spec["dtype"][6:] in ("FP16", "BF16") and output_format(spec) == spec["dtype"][6:]


def with_inputs(spec):
    names = ["q", "k", "v", "expected"] + (["mask"] if "mask_density" in spec["attention"] else [])
    return {**spec, "name": f"{spec['name']}/inputs", "slices": names}


def to_16_bits(dtype):
    if dtype == "FP16":
        return lambda x: struct.unpack("e", struct.pack("e", x))[0]

    def bfloat(x):
        bits = struct.unpack("I", struct.pack("f", x))[0]
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
        return struct.unpack("f", struct.pack("I", bits))[0]
    return bfloat


def plain_error(spec, slices):
    """The largest |error| of the plain computation in 16 bits."""
    p = spec["attention"]
    heads, seq, dim = p["heads"], p["seq"], p["dim"]
    kv_heads, kv_seq = p.get("kv_heads", heads), p.get("kv_seq", seq)
    narrow = to_16_bits(spec["dtype"][6:])
    q, k, v, expected = (slices[n] for n in ("q", "k", "v", "expected"))
    mask = slices.get("mask")
    worst = 0.0
    for head, i in itertools.product(range(heads), range(seq)):
        first = (head * seq + i) * dim
        kv = head * kv_heads // heads * kv_seq
        query = [narrow(x / math.sqrt(dim)) for x in q[first:first + dim]]
        seen = [j for j in range(kv_seq) if (not p.get("causal") or j <= i + kv_seq - seq)
                and (mask is None or mask[i * kv_seq + j] != 0)]
        if not seen:
            continue
        scores = [narrow(math.fsum(map(float.__mul__, query, k[(kv + j) * dim:(kv + j + 1) * dim]))) for j in seen]
        weights = [math.exp(s - max(scores)) for s in scores]
        total = math.fsum(weights)
        weights = [narrow(w / total) for w in weights]
        for c in range(dim):
            value = narrow(math.fsum(w * v[(kv + j) * dim + c] for w, j in zip(weights, seen)))
            worst = max(worst, abs(value - expected[first + c]))
    return worst
