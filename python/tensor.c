/* dlk.Tensor: a result that dlk owns, for frameworks to adopt through __dlpack__ or the buffer protocol. */
#include "python/_dlk.h"

#include <string.h>

PyTypeObject *dlk_py_tensor_type;

typedef struct dtype_row {
    const char *name, *format; /* format: of the buffer protocol, NULL where it has none */
    DLDataType type;
} dtype_row;

static const dtype_row dtype_rows[] = {
    {"bool", "?", {kDLBool, 8, 1}},           {"int8", "b", {kDLInt, 8, 1}},
    {"int16", "h", {kDLInt, 16, 1}},          {"int32", "i", {kDLInt, 32, 1}},
    {"int64", "q", {kDLInt, 64, 1}},          {"uint8", "B", {kDLUInt, 8, 1}},
    {"uint16", "H", {kDLUInt, 16, 1}},        {"uint32", "I", {kDLUInt, 32, 1}},
    {"uint64", "Q", {kDLUInt, 64, 1}},        {"float16", "e", {kDLFloat, 16, 1}},
    {"bfloat16", NULL, {kDLBfloat, 16, 1}},   {"float32", "f", {kDLFloat, 32, 1}},
    {"float64", "d", {kDLFloat, 64, 1}},      {"float8_e4m3fn", NULL, {kDLFloat8_e4m3fn, 8, 1}},
    {"complex64", "Zf", {kDLComplex, 64, 1}}, {"complex128", "Zd", {kDLComplex, 128, 1}},
};
#define N_DTYPE_ROWS (sizeof dtype_rows / sizeof dtype_rows[0])

static const dtype_row *row_of(DLDataType type)
{
    for (size_t k = 0; k < N_DTYPE_ROWS; k++)
        if (dtype_rows[k].type.code == type.code && dtype_rows[k].type.bits == type.bits && type.lanes == 1)
            return &dtype_rows[k];
    return NULL;
}

PyObject *dlk_py_dtype_name(DLDataType type)
{
    const dtype_row *row = row_of(type);
    return row ? PyUnicode_FromString(row->name)
               : PyUnicode_FromFormat("code %d bits %d lanes %d", type.code, type.bits, type.lanes);
}

static bool parse_name(const char *name, DLDataType *out)
{
    if (!strncmp(name, "torch.", 6))
        name += 6;
    for (size_t k = 0; k < N_DTYPE_ROWS; k++)
        if (!strcmp(dtype_rows[k].name, name)) {
            *out = dtype_rows[k].type;
            return true;
        }
    return false;
}

/* The text that names a dtype: a str itself, the name of NumPy's dtype or scalar type, or what str() says. */
static PyObject *dtype_text(PyObject *spec)
{
    if (spec == (PyObject *)&PyFloat_Type)
        return PyUnicode_FromString("float64");
    if (spec == (PyObject *)&PyLong_Type)
        return PyUnicode_FromString("int64");
    if (spec == (PyObject *)&PyComplex_Type)
        return PyUnicode_FromString("complex128");
    if (PyUnicode_Check(spec))
        return Py_NewRef(spec);
    PyObject *name = PyObject_GetAttrString(spec, PyType_Check(spec) ? "__name__" : "name");
    if (!name) {
        PyErr_Clear();
        name = PyObject_Str(spec);
    }
    return name;
}

bool dlk_py_dtype_parse(PyObject *spec, DLDataType *out)
{
    PyObject *text = dtype_text(spec);
    const char *name = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    const bool known = name && parse_name(name, out);
    if (!known && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "dtype=%R is no dtype that dlk knows: expected a name such as 'float32'", spec);
    Py_XDECREF(text);
    return known;
}

static DLTensor *dl(PyObject *self)
{
    return &((dlk_py_tensor *)self)->managed->dl_tensor;
}

static void tensor_dealloc(PyObject *self)
{
    dlk_py_tensor *t = (dlk_py_tensor *)self;
    if (t->weakrefs)
        PyObject_ClearWeakRefs(self);
    if (t->managed && t->managed->deleter)
        t->managed->deleter(t->managed);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- Export: the capsule holds a reference to the Tensor ---- */

typedef struct export
{
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
    PyObject *owner;
}
export;

static void release_owner(export *e)
{
    if (Py_IsInitialized()) { /* any thread may call; after the interpreter's end the memory is left to the process */
        PyGILState_STATE state = PyGILState_Ensure();
        Py_DECREF(e->owner);
        PyGILState_Release(state);
    }
    PyMem_RawFree(e);
}
static void delete_versioned(DLManagedTensorVersioned *self)
{
    release_owner(self->manager_ctx);
}
static void delete_legacy(DLManagedTensor *self)
{
    release_owner(self->manager_ctx);
}

static void capsule_destroy(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    else if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_legacy(PyCapsule_GetPointer(capsule, "dltensor"));
}

static export *export_create(PyObject *self)
{
    export *e = PyMem_RawCalloc(1, sizeof *e);
    if (!e) {
        PyErr_NoMemory();
        return NULL;
    }
    e->owner = Py_NewRef(self);
    e->versioned.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    e->versioned.flags = ((dlk_py_tensor *)self)->managed->flags;
    e->versioned.dl_tensor = e->legacy.dl_tensor = *dl(self);
    e->versioned.manager_ctx = e->legacy.manager_ctx = e;
    e->versioned.deleter = delete_versioned;
    e->legacy.deleter = delete_legacy;
    return e;
}

static int check_export(PyObject *stream, PyObject *device, PyObject *copy)
{
    int type = kDLCPU, id = 0;
    if (stream != Py_None)
        PyErr_SetString(PyExc_ValueError, "__dlpack__: a CPU tensor has no streams: expected stream=None");
    else if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
        return -1;
    else if (type != kDLCPU || id != 0)
        PyErr_SetString(PyExc_BufferError, "__dlpack__: the tensor is on the CPU: expected dl_device=(1, 0)");
    else if (copy == Py_True)
        PyErr_SetString(PyExc_BufferError, "__dlpack__: no copy is made here: use dlk.copy");
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor))
        return NULL;
    if (check_export(stream, device, copy) < 0)
        return NULL;
    export *e = export_create(self);
    if (!e)
        return NULL;
    PyObject *capsule = major >= 1 ? PyCapsule_New(&e->versioned, "dltensor_versioned", capsule_destroy)
                                   : PyCapsule_New(&e->legacy, "dltensor", capsule_destroy);
    if (!capsule)
        release_owner(e);
    return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(ii)", (int)dl(self)->device.device_type, (int)dl(self)->device.device_id);
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "from_dlpack", "O", self) : NULL;
    Py_XDECREF(numpy);
    return array;
}

/* ---- The buffer protocol ---- */

static void fill_buffer(Py_buffer *view, PyObject *self, const char *format, int flags)
{
    const DLTensor *t = dl(self);
    Py_ssize_t *dims = view->internal;
    view->buf = (char *)t->data + t->byte_offset;
    view->itemsize = t->dtype.bits / 8;
    view->len = view->itemsize;
    for (int k = 0; k < t->ndim; k++) {
        dims[k] = (Py_ssize_t)t->shape[k];
        dims[t->ndim + k] = (Py_ssize_t)t->strides[k] * view->itemsize;
        view->len *= dims[k];
    }
    view->obj = Py_NewRef(self);
    view->readonly = (((dlk_py_tensor *)self)->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
    view->ndim = t->ndim;
    view->shape = dims;
    view->strides = dims + t->ndim;
    view->suboffsets = NULL;
}

static int tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    const DLTensor *t = dl(self);
    const dtype_row *row = row_of(t->dtype);
    view->obj = NULL;
    if (!row || !row->format) {
        PyErr_SetString(PyExc_BufferError, "the buffer protocol has no format for this dtype: use __dlpack__");
        return -1;
    }
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        PyErr_SetString(PyExc_BufferError, "the buffer has strides: ask for PyBUF_STRIDES");
        return -1;
    }
    view->internal = PyMem_Malloc(sizeof(Py_ssize_t) * 2 * (size_t)(t->ndim + 1));
    if (!view->internal) {
        PyErr_NoMemory();
        return -1;
    }
    fill_buffer(view, self, row->format, flags);
    return 0;
}

static void tensor_releasebuffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    PyMem_Free(view->internal);
}

/* ---- Attributes ---- */

static PyObject *tuple_of(const int64_t *values, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; tuple && k < n; k++)
        PyTuple_SET_ITEM(tuple, k, PyLong_FromLongLong(values[k]));
    return tuple;
}
static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_of(dl(self)->shape, dl(self)->ndim);
}
static PyObject *get_strides(PyObject *self, void *unused)
{
    (void)unused;
    return tuple_of(dl(self)->strides, dl(self)->ndim);
}
static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(dl(self)->ndim);
}
static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return dlk_py_dtype_name(dl(self)->dtype);
}
static PyObject *tensor_repr(PyObject *self)
{
    PyObject *shape = get_shape(self, NULL), *dtype = get_dtype(self, NULL);
    PyObject *text = shape && dtype ? PyUnicode_FromFormat("dlk.Tensor(shape=%R, dtype=%U)", shape, dtype) : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return text;
}

static PyMethodDef tensor_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "A DLPack capsule that shares this memory."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "(device type, device id) by DLPack's numbers."},
    {"numpy", tensor_numpy, METH_NOARGS, "A NumPy array that shares this memory."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef tensor_attributes[] = {
    {"shape", get_shape, NULL, "Extents, a tuple of int.", NULL},
    {"strides", get_strides, NULL, "Strides in elements, a tuple of int.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_attributes},
    {Py_bf_getbuffer, tensor_getbuffer},
    {Py_bf_releasebuffer, tensor_releasebuffer},
    {Py_tp_doc, "An array that dlk owns; any framework adopts it through __dlpack__."},
    {0, NULL},
};
static PyType_Spec tensor_spec = {"dlk.Tensor", sizeof(dlk_py_tensor), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

PyObject *dlk_py_tensor_wrap(DLManagedTensorVersioned *managed)
{
    dlk_py_tensor *t = PyObject_New(dlk_py_tensor, dlk_py_tensor_type);
    if (!t) {
        managed->deleter(managed);
        return NULL;
    }
    t->managed = managed;
    t->weakrefs = NULL;
    return (PyObject *)t;
}

int dlk_py_tensor_init(PyObject *module)
{
    dlk_py_tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
    return dlk_py_tensor_type ? PyModule_AddObjectRef(module, "Tensor", (PyObject *)dlk_py_tensor_type) : -1;
}
