"""A function of PyTorch, judged. Cells begin with `# %%`, so a notebook or an editor runs them one by one.

Needs a daemon (`assayd &`) and torch.
"""

# %% A layer norm of one's own.
import torch

import assay


def my_layer_norm(x, weight, bias, eps=1e-5):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + eps) * weight + bias


torch.manual_seed(1)
x, weight, bias = torch.randn(64, 1000), torch.randn(1000), torch.randn(1000)

# %% The verdict. It says how exactly the function computes.
result = assay.assert_close(my_layer_norm(x, weight, bias), op="layer_norm", inputs=(x, weight, bias))
print(result)
print(f"error/bound {result.stats.rho:.3f}, {result.precision.bits:.1f} of {result.precision.declared_bits:g} bits")

# %% The same in bf16: the bits of the tensors go to the daemon as they are.
xb = x.bfloat16()
assay.assert_close(torch.softmax(xb.float(), -1).bfloat16(), op="softmax", inputs=xb)


# %% A mistake that kernels make: the variance is divided by n - 1.
def wrong_layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + eps)


try:
    assay.assert_close(wrong_layer_norm(x), op="layer_norm", inputs=x)
except assay.Mismatch as mismatch:
    print(mismatch)

# %% Kernels of the daemon over the length of a sequence. In a notebook the last line draws a table and a plot.
with assay.connect() as client:
    report = client.run("attention", heads=2, dim=32, seq=[64, 128, 256], dtype="fp32", causal=True, provider="builtin")
report
