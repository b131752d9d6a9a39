#!/usr/bin/env python3
"""Functions of PyTorch, Triton, CuPy and JAX on a card, judged through the Python package.

    tests/gpu/functions.py TARGET [--device cuda] [--seconds 60]

A line of JSON for each function: {"name", "dtype", "right", "verdict", "reason", "cases", "seconds", "first"}, or
{"name", "skipped"}. A right one must pass. A wrong one must be FAILED. The package is found in PYTHONPATH.
"""

import argparse
import dataclasses
import importlib
import json
import os
import time
from typing import Any, Callable, Sequence

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most of a card otherwise

import assay  # noqa: E402  (the setting comes before whatever imports JAX)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    op: str
    fn: Callable[..., Any]
    dtypes: Sequence[str]
    right: bool = True
    arrays: Any = None  # None: torch tensors on the device
    fields: dict = dataclasses.field(default_factory=dict)


def of_torch(device):
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    # What torch does by default is not what fp32 and fp16 promise: TF32 inside convolutions, fp16 sums between blocks.
    torch.backends.cudnn.allow_tf32 = False
    for name in ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        try:
            setattr(torch.backends.cuda.matmul, name, False)
        except AssertionError:  # an older torch lacks it
            pass

    def attention(q, k, v, *, causal):
        seq, kv_seq = q.shape[-2], k.shape[-2]
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        mask = None
        if causal and seq != kv_seq:
            mask = torch.ones(seq, kv_seq, dtype=torch.bool, device=q.device).tril(kv_seq - seq)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None)

    def layer_norm(x, *, eps):
        return functional.layer_norm(x, x.shape[-1:], eps=eps)

    def tf32_product(a, b):
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return a @ b
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    def in_place(x):
        x -= x.amax(-1, keepdim=True)
        return torch.softmax(x, -1)

    def unwritten(x, *, out):
        out[..., :-1] = torch.softmax(x, -1)[..., :-1]

    def biased(x):
        return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5)

    def early(x):
        """Another stream computes it, and nobody waits."""
        out = torch.empty_like(x)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            out.copy_(torch.softmax(x, -1))
        return out

    # cuDNN transforms the operands of some convolutions, which is a declaration (kernels/sdk/README.md).
    halves = ("fp32", "fp16", "bf16")
    yield Case("torch softmax", "softmax", lambda x: torch.softmax(x, -1), halves)
    yield Case("torch layer_norm", "layer_norm", layer_norm, halves)
    yield Case("torch matmul", "gemm", lambda a, b: a @ b, halves)
    yield Case("torch conv2d", "conv", lambda x, w, *, padding, stride: functional.conv2d(x, w, None, stride, padding),
               ("fp16",), fields={"padding": [1], "operand_roundoff": 2 ** -16})
    yield Case("torch attention", "attention", attention, ("fp16", "bf16"), fields={"causal": [False, True]})
    yield Case("torch sum", "reduce", lambda x, *, axis: x.sum(axis), ("fp32",), fields={"kind": "sum"})
    if device == "cuda":
        yield Case("torch tf32 product", "gemm", tf32_product, ("fp32",), right=False)
        yield Case("torch stream that nobody waits for", "softmax", early, ("fp32",), right=False,
                   fields={"rows": 64, "cols": 1000})
    yield Case("torch changes its input", "softmax", in_place, ("fp32",), right=False)
    yield Case("torch leaves a column", "softmax", unwritten, ("fp16",), right=False)
    yield Case("torch sample variance", "layer_norm", biased, ("fp32",), right=False)


def of_triton(device):
    triton = importlib.import_module("triton")
    tl = importlib.import_module("triton.language")
    torch = importlib.import_module("torch")

    @triton.jit
    def rows_kernel(out, x, stride, columns, other, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + at, mask=at < columns, other=other).to(tl.float32)
        e = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=at < columns)

    @triton.jit
    def product_kernel(a, b, out, m, n, k, PRECISION: tl.constexpr, B: tl.constexpr):
        rows = tl.program_id(0) * B + tl.arange(0, B)
        columns = tl.program_id(1) * B + tl.arange(0, B)
        sums = tl.zeros((B, B), dtype=tl.float32)
        for first in range(0, k, B):
            inner = first + tl.arange(0, B)
            left = tl.load(a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k),
                           other=0.0)
            right = tl.load(b + inner[:, None] * n + columns[None, :],
                            mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0)
            sums = tl.dot(left, right, sums, input_precision=PRECISION)
        tl.store(out + rows[:, None] * n + columns[None, :], sums,
                 mask=(rows[:, None] < m) & (columns[None, :] < n))

    def softmax(x, other=-float("inf")):
        x = x.contiguous()
        out = torch.full_like(x, float("nan"))
        rows_kernel[(x.numel() // x.shape[-1],)](out, x, x.shape[-1], x.shape[-1], other,
                                                 BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out

    def product(precision):
        def run(a, b):
            (m, k), n = a.shape, b.shape[-1]
            out = torch.full((m, n), float("nan"), dtype=a.dtype, device=a.device)
            product_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, out, m, n, k, PRECISION=precision, B=32)
            return out
        return run

    if device != "cuda":
        return
    yield Case("triton softmax", "softmax", softmax, ("fp32", "fp16"))
    yield Case("triton product", "gemm", product("ieee"), ("fp32", "fp16"))
    # Triton's own default for fp32, and its three products of TF32, which have a declaration.
    yield Case("triton product tf32", "gemm", product("tf32"), ("fp32",), right=False)
    yield Case("triton product tf32x3", "gemm", product("tf32x3"), ("fp32",), fields={"operand_roundoff": 2 ** -22})
    yield Case("triton mask with 0", "softmax", lambda x: softmax(x, 0.0), ("fp32",), right=False)


def of_cupy(device):
    if device != "cuda":
        return
    cupy = importlib.import_module("cupy")

    def softmax(x):
        e = cupy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    yield Case("cupy softmax", "softmax", softmax, ("fp32",), arrays=cupy.asarray)
    yield Case("cupy product", "gemm", lambda a, b: a @ b, ("fp64",), arrays=cupy.asarray)


def of_jax(device):
    jax = importlib.import_module("jax")
    if device == "cuda" and jax.default_backend() != "gpu":
        raise ImportError(f"JAX finds no GPU, its devices are {jax.devices()}")
    yield Case("jax softmax", "softmax", jax.jit(lambda x: jax.nn.softmax(x, axis=-1)), ("fp32", "bf16"),
               arrays=jax.numpy.asarray)
    yield Case("jax product", "gemm", jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision="highest")), ("fp32",),
               arrays=jax.numpy.asarray)


def say(**line):
    print(json.dumps(line), flush=True)


def judge(client, case, dtype, arrays):
    began = time.monotonic()
    report = assay.validate(case.fn, op=case.op, dtype=dtype, arrays=arrays, client=client, **case.fields)
    bad = report.failures
    first = f"{bad[0].name}: {bad[0].verdict} {bad[0].reason}: {bad[0].findings[0].message}" if bad and bad[0].findings \
        else bad[0].name if bad else ""
    say(name=case.name, dtype=dtype, right=case.right, verdict=report.verdict, reason=bad[0].reason if bad else None,
        cases=len(report), failures=len(bad), seconds=round(time.monotonic() - began, 1), first=first[:500])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("target")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    client = assay.connect(options.target)
    for library in (of_torch, of_triton, of_cupy, of_jax):
        name = library.__name__.removeprefix("of_")
        try:
            cases = list(library(options.device))
        except Exception as error:  # whatever importing it raises
            say(name=name, skipped=f"{type(error).__name__}: {error}"[:300])
            continue
        for case, dtype in ((case, dtype) for case in cases for dtype in case.dtypes):
            arrays = case.arrays or ("torch:cuda" if options.device == "cuda" else "torch")
            if time.monotonic() > end:
                say(name=f"{case.name} {dtype}", skipped="no time left")
                continue
            try:
                judge(client, case, dtype, arrays)
            except Exception as error:  # one that cannot be judged leaves the others
                say(name=case.name, dtype=dtype, right=case.right, verdict="", reason=type(error).__name__,
                    first=str(error)[:500])


if __name__ == "__main__":
    main()
