#!/usr/bin/env python3
"""PyTorch's side of fill_bench: it fills a tensor in place on request, and prints how
long that took.

Reads lines "kind dtype count" (kind is normal or uniform) and answers each with the
seconds of one fill of a tensor that was touched before. Ends when its input ends.
"""

import sys
import time

import torch

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}


def main():
    torch.manual_seed(1)
    print("ready", torch.__version__, torch.get_num_threads(), flush=True)
    tensors = {}
    for line in sys.stdin:
        kind, dtype, count = line.split()
        key = (dtype, count)
        if key not in tensors:
            tensors.clear()
            tensors[key] = torch.zeros(int(count), dtype=DTYPES[dtype])
        tensor = tensors[key]
        begin = time.perf_counter()
        if kind == "normal":
            tensor.normal_()
        else:
            tensor.uniform_()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
