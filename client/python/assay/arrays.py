"""Any array as what the daemon takes: a format, a shape, and bytes in row-major order.

Arrays of NumPy, torch tensors, and whatever has `__dlpack__`, `__cuda_array_interface__` or
`__array__`. torch is recognised and never imported. An array in a device's memory is copied by the
array's own means. What cannot be sent as it is raises UnsupportedArray, which says what was
expected and what came: nothing is rounded, reordered in its bytes, or filled in on the way.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from .errors import UnsupportedArray, Violation, said_by
from .problems import dtype_number, dtype_word, shape_text

# Formats of NumPy's types.
_NUMPY = {"f8": "fp64", "f4": "fp32", "f2": "fp16", "i4": "int32", "i1": "int8", "b1": "int8"}
# Types that other packages add to NumPy and that torch has: the words are held by their bits.
_BY_NAME = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3fn", "float8_e4m3fnuz": "e4m3fnuz",
            "float8_e5m2": "e5m2", "float8_e5m2fnuz": "e5m2fnuz"}
# What words that say nothing themselves may hold, by their width in bytes.
_RAW = {1: ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1", "int8"), 2: ("bf16", "fp16")}
_TAKEN = ("float64, float32, float16, bfloat16, the 8-bit floats, int8, int32 and bool are taken, and uint8 and "
          "uint16 that hold a format named by dtype")

# Devices of DLPack whose memory the host reads: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_DEVICES = (1, 3, 11)
_DEVICE_NAMES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda managed", 14: "oneapi"}


@dataclass(frozen=True)
class Tensor:
    """An array ready to be sent."""

    name: str  # who it is in messages: "actual"
    dtype: str  # the format of its elements, in the API's word
    shape: tuple[int, ...]  # in elements: two e2m1 lie in each byte of the innermost axis
    words: Any  # a NumPy array, row-major; its bytes are the elements
    raw: bool  # the words alone do not say the format; a file of them needs it said

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def dtype_number(self) -> int:
        return dtype_number("dtype", self.dtype)


def unsupported(name: str, description: str) -> UnsupportedArray:
    violation = Violation(name, description)
    return UnsupportedArray(str(violation), violations=(violation,))


def take(array: Any, name: str, dtype: Any = None, common: Any = None) -> Tensor:
    """The array as a Tensor.

    dtype   the format of this array, which its words must be able to hold
    common  a format for all arrays of a call, taken where it fits
    """
    words, own = _words(array, name)
    word = _format(words, own, name, None if dtype is None else dtype_word(dtype_number(name, dtype)),
                   None if common is None else dtype_word(dtype_number("dtype", common)))
    if sys.byteorder == "big" and words.dtype.itemsize > 1:
        words = words.byteswap()
    words = np.ascontiguousarray(words).reshape(words.shape)
    shape = words.shape
    if word == "e2m1":
        shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
    return Tensor(name, word, tuple(int(n) for n in shape), words, own is None or own != word or own in _RAW_WORDS)


_RAW_WORDS = tuple(_BY_NAME.values())


def _format(words: Any, own: Optional[str], name: str, wanted: Optional[str], common: Optional[str]) -> str:
    def fits(word: str) -> bool:
        if own is None:
            return word in _RAW.get(words.dtype.itemsize, ())
        return word == own or (own == "fp32" and word == "tf32")

    if wanted is not None:
        if fits(wanted):
            return wanted
        raise unsupported(name, f"its elements of {8 * words.dtype.itemsize} bits ({own or words.dtype}) cannot be "
                                f"{wanted}")
    if common is not None and fits(common):
        return common
    if own is not None:
        return own
    may = ", ".join(_RAW.get(words.dtype.itemsize, ()))
    if common is not None:
        raise unsupported(name, f"its {words.dtype} words cannot be {common}; dtype may be {may}")
    raise unsupported(name, f"holds {words.dtype} words; say which format they are: dtype= one of {may}")


def _words(array: Any, name: str) -> tuple[Any, Optional[str]]:
    """A NumPy array with the elements' words, and their format if the array says it."""
    if array is None:
        raise unsupported(name, "an array is expected, got None; does the function return its result?")
    if isinstance(array, np.ma.MaskedArray):
        raise unsupported(name, "is a masked array, and a masked element has no value to compare; pass "
                                "a.filled(value) or a.data")
    if isinstance(array, (np.ndarray, np.generic)):
        return _of_numpy(np.asarray(array), name)
    if _is_torch(array):
        return _of_torch(array, name)
    device = getattr(array, "__dlpack_device__", None)
    if device is not None and hasattr(array, "__dlpack__"):
        kind = _device_kind(device, array, name)
        if kind in _HOST_DEVICES:
            return _of_numpy(_by_dlpack(array, name), name)
        return _copied(array, name, _DEVICE_NAMES.get(kind, f"device type {kind} of DLPack"))
    if hasattr(array, "__cuda_array_interface__"):
        return _copied(array, name, "cuda")
    if isinstance(array, (str, bytes)):
        raise unsupported(name, f"an array is expected, got {type(array).__name__}")
    return _of_numpy(_by_numpy(array, name), name)


def _device_kind(device: Any, array: Any, name: str) -> int:
    """The first number of `__dlpack_device__`."""
    try:
        return int(device()[0])
    except Exception as error:  # whatever a foreign method raises
        raise unsupported(name, f"an array is expected, and the __dlpack_device__ of this {_type(array)} failed: "
                                f"{said_by(error)}") from error


def _by_numpy(array: Any, name: str) -> Any:
    try:
        read = np.asarray(array)
    except Exception as error:  # whatever a foreign __array__ raises
        raise unsupported(name, f"an array is expected, and NumPy cannot read this {_type(array)}: "
                                f"{said_by(error)}") from error
    if read.dtype.hasobject and read.shape == ():  # NumPy makes an array even of a function
        raise unsupported(name, f"an array is expected, got {type(array).__name__}")
    return read


def _by_dlpack(array: Any, name: str) -> Any:
    try:
        return np.from_dlpack(array)
    except Exception as error:  # NumPy takes fewer types than DLPack has
        if hasattr(array, "__array__"):
            return _by_numpy(array, name)
        raise unsupported(name, f"NumPy cannot take this {_type(array)} by DLPack: {said_by(error)}; convert it to "
                                "NumPy first") from error


def _copied(array: Any, name: str, device: str) -> tuple[Any, Optional[str]]:
    """An array of another device's memory, copied by its own method."""
    for method in ("get", "copy_to_host", "__array__"):
        copy = getattr(array, method, None)
        if copy is None:
            continue
        try:
            copied = copy()
        except Exception as error:  # cupy's __array__ refuses, and says what to call
            raise unsupported(name, f"lies in the memory of {device}, and its .{method}() failed: "
                                    f"{said_by(error)}") from error
        if not isinstance(copied, np.ndarray):
            raise unsupported(name, f"lies in the memory of {device}; its .{method}() must give a NumPy array, got "
                                    f"{_type(copied)}")
        if hasattr(array, "shape") and tuple(array.shape) != copied.shape:
            raise unsupported(name, f"has the shape {shape_text(array.shape)}; its .{method}() gave "
                                    f"{shape_text(copied.shape)}")
        return _of_numpy(copied, name)
    raise unsupported(name, f"lies in the memory of {device}, and this {_type(array)} has no way to copy it to the "
                            "host (.get(), .copy_to_host() or __array__); copy it first")


def _of_numpy(array: Any, name: str, narrow: str = "a.astype('int32')") -> tuple[Any, Optional[str]]:
    """`narrow` is how the caller's array becomes one of int32."""
    dtype = array.dtype
    if dtype.hasobject:
        raise unsupported(name, "is an array of Python objects, which are no numbers; give it a numeric dtype")
    if dtype.name in _BY_NAME:
        return array.view(f"u{dtype.itemsize}"), _BY_NAME[dtype.name]
    if not dtype.isnative:
        raise unsupported(name, f"has the byte order of another machine ({dtype.str}); give it this machine's: "
                                f"a.astype('={dtype.str[1:]}')")
    code = dtype.str[1:]
    if code in _NUMPY:
        return array, _NUMPY[code]
    # Other packages' formats are void to NumPy, but have a type of their own.
    if code in ("u1", "u2") or (code in ("V1", "V2") and dtype.type is np.void and dtype.names is None):
        return array, None
    way = f"; if they are small whole numbers, such as indices: {narrow}" if code == "i8" else ""
    raise unsupported(name, f"has {dtype} elements; {_TAKEN}{way}")


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and isinstance(array, tensor)


def _of_torch(tensor: Any, name: str) -> tuple[Any, Optional[str]]:
    kind = str(tensor.dtype).rpartition(".")[2]
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided:
        raise unsupported(name, f"is a torch tensor with layout {tensor.layout}; a strided one is expected: "
                                "t.to_dense()")
    if tensor.is_quantized:
        raise unsupported(name, f"is a quantized torch tensor ({kind}); pass t.int_repr() or t.dequantize()")
    if tensor.device.type == "meta":
        raise unsupported(name, "is a torch tensor on the device meta, which has no elements")
    tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if kind in _BY_NAME:
        held = torch.int16 if tensor.element_size() == 2 else torch.uint8
        words = tensor.view(held).cpu().numpy()
        return words.view(f"u{tensor.element_size()}"), _BY_NAME[kind]
    try:
        return _of_numpy(tensor.cpu().numpy(), name, "t.to(torch.int32)")
    except UnsupportedArray:
        raise
    except Exception as error:  # a type that NumPy does not have
        raise unsupported(name, f"is a torch tensor of {kind}; {_TAKEN} ({error})") from error


def _type(array: Any) -> str:
    kind = type(array)
    return f"{kind.__module__}.{kind.__qualname__}"
