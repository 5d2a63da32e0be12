"""dlk: elementwise and reduction kernels for anybody's arrays.

Every operation takes NumPy arrays, PyTorch CPU tensors, objects with ``__dlpack__`` and Python numbers, and gives the
result in the framework of its first array::

    import dlk, numpy as np
    dlk.softmax(np.random.rand(4, 8), axis=-1)
    f = dlk.kernel("f(x, y) = x * y + 1")
    f(np.arange(3.0), 2)
"""
from . import _dlk
from ._dlk import Operation, Tensor, Error, counters, devices, dump, kernel, operations, option, set_option

__version__ = _dlk.__version__


def __getattr__(name):
    """Operations are looked up by name once and then live in the module."""
    try:
        operation = _dlk.operation(name)
    except LookupError:
        raise AttributeError(f"module 'dlk' has no operation or attribute {name!r}") from None
    globals()[name] = operation
    return operation


def __dir__():
    return sorted(set(globals()) | set(operations()))
