/* The rest of dlk.h: plan handles, native implementations, inference, allocation, lists, dumps. */
#include "tests/test.h"

#include "dlk/dlk.h"

static const DLDataType f32 = {kDLFloat, 32, 1}, f64 = {kDLFloat, 64, 1};
#define AXES(...) ((int64_t[]){__VA_ARGS__})

static DLTensor tensor(void *data, DLDataType dtype, int ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype, .shape = shape, .strides = strides};
}

static const dlk_op *op_of(dlk_context *context, const char *name)
{
    const dlk_op *op = NULL;
    CHECK_MSG(dlk_find(context, name, &op) == DLK_OK, "%s", dlk_last_error());
    return op;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

TEST(plans_run_with_pointers_alone)
{
    const DLTensor x = tensor(NULL, f32, 2, AXES(3, 4), NULL), y = tensor(NULL, f32, 1, AXES(4), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&y)};
    const dlk_output out = {NULL, 0, NULL};
    dlk_plan *plan;
    CHECK_MSG(dlk_plan_create(NULL, op_of(NULL, "add"), in, 2, &out, 1, NULL, &plan) == DLK_OK, "%s", dlk_last_error());
    dlk_tensor_spec spec;
    CHECK_INT(dlk_plan_output(plan, 0, &spec), DLK_OK);
    CHECK(spec.ndim == 2 && spec.shape[0] == 3 && spec.strides[0] == 4 && spec.dtype.bits == 32);
    CHECK_INT(dlk_plan_output(plan, 1, &spec), DLK_ERR_INVALID);
    float a[13], b[4] = {10, 20, 30, 40}, r[13];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 12; i++)
            a[i] = (float)(i + round);
        void *const inputs[2] = {a, b}, *const outputs[1] = {r};
        CHECK_MSG(dlk_plan_run(plan, inputs, outputs) == DLK_OK, "%s", dlk_last_error());
        for (int i = 0; i < 12; i++)
            CHECK(r[i] == a[i] + b[i % 4]);
    }
    void *const inputs[2] = {a, b}, *const in_place[1] = {a}, *const shifted[1] = {a + 1};
    float expected[12];
    for (int i = 0; i < 12; i++)
        expected[i] = a[i] + b[i % 4];
    CHECK_MSG(dlk_plan_run(plan, inputs, in_place) == DLK_OK, "%s", dlk_last_error());
    CHECK(!memcmp(a, expected, sizeof expected));
    for (int i = 0; i < 12; i++)
        expected[i] = a[i] + b[i % 4];
    CHECK_INT(dlk_plan_run(plan, inputs, shifted), DLK_OK);
    CHECK(!memcmp(a + 1, expected, sizeof expected));
    char bytes[49];
    memcpy(bytes + 1, r, 48);
    void *const odd[2] = {bytes + 1, b}, *const to[1] = {r};
    for (int i = 0; i < 12; i++)
        expected[i] = r[i] + b[i % 4];
    CHECK_INT(dlk_plan_run(plan, odd, to), DLK_OK);
    CHECK(!memcmp(r, expected, sizeof expected));
    void *const nothing[1] = {NULL}, *const no_inputs[2] = {NULL, b};
    CHECK(dlk_plan_run(plan, inputs, nothing) != DLK_OK);
    CHECK_INT(dlk_plan_run(plan, no_inputs, to), DLK_ERR_INVALID);
    CHECK(strstr(dlk_last_error(), "data is NULL"));
    dlk_plan_destroy(plan);
    dlk_plan_destroy(NULL);
}

TEST(plans_keep_scalars_masks_and_axes)
{
    const DLTensor x = tensor(NULL, f32, 2, AXES(2, 3), NULL),
                   mask = tensor(NULL, (DLDataType){kDLBool, 8, 1}, 1, AXES(3), NULL);
    int32_t axes[1] = {1};
    dlk_input in[1] = {dlk_input_tensor(&x)}, where = dlk_input_tensor(&mask);
    dlk_params params = {.size = sizeof params, .axes = axes, .n_axes = 1, .where = &where};
    const dlk_output out = {NULL, 0, NULL};
    dlk_plan *plan;
    CHECK_MSG(dlk_plan_create(NULL, op_of(NULL, "sum"), in, 1, &out, 1, &params, &plan) == DLK_OK, "%s",
              dlk_last_error());
    axes[0] = 0; /* the plan has copies */
    where = dlk_input_int(0);
    float a[6] = {1, 2, 3, 4, 5, 6}, r[2];
    uint8_t m[3] = {1, 0, 1};
    void *const inputs[2] = {a, m}, *const outputs[1] = {r};
    CHECK_MSG(dlk_plan_run(plan, inputs, outputs) == DLK_OK, "%s", dlk_last_error());
    CHECK(r[0] == 4 && r[1] == 10);
    dlk_plan_destroy(plan);
    const dlk_input weak[2] = {dlk_input_tensor(&x), dlk_input_float(0.5)};
    CHECK_INT(dlk_plan_create(NULL, op_of(NULL, "multiply"), weak, 2, &out, 1, NULL, &plan), DLK_OK);
    float half[6];
    void *const in2[2] = {a, NULL}, *const out2[1] = {half};
    CHECK_MSG(dlk_plan_run(plan, in2, out2) == DLK_OK, "%s", dlk_last_error());
    CHECK(half[5] == 3);
    dlk_plan_destroy(plan);
}

TEST(bad_plans)
{
    const DLTensor x = tensor(NULL, f32, 2, AXES(-2, 3), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&x)};
    const dlk_output out = {NULL, 0, NULL};
    dlk_plan *plan = NULL;
    CHECK_INT(dlk_plan_create(NULL, op_of(NULL, "add"), in, 2, &out, 1, NULL, &plan), DLK_ERR_INVALID);
    CHECK(!plan && strstr(dlk_last_error(), "shape[0]"));
    CHECK_INT(dlk_plan_create(NULL, op_of(NULL, "add"), in, 2, &out, 1, NULL, NULL), DLK_ERR_INVALID);
    CHECK_INT(dlk_plan_run(NULL, NULL, NULL), DLK_ERR_INVALID);
}

/* ---- Native implementations -------------------------------------------------------------------------------------- */

typedef struct native_log {
    int runs, destroyed;
    dlk_status answer;
    int32_t axes[4], n_axes;
} native_log;

static dlk_status native_add(void *user, const dlk_input *inputs, int n_inputs, const DLTensor *outputs, int n_outputs,
                             const dlk_params *params)
{
    native_log *log = user;
    log->runs++;
    CHECK(n_inputs == 2 && n_outputs == 1 && params);
    const DLTensor *x = inputs[0].tensor;
    CHECK(x->strides && x->byte_offset == 0 && outputs[0].strides);
    if (log->answer != DLK_OK)
        return dlk_set_error(log->answer, "the native one is ill");
    for (int64_t i = 0; i < x->shape[0]; i++) {
        const float y = inputs[1].tensor ? ((float *)inputs[1].tensor->data)[i * inputs[1].tensor->strides[0]]
                                         : (float)inputs[1].scalar.value.f;
        ((float *)outputs[0].data)[i * outputs[0].strides[0]] = ((float *)x->data)[i * x->strides[0]] + y + 1000;
    }
    return DLK_OK;
}

static dlk_status native_sum(void *user, const dlk_input *inputs, int n_inputs, const DLTensor *outputs, int n_outputs,
                             const dlk_params *params)
{
    native_log *log = user;
    (void)inputs, (void)n_inputs, (void)n_outputs;
    log->n_axes = params->n_axes;
    memcpy(log->axes, params->axes, sizeof *params->axes * (size_t)params->n_axes);
    *(float *)outputs[0].data = 7;
    return DLK_OK;
}

static void note_destroyed(void *user)
{
    ((native_log *)user)->destroyed++;
}

static float add_with(dlk_context *context, float *a, float *b, DLDataType dtype, const char *implementation,
                      dlk_status expected)
{
    const DLTensor x = tensor(a, dtype, 1, AXES(2), NULL), y = tensor(b, dtype, 1, AXES(2), AXES(-1));
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&y)};
    dlk_output out = {NULL, 0, NULL};
    const dlk_params params = {.size = sizeof params, .implementation = implementation};
    const dlk_status status = dlk_launch(context, op_of(context, "add"), in, 2, &out, 1, &params);
    CHECK_MSG(status == expected, "%s", dlk_last_error());
    const float r = out.result && dtype.bits == 32 ? ((float *)out.result->dl_tensor.data)[0] : 0;
    dlk_release(out.result);
    return r;
}

TEST(native_implementations)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    native_log log = {0}, slow_log = {0};
    dlk_native fast = {.size = sizeof fast,
                       .operation = "add",
                       .name = "fast",
                       .device_type = kDLCPU,
                       .priority = 10,
                       .dtypes = &f32,
                       .n_dtypes = 1,
                       .run = native_add,
                       .user = &log,
                       .destroy = note_destroyed};
    dlk_native slow = fast;
    slow.name = "slow";
    slow.priority = -1;
    slow.user = &slow_log;
    float a[2] = {1, 2}, b[3] = {0, 10, 20};
    CHECK(add_with(context, a, b + 1, f32, NULL, DLK_OK) == 11);
    CHECK_MSG(dlk_register(context, &fast) == DLK_OK, "%s", dlk_last_error());
    CHECK_INT(dlk_register(context, &slow), DLK_OK);
    CHECK_INT(dlk_register(context, &fast), DLK_ERR_INVALID); /* there already */
    CHECK(add_with(context, a, b + 1, f32, NULL, DLK_OK) == 1011);
    CHECK_INT(log.runs, 1);
    CHECK(add_with(context, a, b + 1, f32, "definition", DLK_OK) == 11);
    CHECK(add_with(context, a, b + 1, f32, "slow", DLK_OK) == 1011);
    CHECK_INT(slow_log.runs, 1);
    double wide[2] = {1, 2};
    add_with(context, (float *)wide, (float *)(wide + 1), f64, NULL, DLK_OK);
    CHECK_INT(log.runs, 1);
    add_with(context, (float *)wide, (float *)(wide + 1), f64, "fast", DLK_ERR_DTYPE);
    add_with(context, a, b + 1, f32, "unknown", DLK_ERR_NOT_FOUND);
    log.answer = DLK_ERR_DRIVER;
    add_with(context, a, b + 1, f32, NULL, DLK_ERR_DRIVER);
    CHECK(strstr(dlk_last_error(), "implementation fast: the native one is ill"));
    log.answer = DLK_OK;
    CHECK_INT(dlk_option_set("implementation", "definition"), DLK_OK);
    CHECK(add_with(context, a, b + 1, f32, NULL, DLK_OK) == 11);
    CHECK_INT(dlk_option_set("implementation", "slow"), DLK_OK);
    add_with(context, a, b + 1, f32, NULL, DLK_OK);
    CHECK_INT(slow_log.runs, 2);
    CHECK_INT(dlk_option_set("implementation", NULL), DLK_OK);
    dlk_counters c = {.size = sizeof c};
    CHECK_INT(dlk_counters_get(context, &c), DLK_OK);
    CHECK_INT(c.native_runs, 4);
    dlk_context_destroy(context);
    CHECK_INT(log.destroyed, 1);
    CHECK_INT(slow_log.destroyed, 1);
}

TEST(native_implementations_see_sound_arguments)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    native_log log = {0}, sums = {0};
    const dlk_native add = {.size = sizeof add,
                            .operation = "add",
                            .name = "n",
                            .device_type = kDLCPU,
                            .priority = 1,
                            .run = native_add,
                            .user = &log};
    const dlk_native sum = {.size = sizeof sum,
                            .operation = "sum",
                            .name = "n",
                            .device_type = kDLCPU,
                            .priority = 1,
                            .run = native_sum,
                            .user = &sums};
    CHECK_INT(dlk_register(context, &add), DLK_OK);
    CHECK_INT(dlk_register(context, &sum), DLK_OK);
    float d[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const DLTensor head = tensor(d, f32, 1, AXES(8), NULL), tail = tensor(d + 1, f32, 1, AXES(8), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&head), dlk_input_tensor(&tail)};
    dlk_output out = {&tail, 0, NULL}; /* overlaps: the function gets a temporary */
    CHECK_MSG(dlk_launch(context, op_of(context, "add"), in, 2, &out, 1, NULL) == DLK_OK, "%s", dlk_last_error());
    for (int i = 1; i < 9; i++)
        CHECK(d[i] == 1002);
    const DLTensor x = tensor(d, f32, 3, AXES(1, 3, 3), NULL);
    const dlk_input one[1] = {dlk_input_tensor(&x)};
    const int32_t axes[2] = {-1, 0};
    const dlk_params params = {.size = sizeof params, .axes = axes, .n_axes = 2};
    dlk_output result = {NULL, 0, NULL};
    CHECK_INT(dlk_launch(context, op_of(context, "sum"), one, 1, &result, 1, &params), DLK_OK);
    CHECK(sums.n_axes == 2 && sums.axes[0] == 0 && sums.axes[1] == 2);
    CHECK(result.result->dl_tensor.ndim == 1);
    dlk_release(result.result);
    dlk_context_destroy(context);
}

/* A native function that launches in its turn, more than the thread's cache of launches holds. */
static dlk_status native_that_launches(void *user, const dlk_input *inputs, int n_inputs, const DLTensor *outputs,
                                       int n_outputs, const dlk_params *params)
{
    static float data[1000];
    (void)inputs, (void)n_inputs, (void)n_outputs, (void)params;
    for (int64_t n = 1; n <= 600; n++) {
        const DLTensor x = tensor(data, f32, 1, &n, NULL);
        DLManagedTensorVersioned *r;
        if (dlk_unary(user, "negative", &x, &r) != DLK_OK)
            return DLK_ERR_INTERNAL;
        dlk_release(r);
    }
    *(float *)outputs[0].data = 42;
    return DLK_OK;
}

TEST(native_implementations_may_launch)
{
    dlk_context *context;
    CHECK_INT(dlk_context_create(&context), DLK_OK);
    const dlk_native sum = {.size = sizeof sum,
                            .operation = "sum",
                            .name = "n",
                            .device_type = kDLCPU,
                            .priority = 1,
                            .run = native_that_launches,
                            .user = context};
    CHECK_INT(dlk_register(context, &sum), DLK_OK);
    float a[3] = {1, 2, 3};
    const DLTensor x = tensor(a, f32, 1, AXES(3), NULL);
    for (int i = 0; i < 3; i++) {
        DLManagedTensorVersioned *r = NULL;
        CHECK_MSG(dlk_unary(context, "sum", &x, &r) == DLK_OK, "%s", dlk_last_error());
        CHECK(r && *(float *)r->dl_tensor.data == 42);
        dlk_release(r);
    }
    dlk_context_destroy(context);
}

TEST(bad_registrations)
{
    dlk_native n = {.size = sizeof n, .operation = "no_such_op", .name = "n", .device_type = kDLCPU, .run = native_add};
    CHECK_INT(dlk_register(NULL, &n), DLK_ERR_NOT_FOUND);
    CHECK_INT(dlk_register(NULL, NULL), DLK_ERR_INVALID);
    n.operation = "add";
    n.run = NULL;
    CHECK_INT(dlk_register(NULL, &n), DLK_ERR_INVALID);
    n.size = 0;
    CHECK_INT(dlk_register(NULL, &n), DLK_ERR_INVALID);
}

/* ---- Inference and allocation ------------------------------------------------------------------------------------ */

TEST(inference_runs_nothing)
{
    const DLTensor x = tensor(NULL, f32, 2, AXES(3, 1), NULL), y = tensor(NULL, f64, 1, AXES(4), NULL);
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&y)};
    dlk_tensor_spec spec;
    dlk_counters before = {.size = sizeof before}, after = before;
    CHECK_INT(dlk_counters_get(NULL, &before), DLK_OK);
    CHECK_MSG(dlk_infer(NULL, op_of(NULL, "divide"), in, 2, &spec, 1, NULL) == DLK_OK, "%s", dlk_last_error());
    CHECK_INT(dlk_counters_get(NULL, &after), DLK_OK);
    CHECK_INT(after.compiles - before.compiles, 0);
    CHECK(spec.ndim == 2 && spec.shape[0] == 3 && spec.shape[1] == 4 && spec.dtype.bits == 64);
    CHECK(spec.strides[0] == 4 && spec.strides[1] == 1);
    CHECK_INT(dlk_infer(NULL, op_of(NULL, "divide"), in, 1, &spec, 1, NULL), DLK_ERR_INVALID);
}

TEST(tensors_like_a_prototype)
{
    DLManagedTensorVersioned *t;
    const DLTensor c = tensor(NULL, f32, 2, AXES(3, 4), NULL), f = tensor(NULL, f64, 2, AXES(3, 4), AXES(1, 30)),
                   lanes = tensor(NULL, (DLDataType){kDLFloat, 32, 4}, 1, AXES(3), NULL);
    CHECK_INT(dlk_tensor_alloc(NULL, &c, &t), DLK_OK);
    CHECK(t->dl_tensor.strides[0] == 4 && t->dl_tensor.strides[1] == 1 && (uintptr_t)t->dl_tensor.data % 64 == 0);
    memset(t->dl_tensor.data, 1, 48);
    dlk_release(t);
    CHECK_INT(dlk_tensor_alloc(NULL, &f, &t), DLK_OK);
    CHECK(t->dl_tensor.strides[0] == 1 && t->dl_tensor.strides[1] == 3);
    dlk_release(t);
    CHECK_INT(dlk_tensor_alloc(NULL, &lanes, &t), DLK_OK);
    CHECK(t->dl_tensor.ndim == 1 && t->dl_tensor.dtype.lanes == 4);
    memset(t->dl_tensor.data, 1, 48);
    dlk_release(t);
    DLTensor bad = c;
    bad.dtype.lanes = 0;
    CHECK_INT(dlk_tensor_alloc(NULL, &bad, &t), DLK_ERR_DTYPE);
    bad = c;
    bad.device.device_type = kDLCUDA;
    CHECK_INT(dlk_tensor_alloc(NULL, &bad, &t), DLK_ERR_DEVICE);
    CHECK_INT(dlk_tensor_alloc(NULL, NULL, &t), DLK_ERR_INVALID);
}

typedef struct allocation {
    DLManagedTensorVersioned tensor;
    int64_t shape[4], strides[4];
    float data[64];
} allocation;
static int allocated, freed;
static bool allocator_fails;

static void free_allocation(DLManagedTensorVersioned *self)
{
    freed++;
    free(self);
}

/* As a framework's: row-major whatever was asked for. */
static int allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message))
{
    if (allocator_fails) {
        set_error(context, "MemoryError", "none left");
        return -1;
    }
    allocation *a = calloc(1, sizeof *a);
    allocated++;
    a->tensor = (DLManagedTensorVersioned){.version = {1, 0}, .deleter = free_allocation, .dl_tensor = *prototype};
    int64_t step = 1;
    for (int i = prototype->ndim - 1; i >= 0; i--) {
        a->shape[i] = prototype->shape[i];
        a->strides[i] = step;
        step *= a->shape[i];
    }
    a->tensor.dl_tensor.shape = a->shape;
    a->tensor.dl_tensor.strides = a->strides;
    a->tensor.dl_tensor.data = a->data;
    *out = &a->tensor;
    return 0;
}

TEST(the_callers_allocator)
{
    float data[6] = {1, 2, 3, 4, 5, 6};
    const DLTensor x = tensor(data, f32, 2, AXES(2, 3), AXES(1, 2));
    const dlk_input in[2] = {dlk_input_tensor(&x), dlk_input_tensor(&x)};
    const dlk_params params = {.size = sizeof params, .allocator = allocate};
    dlk_output out = {NULL, 0, NULL};
    for (int i = 0; i < 2; i++) {
        CHECK_MSG(dlk_launch(NULL, op_of(NULL, "add"), in, 2, &out, 1, &params) == DLK_OK, "%s", dlk_last_error());
        const float *r = out.result->dl_tensor.data;
        CHECK(r[0] == 2 && r[1] == 6 && r[2] == 10 && r[3] == 4);
        dlk_release(out.result);
    }
    CHECK(allocated == 2 && freed == 2);
    allocator_fails = true;
    out.result = NULL;
    CHECK_INT(dlk_launch(NULL, op_of(NULL, "add"), in, 2, &out, 1, &params), DLK_ERR_MEMORY);
    CHECK(!out.result && strstr(dlk_last_error(), "none left"));
}

/* ---- Lists and dumps --------------------------------------------------------------------------------------------- */

TEST(operations_describe_themselves)
{
    int n = 0;
    CHECK_INT(dlk_op_list(NULL, NULL, 0, &n), DLK_OK);
    CHECK(n > 10);
    const dlk_op **ops = calloc((size_t)n, sizeof *ops);
    CHECK_INT(dlk_op_list(NULL, ops, n, &n), DLK_OK);
    const char *before = "";
    for (int i = 0; i < n; i++) {
        dlk_op_info info = {.size = sizeof info};
        CHECK_MSG(dlk_op_get_info(NULL, ops[i], &info) == DLK_OK, "%s", dlk_last_error());
        CHECK_MSG(strcmp(before, info.name) < 0, "%s before %s", before, info.name);
        CHECK_MSG(*info.signature && *info.formula && info.n_outputs > 0, "%s", info.name);
        CHECK_MSG(*info.documentation, "%s has no documentation", info.name);
        before = info.name;
    }
    free(ops);
    dlk_op_info info = {.size = sizeof info};
    CHECK_INT(dlk_op_get_info(NULL, op_of(NULL, "sum"), &info), DLK_OK);
    CHECK(info.kind == DLK_OP_REDUCTION && info.n_inputs == 1 && info.n_outputs == 1);
    CHECK(strstr(info.dtypes, "float32") && strstr(info.dtypes, "int8"));
    CHECK_INT(dlk_op_get_info(NULL, op_of(NULL, "add"), &info), DLK_OK);
    CHECK(info.kind == DLK_OP_MAP && info.n_inputs == 2);
    CHECK_INT(dlk_op_get_info(NULL, NULL, &info), DLK_ERR_INVALID);
    info.size = 0;
    CHECK_INT(dlk_op_get_info(NULL, op_of(NULL, "add"), &info), DLK_ERR_INVALID);
}

TEST(devices)
{
    dlk_device_info info[8];
    int n = 0;
    CHECK_INT(dlk_device_list(NULL, info, 8, &n), DLK_OK);
    CHECK(n >= 2);
    CHECK_STR(info[0].backend, "cpu");
    CHECK_STR(info[1].backend, "interp");
    CHECK(info[1].is_available && *info[1].description && *info[0].description);
    CHECK_INT(dlk_device_list(NULL, NULL, 8, &n), DLK_ERR_INVALID);
}

TEST(every_stage_can_be_dumped)
{
    static const char *const stages[] = {"signature", "plan", "prog", "ir", "source"};
    const DLTensor x = tensor(NULL, f32, 2, AXES(3, 5), NULL);
    const dlk_input in[1] = {dlk_input_tensor(&x)};
    const dlk_output out = {NULL, 0, NULL};
    char *text;
    for (int i = 0; i < 5; i++) {
        text = NULL;
        CHECK_MSG(dlk_dump(NULL, op_of(NULL, "sum"), in, 1, &out, 1, NULL, stages[i], &text) == DLK_OK, "%s",
                  dlk_last_error());
        CHECK_MSG(text && strlen(text) > 40, "%s", stages[i]);
        dlk_text_free(text);
    }
    CHECK_INT(dlk_dump(NULL, op_of(NULL, "sum"), in, 1, &out, 1, NULL, "nonsense", &text), DLK_ERR_NOT_FOUND);
    CHECK_INT(dlk_dump(NULL, op_of(NULL, "sum"), in, 1, &out, 1, NULL, NULL, &text), DLK_ERR_INVALID);
    dlk_text_free(NULL);
}

TEST(small_things)
{
    CHECK_INT(dlk_version(), DLK_VERSION_MAJOR * 1000000 + DLK_VERSION_MINOR * 1000 + DLK_VERSION_PATCH);
    dlk_counters c = {.size = 0};
    CHECK_INT(dlk_counters_get(NULL, &c), DLK_ERR_INVALID);
    c.size = 2 * sizeof(size_t); /* an older caller: only the fields that it knows are written */
    c.plan_hits = 12345;
    CHECK_INT(dlk_counters_get(NULL, &c), DLK_OK);
    CHECK_INT(c.plan_hits, 12345);
    CHECK_INT(dlk_counters_get(NULL, NULL), DLK_ERR_INVALID);
    CHECK_INT(dlk_context_create(NULL), DLK_ERR_INVALID);
    CHECK_INT(dlk_find(NULL, NULL, NULL), DLK_ERR_INVALID);
    CHECK_INT(dlk_define(NULL, NULL, NULL), DLK_ERR_INVALID);
}
