#!/usr/bin/python3
"""Compares two tensors as a PyTorch user does, with whole-tensor passes.

For every line on standard input, prints the seconds that one set of passes over two
fp32 tensors of COUNT elements took. Ends when the input ends. Usage: COUNT THREADS
"""
import sys
import time

try:
    import torch
except ImportError as error:
    print(f"skip {error}", flush=True)
    sys.exit(0)


def verify(out, ref):
    """Largest absolute and relative error, NaN and Inf, mean, rms, mismatches."""
    a = (out - ref).abs()
    return (
        a.max().item(),
        (a / (ref.abs() + 1e-8)).max().item(),
        torch.isnan(out).any().item(),
        torch.isinf(out).any().item(),
        a.mean().item(),
        a.square().mean().sqrt().item(),
        (a > 1e-5 + 1e-5 * ref.abs()).sum().item(),
    )


torch.manual_seed(0)
torch.set_num_threads(int(sys.argv[2]))
ref = torch.randn(int(sys.argv[1]))
out = ref + 1e-7 * torch.randn(ref.numel())
verify(out, ref)
print("ready", flush=True)
for _ in sys.stdin:
    begin = time.perf_counter()
    verify(out, ref)
    print(time.perf_counter() - begin, flush=True)
