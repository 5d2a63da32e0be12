/* Arrays of any framework as operands, and results as arrays of that framework. In order of cost: dlk's own Tensor, the
 * DLPack C exchange table of a type, the buffer protocol, the __dlpack__ method with and without versions. */
#include "python/_dlk.h"

#include <string.h>

static PyObject *name_dlpack, *name_exchange, *name_from_dlpack, *name_max_version, *max_version, *numpy_array_type,
    *numpy_from_dlpack;

/* ---- Python numbers ---- */

static int open_integer(dlk_scalar *out, PyObject *object)
{
    int overflow;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    out->kind = DLK_SCALAR_INT;
    out->value.i = value;
    if (overflow > 0) {
        out->kind = DLK_SCALAR_UINT;
        out->value.u = PyLong_AsUnsignedLongLong(object);
    } else if (overflow < 0) {
        PyErr_Format(PyExc_OverflowError, "integer %R does not fit in 64 bits", object);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* 1: a weak number, 0: something else, -1: an exception. Exact types only: NumPy's float64 derives from float. */
static int open_number(dlk_py_argument *argument, PyObject *object)
{
    dlk_scalar *s = &argument->input.scalar;
    if (PyFloat_CheckExact(object)) {
        s->kind = DLK_SCALAR_FLOAT;
        s->value.f = PyFloat_AS_DOUBLE(object);
    } else if (PyLong_CheckExact(object)) {
        if (open_integer(s, object) < 0)
            return -1;
    } else if (PyBool_Check(object)) {
        s->kind = DLK_SCALAR_BOOL;
        s->value.i = object == Py_True;
    } else if (PyComplex_CheckExact(object)) {
        s->kind = DLK_SCALAR_COMPLEX;
        s->value.c[0] = PyComplex_RealAsDouble(object);
        s->value.c[1] = PyComplex_ImagAsDouble(object);
    } else {
        return 0;
    }
    argument->origin = DLK_PY_SCALAR;
    return 1;
}

/* ---- The exchange table ---- */

/* A table of a major version that we know, from the newest on. */
static const DLPackExchangeAPI *known_version(const DLPackExchangeAPI *table)
{
    while (table && table->header.version.major != DLPACK_MAJOR_VERSION)
        table = (const DLPackExchangeAPI *)table->header.prev_api;
    return table;
}

static const DLPackExchangeAPI *look_up_exchange(PyTypeObject *type)
{
    PyObject *attribute = PyObject_GetAttr((PyObject *)type, name_exchange);
    const DLPackExchangeAPI *table = NULL;
    if (attribute && PyCapsule_CheckExact(attribute))
        table = PyCapsule_GetPointer(attribute, "dlpack_exchange_api");
    PyErr_Clear();
    Py_XDECREF(attribute);
    return known_version(table);
}

/* The table of a type, remembered for the last type seen (kept alive, so that its address stays its own). */
static const DLPackExchangeAPI *exchange_of(PyTypeObject *type)
{
    static PyTypeObject *last_type;
    static const DLPackExchangeAPI *last_table;
    if (type != last_type) {
        const DLPackExchangeAPI *table = look_up_exchange(type);
        Py_INCREF(type);
        Py_XDECREF(last_type);
        last_type = type;
        last_table = table;
    }
    return last_table;
}

/* What a framework keeps beside the data, which its exchange table does not tell: PyTorch's lazily conjugated and negated
 * views, whose memory holds other values, and tensors whose history a result would lose. Its own __dlpack__ refuses them. */
static int check_plain(PyObject *object)
{
    static const struct {
        const char *name, *remedy;
        bool is_method;
    } states[] = {
        {"requires_grad", "tensor.detach()", false},
        {"is_conj", "tensor.resolve_conj()", true},
        {"is_neg", "tensor.resolve_neg()", true},
    };
    for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
        PyObject *state = states[k].is_method ? PyObject_CallMethod(object, states[k].name, NULL)
                                              : PyObject_GetAttrString(object, states[k].name);
        if (!state) { /* a framework without such a state */
            PyErr_Clear();
            continue;
        }
        const bool is_set = state == Py_True;
        Py_DECREF(state);
        if (is_set) {
            PyErr_Format(PyExc_BufferError, "%s with %s set cannot be shared as it stands: pass %s",
                         Py_TYPE(object)->tp_name, states[k].name, states[k].remedy);
            return -1;
        }
    }
    return 0;
}

static int open_exchange(dlk_py_argument *argument, PyObject *object)
{
    const DLPackExchangeAPI *table = exchange_of(Py_TYPE(object));
    if (!table || !table->managed_tensor_to_py_object_no_sync)
        return 0;
    if (check_plain(object) < 0)
        return -1;
    argument->exchange = table;
    argument->origin = DLK_PY_EXCHANGE;
    if (table->dltensor_from_py_object_no_sync) {
        if (table->dltensor_from_py_object_no_sync(object, &argument->tensor) != 0)
            return -1;
    } else {
        if (table->managed_tensor_from_py_object_no_sync(object, &argument->managed) != 0)
            return -1;
        argument->tensor = argument->managed->dl_tensor;
        argument->input.flags = argument->managed->flags;
    }
    argument->input.tensor = &argument->tensor;
    return 1;
}

/* ---- The buffer protocol ---- */

static bool parse_format(const Py_buffer *buffer, DLDataType *out)
{
    const char *f = buffer->format ? buffer->format : "B";
    const bool is_complex = f[0] == 'Z' || f[0] == 'F' || f[0] == 'D';
    uint8_t code;
    if (f[0] == '@' || f[0] == '=' || f[0] == '<')
        return f[1] ? parse_format(&(Py_buffer){.format = (char *)f + 1, .itemsize = buffer->itemsize}, out) : false;
    if (is_complex)
        code = kDLComplex;
    else if (strchr("bhilqn", f[0]))
        code = kDLInt;
    else if (strchr("BHILQN", f[0]))
        code = kDLUInt;
    else if (strchr("efd", f[0]))
        code = kDLFloat;
    else if (f[0] == '?')
        code = kDLBool;
    else
        return false;
    if (f[1] && !(f[0] == 'Z' && strchr("fd", f[1]) && !f[2]))
        return false;
    *out = (DLDataType){code, (uint8_t)(8 * buffer->itemsize), 1};
    return true;
}

static int buffer_strides(dlk_py_argument *argument)
{
    const Py_buffer *b = &argument->buffer;
    for (int k = 0; k < b->ndim; k++) {
        argument->shape[k] = b->shape[k];
        argument->strides[k] = b->strides[k] / b->itemsize;
        if (b->strides[k] % b->itemsize && b->shape[k] > 1) {
            PyErr_Format(PyExc_ValueError,
                         "stride of axis %d is %zd bytes, which is no multiple of the %zd bytes of an element", k,
                         b->strides[k], b->itemsize);
            return -1;
        }
    }
    return 1;
}

static int open_buffer(dlk_py_argument *argument, PyObject *object, bool writable)
{
    Py_buffer *b = &argument->buffer;
    if (!PyObject_CheckBuffer(object))
        return 0;
    if (PyObject_GetBuffer(object, b, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear(); /* a dtype that the buffer protocol cannot say */
        return 0;
    }
    argument->origin = DLK_PY_BUFFER;
    DLTensor *t = &argument->tensor;
    if (b->ndim > DLK_PY_RANK || !parse_format(b, &t->dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "%s has elements of format '%s' and %d axes, expected native numbers in at most %d axes",
                     Py_TYPE(object)->tp_name, b->format ? b->format : "B", b->ndim, DLK_PY_RANK);
        PyBuffer_Release(b);
        return -1;
    }
    if (buffer_strides(argument) < 0) {
        PyBuffer_Release(b);
        return -1;
    }
    t->data = b->buf;
    t->device = (DLDevice){kDLCPU, 0};
    t->ndim = b->ndim;
    t->shape = argument->shape;
    t->strides = argument->strides;
    argument->input.flags = b->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    argument->input.tensor = t;
    (void)writable;
    return 1;
}

/* ---- __dlpack__ ---- */

static PyObject *call_dlpack(PyObject *object)
{
    PyObject *method = PyObject_GetAttr(object, name_dlpack);
    if (!method)
        return NULL;
    PyObject *names = PyTuple_Pack(1, name_max_version);
    PyObject *args[1] = {max_version};
    PyObject *capsule = names ? PyObject_Vectorcall(method, args, 0, names) : NULL;
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* producers before 2023.12 know no max_version */
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(names);
    Py_DECREF(method);
    return capsule;
}

static int take_versioned(dlk_py_argument *argument, PyObject *capsule)
{
    DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    argument->managed = m;
    if (m->version.major != DLPACK_MAJOR_VERSION) {
        PyErr_Format(PyExc_BufferError, "__dlpack__ gave DLPack version %u.%u, expected major version %d",
                     m->version.major, m->version.minor, DLPACK_MAJOR_VERSION);
        return -1;
    }
    argument->tensor = m->dl_tensor;
    argument->input.flags = m->flags;
    return 1;
}

static int take_capsule(dlk_py_argument *argument, PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return take_versioned(argument, capsule);
    if (!PyCapsule_IsValid(capsule, "dltensor")) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__ gave no unused DLPack capsule");
        return -1;
    }
    argument->legacy = PyCapsule_GetPointer(capsule, "dltensor");
    PyCapsule_SetName(capsule, "used_dltensor");
    argument->tensor = argument->legacy->dl_tensor;
    return 1;
}

static int open_dlpack(dlk_py_argument *argument, PyObject *object)
{
    PyObject *capsule = call_dlpack(object);
    if (!capsule) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    argument->origin = DLK_PY_DLPACK;
    const int taken = take_capsule(argument, capsule);
    Py_DECREF(capsule);
    argument->input.tensor = &argument->tensor;
    if (taken < 0)
        dlk_py_argument_close(argument);
    return taken;
}

static int open_tensor(dlk_py_argument *argument, PyObject *object)
{
    if (Py_TYPE(object) != dlk_py_tensor_type)
        return 0;
    DLManagedTensorVersioned *m = ((dlk_py_tensor *)object)->managed;
    argument->origin = DLK_PY_TENSOR;
    argument->input.tensor = &m->dl_tensor;
    argument->input.flags = m->flags;
    return 1;
}

int dlk_py_argument_open(dlk_py_argument *argument, PyObject *object, bool writable)
{
    memset(&argument->input, 0, sizeof argument->input);
    memset(&argument->tensor, 0, sizeof argument->tensor);
    argument->managed = NULL;
    argument->legacy = NULL;
    argument->object = object;
    int done = writable ? 0 : open_number(argument, object);
    if (!done)
        done = open_tensor(argument, object);
    if (!done)
        done = open_buffer(argument, object, writable);
    if (!done)
        done = open_exchange(argument, object);
    if (!done)
        done = open_dlpack(argument, object);
    if (!done)
        PyErr_Format(PyExc_TypeError,
                     "%s is no array%s: expected a NumPy array, a tensor, or an object with __dlpack__",
                     Py_TYPE(object)->tp_name, writable ? "" : " or number");
    return done > 0 ? 0 : -1;
}

void dlk_py_argument_close(dlk_py_argument *argument)
{
    if (argument->origin == DLK_PY_BUFFER)
        PyBuffer_Release(&argument->buffer);
    if (argument->managed && argument->managed->deleter)
        argument->managed->deleter(argument->managed);
    if (argument->legacy && argument->legacy->deleter)
        argument->legacy->deleter(argument->legacy);
    argument->managed = NULL;
    argument->legacy = NULL;
    argument->origin = DLK_PY_SCALAR;
}

/* ---- Results ---- */

static bool is_numpy(PyObject *object)
{
    if (!numpy_array_type) {
        PyObject *numpy = PyImport_GetModule(PyUnicode_FromString("numpy"));
        if (!numpy)
            return false;
        numpy_array_type = PyObject_GetAttrString(numpy, "ndarray");
        numpy_from_dlpack = PyObject_GetAttr(numpy, name_from_dlpack);
        Py_DECREF(numpy);
        if (!numpy_array_type || !numpy_from_dlpack) {
            PyErr_Clear();
            Py_CLEAR(numpy_array_type);
            return false;
        }
    }
    return PyObject_TypeCheck(object, (PyTypeObject *)numpy_array_type) ||
           !strncmp(Py_TYPE(object)->tp_name, "numpy.", 6);
}

/* The from_dlpack function of the package that defines an array's type; NULL without exception where there is none. */
static PyObject *framework_from_dlpack(PyObject *object)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : "";
    const Py_ssize_t length = (Py_ssize_t)strcspn(name, ".");
    PyObject *root = PyUnicode_FromStringAndSize(name, length);
    PyObject *package = root ? PyImport_GetModule(root) : NULL;
    PyObject *function = package ? PyObject_GetAttr(package, name_from_dlpack) : NULL;
    Py_XDECREF(package);
    Py_XDECREF(root);
    Py_XDECREF(module);
    PyErr_Clear();
    return function;
}

static PyObject *result_through(PyObject *from_dlpack, PyObject *tensor)
{
    PyObject *result = PyObject_CallOneArg(from_dlpack, tensor);
    if (!result) { /* the framework has no such dtype: the Tensor itself is the answer */
        PyErr_Clear();
        return tensor;
    }
    Py_DECREF(tensor);
    return result;
}

PyObject *dlk_py_result(const dlk_py_argument *like, DLManagedTensorVersioned *managed)
{
    if (like && like->origin == DLK_PY_EXCHANGE) {
        void *result = NULL;
        if (like->exchange->managed_tensor_to_py_object_no_sync(managed, &result) == 0)
            return result;
        return NULL;
    }
    PyObject *tensor = dlk_py_tensor_wrap(managed);
    if (!tensor || !like || like->origin == DLK_PY_TENSOR)
        return tensor;
    if (is_numpy(like->object))
        return result_through(numpy_from_dlpack, tensor);
    PyObject *from_dlpack = like->origin == DLK_PY_DLPACK ? framework_from_dlpack(like->object) : NULL;
    if (!from_dlpack)
        return tensor;
    PyObject *result = result_through(from_dlpack, tensor);
    Py_DECREF(from_dlpack);
    return result;
}

int dlk_py_exchange_init(void)
{
    name_dlpack = PyUnicode_InternFromString("__dlpack__");
    name_exchange = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    name_from_dlpack = PyUnicode_InternFromString("from_dlpack");
    name_max_version = PyUnicode_InternFromString("max_version");
    max_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
    return name_dlpack && name_exchange && name_from_dlpack && name_max_version && max_version ? 0 : -1;
}
