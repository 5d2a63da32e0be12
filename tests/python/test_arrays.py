"""Arrays of every kind in, results of the caller's kind out."""
import ctypes
import gc
import sys
import threading

import numpy as np
import pytest

import dlk

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")

NUMPY_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
                "complex64", "complex128"]


def sample(dtype, shape=(3, 5)):
    values = np.arange(np.prod(shape)).reshape(shape)
    return (values % 2 == 1) if dtype == "bool" else values.astype(dtype)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_copy_keeps_every_dtype(dtype):
    x = sample(dtype)
    y = dlk.copy(x)
    assert type(y) is np.ndarray and y.dtype == x.dtype and y.flags.writeable
    np.testing.assert_array_equal(y, x)


def test_layouts():
    x = np.arange(60.0).reshape(3, 4, 5)
    for view in (x.T, x[::-1], x[:, ::2], x[..., ::-2], x[:, :, 1:2], np.broadcast_to(x[0], (2, 4, 5)), x[1, 2], x[0:0]):
        np.testing.assert_array_equal(dlk.add(view, 1.0), view + 1)


def test_broadcasting_and_weak_scalars():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert dlk.add(x, 1).dtype == np.float32
    assert dlk.add(x, 1.5).dtype == np.float32
    assert dlk.add(np.int8(1) * np.ones(3, np.int8), 1).dtype == np.int8
    assert dlk.add(x, np.float64(1)).dtype == np.float64  # NumPy's scalars are not weak
    assert dlk.multiply(np.ones(2, np.int32), 2.0).dtype == np.float64
    np.testing.assert_array_equal(dlk.multiply(x, np.array([1.0, 10.0, 100.0], np.float32)), x * np.array([1, 10, 100]))


def test_scalar_that_does_not_fit():
    with pytest.raises((ValueError, OverflowError, TypeError), match="300"):
        dlk.add(np.ones(3, np.int8), 300)


def test_out():
    x = np.arange(5, dtype=np.float32)
    out = np.empty(5, np.float32)
    assert dlk.add(x, x, out=out) is out
    np.testing.assert_array_equal(out, x + x)
    assert dlk.add(x, x, out=x) is x
    np.testing.assert_array_equal(x, out)


def test_out_overlapping_an_input():
    d = np.ones(9)
    dlk.add(d[1:], d[:-1], out=d[1:])
    np.testing.assert_array_equal(d, [1] + [2] * 8)
    a = np.arange(512.0 * 512).reshape(512, 512)
    want = a + a.T
    dlk.add(a, a.T, out=a)
    np.testing.assert_array_equal(a, want)


def test_bad_outputs():
    x = np.ones(3, np.float32)
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        dlk.add(x, x, out=frozen)
    np.testing.assert_array_equal(frozen, 1)
    with pytest.raises(ValueError):
        dlk.add(x, x, out=np.ones(4, np.float32))
    with pytest.raises(ValueError):
        dlk.add(x, x, out=np.broadcast_to(np.ones(1, np.float32), (3,)))
    with pytest.raises(TypeError):
        dlk.add(x, x, out=np.ones(3, np.int32))


def test_read_only_input():
    x = np.arange(4.0)
    x.flags.writeable = False
    assert dlk.sum(x) == 6


def test_foreign_byte_order():
    with pytest.raises((TypeError, BufferError)):
        dlk.add(np.ones(3, ">f4"), 1)


def test_byte_strides_that_no_element_fits():
    x = np.zeros((2, 7), np.float32)[:, :6].view(np.complex64)
    assert x.strides[0] % x.itemsize
    with pytest.raises((ValueError, BufferError)):
        dlk.add(x, 1)


def test_misaligned():
    raw = np.zeros(8 * 6 + 1, np.uint8)
    x = raw[1:].view(np.float64)
    x[:] = np.arange(6)
    np.testing.assert_array_equal(dlk.add(x, x), 2 * np.arange(6.0))


def test_not_an_array():
    with pytest.raises(TypeError, match="str"):
        dlk.add("text", 1)
    with pytest.raises(TypeError):
        dlk.add(np.ones(3))
    with pytest.raises(AttributeError):
        dlk.no_such_operation
    with pytest.raises(TypeError, match="no parameter"):
        dlk.add(np.ones(3), 1, slope=2)


def test_reductions():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert dlk.sum(x) == x.sum()
    np.testing.assert_array_equal(dlk.sum(x, axis=1), x.sum(1))
    np.testing.assert_array_equal(dlk.sum(x, axis=(0, -1)), x.sum((0, 2)))
    assert dlk.sum(x, axis=1, keepdims=True).shape == (2, 1, 4)
    np.testing.assert_array_equal(dlk.sum(x, axis=()), x)
    np.testing.assert_allclose(dlk.var(x, axis=0, correction=1), x.var(0, ddof=1))
    assert dlk.sum(np.ones(3, np.int8)).dtype == np.int64
    assert dlk.sum(np.ones(3, np.uint8)).dtype == np.uint64
    assert dlk.sum(x, dtype="float64").dtype == np.float64
    assert dlk.sum(x, dtype=np.float64).dtype == np.float64
    assert dlk.argmax(x, axis=2).dtype == np.int64
    with pytest.raises(ValueError):
        dlk.sum(x, axis=3)
    with pytest.raises(ValueError):
        dlk.sum(x, axis=(0, 0))
    with pytest.raises(ValueError):
        dlk.max(np.ones((0, 2)), axis=0)


def test_where_and_initial():
    x = np.arange(10.0)
    mask = x > 4
    assert dlk.sum(x, where=mask) == x.sum(where=mask)
    assert dlk.max(x, where=mask, initial=-1.0) == 9
    assert dlk.mean(x, where=mask) == 7
    assert dlk.sum(x, initial=100.0) == 145
    assert np.isnan(dlk.mean(np.ones(0)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_and_layer_norm(dtype):
    x = np.random.default_rng(0).standard_normal((7, 33)).astype(dtype)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(dlk.softmax(x, axis=1), e / e.sum(1, keepdims=True), rtol=1e-5)
    w, b = np.ones(33, dtype), np.zeros(33, dtype)
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(dlk.layer_norm(x, w, b, axis=1), want, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(dlk.layer_norm(x, w, b, axis=1, eps=1.0), (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1), rtol=2e-4, atol=1e-5)


def test_user_kernels():
    f = dlk.kernel("leaky(x: float, slope: scalar = 0.01) = where(x > 0, x, slope * x)")
    x = np.array([-1.0, 2.0], np.float32)
    np.testing.assert_allclose(f(x), [-0.01, 2], rtol=1e-6)
    np.testing.assert_allclose(f(x, slope=0.5), [-0.5, 2])
    assert "slope" in f.source and f.__name__ == "leaky"
    with pytest.raises(SyntaxError, match="line 1"):
        dlk.kernel("f(x) = x +")
    several = dlk.kernel("min_max(x: real) = (min(x), max(x))")
    low, high = several(np.array([3.0, 1.0, 2.0]))
    assert (low, high) == (1, 3)


def test_sixteen_threads_share_a_kernel():
    f = dlk.kernel("shared(x, y) = x * y + 3")
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.standard_normal(rng.integers(1, 3000))
            if not np.array_equal(f(x, x), x * x + 3):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_no_reference_is_lost():
    x = np.ones(1000)
    before = sys.getrefcount(x)
    for _ in range(100):
        dlk.add(x, x)
        with pytest.raises(ValueError):
            dlk.add(x, np.ones(3))
    assert sys.getrefcount(x) == before


def test_counters_move():
    x = np.ones(4, np.float32)
    dlk.add(x, x)
    before = dlk.counters()
    dlk.add(x, x)
    after = dlk.counters()
    assert after["launches"] == before["launches"] + 1 and after["compiles"] == before["compiles"]


def test_documentation():
    assert "softmax" in dlk.softmax.__doc__
    assert {"add", "sum", "softmax"} <= set(dlk.operations())
    assert "sum" in dir(dlk)


# ---- dlk.Tensor ----


class OnlyDLPack:
    """A producer of the protocol alone; `legacy` ones know no max_version."""

    def __init__(self, array, legacy=False):
        self.array, self.legacy = array, legacy

    def __dlpack__(self, **keywords):
        if self.legacy and keywords:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("legacy", [False, True])
def test_dlpack_only_producer(legacy):
    x = OnlyDLPack(np.arange(6.0).reshape(2, 3)[:, :2], legacy)
    y = dlk.copy(x)
    assert isinstance(y, dlk.Tensor) and y.shape == (2, 2) and y.dtype == "float64"
    np.testing.assert_array_equal(y.numpy(), [[0, 1], [3, 4]])
    again = dlk.add(y, y)
    assert isinstance(again, dlk.Tensor)
    np.testing.assert_array_equal(np.asarray(again), [[0, 2], [6, 8]])
    np.testing.assert_array_equal(memoryview(again).tolist(), [[0, 2], [6, 8]])


def test_type_error_of_a_producer_is_not_swallowed():
    class Broken:
        def __dlpack__(self, **keywords):
            raise ValueError("broken producer")

    with pytest.raises(ValueError, match="broken producer"):
        dlk.copy(Broken())


def capsule_name(capsule):
    f = ctypes.pythonapi.PyCapsule_GetName
    f.restype, f.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return f(capsule)


def test_capsules_of_a_tensor():
    t = dlk.copy(OnlyDLPack(np.arange(3.0)))
    assert capsule_name(t.__dlpack__()) == b"dltensor"
    assert capsule_name(t.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError):
        t.__dlpack__(stream=1)
    array = np.from_dlpack(t)
    del t
    gc.collect()
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_a_capsule_serves_once():
    class Twice:
        def __init__(self):
            self.capsule = np.arange(3.0).__dlpack__(max_version=(1, 0))

        def __dlpack__(self, **keywords):
            return self.capsule

    x = Twice()
    dlk.copy(x)
    with pytest.raises(BufferError):
        dlk.copy(x)


# ---- PyTorch ----


@needs_torch
@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_torch_dtypes(dtype):
    x = torch.tensor([0, 1, 2, 3]).to(getattr(torch, dtype))
    y = dlk.copy(x)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype and torch.equal(y, x)


@needs_torch
def test_torch_views_and_mixtures():
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    for view in (x.T, x[:, 1:3], x.expand(2, 3, 4), x[1], x[0, 0]):
        assert torch.equal(dlk.add(view, 1.0), view + 1)
    assert isinstance(dlk.add(x, x.numpy()), torch.Tensor)
    assert isinstance(dlk.add(x.numpy(), x), np.ndarray)
    out = torch.empty(3, 4)
    assert dlk.exp(x, out=out) is out
    assert torch.allclose(out, torch.exp(x))
    assert dlk.sum(x, dtype=torch.float64).dtype == torch.float64


@needs_torch
def test_torch_tensors_that_are_more_than_memory_are_refused():
    z = torch.tensor([1 + 2j, 3 - 1j])
    for x, remedy in ((torch.ones(3, requires_grad=True), "detach"), (z.conj(), "resolve_conj"), (z.conj().imag, "resolve_neg")):
        with pytest.raises(BufferError, match=remedy):
            dlk.copy(x)
    assert torch.equal(dlk.copy(z.conj().resolve_conj()), z.conj())
