/* Plans, without the language: programs made by hand, planned over tensors of every layout, run by the interpreter and
 * compared with a loop. */
#include "tests/test.h"

#include "base/alloc.h"
#include "kernels/plan_shape.h"
#include "runtime/kernel.h"

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

static dlk_arena arena;

static dlk_prog *program(int n_inputs, int n_outputs)
{
    dlk_prog *prog = dlk_prog_create(&arena);
    prog->n_inputs = n_inputs;
    prog->n_outputs = n_outputs;
    for (int i = 0; i < n_inputs; i++)
        prog->input_dtype[i] = DLK_DTYPE_F32;
    return prog;
}

static void output(dlk_prog *prog, int k, dlk_ref value)
{
    prog->outputs[k] = (dlk_prog_output){{value, DLK_NONE}, DLK_DTYPE_F32, prog->nodes[value].scope};
}

static dlk_ref input(dlk_prog *prog, int i)
{
    return dlk_prog_input(prog, i, 0, DLK_F32);
}

static dlk_ref reduce(dlk_prog *prog, dlk_ref first, dlk_prim join, uint64_t identity, bool is_free)
{
    dlk_reduction r = {.n = 1, .has_identity = true, .is_free = is_free, .tree_kind = DLK_F32, .tree_parts = 1};
    r.kind[0] = DLK_F32;
    r.first[0] = first;
    r.left[0] = dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ROW);
    r.right[0] = dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ROW);
    r.merge[0] = dlk_prog_prim(prog, join, r.left[0], r.right[0], DLK_NONE);
    r.identity[0] = identity;
    r.name = "test";
    return dlk_prog_proj(prog, dlk_prog_reduce(prog, &r), 0, DLK_F32);
}
#define MINUS_ZERO     0x80000000u
#define MINUS_INFINITY 0xff800000u

static dlk_prog *add_program(void)
{
    dlk_prog *prog = program(2, 1);
    output(prog, 0, dlk_prog_prim(prog, DLK_PRIM_FADD, input(prog, 0), input(prog, 1), DLK_NONE));
    return prog;
}

static dlk_prog *sum_program(void)
{
    dlk_prog *prog = program(1, 1);
    output(prog, 0, reduce(prog, input(prog, 0), DLK_PRIM_FADD, MINUS_ZERO, false));
    return prog;
}

/* x - max(x), and the sum of that: of full and of reduced shape, in two levels. */
static dlk_prog *row_program(void)
{
    dlk_prog *prog = program(1, 2);
    const dlk_ref most = reduce(prog, input(prog, 0), DLK_PRIM_FMAX, MINUS_INFINITY, true);
    const dlk_ref below = dlk_prog_prim(prog, DLK_PRIM_FSUB, input(prog, 0), most, DLK_NONE);
    output(prog, 0, below);
    output(prog, 1, reduce(prog, below, DLK_PRIM_FADD, MINUS_ZERO, false));
    return prog;
}

/* The row-major index over the reduced axes, summed as floats: exact while small. */
static dlk_prog *index_program(void)
{
    dlk_prog *prog = program(1, 1);
    const dlk_ref index = dlk_prog_convert(prog, DLK_PRIM_SITOF, DLK_F32, dlk_prog_index(prog));
    output(prog, 0,
           reduce(prog, dlk_prog_prim(prog, DLK_PRIM_FMUL, index, input(prog, 0), DLK_NONE), DLK_PRIM_FADD, MINUS_ZERO,
                  false));
    return prog;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static float memory[4][200000];

typedef struct tensor {
    DLTensor t;
    int64_t shape[8], strides[8];
} tensor;

static dlk_view view_of(tensor *x)
{
    dlk_view view;
    x->t.shape = x->shape;
    x->t.strides = x->strides;
    CHECK_INT(dlk_view_make(&x->t, 0, (dlk_argument){"tensor", 0}, true, &view), DLK_OK);
    return view;
}

static tensor tensor_in(float *at, int ndim, const int64_t *shape, const int64_t *strides)
{
    tensor x = {.t = {.data = at, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = {kDLFloat, 32, 1}}};
    memcpy(x.shape, shape, sizeof *shape * (size_t)ndim);
    memcpy(x.strides, strides, sizeof *strides * (size_t)ndim);
    return x;
}

static void fill(void)
{
    uint32_t state = 12345;
    for (int m = 0; m < 4; m++)
        for (int i = 0; i < 200000; i++) {
            state = state * 1664525u + 1013904223u;
            memory[m][i] = (float)(int32_t)(state >> 20) / 16.0f - 100.0f;
        }
}

/* ---- Running a plan ---------------------------------------------------------------------------------------------- */

typedef struct asked {
    const int32_t *axes;
    int n_axes;
    bool keepdims;
    int threads;
    int64_t cache_bytes;
} asked;

static dlk_target target;
static dlk_launch_plan *plan;

static dlk_built built_of(const dlk_prog *prog)
{
    dlk_built built = {.prog = prog};
    for (int k = 0; k < prog->n_outputs; k++) {
        built.is_reduced[k] = prog->n_reduces && prog->outputs[k].scope != DLK_SCOPE_ELEMENT;
        if (prog->n_reduces)
            built.kind = built.is_reduced[k] && built.kind != DLK_OP_ROW ? DLK_OP_REDUCTION : DLK_OP_ROW;
    }
    return built;
}

static dlk_status make(const dlk_prog *prog, const dlk_view *inputs, const dlk_view *const *outputs, asked how)
{
    static const dlk_argument names[4] = {{"input", 0}, {"input", 1}, {"input", 2}, {"input", 3}};
    dlk_built *built = dlk_arena_copy(&arena, &(dlk_built){0}, sizeof *built);
    *built = built_of(prog);
    CHECK_INT(dlk_backend_interp.target(&target), DLK_OK);
    const dlk_plan_request request = {.operation = "test",
                                      .built = built,
                                      .inputs = inputs,
                                      .arguments = names,
                                      .n_inputs = prog->n_inputs,
                                      .outputs = outputs,
                                      .n_outputs = prog->n_outputs,
                                      .axes = how.axes,
                                      .n_axes = how.n_axes,
                                      .keepdims = how.keepdims,
                                      .backend = "interp",
                                      .target = &target,
                                      .threads = how.threads ? how.threads : 1,
                                      .cache_bytes = how.cache_bytes ? how.cache_bytes : INT64_MAX};
    return dlk_launch_plan_make(&request, &arena, &plan);
}

static uint64_t patched(const dlk_patch *patch, char *const *inputs, char *const *outputs, char *scratch)
{
    char *base = patch->source == DLK_PATCH_INPUT    ? inputs[patch->index]
                 : patch->source == DLK_PATCH_OUTPUT ? outputs[patch->index]
                                                     : scratch;
    return (uint64_t)(uintptr_t)base + (uint64_t)patch->offset;
}

static void run(char *const *inputs, char *const *outputs)
{
    dlk_kernel *kernels[16];
    CHECK(plan->n_steps <= 16);
    for (int i = 0; i < plan->n_steps; i++) {
        dlk_plan_step *step = &plan->steps[i];
        CHECK_MSG(dlk_kernel_create(&dlk_backend_interp, &step->signature, step->prog, &kernels[i]) == DLK_OK, "%s",
                  dlk_last_error());
        CHECK_INT(dlk_launch_plan_bind(plan, i, &kernels[i]->layout, &arena), DLK_OK);
    }
    char *scratch = aligned_alloc(64, (size_t)plan->scratch_bytes + 64);
    for (int i = 0; i < plan->n_steps; i++) {
        const dlk_plan_step *step = &plan->steps[i];
        for (int k = 0; k < step->n_patches; k++)
            step->arguments[step->patches[k].word] = patched(&step->patches[k], inputs, outputs, scratch);
        const dlk_call call = {step->arguments,
                               step->n_arguments,
                               step->n_buffers,
                               step->items,
                               step->n_outer,
                               step->outer_extents,
                               step->moving,
                               step->n_moving,
                               step->outer_moves,
                               step->outer_steps,
                               1,
                               NULL};
        CHECK_MSG(dlk_backend_interp.launch(kernels[i]->code, &call) == DLK_OK, "%s", dlk_last_error());
    }
    free(scratch);
    for (int i = 0; i < plan->n_steps; i++)
        dlk_kernel_release(kernels[i]);
}

/* ---- Maps -------------------------------------------------------------------------------------------------------- */

static float at(const tensor *x, const int64_t *index, int ndim)
{
    const float *p = (const float *)x->t.data;
    for (int i = 0; i < x->t.ndim; i++)
        p += x->shape[i] == 1 ? 0 : index[ndim - x->t.ndim + i] * x->strides[i];
    return *p;
}

static bool next(int64_t *index, const int64_t *shape, int ndim)
{
    for (int i = ndim - 1; i >= 0; i--) {
        if (++index[i] < shape[i])
            return true;
        index[i] = 0;
    }
    return false;
}

static void check_add(tensor x, tensor y, tensor *given)
{
    const dlk_view views[2] = {view_of(&x), view_of(&y)};
    dlk_view out_view;
    const dlk_view *outputs[1] = {NULL};
    if (given) {
        out_view = view_of(given);
        outputs[0] = &out_view;
    }
    const dlk_prog *prog = add_program();
    CHECK_MSG(make(prog, views, outputs, (asked){0}) == DLK_OK, "%s", dlk_last_error());
    const dlk_result *r = &plan->results[0];
    tensor out = tensor_in(memory[3] + 100, r->ndim, r->shape, r->strides);
    if (given)
        out = *given;
    float *expected = malloc(sizeof *expected * (size_t)(r->elements + 1));
    int64_t index[8] = {0}, n = 0;
    do
        expected[n++] = at(&x, index, r->ndim) + at(&y, index, r->ndim);
    while (r->elements && next(index, r->shape, r->ndim));
    char *const in[2] = {x.t.data, y.t.data}, *const to[1] = {out.t.data};
    run(in, to);
    int wrong = 0;
    n = 0;
    memset(index, 0, sizeof index);
    do
        wrong += at(&out, index, r->ndim) != expected[n++];
    while (r->elements && next(index, r->shape, r->ndim));
    CHECK_INT(wrong, 0);
    free(expected);
    dlk_arena_free(&arena);
}
#define AXES(...)               ((const int64_t[]){__VA_ARGS__})
#define X(ndim, shape, strides) tensor_in(memory[0] + 60000, (ndim), (shape), (strides))
#define Y(ndim, shape, strides) tensor_in(memory[1] + 60000, (ndim), (shape), (strides))

TEST(maps_of_every_layout)
{
    fill();
    check_add(X(1, AXES(1000), AXES(1)), Y(1, AXES(1000), AXES(1)), NULL);
    CHECK_INT(1, 1);
    check_add(X(0, AXES(1), AXES(1)), Y(0, AXES(1), AXES(1)), NULL);
    check_add(X(1, AXES(77), AXES(-1)), Y(1, AXES(77), AXES(2)), NULL);
    check_add(X(1, AXES(77), AXES(-3)), Y(1, AXES(77), AXES(-3)), NULL);
    check_add(X(2, AXES(30, 40), AXES(40, 1)), Y(2, AXES(30, 40), AXES(1, 30)), NULL);
    check_add(X(2, AXES(30, 1), AXES(1, 77)), Y(1, AXES(40), AXES(1)), NULL);
    check_add(X(3, AXES(3, 20, 11), AXES(220, 11, 1)), Y(3, AXES(3, 1, 11), AXES(11, 7, 1)), NULL);
    check_add(X(4, AXES(3, 4, 5, 6), AXES(1, 3, 12, 60)), Y(4, AXES(3, 4, 5, 6), AXES(120, 30, 6, 1)), NULL);
    check_add(X(4, AXES(3, 4, 5, 6), AXES(1, 3, 12, 60)), Y(4, AXES(3, 4, 5, 6), AXES(1, 3, 12, 60)), NULL);
    check_add(X(5, AXES(2, 3, 2, 3, 2), AXES(-500, 50, -20, 3, 1)), Y(1, AXES(2), AXES(0)), NULL);
}

TEST(contiguous_axes_are_one)
{
    tensor x = X(4, AXES(3, 4, 5, 6), AXES(1, 3, 12, 60)), y = x;
    const dlk_view views[2] = {view_of(&x), view_of(&y)};
    const dlk_view *outputs[1] = {NULL};
    CHECK_INT(make(add_program(), views, outputs, (asked){0}), DLK_OK);
    CHECK_INT(plan->n_steps, 1);
    CHECK_INT(plan->steps[0].shape->n_outer, 0);
    CHECK_INT(plan->steps[0].shape->axis[0].extent, 1);
    CHECK_INT(plan->steps[0].shape->axis[1].extent, 360);
    CHECK_INT(plan->results[0].strides[0], 1); /* the inputs' order */
    CHECK_INT(plan->results[0].strides[3], 60);
    CHECK_INT(plan->steps[0].signature.nest.operand[0].stride[1], DLK_STRIDE_UNIT);
    dlk_arena_free(&arena);
}

TEST(given_outputs_and_overlap)
{
    tensor out = tensor_in(memory[2] + 1000, 2, AXES(30, 40), AXES(-41, 1));
    out.t.data = memory[2] + 5000;
    check_add(X(2, AXES(30, 40), AXES(40, 1)), Y(2, AXES(30, 40), AXES(1, 30)), &out);
    tensor x = X(1, AXES(1000), AXES(1)), same = x, shifted = x, reversed = x;
    check_add(x, Y(1, AXES(1000), AXES(1)), &same);
    shifted.t.data = (float *)x.t.data + 1;
    check_add(x, Y(1, AXES(1000), AXES(1)), &shifted);
    shifted.t.data = (float *)x.t.data - 1;
    check_add(x, Y(1, AXES(1000), AXES(1)), &shifted);
    reversed.strides[0] = -1;
    reversed.t.data = (float *)x.t.data + 999;
    check_add(x, Y(1, AXES(1000), AXES(1)), &reversed);
    tensor square = X(2, AXES(50, 50), AXES(50, 1)), transposed = X(2, AXES(50, 50), AXES(1, 50)), into = square;
    check_add(square, transposed, &into);
}

TEST(exact_aliases_need_no_temporary)
{
    tensor x = X(1, AXES(1000), AXES(1)), y = Y(1, AXES(1000), AXES(1));
    const dlk_view views[2] = {view_of(&x), view_of(&y)};
    const dlk_view *outputs[1] = {&views[0]};
    CHECK_INT(make(add_program(), views, outputs, (asked){0}), DLK_OK);
    CHECK(!plan->results[0].is_temporary);
    CHECK_INT(plan->steps[0].signature.nest.operand[2].is_exact_alias, 1);
    CHECK_INT(plan->steps[0].signature.nest.is_disjoint, 0);
    y.t.data = (float *)x.t.data + 1;
    const dlk_view shifted[2] = {view_of(&x), view_of(&y)};
    CHECK_INT(make(add_program(), shifted, outputs, (asked){0}), DLK_OK);
    CHECK(plan->results[0].is_temporary);
    CHECK_INT(plan->n_steps, 2);
    CHECK_INT(plan->steps[0].signature.nest.is_disjoint, 1);
    dlk_arena_free(&arena);
}

TEST(outputs_past_the_cache)
{
    tensor x = X(1, AXES(1000), AXES(1)), y = Y(1, AXES(1000), AXES(1));
    const dlk_view views[2] = {view_of(&x), view_of(&y)};
    const dlk_view *outputs[1] = {NULL};
    CHECK_INT(make(add_program(), views, outputs, (asked){.cache_bytes = 3999}), DLK_OK);
    CHECK_INT(plan->steps[0].signature.nest.is_nontemporal, 1);
    CHECK_INT(make(add_program(), views, outputs, (asked){.cache_bytes = 4000}), DLK_OK);
    CHECK_INT(plan->steps[0].signature.nest.is_nontemporal, 0);
    dlk_arena_free(&arena);
}

TEST(wrong_outputs)
{
    tensor x = X(2, AXES(3, 4), AXES(4, 1)), y = Y(1, AXES(4), AXES(1));
    tensor wide = tensor_in(memory[2], 3, AXES(1, 3, 4), AXES(12, 4, 1)),
           narrow = tensor_in(memory[2], 1, AXES(4), AXES(1));
    const dlk_view views[2] = {view_of(&x), view_of(&y)};
    const dlk_view wide_view = view_of(&wide), narrow_view = view_of(&narrow);
    const dlk_view *outputs[1] = {&wide_view};
    CHECK_INT(make(add_program(), views, outputs, (asked){0}), DLK_ERR_SHAPE);
    CHECK_STR(dlk_last_error(), "output 0: shape is [1,3,4]; expected [3,4]");
    outputs[0] = &narrow_view;
    CHECK_INT(make(add_program(), views, outputs, (asked){0}), DLK_ERR_SHAPE);
    const int32_t axes[1] = {0};
    outputs[0] = NULL;
    CHECK_INT(make(add_program(), views, outputs, (asked){.axes = axes, .n_axes = 1}), DLK_ERR_INVALID);
    CHECK(strstr(dlk_last_error(), "reduces none"));
    tensor bad = Y(1, AXES(5), AXES(1));
    const dlk_view unfit[2] = {view_of(&x), view_of(&bad)};
    CHECK_INT(make(add_program(), unfit, outputs, (asked){0}), DLK_ERR_SHAPE);
    CHECK(strstr(dlk_last_error(), "input 1: shape [5] does not broadcast with [3,4]"));
    dlk_arena_free(&arena);
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

static bool is_reduced(int axis, const int32_t *axes, int n)
{
    for (int i = 0; i < n; i++)
        if (axes[i] == axis)
            return true;
    return false;
}

/* In double; the data are multiples of 1/16 below 2^9, so that float sums of a few thousand are exact too. */
static double reduced(const tensor *x, const int64_t *at_result, const int32_t *axes, int n, bool by_index)
{
    const int ndim = x->t.ndim;
    int64_t extent[8], index[8] = {0}, full[8];
    for (int i = 0; i < ndim; i++)
        extent[i] = is_reduced(i, axes, n) ? x->shape[i] : 1;
    double sum = 0;
    int64_t number = 0;
    do {
        for (int i = 0; i < ndim; i++)
            full[i] = is_reduced(i, axes, n) ? index[i] : at_result[i];
        sum += (double)at(x, full, ndim) * (by_index ? (double)number : 1.0);
        number++;
    } while (next(index, extent, ndim));
    return sum;
}

static void check_reduce(const dlk_prog *prog, tensor x, const int32_t *axes, int n, int threads, bool by_index)
{
    const dlk_view view = view_of(&x);
    const dlk_view *outputs[1] = {NULL};
    CHECK_MSG(make(prog, &view, outputs, (asked){axes, n, true, threads, 0}) == DLK_OK, "%s", dlk_last_error());
    const dlk_result *r = &plan->results[0];
    tensor out = tensor_in(memory[3] + 100, r->ndim, r->shape, r->strides);
    char *const in[1] = {x.t.data}, *const to[1] = {out.t.data};
    run(in, to);
    int64_t index[8] = {0};
    int wrong = 0;
    do
        wrong += at(&out, index, r->ndim) != (float)reduced(&x, index, axes, n, by_index);
    while (next(index, r->shape, r->ndim));
    CHECK_MSG(wrong == 0, "%d wrong of %lld, %d axes, %d threads, %d steps", wrong, (long long)r->elements, n, threads,
              plan->n_steps);
    dlk_arena_free(&arena);
}

TEST(sums_over_every_set_of_axes)
{
    fill();
    for (int set = 0; set < 16; set++) {
        int32_t axes[4];
        int n = 0;
        for (int i = 0; i < 4; i++)
            if (set & 1 << i)
                axes[n++] = i;
        check_reduce(sum_program(), X(4, AXES(3, 4, 5, 7), AXES(140, 35, 7, 1)), axes, n, 1, false);
        check_reduce(sum_program(), X(4, AXES(3, 4, 5, 7), AXES(1, 3, 12, 60)), axes, n, 1, false);
        check_reduce(sum_program(), X(4, AXES(3, 4, 5, 7), AXES(300, -70, 9, -1)), axes, n, 1, false);
        check_reduce(sum_program(), X(4, AXES(3, 1, 5, 7), AXES(0, 3, -40, 2)), axes, n, 1, false);
    }
}

TEST(sums_shared_by_threads)
{
    const int32_t first[1] = {0}, last[1] = {1}, both[2] = {0, 1};
    for (int i = 0; i < 200000; i++)
        memory[0][i] = (float)(i % 3 - 1);
    tensor x = tensor_in(memory[0], 2, AXES(2, 70000), AXES(70000, 1));
    check_reduce(sum_program(), x, last, 1, 4, false);
    x.strides[0] = 1, x.strides[1] = 2;
    check_reduce(sum_program(), x, last, 1, 4, false);
    check_reduce(sum_program(), x, both, 2, 4, false);
    x = tensor_in(memory[0], 2, AXES(66000, 2), AXES(3, 1));
    check_reduce(sum_program(), x, first, 1, 4, false);
    check_reduce(sum_program(), x, both, 2, 4, false);
}

TEST(runs_have_a_step_of_their_own)
{
    tensor x = tensor_in(memory[0], 1, AXES(100000), AXES(1));
    const dlk_view view = view_of(&x);
    const dlk_view *outputs[1] = {NULL};
    const int32_t axes[1] = {0};
    CHECK_INT(make(sum_program(), &view, outputs, (asked){axes, 1, false, 4, 0}), DLK_OK);
    CHECK_INT(plan->n_steps, 2);
    CHECK_INT(plan->steps[0].signature.nest.has_runs, 1);
    CHECK_INT(plan->steps[1].signature.nest.from, DLK_FROM_LEAVES);
    CHECK_INT(make(sum_program(), &view, outputs, (asked){axes, 1, false, 1, 0}), DLK_OK);
    CHECK_INT(plan->n_steps, 1);
    dlk_arena_free(&arena);
}

TEST(the_index_runs_row_major_over_the_reduced_axes)
{
    for (int i = 0; i < 200000; i++)
        memory[0][i] = (float)(i % 7 - 3);
    for (int set = 1; set < 8; set++) {
        int32_t axes[3];
        int n = 0;
        for (int i = 0; i < 3; i++)
            if (set & 1 << i)
                axes[n++] = i;
        check_reduce(index_program(), X(3, AXES(4, 5, 6), AXES(30, 6, 1)), axes, n, 1, true);
        check_reduce(index_program(), X(3, AXES(4, 5, 6), AXES(1, 4, 20)), axes, n, 1, true);
        check_reduce(index_program(), X(3, AXES(4, 5, 6), AXES(6, -24, 1)), axes, n, 1, true);
    }
}

TEST(sums_of_nothing)
{
    tensor x = X(3, AXES(3, 0, 4), AXES(0, 4, 1));
    x.t.data = NULL;
    const dlk_view view = view_of(&x);
    const dlk_view *outputs[1] = {NULL};
    const int32_t axes[1] = {1};
    CHECK_INT(make(sum_program(), &view, outputs, (asked){axes, 1, false, 1, 0}), DLK_OK);
    CHECK_INT(plan->results[0].elements, 12);
    char *const in[1] = {NULL}, *const to[1] = {(char *)memory[3]};
    memory[3][0] = memory[3][11] = 5;
    run(in, to);
    CHECK(memory[3][0] == 0 && memory[3][11] == 0);
    const int32_t other[1] = {0};
    CHECK_INT(make(sum_program(), &view, outputs, (asked){other, 1, false, 1, 0}), DLK_OK);
    CHECK_INT(plan->results[0].elements, 0);
    CHECK_INT(plan->n_steps, 0);
    dlk_arena_free(&arena);
}

TEST(wrong_axes)
{
    tensor x = X(2, AXES(3, 4), AXES(4, 1));
    const dlk_view view = view_of(&x);
    const dlk_view *outputs[1] = {NULL};
    const int32_t high[1] = {2}, low[1] = {-3}, twice[2] = {1, -1};
    CHECK_INT(make(sum_program(), &view, outputs, (asked){high, 1, false, 1, 0}), DLK_ERR_INVALID);
    CHECK_STR(dlk_last_error(), "axes: 2 is not an axis of shape [3,4]; expected -2 to 1");
    CHECK_INT(make(sum_program(), &view, outputs, (asked){low, 1, false, 1, 0}), DLK_ERR_INVALID);
    CHECK_INT(make(sum_program(), &view, outputs, (asked){twice, 2, false, 1, 0}), DLK_ERR_INVALID);
    CHECK_STR(dlk_last_error(), "axes: axis 1 is given twice");
    dlk_arena_free(&arena);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static float most_of(const tensor *x, const int64_t *at_result, const int32_t *axes, int n)
{
    const int ndim = x->t.ndim;
    int64_t extent[8], index[8] = {0}, full[8];
    float most = -INFINITY;
    for (int i = 0; i < ndim; i++)
        extent[i] = is_reduced(i, axes, n) ? x->shape[i] : 1;
    do {
        for (int i = 0; i < ndim; i++)
            full[i] = is_reduced(i, axes, n) ? index[i] : at_result[i];
        most = fmaxf(most, at(x, full, ndim));
    } while (next(index, extent, ndim));
    return most;
}

static int check_row(tensor x, const int32_t *axes, int n, int threads)
{
    const dlk_view view = view_of(&x);
    const dlk_view *outputs[2] = {NULL, NULL};
    CHECK_MSG(make(row_program(), &view, outputs, (asked){axes, n, false, threads, 0}) == DLK_OK, "%s",
              dlk_last_error());
    const dlk_result *full = &plan->results[0], *sums = &plan->results[1];
    CHECK_INT(sums->ndim, x.t.ndim - n);
    tensor out = tensor_in(memory[3] + 100, full->ndim, full->shape, full->strides);
    tensor sum = tensor_in(memory[2] + 100, sums->ndim, sums->shape, sums->strides);
    char *const in[1] = {x.t.data}, *const to[2] = {out.t.data, sum.t.data};
    run(in, to);
    int64_t index[8] = {0};
    int wrong = 0;
    do {
        const float most = most_of(&x, index, axes, n);
        int64_t kept[8], row[8];
        int m = 0;
        double expected = 0;
        for (int i = 0; i < x.t.ndim; i++)
            if (!is_reduced(i, axes, n))
                kept[m++] = index[i];
        wrong += at(&out, index, full->ndim) != at(&x, index, x.t.ndim) - most;
        memcpy(row, index, sizeof row);
        expected = reduced(&x, row, axes, n, false);
        int64_t count = 1;
        for (int i = 0; i < n; i++)
            count *= x.shape[axes[i]];
        wrong += at(&sum, kept, m) != (float)(expected - (double)most * (double)count);
    } while (next(index, full->shape, full->ndim));
    CHECK_MSG(wrong == 0, "%d wrong, %d axes, %d steps", wrong, n, plan->n_steps);
    const int steps = plan->n_steps;
    dlk_arena_free(&arena);
    return steps;
}

TEST(rows)
{
    fill();
    const int32_t last[1] = {2}, middle[1] = {1}, outer[2] = {0, 2}, inner[2] = {1, 2}, all[3] = {0, 1, 2};
    const tensor x = X(3, AXES(4, 5, 37), AXES(185, 37, 1));
    CHECK_INT(check_row(x, last, 1, 1), 1);
    CHECK_INT(check_row(x, middle, 1, 1), 1);
    CHECK_INT(check_row(x, inner, 2, 1), 1);
    CHECK_INT(check_row(x, all, 3, 1), 1);
    CHECK(check_row(x, outer, 2, 1) > 3); /* axes that do not merge: cut into reductions and maps */
    CHECK(check_row(X(3, AXES(4, 5, 37), AXES(400, 40, 1)), inner, 2, 1) > 3);
}

TEST(nothing_stays_allocated)
{
    CHECK_INT(dlk_alloc_live(), 0);
}
