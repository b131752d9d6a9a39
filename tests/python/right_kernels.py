"""Right kernels of NumPy and torch, on random data: each must pass.

They compute in their own arithmetic: BLAS, NumPy's pairwise sums, torch's vector code.
"""

import math
import random

import numpy as np

DATA = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape) + 0.1,
    "shifted": lambda rng, shape: 3 + rng.standard_normal(shape),
    "large": lambda rng, shape: 100 * rng.standard_normal(shape),
    "small": lambda rng, shape: 1e-3 * rng.standard_normal(shape),
    "whole": lambda rng, shape: rng.integers(-4, 5, shape).astype("f8"),
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, eps):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + x.dtype.type(eps))


class Draw:
    """One right result, as the arguments of Client.compare."""

    def __init__(self, seed, torch=None):
        self.rng, self.numpy, self.torch = random.Random(seed), np.random.default_rng(seed), torch
        self.dtype = self.rng.choice(["f4", "f4", "f8"])

    def extent(self, least, most):
        return max(least, min(most, int(2 ** self.rng.uniform(0, (most + 1).bit_length() - 1))))

    def data(self, *shape):
        return DATA[self.rng.choice(sorted(DATA))](self.numpy, shape).astype(self.dtype)

    def arguments(self):
        kinds = [self.gemm, self.softmax, self.layer_norm, self.sum, self.add]
        if self.torch is not None:
            kinds += [self.torch_gemm, self.torch_softmax, self.torch_layer_norm, self.torch_conv, self.torch_gelu,
                      self.torch_attention, self.torch_half]
        return self.rng.choice(kinds)()

    def gemm(self):
        m, n, k = self.extent(1, 64), self.extent(1, 64), self.extent(1, 1000)
        a, b = self.data(m, k), self.data(k, n)
        return a @ b, dict(op="gemm", inputs=(a, b))

    def softmax(self):
        x = self.data(self.extent(1, 16), self.extent(1, 2000))
        return softmax(x), dict(op="softmax", inputs=x)

    def layer_norm(self):
        x = self.data(self.extent(1, 16), self.extent(8, 2000))
        return layer_norm(x, 1e-5), dict(op="layer_norm", inputs=x)

    def sum(self):
        x = self.data(self.extent(1, 16), self.extent(1, 2000))
        return x.sum(-1), dict(op="reduce", inputs=x, kind="sum")

    def add(self):
        a = self.data(self.extent(1, 16), self.extent(1, 2000))
        b = self.data(*a.shape)
        return a + b, dict(op="elementwise", inputs=(a, b), kind="add")

    def tensor(self, *shape):
        return self.torch.from_numpy(self.data(*shape))

    def torch_gemm(self):
        m, n, k = self.extent(1, 64), self.extent(1, 64), self.extent(1, 1000)
        a, b, bias = self.tensor(m, k), self.tensor(n, k), self.tensor(n)
        return self.torch.nn.functional.linear(a, b, bias), dict(op="gemm", inputs=(a, b, bias), trans_b=True, bias=True)

    def torch_softmax(self):
        x = self.tensor(self.extent(1, 16), self.extent(1, 2000))
        return self.torch.softmax(x, -1), dict(op="softmax", inputs=x)

    def torch_layer_norm(self):
        x = self.tensor(self.extent(1, 16), self.extent(8, 2000))
        w, b = self.tensor(x.shape[1]), self.tensor(x.shape[1])
        return (self.torch.nn.functional.layer_norm(x, (x.shape[1],), w, b),
                dict(op="layer_norm", inputs=(x, w, b), weight_format="input"))

    def torch_conv(self):
        groups = self.rng.choice([1, 2])
        x = self.tensor(self.extent(1, 2), groups * self.extent(1, 8), 9, 12)
        w = self.tensor(groups * self.extent(1, 8), x.shape[1] // groups, 3, 3)
        how = dict(stride=self.rng.choice([1, 2]), padding=self.rng.choice([0, 1]), groups=groups)
        return self.torch.nn.functional.conv2d(x, w, **how), dict(op="conv", inputs=(x, w), **how)

    def torch_gelu(self):
        x = self.tensor(self.extent(1, 16), self.extent(1, 1000))
        kind = self.rng.choice(["none", "tanh"])
        return (self.torch.nn.functional.gelu(x, approximate=kind),
                dict(op="elementwise", inputs=x, kind="gelu" if kind == "none" else "gelu_tanh"))

    def torch_attention(self):
        heads, seq, dim = self.extent(1, 4), self.extent(1, 64), self.extent(1, 64)
        q, k, v = (self.tensor(heads, seq, dim) for _ in range(3))
        causal = self.rng.random() < 0.5
        scores = q @ k.transpose(1, 2) / math.sqrt(dim)
        if causal:
            scores = scores.masked_fill(self.torch.ones(seq, seq, dtype=self.torch.bool).triu(1), -math.inf)
        return self.torch.softmax(scores, -1) @ v, dict(op="attention", inputs=(q, k, v), causal=causal)

    def torch_half(self):
        """Sums in fp32, and a result in bf16."""
        m, n, k = self.extent(1, 64), self.extent(1, 64), self.extent(1, 500)
        a, b = self.tensor(m, k).bfloat16(), self.tensor(k, n).bfloat16()
        return (a.float() @ b.float()).bfloat16(), dict(op="gemm", inputs=(a, b))
