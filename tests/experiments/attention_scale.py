#!/usr/bin/env python3
"""How surely an error of an attention's scale is told from the roundings of right kernels.

  python3 attention_scale.py            the table of README.md
  python3 attention_scale.py --alarms N N random shapes of right kernels: the largest statistics,
                                        also R, the gain, rows, columns, tiles and single elements

Simulates attentions in fp32 with P in 16 bits, and holds their errors against σ and the direction
D of kernels/ops/attention/attention_deviation.h. z is Σe·D/σ² in its standard errors, as σ has
them. t is the same in standard errors from the scatter of the queries. Needs NumPy.
"""

import argparse
import collections
import math

import numpy as np

U = 2.0**-24
P_ROUNDOFF = {"fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
MANTISSA = {"fp32": 23, "fp16": 10, "bf16": 7}
# Assay's limits (kernels/judge/precision.cc, kernels/ops/op.h).
TAIL, CHANCE, ERRORS = 1.74, 21, 8
LARGEST_R, LARGEST_GROUP, LARGEST_Z = 2, 4, 30
TILE, LEAST_GROUP = 16, 8
STEEP = 1000  # D² of a query over its ulp²/12
STEEP_COLUMNS = 64  # so many decide together
LEAST_EXPONENT = {"fp32": -126, "fp16": -14, "bf16": -126}
# Where P is rounded: before the division by l, before it and in l as well, after it, nowhere.
KERNELS = ["before", "both", "after", "exact"]
RARE = 6.11  # deviations of a normal distribution with a chance of 1e-9 on both sides


def rounded(x, dtype):
    x = np.asarray(x, np.float32)
    if dtype == "fp16":
        return x.astype(np.float16).astype(float)
    if dtype == "bf16":
        bits = x.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32).astype(float)
    return x.astype(float)


def ulp(r, dtype):
    exponent = np.floor(np.log2(np.maximum(np.abs(r), 1e-300)))
    return 2.0 ** (np.maximum(exponent, LEAST_EXPONENT[dtype]) - MANTISSA[dtype])


Head = collections.namedtuple("Head", "e e_right r d exact margins")


def head(rng, c):
    """The errors e of one head and those of r rounded, r, D, and σ² with the exact Qv and by margins."""
    draw = {"normal": rng.standard_normal, "uniform": lambda s: rng.uniform(-1, 1, s),
            "positive": lambda s: rng.uniform(0, 1, s), "|normal|": lambda s: np.abs(rng.standard_normal(s)),
            "shifted": lambda s: rng.standard_normal(s) + 4, "near one": lambda s: rng.uniform(0.75, 1, s)}[c["data"]]
    dim, keys, seq = c["dim"], c["keys"], c["seq"]
    q = rounded(draw((seq, dim)) * c["size"], c["dtype"])
    k, v = (rounded(draw((keys, dim)), c["dtype"]) for _ in range(2))
    scale = float(np.float32(1 / math.sqrt(dim)))
    visible = np.ones((seq, keys), bool)
    if c["causal"]:
        visible = np.arange(keys)[None, :] <= np.arange(seq)[:, None] + keys - seq
    s = q @ k.T * scale
    m = np.where(visible, s, -np.inf).max(1, keepdims=True)
    away = np.where(visible, s - m, 0)
    w = np.where(visible, np.exp(away), 0)
    w /= w.sum(1, keepdims=True)
    r = w @ v

    wrong = np.where(visible, np.float32(s * (1 + c["off"])), -np.inf)
    p = np.exp((wrong - wrong.max(1, keepdims=True)).astype(np.float32)).astype(float)
    l = p.sum(1, keepdims=True)
    narrow = rounded(p, c["dtype"])
    o = {"before": lambda: narrow @ v / l, "exact": lambda: p @ v / l,
         "both": lambda: narrow @ v / narrow.sum(1, keepdims=True),
         "after": lambda: rounded(p / l, c["dtype"]) @ v}[c["kernel"]]()
    output = c.get("output", c["dtype"])
    e = rounded(o, output) - r

    qv, p2, n = (w * w) @ (v * v), (w * w).sum(1, keepdims=True), visible.sum(1, keepdims=True)
    seen = np.where(visible, s, 0)
    squares = scale**2 * np.sqrt((q**4).sum(1))[:, None] * np.sqrt((k**4).sum(1))[None, :]
    a = (dim + 1) * (2 * seen**2 + squares) / 6 + 4 * seen**2 + away**2 + 16
    weights = w * w * (v * v).sum(1)[None, :]
    a = (weights * a).sum(1, keepdims=True) / weights.sum(1, keepdims=True)
    u_p = P_ROUNDOFF[c["dtype"]]
    alike = np.where(n * p2 - 1 < 64 * u_p**2, u_p**2 * r * r, 0)
    along = (w * w) @ (v * v).sum(1, keepdims=True)
    columns = ((w * w) @ (v * v)).sum(0, keepdims=True)
    margins = along * columns / columns.sum()
    variances = []
    for squared in (qv, margins):
        common = squared + r * r * p2
        sums = (n + 1) * (2 * r * r + squared) / 6 + r * r * ((n + 1) * (2 + p2) / 6 + 6)
        variances.append(u_p**2 / 3 * common + U**2 / 3 * (a * common + sums) + ulp(r, output)**2 / 12 + alike)
    shift = w * away
    d = shift @ v - r * shift.sum(1, keepdims=True)
    d = np.where(n * p2 - 1 < (64 * u_p)**2, 0, d)
    begins = range(0, dim, STEEP_COLUMNS)
    along, steps = (np.add.reduceat(x, begins, 1) for x in (d * d, ulp(r, output)**2 / 12))
    steep = np.repeat(along >= STEEP * steps, STEEP_COLUMNS, 1)[:, :dim]
    d = np.where(steep, d, 0)
    return Head(e, rounded(r, output) - r, r, d, variances[0], variances[1])


def statistics(heads, variance="exact"):
    """z, t and the number of queries, if all had the same weight; less what rounding allows."""
    errors = np.concatenate([(h.e * h.d / getattr(h, variance)).sum(1) for h in heads])
    weights = np.concatenate([(h.d * h.d / getattr(h, variance)).sum(1) for h in heads])
    total = weights.sum()
    if not total > 0:
        return 0, 0, 0
    scale = errors.sum() / total
    rows = total**2 / (weights**2).sum()
    beyond = max(0, abs(scale) - 8 * U)
    scatter = ((errors - scale * weights)**2).sum() * rows / max(rows - 1, 1e-9)
    return beyond * math.sqrt(total), beyond * total / math.sqrt(scatter) if scatter else 0, rows


def attention(rng, c):
    return [head(rng, c) for _ in range(c["heads"])]


def rms_limit(floor, count, groups):
    return max(floor, (CHANCE + math.log(groups)) / (TAIL * math.sqrt(count)))


def shares(heads, c):
    """The other statistics that Assay holds an attention to, each over its limit; σ² is by margins."""
    squares = np.stack([h.e * h.e / h.margins for h in heads])
    count, (number, rows, dim) = squares.size, squares.shape
    r_of_all = math.sqrt(squares.mean())
    along = sum((h.r * h.r / h.margins).sum() for h in heads)
    gain = sum((h.e * h.r / h.margins).sum() for h in heads) / along
    gain_limit = 8 * U + P_ROUNDOFF[c["dtype"]] + ERRORS * max(1, r_of_all) / math.sqrt(along)
    tiles = [squares[i, a:a + TILE, b:b + TILE] for i in range(number) for a in range(0, rows, TILE)
             for b in range(0, dim, TILE)]
    groups = {"row": list(squares.reshape(-1, dim)), "column": list(squares.reshape(-1, dim).T),
              "tile": tiles}
    over = {"R": r_of_all / rms_limit(LARGEST_R, count, 1), "gain": abs(gain) / gain_limit,
            "element": math.sqrt(squares.max()) / max(LARGEST_Z, (CHANCE + math.log(count)) / TAIL)}
    for name, members in groups.items():
        large = [m for m in members if m.size >= LEAST_GROUP]
        over[name] = max((math.sqrt(m.mean()) / rms_limit(LARGEST_GROUP, m.size, len(large)) for m in large),
                         default=0)
    return over


def all_shares(heads, c):
    """Each statistic over its limit. Without those that fail the reference, rounded, as well: such
    a finding accuses no kernel (kernels/judge/precision_evidence.cc)."""
    def both(of):
        z, t, rows = statistics(of, "margins")
        return {"z / 12": z / 12, "both": min(z / 6, t / limit(rows)), **shares(of, c)}

    over = both(heads)
    if max(over.values()) <= 1:
        return over
    right = both([h._replace(e=h.e_right) for h in heads])
    accused = {name == "R" for name, value in right.items() if value > 1}
    return {name: value for name, value in over.items() if (name == "R") not in accused}


def limit(rows):
    """Of t: Student's, with a chance of 1e-9."""
    return math.sqrt((rows - 1) * math.expm1(RARE**2 / (rows - 1))) if rows > 2 else math.inf


def found(z, t, rows):
    return z > 12 or (z > 6 and t > limit(rows))


def table(rng):
    print("| dtype | scale off by | outputs | P | z | t | found |\n|---|---|---|---|---|---|---|")
    for dtype, off in (("bf16", 1e-3), ("fp16", 1e-4), ("bf16", 1e-4)):
        for queries in (16, 32, 64):
            for kernel in ("exact", "before", "after"):
                c = {"dtype": dtype, "off": off, "kernel": kernel, "heads": -(-queries // 64),
                     "seq": min(queries, 64), "keys": 256, "dim": 64, "causal": False, "size": 1,
                     "data": "normal"}
                runs = [statistics(attention(rng, c)) for _ in range(50)]
                z, t, _ = np.mean(runs, axis=0)
                share = sum(found(*run) for run in runs) / len(runs)
                print(f"| {dtype} | {off:g} | {queries * 64} | {kernel} | {z:.1f} | {t:.1f} | "
                      f"{share:.0%} |", flush=True)


def alarms(rng, runs):
    def extent(most):
        return int(min(most, 2**rng.uniform(0, math.log2(most + 1))))

    most, judged, alarmed = {}, 0, 0
    for _ in range(runs):
        c = {"dtype": rng.choice(list(MANTISSA)), "off": 0, "kernel": rng.choice(KERNELS),
             "heads": extent(4), "seq": extent(96), "keys": extent(300), "dim": extent(96),
             "causal": rng.random() < 0.4, "size": 2**rng.uniform(-7, 4),
             "data": rng.choice(["normal", "uniform", "positive", "|normal|", "shifted", "near one"])}
        c["output"] = rng.choice([c["dtype"], "fp32"])
        if c["heads"] * c["seq"] * c["dim"] < 64:
            continue
        if c["causal"]:
            c["keys"] = max(c["keys"], c["seq"])
        heads = attention(rng, c)
        here = all_shares(heads, c)
        judged += 1
        alarmed += any(value > 1 for value in here.values())
        for name, value in here.items():
            if value > most.get(name, 0):
                most[name] = value
                print(f"{name} {value:.2f}", c, flush=True)
    print(f"{alarmed} of {judged} right kernels are beyond a limit; the largest share of each:",
          ", ".join(f"{name} {value:.2f}" for name, value in most.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alarms", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    if args.alarms:
        alarms(rng, args.alarms)
    else:
        table(rng)


if __name__ == "__main__":
    main()
