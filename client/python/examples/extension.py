"""A kernel in C, called from Python and judged. cuda_extension.py has one of CUDA.

Needs a daemon (`assayd &`), numpy and a C compiler.
"""

# %% The kernel: RMS norm of each row.
import ctypes
import os
import subprocess
import tempfile

import numpy as np

import assay

SOURCE = r"""
#include <math.h>
void rms_norm(float* out, const float* x, const float* weight, long rows, long cols, float eps, long summed) {
  for (long r = 0; r < rows; ++r) {
    double sum = 0;
    for (long c = 0; c < summed; ++c) sum += (double)x[r * cols + c] * x[r * cols + c];
    float scale = (float)(1 / sqrt(sum / cols + eps));
    for (long c = 0; c < cols; ++c) out[r * cols + c] = x[r * cols + c] * scale * weight[c];
  }
}
"""

folder = tempfile.TemporaryDirectory()
source, library = os.path.join(folder.name, "norm.c"), os.path.join(folder.name, "norm.so")
with open(source, "w", encoding="utf-8") as file:
    file.write(SOURCE)
subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
kernel = ctypes.CDLL(library).rms_norm


def rms_norm(x, weight, eps=1e-5, summed=None):
    out = np.empty_like(x)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (out, x, weight)]
    rows, cols = x.shape
    kernel(*pointers, ctypes.c_long(rows), ctypes.c_long(cols), ctypes.c_float(eps), ctypes.c_long(summed or cols))
    return out


rng = np.random.default_rng(1)
x, weight = rng.standard_normal((32, 777), dtype="f4"), rng.standard_normal(777, dtype="f4")

# %% The verdict.
print(assay.assert_close(rms_norm(x, weight), op="layer_norm", inputs=(x, weight), rms=True))

# %% A mistake: the loop over the sum leaves out the remainder of a division by 32.
try:
    assay.assert_close(rms_norm(x, weight, summed=768), op="layer_norm", inputs=(x, weight), rms=True)
except assay.Mismatch as mismatch:
    print(mismatch)
