#!/usr/bin/env python3
"""The peer of lab_bench: it does what a notebook does with PyTorch on the CPU, in fp32.

Each case is computed twice: by the kernel, and by another formulation as its
reference. Whole-tensor passes compare the two: largest absolute and relative
error, NaN and Inf. Prints one line for each section: name cases seconds.
"""

import math
import time

import torch
import torch.nn.functional as functional

torch.manual_seed(0)
torch.set_num_threads(torch.get_num_threads())

GEMM = [(128, 128, 128), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
        (1024, 4096, 1024), (256, 1024, 8192)]
LAYER_NORM = [(2, 128, 768), (1, 2048, 4096), (8, 512, 256), (1, 1, 8192)]
ATTENTION = [(1, 8, 128, 64, False), (1, 32, 512, 128, False), (1, 16, 2048, 64, True)]
SCALING = [(1, 8, length, 64, False) for length in (64, 128, 256, 512, 1024, 2048)]


def compare(actual, expected):
    difference = (actual - expected).abs()
    relative = difference / (expected.abs() + 1e-8)
    return (difference.max().item(), relative.max().item(),
            torch.isnan(actual).any().item(), torch.isinf(actual).any().item())


def gemm():
    for m, k, n in GEMM:
        a, b = torch.randn(m, k), torch.randn(k, n)
        compare(torch.matmul(a, b), torch.matmul(a, b))
    return len(GEMM)


def softmax():
    n = 2048
    head = torch.tensor([1000.0, -1000.0])
    rows = [torch.zeros(n), torch.ones(n), torch.full((n,), 1000.0),
            torch.cat([head[:1], torch.zeros(n - 1)]), torch.cat([head, torch.randn(n - 2)]),
            torch.randn(n) * 10, torch.full((n,), math.inf)]
    for row in rows:
        compare(functional.softmax(row, -1), functional.softmax(row.double(), -1).float())
    return len(rows)


def layer_norm():
    for batch, length, hidden in LAYER_NORM:
        x = torch.randn(batch, length, hidden)
        centred = x - x.mean(-1, keepdim=True)
        expected = centred / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        compare(functional.layer_norm(x, [hidden]), expected)
    return len(LAYER_NORM)


def attend(q, k, v, causal):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.matmul(scores.softmax(-1), v)


def attention(shapes):
    for batch, heads, length, dim, causal in shapes:
        q, k, v = (torch.randn(batch, heads, length, dim) for _ in range(3))
        compare(attend(q, k, v, causal), attend(q, k, v, causal))
    return len(shapes)


SECTIONS = {"gemm": gemm, "softmax": softmax, "layer_norm": layer_norm,
            "attention": lambda: attention(ATTENTION), "scaling": lambda: attention(SCALING)}

for name, section in SECTIONS.items():
    section()
    begin = time.perf_counter()
    cases = section()
    print(name, cases, f"{time.perf_counter() - begin:.4f}", flush=True)
