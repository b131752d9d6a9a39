"""Any array comes to the daemon with the bits that it has, or is refused by name."""

import sys
import types

import numpy as np
import pytest

import assay
from assay.arrays import take


def bits(array, **how):
    tensor = take(array, "actual", **how)
    assert tensor.words.flags.c_contiguous
    return tensor.dtype, tensor.shape, tensor.words.tobytes()


@pytest.mark.parametrize("dtype, word", [("f8", "fp64"), ("f4", "fp32"), ("f2", "fp16"), ("i4", "int32"),
                                         ("i1", "int8"), ("?", "int8")])
def test_types_of_numpy(dtype, word):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    assert bits(array) == (word, (2, 3), array.tobytes())


@pytest.mark.parametrize("view", [
    lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::-2], lambda a: a[1:3, 2:5], np.asfortranarray,
    lambda a: np.broadcast_to(a[0], (4, 6)), lambda a: a.reshape(2, 2, 6).transpose(2, 0, 1)])
def test_strides_as_they_come(view):
    """The elements of a view, in the order of its own axes; a negative stride too."""
    array = np.arange(24, dtype="f4").reshape(4, 6)
    want = np.array(view(array).tolist(), "f4")
    assert bits(view(array)) == ("fp32", want.shape, want.tobytes())


def test_read_only_and_scalars():
    array = np.arange(3, dtype="f4")
    array.flags.writeable = False
    assert bits(array)[1] == (3,)
    assert bits(np.float32(2.5)) == ("fp32", (), np.float32(2.5).tobytes())
    assert bits(np.zeros((), "f8"))[:2] == ("fp64", ())
    assert bits(np.zeros((0, 3), "f4")) == ("fp32", (0, 3), b"")
    assert bits([[1.0, 2.0]])[:2] == ("fp64", (1, 2))


def test_words_hold_a_format_that_is_named():
    words = np.arange(4, dtype="u2").reshape(2, 2)
    assert bits(words, dtype="bf16") == ("bf16", (2, 2), words.tobytes())
    eight = np.arange(4, dtype="u1")
    assert bits(eight, dtype="e5m2")[0] == "e5m2"
    assert bits(eight, dtype="e2m1")[:2] == ("e2m1", (8,)), "two in each byte"
    assert bits(np.zeros(3, "f4"), dtype="tf32")[0] == "tf32"
    assert bits(np.zeros(3, "f4"), common="bf16")[0] == "fp32", "a common format is taken where it fits"
    for array, dtype in ((words, "e5m2"), (np.zeros(3, "f4"), "fp16"), (eight, "fp32")):
        with pytest.raises(assay.UnsupportedArray, match="cannot be"):
            take(array, "actual", dtype)
    with pytest.raises(assay.UnsupportedArray, match="say which format.*bf16"):
        take(words, "actual")



def test_types_that_others_add_to_numpy():
    class Words(np.ndarray):
        dtype = property(lambda self: types.SimpleNamespace(name="bfloat16", itemsize=2, hasobject=False))

        def view(self, kind):
            return np.asarray(np.ndarray.view(self, np.ndarray))

    from assay import arrays
    words = np.arange(4, dtype="u2")
    assert arrays._of_numpy(words.view(Words), "actual")[1] == "bf16"


class OnGpu:
    """An array of another device."""

    def __init__(self, array, **methods):
        self.shape = array.shape
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": "<f4", "data": (1, False), "version": 3}
        self.__dict__.update(methods)


def test_other_devices_copy_by_their_own_means():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    for method in "get", "copy_to_host":
        assert bits(OnGpu(array, **{method: lambda: array})) == bits(array)
    with pytest.raises(assay.UnsupportedArray, match="memory of cuda.*no way to copy"):
        take(OnGpu(array), "actual")
    with pytest.raises(assay.UnsupportedArray, match="gave"):
        take(OnGpu(array, get=lambda: array[0]), "actual")
    with pytest.raises(assay.UnsupportedArray, match="NumPy array, got"):
        take(OnGpu(array, get=lambda: [1.0]), "actual")


class ByDlpack:
    """An array that has DLPack and nothing else."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_dlpack():
    array = np.arange(24, dtype="f4").reshape(4, 6)[:, ::2]
    assert bits(ByDlpack(array)) == bits(array)
    with pytest.raises(assay.UnsupportedArray, match="memory of rocm"):
        take(ByDlpack(array, (10, 0)), "actual")


class NoDevice:
    """Cannot say where it lies."""

    def __dlpack__(self, stream=None):
        raise AssertionError("is not asked")

    def __dlpack_device__(self):
        raise RuntimeError("no device")


class SaysNothing:
    """Raises what cannot even say what it is."""

    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def __array__(self, dtype=None):
        raise self.Mute


@pytest.mark.parametrize("array, said", [
    (np.zeros(3, ">f4"), r"byte order.*>f4.*astype\('=f4'\)"),
    (np.zeros(3, object), "Python objects"),
    (np.ma.masked_array(np.zeros(3, "f4"), [0, 1, 0]), "masked array.*filled"),
    (np.zeros(3, "i8"), "int64 elements.*float32.*are taken.*astype..int32"),
    (np.zeros(3, "c8"), "complex64"),
    (np.zeros(3, "M8[s]"), "datetime64"),
    (np.zeros(3, "f4,f4"), "elements"),
    (None, "got None"),
    ("file.npy", "got str"),
    (object(), "an array is expected, got object"),
    ({1.0}, "an array is expected, got set"),
    ((x for x in [1.0]), "an array is expected, got generator"),
    ([[1.0], [1.0, 2.0]], "an array is expected|Python objects"),
    (NoDevice(), "__dlpack_device__ of this .*NoDevice failed: no device"),
    (SaysNothing(), r"cannot read this .*SaysNothing: \(its text raised RuntimeError\)"),
])
def test_what_cannot_be_sent_is_refused(array, said):
    with pytest.raises(assay.UnsupportedArray, match=said) as caught:
        take(array, "inputs[1]")
    assert caught.value.violations[0].field == "inputs[1]"
    assert isinstance(caught.value, (ValueError, TypeError))


def test_torch_is_recognised_and_never_imported():
    import subprocess
    done = subprocess.run([sys.executable, "-c", "import assay, sys, numpy; from assay.arrays import take; "
                           "take(numpy.zeros(3, 'f4'), 'a'); assay.assert_close; sys.exit('torch' in sys.modules)"],
                          check=False)
    assert done.returncode == 0


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    for tensor in (x, x.T, x[1:, ::2], x.clone().requires_grad_(), x.half(), x.double(), x.int(), x.char(), x > 3,
                   torch.tensor(2.5), x[:0]):
        assert bits(tensor) == bits(tensor.detach().numpy())
    wide = x.bfloat16()
    high = (x.numpy().view("u4") >> 16).astype("u2")  # exact in bf16
    assert bits(wide) == ("bf16", (4, 6), high.tobytes())
    assert bits(wide.T) == ("bf16", (6, 4), high.T.tobytes())
    assert bits(torch.conj(torch.complex(x, x)).imag) == bits(-x)
    if hasattr(torch, "float8_e4m3fn"):
        assert bits(x.to(torch.float8_e4m3fn))[0] == "e4m3fn"
    for tensor, said in ((x.to_sparse(), "layout"), (x.long(), r"int64.*: t.to\(torch.int32\)"),
                         (torch.empty(3, device="meta"), "meta"), (torch.complex(x, x), "complex"),
                         (torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "quantized")):
        with pytest.raises(assay.UnsupportedArray, match=said):
            take(tensor, "actual")
