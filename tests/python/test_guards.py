"""Writes outside of the arrays that a function under test was given."""

import ctypes

import numpy as np
import pytest

import assay
import planted_functions
from assay.function import Operand
from assay.guards import Guarded
from assay.problems import dtype_number

CASE = {"op": "softmax", "dtype": "fp32", "rows": 4, "cols": 9, "held_out": 0}


def beyond(array, begin, count):
    """Elements of a C-contiguous array's memory, from its first element on."""
    address = array.ctypes.data + begin * array.itemsize
    kind = ctypes.c_float * count
    return np.ctypeslib.as_array(kind.from_address(address))


def behind_an_input(x):
    beyond(x, x.size, 1)[0] = 0
    return planted_functions.softmax(x)


def before_an_input(x):
    beyond(x, -2, 2)[:] = 7
    return planted_functions.softmax(x)


def behind_the_output(x, out):
    """A loop over rows that runs over whole tiles of 4 columns."""
    right = planted_functions.softmax(x)
    tiles = -(-x.shape[1] // 4) * 4
    for row in range(x.shape[0]):
        beyond(out, row * x.shape[1], tiles)[x.shape[1]:] = 0
    out[:] = right


def by_strides(x):
    longer = np.lib.stride_tricks.as_strided(x, (x.shape[0] + 1, x.shape[1]), x.strides)
    longer[-1] = 0
    return planted_functions.softmax(x)


@pytest.mark.parametrize("fn, text", [
    (behind_an_input, r"wrote 4 bytes outside of x, the first one 0 bytes behind its end"),
    (before_an_input, r"wrote 8 bytes outside of x, the last one 1 bytes before its begin"),
    (behind_the_output, r"wrote 12 bytes outside of y, the first one 0 bytes behind its end"),
    (by_strides, r"outside of x, the first one"),
])
def test_a_write_outside_is_a_failure(assay_client, fn, text):
    report = assay.validate(fn, client=assay_client, **CASE)
    assert (report[0].verdict, report[0].reason, report[0].findings[0].blame) == ("FAILED", "guard", "kernel"), report
    with pytest.raises(assay.Mismatch, match=text):
        report.raise_on_failure()


def test_a_write_outside_of_a_tensor_of_torch(assay_client):
    torch = pytest.importorskip("torch")

    def fn(x):
        ctypes.memset(x.data_ptr() + x.numel() * x.element_size(), 0, 4)
        return torch.softmax(x, -1)

    report = assay.validate(fn, arrays="torch", client=assay_client, **CASE)
    assert (report[0].verdict, report[0].reason) == ("FAILED", "guard"), report


def test_what_is_read_outside_is_nan(assay_client):
    def fn(x):
        """The last row's maximum is one element behind it."""
        y = planted_functions.softmax(x)
        return y + beyond(x, x.size, 1)[0] * np.float32(0)

    report = assay.validate(fn, client=assay_client, **CASE)
    assert (report[0].verdict, report[0].reason) == ("FAILED", "class"), report


def test_memory_next_to_an_input_is_no_output(assay_client):
    def fn(x):
        return beyond(x, x.size, x.size).reshape(x.shape)

    report = assay.validate(fn, client=assay_client, **CASE)
    assert report[0].verdict == "ERROR" and "view of its input" in report[0].findings[0].message


def test_a_write_outside_with_a_reference_of_ones_own(assay_client):
    report = assay.validate(behind_an_input, reference_fn=planted_functions.softmax, shapes=[(4, 9)],
                            accumulations=9, client=assay_client)
    assert (report[0].verdict, report[0].reason) == ("FAILED", "guard"), report


@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
@pytest.mark.parametrize("word", ["fp64", "fp32", "fp16", "bf16", "e4m3fn", "e5m2", "int8", "int32"])
def test_bands(word, shape):
    guarded = Operand("x", dtype_number("dtype", word), shape).guarded()
    words = guarded.words
    assert words.shape == shape and words.flags.c_contiguous and words.flags.writeable
    assert words.ctypes.data % 64 == 0
    words.view("u1" if shape else words.dtype)[...] = 0
    assert guarded.damage() is None
    start = words.ctypes.data - guarded.memory.ctypes.data
    for at in (start - 1, start - 4096, start + words.nbytes, start + words.nbytes + 4095):
        guarded.memory[at] = 0
        assert "1 bytes outside of x" in guarded.damage()
        assert guarded.damage() is None, "they are as they were"


def test_a_band_is_nan():
    for kind in ("f2", "f4", "f8"):
        for _ in range(20):
            band = Guarded("x", (1,), kind).memory[:64].view(kind)
            assert np.isnan(band).all()


def _one_more(a):
    """The array and the element behind it."""
    return np.lib.stride_tricks.as_strided(a, (a.size + 1,))


def test_what_is_made_of_one_band_is_not_what_another_one_holds(assay_client):
    def add(a, b, out):
        with np.errstate(all="ignore"):
            np.add(_one_more(a), _one_more(b), out=_one_more(out))
    for dtype in ("fp64", "fp32", "fp16"):
        result = assay.validate(add, op="elementwise", kind="add", dtype=dtype, shapes={"rows": 7, "cols": 65}, held_out=0,
                                client=assay_client)[0]
        assert (result.verdict, result.reason) == ("FAILED", "guard"), result
