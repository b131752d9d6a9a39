"""No false alarm: right kernels of NumPy and torch pass on random shapes and data."""

import os

import right_kernels

CASES = int(os.environ.get("ASSAY_RIGHT_KERNELS_CASES", "100"))


def torch_or_none():
    try:
        import torch
    except ImportError:
        return None
    return torch


def test_right_kernels_pass(assay):
    torch, wrong = torch_or_none(), []
    for seed in range(CASES):
        actual, keywords = right_kernels.Draw(seed, torch).arguments()
        result = assay.compare(actual, **keywords)
        if not result:
            shapes = [tuple(x.shape) for x in keywords["inputs"]] if isinstance(keywords["inputs"], tuple) else ""
            wrong.append(f"seed {seed}: {result} {shapes}")
    assert not [line for line in wrong if "FAILED" in line or "ERROR" in line], "\n".join(wrong)
    print(f"{CASES} right kernels, {len(wrong)} not judged:", *wrong, sep="\n")
    assert len(wrong) <= CASES // 20, "\n".join(wrong)
