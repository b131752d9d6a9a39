"""Functions of NumPy that a kernel author could have written, right ones and wrong ones.

RIGHT and PLANTED list them with the cases that they run on.
"""

import dataclasses
import math
from typing import Any, Callable

import numpy as np

F = np.float32


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    fn: Callable[..., Any]
    op: str
    fields: dict
    reason: str = ""  # of the first finding; empty: the function is right
    reads: str = ""  # what the daemon says that it reads as, in part


# Right ones.

def product(a, b):
    return a @ b


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, weight, bias, *, eps):
    d = x - x.mean(-1, keepdims=True, dtype=np.float64).astype(F)
    variance = (d.astype(np.float64) ** 2).mean(-1, keepdims=True)
    return (d / np.sqrt(variance + eps)).astype(F) * weight + bias


def attention(q, k, v, *, causal, scale=None, mask_shift=0, normalise=True, head=None):
    group = q.shape[1] // k.shape[1]
    head = head or (lambda h: h // group)
    out = np.empty(q.shape, F)
    rows, keys = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = (q[b, h] @ k[b, head(h)].T) * F(1 / math.sqrt(q.shape[3]) if normalise else 1)
            if causal:
                scores = np.where(keys <= rows + k.shape[2] - q.shape[2] + mask_shift, scores, -np.inf)
            out[b, h] = softmax(scores) @ v[b, head(h)]
    return out


def conv(x, weights, *, padding, stride, flip=False):
    pad, step = padding[0], stride[0]
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    taps = weights[:, :, ::-1, ::-1] if flip else weights
    height, width = ((n - taps.shape[i + 2]) // step + 1 for i, n in enumerate(x.shape[2:]))
    out = np.zeros((x.shape[0], taps.shape[0], height, width), np.float64)
    for i in range(taps.shape[2]):
        for j in range(taps.shape[3]):
            part = x[:, :, i:i + step * height:step, j:j + step * width:step]
            out += np.einsum("nchw,fc->nfhw", part.astype(np.float64), taps[:, :, i, j].astype(np.float64))
    return out.astype(F)


def gelu_tanh(x):
    w = x.astype(np.float64)
    return (0.5 * w * (1 + np.tanh(math.sqrt(2 / math.pi) * (w + 0.044715 * w ** 3)))).astype(F)


def softmax_into(x, out):
    out[...] = softmax(x)


# Wrong ones.

def wrong_eps(x, weight, bias):
    return layer_norm(x, weight, bias, eps=1e-3)


def sample_variance(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=1) + F(1e-5))


def one_pass_variance(x):
    mean = x.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return (x - mean) / np.sqrt((x * x).mean(-1, keepdims=True) - mean * mean + F(1e-5))


def without_bias(x, weight, bias):
    return layer_norm(x, weight, np.zeros_like(bias), eps=0)


def product_that_cuts_off(a, b):
    """As matrix units that add eight products exactly, and cut the sum off behind the digits of fp32."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total = np.zeros((a.shape[0], b.shape[1]), F)
    for k in range(0, a.shape[1], 8):
        exact = total + a[:, k:k + 8] @ b[k:k + 8]
        total = exact.astype(F)
        total = np.where(np.abs(total) > np.abs(exact), np.nextafter(total, F(0)), total)
    return total


def cut_to_10_bits(x):
    return (x.view(np.uint32) & np.uint32(0xffffe000)).view(F)


def tf32_inputs(a, b):
    return cut_to_10_bits(a) @ cut_to_10_bits(b)


def without_last_tile(a, b):
    k = a.shape[-1] // 16 * 16 - (16 if a.shape[-1] % 16 == 0 else 0)
    return a[:, :k] @ b[:k]


def transposed(a, b):
    return a.T @ b if a.shape[0] == a.shape[1] else a @ b * F(1)


def half_sums(a, b):
    out = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for k in range(0, a.shape[1], 8):
        out += (a[:, k:k + 8] @ b[k:k + 8]).astype(np.float16)
    return out.astype(F)


def in_place(x):
    x -= x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def without_maximum(x):
    with np.errstate(all="ignore"):
        e = np.exp(x)
        return e / e.sum(-1, keepdims=True)


def winograd(x, w):
    """Winograd's F(2x2, 3x3) with a padding of 1: right, and its operands are transformed."""
    b = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], F)
    g = np.array([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]], F)
    a = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], F)
    return transformed(x, w, a, b, g)


def winograd_of_four(x, w):
    """Winograd's F(4x4, 3x3), whose transforms round whole numbers, too."""
    b = np.array([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0],
                  [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]], F)
    g = np.array([[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
                  [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]], F)
    a = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], F)
    return transformed(x, w, a, b, g)


def transformed(x, w, a, b, g):
    step = len(a)
    rows, cols = x.shape[-2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1 + -rows % step), (1, 1 + -cols % step)))
    tiles = np.lib.stride_tricks.sliding_window_view(padded, b.shape, (2, 3))[:, :, ::step, ::step]
    products = np.einsum("fcij,nctuij->nftuij", g @ w @ g.T, b @ tiles @ b.T)
    y = (a @ products @ a.T).transpose(0, 1, 2, 4, 3, 5)
    return np.ascontiguousarray(y.reshape(*y.shape[:2], step * y.shape[2], -1)[..., :rows, :cols])


def by_fourier(x, w):
    """A convolution with a padding of 1 by FFT, in double."""
    whole = [n + 2 for n in x.shape[-2:]]
    taps = np.fft.rfft2(w[..., ::-1, ::-1].astype(float), whole)
    y = np.fft.irfft2(np.einsum("fcij,ncij->nfij", taps, np.fft.rfft2(x.astype(float), whole)), whole)
    return np.ascontiguousarray(y[..., 1:-1, 1:-1]).astype(F)


def strassen(a, b, levels=2):
    """Strassen's product of matrices whose sides are multiples of 2^levels: 7 products of blocks instead of 8."""
    if levels == 0:
        return a @ b
    (a11, a12), (a21, a22) = (np.split(half, 2, 1) for half in np.split(a, 2))
    (b11, b12), (b21, b22) = (np.split(half, 2, 1) for half in np.split(b, 2))
    pairs = [(a11 + a22, b11 + b22), (a21 + a22, b11), (a11, b12 - b22), (a22, b21 - b11), (a11 + a12, b22),
             (a21 - a11, b11 + b12), (a12 - a22, b21 + b22)]
    p = [strassen(x, y, levels - 1) for x, y in pairs]
    return np.block([[p[0] + p[3] - p[4] + p[6], p[2] + p[4]], [p[1] + p[3], p[0] - p[1] + p[2] + p[5]]])


def flushed(x):
    return np.where(np.abs(x) < np.finfo(F).tiny, F(0), x)


def flushing_product(a, b):
    """A product on a machine that takes subnormal numbers for 0."""
    total = np.zeros((a.shape[0], b.shape[1]), F)
    for k in range(a.shape[1]):
        total = flushed(total + flushed(a[:, k:k + 1] * b[k]))
    return total


def other_axis(x):
    return np.ascontiguousarray(softmax(x.T).T)


def without_last_row(x, out):
    out[:-1] = softmax(x)[:-1]


def noisy(x):
    return (softmax(x) * (1 + np.random.default_rng().integers(0, 2, x.shape) * 2.0 ** -23)).astype(F)


def zeros(x):
    return np.zeros_like(x)


class Remembers:
    """Gives the first output again whenever the shape is the same."""

    def __init__(self):
        self.outputs = {}

    def __call__(self, a, b):
        return self.outputs.setdefault((a.shape, b.shape), a @ b).copy()


def causal_by_one(q, k, v, *, causal):
    return attention(q, k, v, causal=causal, mask_shift=1)


def without_scale(q, k, v, *, causal):
    return attention(q, k, v, causal=causal, normalise=False)


def wrong_heads(q, k, v, *, causal):
    return attention(q, k, v, causal=causal, head=lambda h: h % k.shape[1])


def flipped(x, weights, *, padding, stride):
    return conv(x, weights, padding=padding, stride=stride, flip=True)


def gelu(x):
    return np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.reshape(-1)], F).reshape(x.shape)


def last_of_equal(x):
    return (x.shape[-1] - 1 - np.argmax(x[..., ::-1], -1)).astype(np.int32)


def narrow_output(x):
    return softmax(x).astype(np.float16).astype(F)


def other_pairs(x):
    return x * F(1)


ROWS = {"shapes": {"rows": 24, "cols": 200}}
NORM = {**ROWS, "affine": True}
PRODUCT = {"shapes": {"m": 48, "n": 40, "k": 96}}
SQUARE = {"shapes": {"m": 48, "n": 48, "k": 48}, "held_out": 0}
HEADS = {"shapes": {"heads": 4, "kv_heads": 2, "seq": 48, "dim": 32}, "causal": True}
IMAGES = {"shapes": {"batch": 2, "channels": 6, "filters": 5, "input": [17, 18], "kernel": [3, 3]}, "padding": [1]}

RIGHT = [
    Case("gemm", product, "gemm", PRODUCT),
    Case("softmax", softmax, "softmax", ROWS),
    Case("softmax, into an output", softmax_into, "softmax", ROWS),
    Case("softmax of large values", softmax, "softmax", {**ROWS, "patterns": "extremes:80"}),
    Case("layer norm", layer_norm, "layer_norm", NORM),
    Case("layer norm of a large mean", layer_norm, "layer_norm", {**NORM, "patterns": "near-constant:100:1"}),
    Case("attention", attention, "attention", HEADS),
    Case("conv", conv, "conv", IMAGES),
    Case("gelu by tanh", gelu_tanh, "elementwise", {**ROWS, "kind": "gelu_tanh"}),
]

PLANTED = [
    Case("wrong eps", wrong_eps, "layer_norm", NORM, "bound"),
    Case("variance of n - 1", sample_variance, "layer_norm", ROWS, "bound", "divided by n - 1"),
    Case("one-pass variance", one_pass_variance, "layer_norm", {**ROWS, "patterns": "near-constant:100:0.1"}, "bound",
         "its variance is wrong"),
    Case("bias left out", without_bias, "layer_norm", NORM, "bound", "the bias is left out"),
    Case("inputs of 10 bits", tf32_inputs, "gemm", PRODUCT, "bound", "TF32 inputs, truncated"),
    Case("last tile left out", without_last_tile, "gemm", PRODUCT, "bound", "the last 16 terms of each sum"),
    Case("operand transposed", transposed, "gemm", SQUARE, "bound", "rows taken for columns"),
    Case("sums in fp16", half_sums, "gemm", PRODUCT, "bound", "fp16"),
    Case("the first output again", Remembers(), "gemm", PRODUCT, "exact", "exact data do not"),
    Case("input changed", in_place, "softmax", ROWS, "guard", "may only read"),
    Case("no maximum subtracted", without_maximum, "softmax", {**ROWS, "patterns": "extremes:200"}, "class",
         "maximum is not subtracted"),
    Case("another axis", other_axis, "softmax", ROWS, "bound"),
    Case("last row not written", without_last_row, "softmax", ROWS, "unwritten", "the tail is never written"),
    Case("not deterministic", noisy, "softmax", {**ROWS, "repeats": 4}, "nondeterministic"),
    Case("zeros", zeros, "softmax", ROWS, "bound", "every element is 0"),
    Case("rounded to fp16", narrow_output, "softmax", ROWS, "bound"),
    Case("causal mask off by one", causal_by_one, "attention", HEADS, "bound", "lets one key too many through"),
    Case("scale left out", without_scale, "attention", HEADS, "bound", "the scores are not scaled"),
    Case("heads of another group", wrong_heads, "attention", HEADS, "bound", "query head h reads key and value head"),
    Case("kernel flipped", flipped, "conv", IMAGES, "bound", "the filters are flipped"),
    Case("gelu by erf", gelu, "elementwise", {**ROWS, "kind": "gelu_tanh"}, "bound", "by erf, not by tanh"),
    Case("last of equal maxima", last_of_equal, "reduce",
         {"shapes": {"extents": [24, 200]}, "kind": "argmax", "patterns": "integers:-3:3"}, "exact",
         "the last index is given"),
    Case("positions left out", other_pairs, "rope", {"shapes": {"batch": 2, "seq": 24, "heads": 2, "dim": 32}}, "bound",
         "nothing is turned"),
]
