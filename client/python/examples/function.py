"""A function, validated: the daemon draws the inputs, this process runs the function, the daemon judges.

Needs a daemon (`assayd &`) and numpy.
"""

# %% The function.
import numpy as np

import assay


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# %% Two lines. Without shapes the function runs on a default set: aligned, odd, long, drawn by the seed, special values.
with np.errstate(invalid="ignore"):  # infinities are among them
    assay.validate(softmax, op="softmax", dtype="fp32").raise_on_failure()

# %% The report. Beside each shape stands one that was drawn near it. In a notebook the last line of a cell draws a table.
report = assay.validate(softmax, op="softmax", dtype=["fp32", "fp64"], shapes=[{"rows": 64, "cols": 1000}])
print(report)
report.raise_on_failure()


# %% A function that writes into its output. Now elements that it never writes are seen, too.
def softmax_into(x, out):
    np.exp(x - x.max(-1, keepdims=True), out=out)
    out /= out.sum(-1, keepdims=True)


assay.validate(softmax_into, op="softmax", dtype="fp32", rows=64, cols=1000).raise_on_failure()


# %% A mistake: the sum leaves out the last columns, where the width is no multiple of 32.
def wrong_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e[:, :x.shape[1] // 32 * 32].sum(-1, keepdims=True)


try:
    assay.validate(wrong_softmax, op="softmax", dtype="fp32", rows=64, cols=1000).raise_on_failure()
except assay.Mismatch as mismatch:
    print(mismatch)

# %% A function that Assay has no operator for, against a reference in FP64.
report = assay.validate(lambda x: np.cumsum(x, -1), reference_fn=lambda x: np.cumsum(x, -1), dtype="fp32",
                        shapes=[(64, 1000)], accumulations=1000)
report
