/* The module dlk._dlk: operations as callables, user kernels, counters, options, dumps. */
#include "python/_dlk.h"

#include <structmember.h>

#include <string.h>

PyObject *dlk_py_error;

PyObject *dlk_py_raise(dlk_status status)
{
    PyObject *type = dlk_py_error;
    if (status == DLK_ERR_MEMORY)
        type = PyExc_MemoryError;
    else if (status == DLK_ERR_DTYPE)
        type = PyExc_TypeError;
    else if (status == DLK_ERR_SYNTAX)
        type = PyExc_SyntaxError;
    else if (status == DLK_ERR_NOT_FOUND)
        type = PyExc_LookupError;
    else if (status == DLK_ERR_UNSUPPORTED)
        type = PyExc_NotImplementedError;
    else if (status < DLK_ERR_UNSUPPORTED)
        type = PyExc_ValueError;
    PyErr_SetString(type, dlk_last_error());
    return NULL;
}

/* ---- Operation ---------------------------------------------------------------------------------------------------- */

enum { MAX_INPUTS = 64, MAX_OUTPUTS = 16, MAX_SCALARS = 16, MAX_AXES = 64 };
/* Below this many elements letting other Python threads run costs more than the work. */
enum { RELEASE_ELEMENTS = 32768 };

typedef struct operation {
    PyObject_HEAD vectorcallfunc vectorcall;
    const dlk_op *op;
    dlk_op_info info;
    PyObject *source; /* text of a user kernel, or NULL */
} operation;

/* One call: what the keywords said and the operands. */
typedef struct call {
    dlk_params params;
    int32_t axes[MAX_AXES];
    dlk_named_scalar scalars[MAX_SCALARS];
    dlk_py_argument where;
    bool has_where;
    PyObject *out;
    int n_inputs, n_outputs;
    dlk_py_argument *inputs, *outputs;
    dlk_py_argument in_place[4];
} call;

static int parse_axis(call *c, PyObject *axis)
{
    c->params.axes = c->axes;
    if (axis == Py_None) {
        c->params.axes = NULL;
        return 0;
    }
    if (!PyTuple_Check(axis) && !PyList_Check(axis)) {
        c->axes[0] = (int32_t)PyLong_AsLong(axis);
        c->params.n_axes = 1;
        return PyErr_Occurred() ? -1 : 0;
    }
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(axis);
    if (n > MAX_AXES) {
        PyErr_Format(PyExc_ValueError, "axis has %zd entries, expected at most %d", n, MAX_AXES);
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++)
        c->axes[k] = (int32_t)PyLong_AsLong(PySequence_Fast_GET_ITEM(axis, k));
    c->params.n_axes = (int32_t)n;
    return PyErr_Occurred() ? -1 : 0;
}

static int parse_scalar(dlk_scalar *out, const char *name, PyObject *value)
{
    dlk_py_argument a;
    if (dlk_py_argument_open(&a, value, false) < 0)
        return -1;
    if (a.origin != DLK_PY_SCALAR) {
        dlk_py_argument_close(&a);
        PyErr_Format(PyExc_TypeError, "%s is a %s, expected a number", name, Py_TYPE(value)->tp_name);
        return -1;
    }
    *out = a.input.scalar;
    return 0;
}

static int parse_where(call *c, PyObject *value)
{
    if (value == Py_None)
        return 0;
    if (dlk_py_argument_open(&c->where, value, false) < 0)
        return -1;
    c->has_where = true;
    c->params.where = &c->where.input;
    return 0;
}

static int parse_named_scalar(operation *self, call *c, const char *name, PyObject *value)
{
    for (int k = 0; k < self->info.n_parameters; k++)
        if (!strcmp(self->info.parameter_names[k], name)) {
            if (c->params.n_scalars == MAX_SCALARS) {
                PyErr_SetString(PyExc_TypeError, "too many scalar parameters");
                return -1;
            }
            dlk_named_scalar *s = &c->scalars[c->params.n_scalars++];
            s->name = self->info.parameter_names[k];
            return parse_scalar(&s->value, name, value);
        }
    PyErr_Format(PyExc_TypeError, "%s() has no parameter '%s'", self->info.name, name);
    return -1;
}

static int parse_keyword(operation *self, call *c, const char *name, PyObject *value)
{
    if (!strcmp(name, "out")) {
        c->out = value == Py_None ? NULL : value;
        return 0;
    }
    if (!strcmp(name, "axis"))
        return parse_axis(c, value);
    if (!strcmp(name, "keepdims"))
        return (c->params.keepdims = PyObject_IsTrue(value)) < 0 ? -1 : 0;
    if (!strcmp(name, "dtype"))
        return value == Py_None || dlk_py_dtype_parse(value, &c->params.dtype) ? 0 : -1;
    if (!strcmp(name, "where"))
        return parse_where(c, value);
    if (!strcmp(name, "initial"))
        return value == Py_None ? 0 : parse_scalar(&c->params.initial, name, value);
    if (!strcmp(name, "saturate"))
        return (c->params.saturate = PyObject_IsTrue(value)) < 0 ? -1 : 0;
    if (!strcmp(name, "implementation"))
        return (c->params.implementation = PyUnicode_AsUTF8(value)) ? 0 : -1;
    return parse_named_scalar(self, c, name, value);
}

static int open_outputs(call *c)
{
    const bool several = PyTuple_Check(c->out);
    for (int k = 0; k < c->n_outputs; k++) {
        PyObject *object = several ? (k < PyTuple_GET_SIZE(c->out) ? PyTuple_GET_ITEM(c->out, k) : NULL) : c->out;
        if (!object || (!several && c->n_outputs > 1) || (several && PyTuple_GET_SIZE(c->out) != c->n_outputs)) {
            PyErr_Format(PyExc_ValueError, "out has another number of arrays than the %d results", c->n_outputs);
            return -1;
        }
        if (dlk_py_argument_open(&c->outputs[k], object, true) < 0)
            return -1;
    }
    return 0;
}

static int64_t elements_of(const call *c)
{
    int64_t most = 0;
    for (int k = 0; k < c->n_inputs; k++) {
        const DLTensor *t = c->inputs[k].input.tensor;
        int64_t n = t != NULL;
        for (int a = 0; t && a < t->ndim; a++)
            n = t->shape[a] < RELEASE_ELEMENTS ? n * t->shape[a] : RELEASE_ELEMENTS;
        most = n > most ? n : most;
    }
    return most;
}

static dlk_status launch(const operation *self, const call *c, const dlk_input *inputs, dlk_output *outputs)
{
    if (elements_of(c) < RELEASE_ELEMENTS)
        return dlk_launch(NULL, self->op, inputs, c->n_inputs, outputs, c->n_outputs, &c->params);
    dlk_status status;
    Py_BEGIN_ALLOW_THREADS status = dlk_launch(NULL, self->op, inputs, c->n_inputs, outputs, c->n_outputs, &c->params);
    Py_END_ALLOW_THREADS return status;
}

/* The operand whose framework gets the results. */
static const dlk_py_argument *first_array(const call *c)
{
    for (int k = 0; k < c->n_inputs; k++)
        if (c->inputs[k].origin != DLK_PY_SCALAR)
            return &c->inputs[k];
    return NULL;
}

static PyObject *results_of(const call *c, dlk_output *outputs)
{
    if (c->out)
        return Py_NewRef(c->out);
    if (c->n_outputs == 1)
        return dlk_py_result(first_array(c), outputs[0].result);
    PyObject *tuple = PyTuple_New(c->n_outputs);
    for (int k = 0; k < c->n_outputs; k++) {
        PyObject *result = dlk_py_result(first_array(c), outputs[k].result);
        if (tuple && result)
            PyTuple_SET_ITEM(tuple, k, result);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *run_call(operation *self, call *c)
{
    dlk_input inputs[MAX_INPUTS];
    dlk_output outputs[MAX_OUTPUTS];
    for (int k = 0; k < c->n_inputs; k++)
        inputs[k] = c->inputs[k].input;
    for (int k = 0; k < c->n_outputs; k++)
        outputs[k] = (dlk_output){.tensor = c->out ? c->outputs[k].input.tensor : NULL,
                                  .flags = c->out ? c->outputs[k].input.flags : 0};
    const dlk_status status = launch(self, c, inputs, outputs);
    return status == DLK_OK ? results_of(c, outputs) : dlk_py_raise(status);
}

static int open_inputs(call *c, PyObject *const *args, Py_ssize_t n)
{
    for (; c->n_inputs < n; c->n_inputs++)
        if (dlk_py_argument_open(&c->inputs[c->n_inputs], args[c->n_inputs], false) < 0)
            return -1;
    return 0;
}

static void close_call(call *c, int opened_outputs)
{
    for (int k = 0; k < c->n_inputs; k++)
        dlk_py_argument_close(&c->inputs[k]);
    for (int k = 0; k < opened_outputs; k++)
        dlk_py_argument_close(&c->outputs[k]);
    if (c->has_where)
        dlk_py_argument_close(&c->where);
    if (c->inputs != c->in_place)
        PyMem_Free(c->inputs);
}

/* Room for the operands: on the stack for the common call. */
static int make_room(call *c, Py_ssize_t n_inputs, int n_outputs)
{
    const size_t n = (size_t)n_inputs + (size_t)n_outputs;
    c->inputs = n <= 4 ? c->in_place : PyMem_Malloc(sizeof(dlk_py_argument) * n);
    if (!c->inputs) {
        PyErr_NoMemory();
        return -1;
    }
    c->outputs = c->inputs + n_inputs;
    c->n_outputs = n_outputs;
    for (int k = 0; k < n_outputs; k++)
        c->outputs[k].origin = DLK_PY_SCALAR, c->outputs[k].managed = NULL, c->outputs[k].legacy = NULL;
    return 0;
}

static PyObject *operation_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    operation *o = (operation *)self;
    const Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (n != o->info.n_inputs)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d array arguments, got %zd", o->info.name, o->info.n_inputs,
                            n);
    call c;
    memset(&c.params, 0, sizeof c.params);
    c.params.size = sizeof c.params;
    c.params.scalars = c.scalars;
    c.has_where = false;
    c.out = NULL;
    c.n_inputs = 0;
    if (make_room(&c, n, o->info.n_outputs) < 0)
        return NULL;
    PyObject *result = NULL;
    bool ok = true;
    for (Py_ssize_t k = 0; ok && names && k < PyTuple_GET_SIZE(names); k++)
        ok = parse_keyword(o, &c, PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, k)), args[n + k]) == 0;
    if (ok && open_inputs(&c, args, n) == 0 && (!c.out || open_outputs(&c) == 0))
        result = run_call(o, &c);
    close_call(&c, c.out ? c.n_outputs : 0);
    return result;
}

static void operation_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((operation *)self)->source);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *operation_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<dlk operation %s>", ((operation *)self)->info.signature);
}
static PyObject *operation_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((operation *)self)->info.name);
}
static PyObject *operation_source(PyObject *self, void *unused)
{
    (void)unused;
    operation *o = (operation *)self;
    return o->source ? Py_NewRef(o->source) : PyUnicode_FromString(o->info.formula);
}
static PyObject *operation_doc(PyObject *self, void *unused)
{
    (void)unused;
    const dlk_op_info *info = &((operation *)self)->info;
    return PyUnicode_FromFormat("%s\n\n%s\n\n    %s", info->signature, info->documentation, info->formula);
}

static PyMemberDef operation_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(operation, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyGetSetDef operation_attributes[] = {
    {"__name__", operation_name, NULL, NULL, NULL},
    {"__doc__", operation_doc, NULL, NULL, NULL},
    {"source", operation_source, NULL, "The definition's text.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot operation_slots[] = {
    {Py_tp_dealloc, operation_dealloc}, {Py_tp_repr, operation_repr},         {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, operation_members}, {Py_tp_getset, operation_attributes}, {0, NULL},
};
static PyType_Spec operation_spec = {
    "dlk.Operation", sizeof(operation), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, operation_slots};
static PyTypeObject *operation_type;

static PyObject *wrap_operation(const dlk_op *op, PyObject *source)
{
    operation *o = PyObject_New(operation, operation_type);
    if (!o)
        return NULL;
    o->vectorcall = operation_call;
    o->op = op;
    o->source = Py_XNewRef(source);
    o->info.size = sizeof o->info;
    const dlk_status status = dlk_op_get_info(NULL, op, &o->info);
    if (status == DLK_OK)
        return (PyObject *)o;
    Py_DECREF(o);
    return dlk_py_raise(status);
}

/* ---- Functions ---------------------------------------------------------------------------------------------------- */

static PyObject *py_operation(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    const dlk_op *op;
    if (!text)
        return NULL;
    const dlk_status status = dlk_find(NULL, text, &op);
    return status == DLK_OK ? wrap_operation(op, NULL) : dlk_py_raise(status);
}

static PyObject *py_kernel(PyObject *module, PyObject *text)
{
    (void)module;
    const char *source = PyUnicode_AsUTF8(text);
    const dlk_op *op;
    if (!source)
        return NULL;
    const dlk_status status = dlk_define(NULL, source, &op);
    return status == DLK_OK ? wrap_operation(op, text) : dlk_py_raise(status);
}

static PyObject *py_operations(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    int n = 0;
    dlk_status status = dlk_op_list(NULL, NULL, 0, &n);
    const dlk_op **ops = PyMem_Calloc((size_t)n + 1, sizeof *ops);
    PyObject *list = ops ? PyList_New(n) : PyErr_NoMemory();
    if (list && status == DLK_OK)
        status = dlk_op_list(NULL, ops, n, &n);
    dlk_op_info info = {.size = sizeof info};
    for (int k = 0; list && status == DLK_OK && k < PyList_GET_SIZE(list); k++) {
        status = dlk_op_get_info(NULL, ops[k], &info);
        if (status == DLK_OK)
            PyList_SET_ITEM(list, k, PyUnicode_FromString(info.name));
    }
    PyMem_Free(ops);
    if (list && status != DLK_OK) {
        Py_DECREF(list);
        return dlk_py_raise(status);
    }
    return list;
}

static PyObject *py_counters(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    dlk_counters c = {.size = sizeof c};
    const dlk_status status = dlk_counters_get(NULL, &c);
    if (status != DLK_OK)
        return dlk_py_raise(status);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"launches", c.launches},       {"plan_hits", c.plan_hits},     {"plan_misses", c.plan_misses},
        {"kernel_hits", c.kernel_hits}, {"compiles", c.compiles},       {"compile_waits", c.compile_waits},
        {"compile_ns", c.compile_ns},   {"kernels", c.kernels},         {"native_runs", c.native_runs},
        {"results", c.results},         {"result_maps", c.result_maps}, {"heap_allocations", c.heap_allocations},
        {"pool_bytes", c.pool_bytes},   {"live_bytes", c.live_bytes},
    };
    PyObject *dict = PyDict_New();
    for (size_t k = 0; dict && k < sizeof rows / sizeof rows[0]; k++) {
        PyObject *value = PyLong_FromUnsignedLongLong(rows[k].value);
        if (!value || PyDict_SetItemString(dict, rows[k].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *py_set_option(PyObject *module, PyObject *args)
{
    (void)module;
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss:set_option", &name, &value))
        return NULL;
    const dlk_status status = dlk_option_set(name, value);
    return status == DLK_OK ? Py_NewRef(Py_None) : dlk_py_raise(status);
}

static PyObject *py_option(PyObject *module, PyObject *name)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    const char *value = text ? dlk_option_get(text) : NULL;
    if (text && !value)
        return PyErr_Format(PyExc_LookupError, "no option named '%s'", text);
    return text ? PyUnicode_FromString(value) : NULL;
}

/* dump(operation, arguments, stage): the text of one stage of the kernel that these arguments get. */
static PyObject *py_dump(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object, *arguments;
    const char *stage = "ir";
    if (!PyArg_ParseTuple(args, "O!O!|s:dump", operation_type, &object, &PyTuple_Type, &arguments, &stage))
        return NULL;
    operation *o = (operation *)object;
    const Py_ssize_t n = PyTuple_GET_SIZE(arguments);
    call c = {.n_inputs = 0};
    dlk_input inputs[MAX_INPUTS];
    dlk_output outputs[MAX_OUTPUTS] = {{0}};
    if (n > MAX_INPUTS || make_room(&c, n, o->info.n_outputs) < 0)
        return NULL;
    PyObject *result = NULL;
    if (open_inputs(&c, PySequence_Fast_ITEMS(arguments), n) == 0) {
        char *text = NULL;
        for (int k = 0; k < c.n_inputs; k++)
            inputs[k] = c.inputs[k].input;
        const dlk_status status = dlk_dump(NULL, o->op, inputs, c.n_inputs, outputs, c.n_outputs, NULL, stage, &text);
        result = status == DLK_OK ? PyUnicode_FromString(text) : dlk_py_raise(status);
        dlk_text_free(text);
    }
    close_call(&c, 0);
    return result;
}

static PyObject *py_devices(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    enum { CAPACITY = 64 };
    static dlk_device_info info[CAPACITY];
    int n = 0;
    const dlk_status status = dlk_device_list(NULL, info, CAPACITY, &n);
    if (status != DLK_OK)
        return dlk_py_raise(status);
    PyObject *list = PyList_New(0);
    for (int k = 0; list && k < n && k < CAPACITY; k++) {
        PyObject *row = Py_BuildValue("{s:s,s:i,s:i,s:s,s:s,s:s,s:O}", "backend", info[k].backend, "type",
                                      (int)info[k].device.device_type, "id", (int)info[k].device.device_id, "name",
                                      info[k].name, "target", info[k].target, "description", info[k].description,
                                      "available", info[k].is_available ? Py_True : Py_False);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"operation", py_operation, METH_O, "The operation of a name; LookupError when there is none."},
    {"kernel", py_kernel, METH_O, "Defines operations by text (docs/language.md) and gives the last one."},
    {"operations", py_operations, METH_NOARGS, "Names of all operations."},
    {"counters", py_counters, METH_NOARGS, "Launches, cache hits and compiles of this process, a dict."},
    {"set_option", py_set_option, METH_VARARGS, "set_option(name, value): both str."},
    {"option", py_option, METH_O, "The value of an option, a str."},
    {"dump", py_dump, METH_VARARGS, "dump(operation, (x, ...), stage='ir'): what the compiler makes at a stage."},
    {"devices", py_devices, METH_NOARGS, "Devices, a list of (name, id, description)."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_dlk", "The C part of dlk.", -1, functions, NULL, NULL, NULL, NULL};

static PyObject *version_text(void)
{
    const int v = dlk_version();
    return PyUnicode_FromFormat("%d.%d.%d", v / 1000000, v / 1000 % 1000, v % 1000);
}

PyMODINIT_FUNC PyInit__dlk(void); /* Python looks for it by name */

PyMODINIT_FUNC PyInit__dlk(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    operation_type = (PyTypeObject *)PyType_FromSpec(&operation_spec);
    dlk_py_error = PyErr_NewException("dlk.Error", PyExc_RuntimeError, NULL);
    if (!operation_type || !dlk_py_error || dlk_py_exchange_init() < 0 || dlk_py_tensor_init(module) < 0 ||
        PyModule_AddObjectRef(module, "Operation", (PyObject *)operation_type) < 0 ||
        PyModule_AddObjectRef(module, "Error", dlk_py_error) < 0 ||
        PyModule_AddObject(module, "__version__", version_text()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
