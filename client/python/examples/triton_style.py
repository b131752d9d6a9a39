"""A kernel of Triton, judged: softmax, one program for each row.

Needs a daemon (`assayd &`), torch and triton.
"""

# %% The kernel.
import torch
import triton
import triton.language as tl

import assay


@triton.jit
def softmax_kernel(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * stride + offsets, mask=mask, other=-float("inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + offsets, e / tl.sum(e, axis=0), mask=mask)


def softmax(x, columns=None):
    out = torch.full_like(x, float("nan"))  # an element that is never written is not right by luck
    rows, width = x.shape
    softmax_kernel[(rows,)](out, x, x.stride(0), columns or width, BLOCK=triton.next_power_of_2(width))
    return out


torch.manual_seed(1)
x = torch.randn(16, 781, device="cuda" if torch.cuda.is_available() else "cpu")

# %% The verdict. A tensor on a GPU is copied to the host by torch.
print(assay.assert_close(softmax(x), op="softmax", inputs=x))

# %% A mistake: the mask leaves out the last column. The sums lack it, and its outputs are never written.
try:
    assay.assert_close(softmax(x, columns=780), op="softmax", inputs=x)
except AssertionError as error:
    print(error)
