#!/usr/bin/env python3
"""How surely 8-bit weights that are not rounded to the nearest are told from those that are.

  python3 attention_gain.py            the table of README.md
  python3 attention_gain.py --alarms N N random shapes of right kernels: the largest part of the limit

Simulates attentions whose weights P are rounded to the 8-bit format of their inputs. Their gain
g = Σe·r/σ² / Σr²/σ² is held against its limit, both as kernels/ops/attention has them:
attention_deviation.h, and gain_floor and gain_of_row in attention_op.cc. Needs NumPy.
"""

import argparse

import numpy as np

MANTISSA = {"e4m3": 3, "e5m2": 2}
LEAST_EXPONENT = {"e4m3": -6, "e5m2": -14}
LOST_BELOW = 2.0**-10
# A step is rounded up from so much of it on: 0.5 is to the nearest.
NEAREST = 0.5
BLOCK = 64
# The factor before P is rounded, whether l is the sum of rounded weights, and keys at a time (0: all).
KERNELS = [(factor, summed, block) for factor in (1, 127, 200, 256, 272, 300.5, 448) for summed in (False, True)
           for block in (0, BLOCK)]


def rounded(x, dtype, share=NEAREST):
    """x >= 0 in 8 bits."""
    exponent = np.floor(np.log2(np.maximum(x, 1e-300)))
    step = 2.0 ** (np.maximum(exponent, LEAST_EXPONENT[dtype]) - MANTISSA[dtype])
    if share == NEAREST:
        return np.rint(x / step) * step
    return np.floor(x / step + 1 - share) * step


def operand(rng, data, shape, dtype):
    draw = {"normal": rng.standard_normal, "uniform": lambda s: rng.uniform(-1, 1, s),
            "positive": lambda s: rng.uniform(0, 1, s)}[data]
    x = draw(shape)
    return np.sign(x) * rounded(np.abs(x), dtype)


def attend(s, v, dtype, kernel, share):
    """The online form: blocks of keys, each weight under the largest score so far."""
    factor, summed, block = kernel
    o, l, most = np.zeros((len(s), v.shape[1])), np.zeros((len(s), 1)), np.full((len(s), 1), -np.inf)
    for first in range(0, len(v), block or len(v)):
        part = s[:, first:first + (block or len(v))]
        above = np.maximum(most, part.max(1, keepdims=True))
        finite = np.where(np.isfinite(above), above, 0)
        p = np.exp(part - finite)
        narrow = rounded(p * factor, dtype, share) / factor
        rescale = np.exp(most - finite)
        o = o * rescale + narrow @ v[first:first + len(p[0])]
        l = l * rescale + (narrow if summed else p).sum(1, keepdims=True)
        most = above
    return o / l


def head(rng, c, kernels):
    """Σe·r/σ² of each kernel, Σe²/σ², Σr²/σ² and the elements that count, of one head."""
    dtype, seq, keys, dim = c["dtype"], c["seq"], c["keys"], c["dim"]
    q, k = (operand(rng, c["scores"], (n, dim), dtype) for n in (seq, keys))
    v = operand(rng, c["values"], (keys, dim), dtype)
    visible = np.ones((seq, keys), bool)
    if c["causal"]:
        visible = np.arange(keys)[None, :] <= np.arange(seq)[:, None] + keys - seq
    s = np.where(visible, q @ k.T * c["scale"] / np.sqrt(dim), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    l = p.sum(1, keepdims=True)
    w = p / l
    r = w @ v
    u_p = 2.0 ** -(MANTISSA[dtype] + 1)
    flush = 2.0 ** (LEAST_EXPONENT[dtype] - MANTISSA[dtype] - 1)
    n, p2, qv = visible.sum(1), (w * w).sum(1), (w * w) @ (v * v)
    lost = np.where(p < LOST_BELOW, p, 0).sum(1) / l[:, 0]
    variance = u_p**2 / 3 * (qv + r * r * p2[:, None]) + flush**2 / 3 * n[:, None] * qv
    counts = (n * p2 - 1 >= 64 * u_p**2) & (lost <= u_p / 32) & (1 / l[:, 0]**2 <= p2 / 8)
    counts = counts[:, None] & (variance > 0)
    weight = np.where(counts, 1 / np.maximum(variance, 1e-300), 0)
    errors = [attend(s, v, dtype, kernel, share) - r for kernel, share in kernels]
    return (np.array([(e * r * weight).sum() for e in errors]),
            np.array([(e * e * weight).sum() for e in errors]), (r * r * weight).sum(), counts.sum())


def gains(rng, c, kernels):
    """The gain of each kernel and its limit; None where too little counts."""
    parts = [head(rng, c, kernels) for _ in range(c["heads"])]
    products, squares, reference, count = (sum(part[i] for part in parts) for i in range(4))
    if count < 64 or not reference > 0:
        return None
    u_p = 2.0 ** -(MANTISSA[c["dtype"]] + 1)
    error = np.maximum(1, np.sqrt(squares / count)) / np.sqrt(reference)
    return products / reference, 3 * u_p / 16 + 1.25 * u_p / np.sqrt(count / c["dim"]) + 8 * error


def table(rng):
    print("| inputs | queries | keys | up from 1/4 | 3/4 | always | never |\n|---|---|---|---|---|---|---|")
    wrong = [((256, False, BLOCK), share) for share in (0.25, 0.75, 0.0, 1.0)]
    for dtype in MANTISSA:
        for queries in (320, 640, 1280):
            for keys in (64, 256, 1024):
                c = {"dtype": dtype, "heads": 2, "seq": queries // 2, "keys": keys, "dim": 64, "causal": False,
                     "scores": "normal", "values": "normal", "scale": 1}
                runs = [gains(rng, c, wrong) for _ in range(20)]
                found = np.mean([np.abs(run[0]) > run[1] if run else np.zeros(4) for run in runs], axis=0)
                print(f"| {dtype} | {queries} | {keys} | " + " | ".join(f"{x:.0%}" for x in found) + " |",
                      flush=True)


def alarms(rng, runs):
    def extent(least, most):
        return int(np.exp(rng.uniform(np.log(least), np.log(most + 1))))

    largest = 0
    for _ in range(runs):
        c = {"dtype": rng.choice(list(MANTISSA)), "heads": extent(1, 4), "seq": extent(8, 500),
             "keys": extent(2, 2500), "dim": extent(16, 128), "causal": rng.random() < 0.3,
             "scores": rng.choice(["normal", "uniform"]),
             "values": rng.choice(["normal", "uniform", "positive"]),
             "scale": float(np.exp(rng.uniform(np.log(0.2), np.log(16))))}
        if c["causal"]:
            c["keys"] = max(c["keys"], c["seq"])
        found = gains(rng, c, [(kernel, NEAREST) for kernel in KERNELS])
        if not found:
            continue
        part = np.abs(found[0]) / found[1]
        if part.max() > largest:
            largest = part.max()
            print(f"{largest:.2f}", KERNELS[int(part.argmax())], c, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alarms", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    with np.errstate(invalid="ignore"):
        if args.alarms:
            alarms(rng, args.alarms)
        else:
            table(rng)


if __name__ == "__main__":
    main()
