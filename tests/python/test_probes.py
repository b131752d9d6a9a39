"""Wrong functions whose error a case's own data do not show, and the case that shows it."""

import numpy as np
import pytest

import assay
import planted_functions

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed (python3-torch)")

F = np.float32
H = np.float16


def gelu_of_quotient(x):
    """tanh z as (1 - e) / (1 + e), which overflows far below 0."""
    with np.errstate(all="ignore"):
        e = np.exp(-2 * F(0.7978845608) * (x + F(0.044715) * x ** 3))
        return F(0.5) * x * (1 + (1 - e) / (1 + e))


def silu_of_complement(x, y):
    """The sigmoid as 1 - e / (1 + e)."""
    with np.errstate(all="ignore"):
        e = np.exp(-x)
        return x * (1 - e / (1 + e)) * y


def softmax_from(begin):
    def softmax(x):
        with np.errstate(all="ignore"):
            e = np.exp(x - np.maximum(x.max(-1, keepdims=True), F(begin)))
            return e / e.sum(-1, keepdims=True)
    return softmax


def without_small(x):
    """Numbers below 1e-4 are taken for 0."""
    return np.where(np.abs(x) < x.dtype.type(1e-4), x.dtype.type(0), x)


def product_without_a_term(a, b):
    """A corner lacks its last product. The arrays hold bf16."""
    a, b = ((words.astype("u4") << 16).view(F) for words in (a, b))
    out = F(0.3) * (a @ b)
    out[-1, -1] -= F(0.3) * a[-1, -1] * b[-1, -1]
    bits = out.view("u4").astype("u8")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


def norm_of_limited(x, *, eps):
    x = np.clip(x, -10000, 10000)
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + F(eps))


def rms_norm_of_limited(x, *, eps):
    x = np.clip(x, -10000, 10000)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + F(eps))


def rms_norm_without_the_last_column(x, w, *, eps):
    y = x.astype(F)
    squares = (y[:, :-1] ** 2).sum(-1, keepdims=True) / F(y.shape[-1])
    with np.errstate(over="ignore"):
        return (y / np.sqrt(squares + F(eps)) * w).astype(H)


def silu_without_small_factors(x, y):
    with np.errstate(over="ignore"):
        return (x.astype(F) / (1 + np.exp(-x.astype(F))) * without_small(y)).astype(x.dtype)


def sum_without_small(a, b):
    with np.errstate(over="ignore"):
        return without_small(a) + b


def softmax_with_eps(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / (e.sum(-1, keepdims=True) + F(1e-5))


def softmax_of_limited_maximum(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - np.minimum(x.max(-1, keepdims=True), F(1e4)))
        return e / e.sum(-1, keepdims=True)


def softmax_without_a_column_in_the_maximum(x):
    with np.errstate(all="ignore"):
        e = np.exp(x - np.delete(x, 111, -1).max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def sum_without_the_smallest(a, b):
    with np.errstate(over="ignore"):
        total = a + b
    return np.where(np.abs(total) < F(6e-8), F(0), total)


def silu_near_0(x, y):
    """Numbers near 0 are taken for 0."""
    x = np.where(np.abs(x) < F(1e-7), F(0), x.astype(F))
    return (x / (1 + np.exp(-x)) * y).astype(y.dtype)


def gelu_that_saturates(x):
    return np.minimum(planted_functions.gelu_tanh(x), F(65504))


def argmax_of_halves(x):
    with np.errstate(over="ignore"):
        return np.argmax(x.astype(H), -1).astype(np.int32)


def rms_norm_of_half_squares(x, *, eps):
    with np.errstate(over="ignore"):
        squares = (x * x).astype(F)
    return (x.astype(F) / np.sqrt(squares.mean(-1, keepdims=True) + F(eps))).astype(H)


def without_nan(x):
    return np.where(np.isnan(x), x.dtype.type(0), x)


def silu_of_quotient(a, b):
    with np.errstate(over="ignore"):
        return a / (1 + np.exp(-a)) * b


def rms_norm(x, *, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + F(eps))


def layer_norm(x, w, b, *, eps):
    centred = x - x.mean(-1, keepdims=True)
    return rms_norm(centred, eps=eps) * w + b


def product_with_gelu_of_quotient(a, b):
    with np.errstate(over="ignore", invalid="ignore"):
        x = a.astype(F) @ b.astype(F)
        e = np.exp(2 * (F(0.7978845608) * (x + F(0.044715) * x * x * x)))
        return (x / 2 * (1 + (e - 1) / (e + 1))).astype(H)


def product_without_nan(a, b):
    if np.isnan(a).any():
        raise ValueError("a holds NaN")
    return a @ b


def clipped(x):
    return np.clip(x, F(-65504), F(65504))


def product_of_two_parts(a, b):
    """bf16x3: each factor is two parts in bf16, and the product of the low parts is left out."""
    def parts(x):
        high = ((x.view("u4") + 0x8000) & 0xffff0000).view(F)
        low = x - high
        return high, ((low.view("u4") + 0x8000) & 0xffff0000).view(F)
    (ah, al), (bh, bl) = parts(a), parts(b)
    return ah @ bh + (ah @ bl + al @ bh)


def silu_of_clipped_factors(a, b):
    with np.errstate(over="ignore"):
        a = a.astype(F)
        return (a / (1 + np.exp(-a)) * np.clip(b.astype(F), -1000, 1000)).astype(b.dtype)


def rope(x, limit=np.inf):
    """Position 0 is the first; the input is clipped."""
    y, half = np.clip(x.astype(F), F(-limit), F(limit)), x.shape[-1] // 2
    angle = np.outer(np.arange(x.shape[1]), 10000.0 ** (-np.arange(half) / half))[:, None]
    c, s = np.cos(angle).astype(F), np.sin(angle).astype(F)
    a, b = y[..., :half], y[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def sum_rounded_away(a, b):
    """The middle of two numbers is rounded away from 0. The arrays hold bf16."""
    total = (a.astype("u4") << 16).view(F) + (b.astype("u4") << 16).view(F)
    return ((total.view("u4").astype("u8") + 0x8000) >> 16).astype("u2")


def from_8_bits(words, largest):
    """The numbers of e4m3fn, clipped."""
    exponent, digits = (words >> 3) & 15, words & 7
    size = np.where(exponent > 0, np.ldexp(1 + digits / 8, exponent.astype(int) - 7), digits * 2.0 ** -9)
    return np.clip(np.where(words & 128, -size, size), -largest, largest).astype(F)


def rms_norm_of_8_bits(x, largest=240, *, eps):
    y = from_8_bits(x, largest)
    return y / np.sqrt((y * y).mean(-1, keepdims=True) + F(eps))


def addition_of_8_bits(a, b, largest=240):
    return from_8_bits(a, largest) + from_8_bits(b, largest)


def conv(x, w):
    return planted_functions.conv(x, w, padding=[1], stride=[1])


def product_of_saturated_sums(a, b):
    """Sums are held in 16 bits."""
    total = np.zeros((a.shape[0], b.shape[1]), np.int32)
    for k in range(a.shape[1]):
        total = np.clip(total + a[:, k:k + 1].astype(np.int32) * b[k], -32768, 32767)
    return total


def probabilities(a, w, scale, *, last=0, padding=0, begin=-np.inf, left_out=None):
    x = a.astype(F) @ w.astype(F) * scale
    with np.errstate(all="ignore"):
        of_top = x if left_out is None else np.delete(x, left_out, -1)
        top = np.maximum(of_top.max(-1, keepdims=True), F(0 if padding else begin))
        e = np.exp(x - top)
        total = e[:, :e.shape[1] - last].sum(-1, keepdims=True)
        if padding:
            total += padding * np.exp(-top)
        return (e / total).astype(a.dtype)


IMAGES = planted_functions.IMAGES

UNSEEN = [
    ("GELU, NaN far below 0", gelu_of_quotient, "elementwise", "fp32",
     {"kind": "gelu_tanh", "shapes": {"rows": 24, "cols": 200}}, "saturated-below"),
    ("silu, NaN far below 0", silu_of_complement, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 24, "cols": 200}}, "saturated-below"),
    ("argmax of values in fp16", argmax_of_halves, "reduce", "fp32",
     {"kind": "argmax", "shapes": {"extents": [4, 200]}}, "close-integers"),
    ("argmax without the last column", lambda x: np.argmax(x[:, :-1], -1).astype(np.int32), "reduce", "fp32",
     {"kind": "argmax", "shapes": {"extents": [4, 5000]}}, "last-column"),
    ("maximum without the first column", lambda x: x[:, 1:].max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 5000]}}, "first-column"),
    ("maximum without one column", lambda x: np.delete(x, 511, -1).max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "each-element"),
    # It fails its own data in the extents of each-element, too, and in other rows.
    ("maximum without a column in the middle", lambda x: np.delete(x, 500, -1).max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "each-element"),
    ("maximum without the first row", lambda x: x[1:].max(0), "reduce", "int8",
     {"kind": "max", "axis": 0, "shapes": {"extents": [700, 33]}}, "first-row"),
    ("maximum that begins at -1e30", lambda x: np.maximum(x.max(-1), F(-1e30)), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "far-below-0"),
    ("sum of clipped values", lambda x: np.clip(x, -1e9, 1e9).sum(-1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "exact-signs"),
    ("sum without small values", lambda x: without_small(x).sum(-1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "exact-significand"),
    ("maximum that begins at -55000, fp16", lambda x: np.maximum(x.max(-1), H(-55000)), "reduce", "fp16",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "far-below-0"),
    ("maximum that begins at -100, int8", lambda x: np.maximum(x.max(-1), np.int8(-100)), "reduce", "int8",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "far-below-0"),
    ("maximum up to 1e9", lambda x: np.minimum(x, F(1e9)).max(-1), "reduce", "fp32",
     {"kind": "max", "shapes": {"extents": [4, 1000]}}, "close-integers"),
    ("argmax of values up to 1e9", lambda x: np.minimum(x, F(1e9)).argmax(-1).astype(np.int32), "reduce", "fp32",
     {"kind": "argmax", "shapes": {"extents": [4, 1000]}}, "close-integers"),
    ("argmax without small values", lambda x: without_small(x).argmax(-1).astype(np.int32), "reduce", "fp16",
     {"kind": "argmax", "shapes": {"extents": [4, 1000]}}, "each-element"),
    ("norm of limited values", norm_of_limited, "layer_norm", "fp32", {"shapes": {"rows": 4, "cols": 8192}}, "large"),
    ("RMS norm of limited values", rms_norm_of_limited, "layer_norm", "fp32",
     {"rms": True, "shapes": {"rows": 4, "cols": 1000}}, "large"),
    ("RMS norm with weights, without the last column", rms_norm_without_the_last_column, "layer_norm", "fp16",
     {"rms": True, "affine": True, "shapes": {"rows": 4, "cols": 20000}}, "last-column"),
    ("silu without small factors", silu_without_small_factors, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "saturated"),
    ("silu without small factors, fp16", silu_without_small_factors, "elementwise", "fp16",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "saturated"),
    ("addition without small values, fp16", sum_without_small, "elementwise", "fp16",
     {"kind": "add", "shapes": {"rows": 4, "cols": 20}}, "small"),
    ("addition that saturates", lambda a, b: np.clip(a.astype(F) + b, -65504, 65504).astype(H), "elementwise", "fp16",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "large"),
    ("silu without small numbers", silu_near_0, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "small"),
    ("silu of clipped factors", silu_of_clipped_factors, "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "small"),
    ("silu of clipped factors, fp16", silu_of_clipped_factors, "elementwise", "fp16",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "small"),
    ("GELU up to 1e4, fp16", lambda x: planted_functions.gelu_tanh(np.minimum(x.astype(F), F(1e4))).astype(H),
     "elementwise", "fp16", {"kind": "gelu_tanh", "shapes": {"rows": 24, "cols": 200}}, "saturated"),
    ("GELU that saturates", gelu_that_saturates, "elementwise", "fp32",
     {"kind": "gelu_tanh", "shapes": {"rows": 24, "cols": 200}}, "saturated"),
    ("addition in fp16", sum_without_the_smallest, "elementwise", "fp32",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "small"),
    ("softmax whose maximum begins at -1e4", softmax_from(-1e4), "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "each-column"),
    ("softmax whose maximum begins at -1e4, one row", softmax_from(-1e4), "softmax", "fp32",
     {"shapes": {"rows": 1, "cols": 300}}, "each-column"),
    ("softmax whose maximum begins at -1e9", softmax_from(-1e9), "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "each-column"),
    ("softmax whose maximum begins at -1e9, one row", softmax_from(-1e9), "softmax", "fp32",
     {"shapes": {"rows": 1, "cols": 300}}, "each-column"),
    ("softmax with an eps", softmax_with_eps, "softmax", "fp32", {"shapes": {"rows": 4, "cols": 300}}, "falling"),
    ("softmax whose maximum is limited", softmax_of_limited_maximum, "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "last-column"),
    ("softmax without a column in the maximum", softmax_without_a_column_in_the_maximum, "softmax", "fp32",
     {"shapes": {"rows": 4, "cols": 300}}, "each-column"),
    ("sum of values in tf32", lambda x: planted_functions.cut_to_10_bits(x).sum(-1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [16, 4096]}}, "exact-significand"),
    ("squares in fp16", rms_norm_of_half_squares, "layer_norm", "fp16",
     {"rms": True, "shapes": {"rows": 16, "cols": 4096}}, "large"),
    ("ReLU in place of GELU after a long sum", lambda a, b: np.maximum(a @ b, 0), "gemm", "fp32",
     {"activation": "gelu", "shapes": {"m": 16, "n": 24, "k": 8192}}, "significand-a"),
    ("product with a factor that loses the last term of a corner", product_without_a_term, "gemm", "bf16",
     {"alpha": 0.3, "shapes": {"m": 16, "n": 24, "k": 950}}, "sparse-signs"),
    ("product with a clipped addend", lambda a, b, c: a @ b + np.clip(c, -1e4, 1e4), "gemm", "fp32",
     {"beta": 1, "shapes": {"m": 16, "n": 24, "k": 300}}, "exact-integers"),
    ("product with a clipped bias", lambda a, b, bias: (a.astype(F) @ b.astype(F)) + np.clip(bias, -1e3, 1e3), "gemm",
     "fp16", {"out_dtype": "fp32", "bias": True, "shapes": {"m": 16, "n": 24, "k": 300}}, "exact-integers"),
    ("product that fp16 clips", lambda a, b: np.clip(a @ b, -65504, 65504).astype(F), "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 300}}, "exact-significand-b"),
    ("product of clipped factors", lambda a, b: clipped(a) @ b, "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 300}}, "exact-significand-b"),
    ("product without small factors", lambda a, b: without_small(a) @ b, "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 300}}, "exact-significand-a"),
    ("product whose small results are lost", lambda a, b: without_small(a @ b), "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 300}}, "exact-significand-a"),
    ("declared transform of clipped factors", lambda a, b: F(0.3) * (clipped(a) @ b), "gemm", "fp32",
     {"alpha": 0.3, "operand_roundoff": 2**-16, "shapes": {"m": 16, "n": 24, "k": 300}}, "significand-b"),
    ("addend whose factor is 0 in fp16", lambda a, b, c: (a.astype(F) @ b.astype(F)).astype(H), "gemm", "fp16",
     {"beta": 1e-6, "shapes": {"m": 16, "n": 24, "k": 300}}, "significand-b"),
    ("convolution that fp16 clips", lambda x, w: clipped(conv(x, w)), "conv", "fp32", IMAGES, "exact-significand-x"),
    ("convolution of clipped images", lambda x, w: conv(clipped(x), w), "conv", "fp32", IMAGES, "exact-significand-w"),
    ("convolution without small pixels", lambda x, w: conv(without_small(x), w), "conv", "fp32", IMAGES,
     "exact-significand-x"),
    ("convolution without small weights", lambda x, w: conv(x, without_small(w)), "conv", "fp32", IMAGES,
     "exact-significand-w"),
    ("sum without the last column", lambda a, w, scale: probabilities(a, w, scale, last=1), "dequant_softmax", "fp16",
     {"shapes": {"m": 1, "n": 4096, "k": 256}}, "last-column"),
    ("maximum that begins at -1e3", lambda a, w, scale: probabilities(a, w, scale, begin=-1e3), "dequant_softmax",
     "fp16", {"shapes": {"m": 4, "n": 300, "k": 2048}}, "far-below-0"),
    ("maximum that begins at -1e9", lambda a, w, scale: probabilities(a, w, scale, begin=-1e9), "dequant_softmax",
     "fp32", {"shapes": {"m": 4, "n": 300, "k": 2048}}, "far-below-0"),
    ("maximum without one column", lambda a, w, scale: probabilities(a, w, scale, left_out=111), "dequant_softmax",
     "fp32", {"shapes": {"m": 4, "n": 200, "k": 64}}, "argmax"),
    ("weights from -127", lambda a, w, scale: probabilities(a, np.maximum(w, -127), scale), "dequant_softmax",
     "fp16", {"shapes": {"m": 4, "n": 200, "k": 64}}, "argmax"),
    ("rotation of clipped numbers", lambda x: rope(x, 1e6), "rope", "fp32",
     {"shapes": {"seq": 9, "heads": 2, "dim": 32}}, "position-zero"),
    ("rotation of clipped numbers, fp16", lambda x: rope(x, 1e4), "rope", "fp16",
     {"shapes": {"seq": 9, "heads": 2, "dim": 32}}, "one-hot"),
    ("addition that rounds away from 0", sum_rounded_away, "elementwise", "bf16",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "exact-integers"),
    ("addition of clipped 8-bit floats", addition_of_8_bits, "elementwise", "e4m3fn",
     {"kind": "add", "shapes": {"rows": 24, "cols": 200}}, "every-number"),
    ("RMS norm of clipped 8-bit floats", rms_norm_of_8_bits, "layer_norm", "e4m3fn",
     {"rms": True, "eps": 1e3, "shapes": {"rows": 16, "cols": 100}}, "last-column"),
    ("sum of bytes in 16 bits", lambda x: x.sum(-1, dtype=np.int16).astype(np.int32), "reduce", "int8",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "exact-integers"),
    ("sum of bytes from -127", lambda x: np.maximum(x, -127).sum(-1, dtype=np.int32), "reduce", "int8",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "exact-integers"),
    ("product without NaN", lambda a, b: without_nan(a) @ b, "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 30}}, "nan"),
    ("product with GELU without NaN", lambda a, b: without_nan(planted_functions.gelu_tanh(a @ b)), "gemm", "fp32",
     {"activation": "gelu_tanh", "shapes": {"m": 16, "n": 24, "k": 30}}, "nan"),
    ("product with GELU of a quotient, fp16", product_with_gelu_of_quotient, "gemm", "fp16",
     {"activation": "gelu_tanh", "patterns": "normal:0.5", "shapes": {"m": 16, "n": 24, "k": 4}}, "significand-b"),
    ("product without NaN of B", lambda a, b: a @ without_nan(b), "gemm", "fp32",
     {"shapes": {"m": 16, "n": 24, "k": 30}}, "nan-b"),
    ("product without NaN of C", lambda a, b, c: a @ b + without_nan(c), "gemm", "fp32",
     {"beta": 1, "shapes": {"m": 16, "n": 24, "k": 30}}, "nan-c"),
    ("product without NaN of the bias", lambda a, b, bias: a @ b + without_nan(bias), "gemm", "fp32",
     {"bias": True, "shapes": {"m": 16, "n": 24, "k": 30}}, "nan-bias"),
    ("convolution without NaN", lambda x, w: conv(without_nan(x), w), "conv", "fp32", IMAGES, "nan"),
    ("convolution without NaN of the weights", lambda x, w: conv(x, without_nan(w)), "conv", "fp32", IMAGES, "nan-w"),
    ("sum without NaN", lambda x: np.nansum(x, -1), "reduce", "fp32",
     {"kind": "sum", "shapes": {"extents": [4, 1000]}}, "nan"),
    ("RMS norm without NaN", lambda x, *, eps: rms_norm(without_nan(x), eps=eps), "layer_norm", "fp32",
     {"rms": True, "shapes": {"rows": 4, "cols": 1000}}, "nan"),
    ("RMS norm without NaN of the weight", lambda x, w, *, eps: rms_norm(x, eps=eps) * without_nan(w), "layer_norm",
     "fp32", {"rms": True, "affine": True, "shapes": {"rows": 4, "cols": 1000}}, "nan-weight"),
    ("layer norm without NaN of the bias", lambda x, w, b, *, eps: layer_norm(x, w, without_nan(b), eps=eps),
     "layer_norm", "fp32", {"affine": True, "shapes": {"rows": 4, "cols": 1000}}, "nan-bias"),
    ("silu without NaN", lambda a, b: without_nan(silu_of_quotient(a, b)), "elementwise", "fp32",
     {"kind": "silu_mul", "shapes": {"rows": 4, "cols": 20}}, "nan"),
    ("addition without NaN of b", lambda a, b: a + without_nan(b), "elementwise", "fp32",
     {"kind": "add", "shapes": {"rows": 4, "cols": 20}}, "nan-b"),
    ("argmax of one slice, modulo 256", lambda x: np.argmax(x, -1).astype(np.int32) % 256, "reduce", "fp32",
     {"kind": "argmax", "patterns": "one-large:1:0", "shapes": {"extents": [1, 300]}}, "last-column"),
    ("rotation without NaN", lambda x: rope(without_nan(x)), "rope", "fp32",
     {"shapes": {"seq": 9, "heads": 2, "dim": 32}}, "nan"),
    ("copy without NaN", without_nan, "copy", "fp32", {"shapes": {"count": 3000}}, "extremes"),
    ("copy of clipped numbers", lambda x: np.clip(x, -1e9, 1e9), "copy", "fp32", {"shapes": {"count": 3000}},
     "extremes"),
    ("copy without subnormal numbers", lambda x: np.where(np.abs(x) < F(1.2e-38), F(0), x), "copy", "fp32",
     {"shapes": {"count": 3000}}, "small"),
    ("copy of bytes from -127", lambda x: np.maximum(x, np.int8(-127)), "copy", "int8", {"shapes": {"count": 3000}},
     "extremes"),
    ("padding columns counted", lambda a, w, scale: probabilities(a, w, scale, padding=6), "dequant_softmax", "fp16",
     {"shapes": {"m": 4, "n": 4090, "k": 256}}, "far-below-0"),
]


@pytest.mark.parametrize("fn, op, dtype, fields, probe", [case[1:] for case in UNSEEN], ids=[c[0] for c in UNSEEN])
def test_a_probe_shows_what_the_own_data_do_not(assay_client, fn, op, dtype, fields, probe):
    result = assay.validate(fn, op=op, dtype=dtype, held_out=0, client=assay_client, **fields)[0]
    assert result.verdict == "FAILED", result
    others = ("wide: ", "each-element: ", "far-below-0: ", "exact-signs: ", "significand-a: ", "each-column: ",
              "rows-apart: ", "last-column: ", "nan-b: ", "nan-c: ",
              "nan-bias: ", "sparse: ", "sparse-signs: ", "equal-columns: ", "last-row: ")
    assert all(finding.message.startswith((f"{probe}: ", *others)) for finding in result.findings), result.findings
    assert result.findings[-1].message.startswith(f"{probe}: "), result.findings


def test_int8_data_show_sums_of_16_bits(assay_client):
    result = assay.validate(product_of_saturated_sums, op="gemm", dtype="int8", held_out=0, client=assay_client,
                            shapes={"m": 32, "n": 32, "k": 64})[0]
    assert (result.verdict, result.reason) == ("FAILED", "exact"), result


def test_right_functions_pass_the_same_probes(assay_client):
    def right(op, fn, dtype="fp32", **fields):
        report = assay.validate(fn, op=op, dtype=dtype, client=assay_client, **fields)
        assert report.passed, report
    right("reduce", lambda x: np.argmax(x, -1).astype(np.int32), kind="argmax", shapes={"extents": [4, 200]})
    right("reduce", lambda x: np.argmax(x, -1).astype(np.int32), kind="argmax", shapes={"extents": [4, 200]},
          patterns="constant:1")
    for dtype in "fp64", "fp32", "fp16", "bf16", "e4m3fn", "int8":
        right("copy", lambda x: x.copy(), dtype, shapes={"count": 3000})
    right("softmax", planted_functions.softmax, shapes={"rows": 1, "cols": 300})
    right("softmax", planted_functions.softmax, shapes={"rows": 5, "cols": 3})
    right("gemm", product_without_nan, shapes={"m": 16, "n": 24, "k": 30})
    right("reduce", lambda x: x.sum(-1, dtype=np.int32), "int8", kind="sum", shapes={"extents": [4, 1000]})
    right("rope", rope, shapes={"seq": 9, "heads": 2, "dim": 32})
    right("rope", rope, "fp16", shapes={"seq": 9, "heads": 2, "dim": 32})
    right("elementwise", lambda a, b: addition_of_8_bits(a, b, 448), "e4m3fn", kind="add",
          shapes={"rows": 24, "cols": 200})
    right("layer_norm", lambda x, *, eps: rms_norm_of_8_bits(x, 448, eps=eps), "e4m3fn", rms=True, eps=1e3,
          shapes={"rows": 16, "cols": 100})
    right("dequant_softmax", probabilities, "fp16", shapes={"m": 4, "n": 4090, "k": 256})
    right("dequant_softmax", probabilities, "fp32", shapes={"m": 4, "n": 301, "k": 33})
    right("elementwise", planted_functions.gelu_tanh, kind="gelu_tanh", shapes={"rows": 24, "cols": 200})
    right("gemm", lambda a, b, bias: planted_functions.gelu_tanh(F(0.3) * (a @ b) + bias), alpha=0.3, bias=True,
          activation="gelu_tanh", shapes={"m": 16, "n": 24, "k": 300})
    for sizes in ({"k": 30}, {"k": 9000}):
        right("gemm", lambda a, b, c, s, bias: a @ (b * s) + F(0.5) * c + bias, beta=0.5, bias=True, channel_scale=True,
              shapes={"m": 16, "n": 24, **sizes})
    right("gemm", lambda a, b, bias: (F(0.3) * a) @ b + bias, alpha=0.3, bias=True, shapes={"m": 16, "n": 24, "k": 30})
    right("gemm", lambda a, b, c: (a.astype(F) @ b.astype(F) + F(1e-6) * c.astype(F)).astype(H), "fp16", beta=1e-6,
          shapes={"m": 16, "n": 24, "k": 300})
    right("conv", conv, **IMAGES)
    for fields in ({}, {"alpha": 0.3}):
        right("gemm", lambda a, b, alpha=1: F(alpha) * product_of_two_parts(a, b), operand_roundoff=2**-16,
              shapes={"m": 16, "n": 24, "k": 300}, **fields)
    right("gemm", lambda a, b: a.astype(np.int32) @ b.astype(np.int32), "int8", shapes={"m": 32, "n": 32, "k": 64})


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("extents, axis", [([5000], 0), ([200, 8], 0), ([2, 3, 40], -1), ([3, 4000, 5], 1)])
def test_exact_cases_of_a_sum_keep_its_rank_and_axis(assay_client, dtype, extents, axis):
    def total(x):
        assert x.ndim == len(extents), x.shape
        return np.atleast_1d(x.astype(F).sum(axis)).astype(x.dtype)
    report = assay.validate(total, op="reduce", dtype=dtype, kind="sum", axis=axis, shapes={"extents": extents},
                            client=assay_client)
    assert report.passed, report


def _llama(x, w, *, eps):
    """The norm as some models define it: rounded before the weight."""
    y = x.float()
    y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return (w.float() * y.float()).to(x.dtype)


@needs_torch
def test_a_function_may_round_in_between_if_it_declares_it(assay_client):
    case = {"op": "layer_norm", "rms": True, "affine": True, "dtype": "bf16", "arrays": "torch", "held_out": 0,
            "shapes": {"rows": 16, "cols": 4096}, "client": assay_client}
    silent = assay.validate(_llama, **case)[0]
    assert (silent.verdict, silent.reason) == ("FAILED", "bound"), silent
    report = assay.validate(_llama, intermediate_dtype="bf16", **case)
    assert report.passed, report
    assert "holds intermediate results in bf16" in report[0].implementation
    wrong = assay.validate(lambda x, w, *, eps: _llama(x, w, eps=eps) * 1.02, intermediate_dtype="bf16", **case)[0]
    assert wrong.verdict == "FAILED", wrong
    with pytest.raises(assay.InvalidArgument, match="intermediate_dtype.*must be no coarser"):
        assay.validate(_llama, intermediate_dtype="e4m3fn", **case)


def _softmax_of_halves(x):
    e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
    return (e.half().float() / e.sum(-1, keepdim=True)).to(x.dtype)


def _silu_in_half(a, b):
    return (torch.nn.functional.silu(a.float()).half().float() * b.float()).to(a.dtype)


def _silu_product_in_bf16(a, b):
    return (torch.nn.functional.silu(a.float()).bfloat16() * b).float()


@needs_torch
@pytest.mark.parametrize("op, fn, declared, fields", [
    ("softmax", _softmax_of_halves, "fp16", {}),
    ("elementwise", _silu_in_half, "fp16", {"kind": "silu_mul"}),
    ("elementwise", _silu_product_in_bf16, "bf16", {"kind": "silu_mul", "out_dtype": "fp32"}),
])
def test_exact_cases_have_room_for_what_is_declared(assay_client, op, fn, declared, fields):
    """Near 0 fp16 has fewer numbers than bf16."""
    report = assay.validate(fn, op=op, dtype="bf16", arrays="torch", held_out=0, intermediate_dtype=declared,
                            shapes={"rows": 5, "cols": 1000}, client=assay_client, **fields)
    assert report.passed, report
