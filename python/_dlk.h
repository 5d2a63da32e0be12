/* The Python binding's own parts: tensor.c (dlk.Tensor), exchange.c (any array in, results out), module.c (operations). */
#ifndef DLK_PYTHON_DLK_H
#define DLK_PYTHON_DLK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include "dlk/dlk.h"

#define DLK_PY_RANK 64 /* NumPy's own limit */

/* Raises the Python exception for a failed call, with dlk's message; returns NULL. */
PyObject *dlk_py_raise(dlk_status status);
extern PyObject *dlk_py_error; /* dlk.Error, a RuntimeError: what is no user's mistake */

/* ---- dlk.Tensor: an array that dlk owns ---- */

typedef struct dlk_py_tensor {
    PyObject_HEAD DLManagedTensorVersioned *managed;
    PyObject *weakrefs;
} dlk_py_tensor;

extern PyTypeObject *dlk_py_tensor_type;
int dlk_py_tensor_init(PyObject *module);
/* A new Tensor that owns `managed`, which is consumed also on failure. */
PyObject *dlk_py_tensor_wrap(DLManagedTensorVersioned *managed);
PyObject *dlk_py_dtype_name(DLDataType type);             /* "float32", or "code 5 bits 32" */
bool dlk_py_dtype_parse(PyObject *spec, DLDataType *out); /* NumPy's, PyTorch's, a name, a Python type; raises */

/* ---- Arguments ---- */

typedef enum dlk_py_origin { /* how an array came in, and so how a result goes out */
                             DLK_PY_SCALAR,
                             DLK_PY_TENSOR,
                             DLK_PY_BUFFER,
                             DLK_PY_EXCHANGE,
                             DLK_PY_DLPACK
} dlk_py_origin;

typedef struct dlk_py_argument {
    dlk_py_origin origin;
    PyObject *object; /* borrowed: the caller holds it */
    dlk_input input;
    DLTensor tensor;
    Py_buffer buffer;                  /* BUFFER */
    DLManagedTensorVersioned *managed; /* DLPACK */
    DLManagedTensor *legacy;           /* DLPACK, old producers */
    const DLPackExchangeAPI *exchange; /* EXCHANGE */
    int64_t shape[DLK_PY_RANK], strides[DLK_PY_RANK];
} dlk_py_argument;

int dlk_py_exchange_init(void);
/* Views `object` as an operand; -1 with an exception set. `writable`: for outputs. */
int dlk_py_argument_open(dlk_py_argument *argument, PyObject *object, bool writable);
void dlk_py_argument_close(dlk_py_argument *argument);
/* `managed` (consumed) as an array of the framework of `like`, or a Tensor when that has no form for it. */
PyObject *dlk_py_result(const dlk_py_argument *like, DLManagedTensorVersioned *managed);

#endif
