/* The edges of a program: operands decoded into values, the definition called, its results encoded. */
#include "kernels/build.h"

#include <string.h>

#include "codegen/dtype.h"
#include "kernels/eval.h"

/* ---- Scalars ------------------------------------------------------------------------------------------------------------------ */

static int add_scalar(dlk_eval *eval, dlk_scalar_source source, int index, dlk_scalar_kind kind)
{
    dlk_built *built = eval->built;
    built->scalars[built->n_scalars] =
        (dlk_build_scalar){.source = (uint8_t)source, .index = (uint8_t)index, .kind = (uint8_t)kind};
    return built->n_scalars++;
}

/* The weak value of scalar `number`. */
static dlk_value scalar_value(dlk_eval *eval, int number, dlk_scalar_kind kind)
{
    static const uint8_t dtypes[] = {DLK_DTYPE_NONE, DLK_DTYPE_BOOL, DLK_DTYPE_I64,
                                     DLK_DTYPE_U64,  DLK_DTYPE_F64,  DLK_DTYPE_C128};
    const bool is_float = kind == DLK_SCALAR_FLOAT || kind == DLK_SCALAR_COMPLEX;
    const dlk_ref re = dlk_prog_scalar(eval->prog, number, 0, is_float ? DLK_F64 : DLK_I64);
    const dlk_ref im = kind == DLK_SCALAR_COMPLEX ? dlk_prog_scalar(eval->prog, number, 1, DLK_F64) : DLK_NONE;
    dlk_value value = dlk_value_data(dtypes[kind], re, im);
    if (kind == DLK_SCALAR_BOOL)
        return dlk_value_convert(eval, NULL, dlk_value_data(DLK_DTYPE_I64, re, DLK_NONE), DLK_DTYPE_BOOL);
    value.is_weak = true;
    return value;
}

static dlk_value new_scalar(dlk_eval *eval, dlk_scalar_source source, int index, int kind)
{
    if (kind <= DLK_SCALAR_NONE || kind > DLK_SCALAR_COMPLEX)
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "scalar %d has kind %d, expected 1 to %d", index, kind,
                      DLK_SCALAR_COMPLEX);
    return scalar_value(eval, add_scalar(eval, source, index, kind), kind);
}

/* ---- Inputs --------------------------------------------------------------------------------------------------------------------- */

static dlk_value decode_operand(dlk_eval *eval, int operand, dlk_dtype dtype)
{
    dlk_ref part[2] = {DLK_NONE, DLK_NONE};
    for (int i = 0; i < dlk_dtypes[dtype].parts; i++)
        part[i] = dlk_prog_decode(eval->prog, dtype, dlk_prog_input(eval->prog, operand, i, dlk_dtypes[dtype].storage));
    return dlk_value_data(dtype, part[0], part[1]);
}

static dlk_value new_operand(dlk_eval *eval, dlk_dtype dtype)
{
    const int operand = eval->prog->n_inputs++;
    eval->prog->input_dtype[operand] = (uint8_t)dtype;
    return decode_operand(eval, operand, dtype);
}

/* NumPy's same-kind rule: bool, then unsigned, signed, float, complex; never back. */
static bool is_same_kind(dlk_dtype from, dlk_dtype to)
{
    static const uint8_t rank[] = {[DLK_CLASS_BOOL] = 0,
                                   [DLK_CLASS_UINT] = 1,
                                   [DLK_CLASS_INT] = 2,
                                   [DLK_CLASS_FLOAT] = 3,
                                   [DLK_CLASS_COMPLEX] = 4};
    return rank[dlk_dtypes[from].class_] <= rank[dlk_dtypes[to].class_];
}

/* dtype= is what is computed in: inputs become it first, unless the formula says itself where it goes, or wants a bool
 * there. */
static dlk_value to_asked_dtype(dlk_eval *eval, int index, dlk_value value)
{
    const dlk_dtype dtype = eval->request->dtype;
    const dlk_def *def = eval->op->overloads->defs[0];
    const bool wants_bool = def->params[index].type.classes == 1u << DLK_CLASS_BOOL;
    if (dtype == DLK_DTYPE_NONE || def->uses_dtype || wants_bool || value.is_weak)
        return value;
    if (!is_same_kind(value.dtype, dtype))
        dlk_eval_fail(eval, NULL, DLK_ERR_DTYPE,
                      "dtype is %s, but input %d ('%s') is %s, which has no same-kind cast to it; cast the input first",
                      dlk_dtypes[dtype].name, index, def->params[index].name, dlk_dtypes[value.dtype].name);
    return dlk_value_convert(eval, NULL, value, dtype);
}

static dlk_value input_value(dlk_eval *eval, int index)
{
    const uint8_t input = eval->request->input[index];
    if (input & DLK_BUILD_WEAK)
        return new_scalar(eval, DLK_FROM_INPUT, index, input & ~DLK_BUILD_WEAK);
    if (input >= DLK_DTYPE_COUNT)
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "input %d has dtype number %d, expected one below %d", index, input,
                      DLK_DTYPE_COUNT);
    return to_asked_dtype(eval, index, new_operand(eval, input));
}

/* Inputs and named scalars, in the order of the parameters; gives how many. */
static int launch_arguments(dlk_eval *eval, dlk_value *out)
{
    const dlk_op_version *op = eval->op;
    const dlk_build_request *request = eval->request;
    if (request->n_inputs != op->n_inputs)
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "found %d inputs, expected %d: %s", request->n_inputs, op->n_inputs,
                      op->signature);
    for (int i = 0; i < op->n_inputs; i++)
        out[i] = input_value(eval, i);
    for (int i = 0; i < op->n_parameters; i++) {
        const int given = request->parameter[i];
        const int kind = given == DLK_SCALAR_NONE ? (int)op->parameter_defaults[i].kind : given;
        if (kind == DLK_SCALAR_NONE)
            dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "the scalar '%s' is not given and has no default",
                          op->parameter_names[i]);
        out[op->n_inputs + i] = new_scalar(eval, DLK_FROM_PARAMETER, i, kind);
    }
    if (request->initial != DLK_SCALAR_NONE) {
        eval->has_initial = true;
        eval->initial = new_scalar(eval, DLK_FROM_INITIAL, 0, request->initial);
    }
    if (request->has_mask)
        eval->mask = new_operand(eval, DLK_DTYPE_BOOL).part[0];
    return op->n_inputs + op->n_parameters;
}

/* ---- Outputs -------------------------------------------------------------------------------------------------------------------- */

static void check_output_cast(dlk_eval *eval, int index, dlk_dtype from, dlk_dtype to, const char *what)
{
    if (!is_same_kind(from, to))
        dlk_eval_fail(eval, NULL, DLK_ERR_DTYPE, "output %d is %s, but %s is %s: no same-kind cast", index,
                      dlk_dtypes[from].name, what, dlk_dtypes[to].name);
}

static void encode_output(dlk_eval *eval, int index, dlk_value value)
{
    const dlk_build_request *request = eval->request;
    dlk_prog_output *output = &eval->prog->outputs[index];
    if (value.kind == DLK_VALUE_TUPLE)
        dlk_eval_fail(eval, NULL, DLK_ERR_SYNTAX, "result %d is a tuple, expected a number", index);
    value = dlk_value_settle(eval, NULL, value);
    if (request->dtype != DLK_DTYPE_NONE && value.dtype != request->dtype) {
        check_output_cast(eval, index, value.dtype, request->dtype, "dtype");
        value = dlk_value_convert(eval, NULL, value, request->dtype);
    }
    if (index < request->n_outputs && request->output[index] != DLK_DTYPE_NONE &&
        request->output[index] != value.dtype) {
        check_output_cast(eval, index, value.dtype, request->output[index], "the given tensor");
        value = dlk_value_convert(eval, NULL, value, request->output[index]);
    }
    const dlk_dtype_class source = dlk_dtypes[value.source].class_;
    *output = (dlk_prog_output){.part = {DLK_NONE, DLK_NONE}, .dtype = value.dtype};
    for (int i = 0; i < dlk_dtypes[value.dtype].parts; i++) {
        output->part[i] = dlk_prog_encode(eval->prog, value.dtype, value.part[i],
                                          source == DLK_CLASS_UINT || source == DLK_CLASS_BOOL, request->saturate);
        const uint8_t scope = eval->prog->nodes[output->part[i]].scope;
        output->scope = scope > output->scope ? scope : output->scope;
    }
}

static void encode_outputs(dlk_eval *eval, const dlk_value *result)
{
    const bool is_tuple = result->kind == DLK_VALUE_TUPLE;
    const int n = is_tuple ? result->n : 1, asked = eval->request->n_outputs;
    if (n > DLK_OPERANDS_MAX - eval->prog->n_inputs)
        dlk_eval_fail(eval, NULL, DLK_ERR_UNSUPPORTED, "%d inputs and %d outputs, expected at most %d together",
                      eval->prog->n_inputs, n, DLK_OPERANDS_MAX);
    if (asked && asked != n)
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "found %d outputs, expected %d", asked, n);
    eval->prog->n_outputs = n;
    for (int i = 0; i < n; i++)
        encode_output(eval, i, is_tuple ? result->items[i] : *result);
}

/* An initial value is for operations that are one reduction and nothing behind it. */
static void check_initial(dlk_eval *eval, const dlk_value *result)
{
    if (!eval->has_initial)
        return;
    if (eval->n_joined != 1 || result->kind != DLK_VALUE_DATA || result->part[0] != eval->joined.part[0] ||
        result->part[1] != eval->joined.part[1])
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "takes no initial value");
}

/* ---- What became of it ------------------------------------------------------------------------------------------------------------ */

static void describe_result(dlk_eval *eval)
{
    dlk_built *built = eval->built;
    const dlk_prog *prog = built->prog;
    bool has_full = false;
    for (int i = 0; i < prog->n_outputs; i++) {
        built->is_reduced[i] = eval->uses_reduction && prog->outputs[i].scope < DLK_SCOPE_ELEMENT;
        has_full |= !built->is_reduced[i];
    }
    built->kind = !eval->uses_reduction ? DLK_OP_MAP : has_full ? DLK_OP_ROW : DLK_OP_REDUCTION;
    for (int i = 0; i < prog->n_reduces; i++)
        if (prog->reduces[i].needs_elements)
            built->needs_elements = prog->reduces[i].name;
    if (built->kind == DLK_OP_REDUCTION && prog->n_reduces == 0)
        dlk_eval_fail(eval, NULL, DLK_ERR_UNSUPPORTED, "the result depends on no element of an input");
    if (!eval->uses_reduction && (eval->mask != DLK_NONE || eval->has_initial))
        dlk_eval_fail(eval, NULL, DLK_ERR_INVALID, "is no reduction: it takes neither where= nor initial=");
}

static void build(dlk_eval *eval)
{
    dlk_value *args = DLK_NEW_ARRAY(eval->arena, dlk_value, eval->op->n_inputs + eval->op->n_parameters);
    const int n = launch_arguments(eval, args);
    const dlk_value result = dlk_eval_call(eval, NULL, eval->op->overloads, args, n, NULL);
    check_initial(eval, &result);
    encode_outputs(eval, &result);
    if (eval->prog->n_nodes > DLK_BUILD_NODES_MAX)
        dlk_eval_fail(eval, NULL, DLK_ERR_SYNTAX, "the program has more than %d nodes", DLK_BUILD_NODES_MAX);
    eval->built->prog = dlk_prog_compact(eval->prog, eval->arena);
    describe_result(eval);
}

/* ---- Exported ------------------------------------------------------------------------------------------------------------------------ */

dlk_status dlk_build(const dlk_op_version *op, const dlk_build_request *request, dlk_arena *arena, dlk_built *out)
{
    jmp_buf *outer = arena->escape;
    arena->escape = NULL;
    dlk_eval *eval = dlk_arena_alloc(arena, sizeof *eval);
    arena->escape = outer;
    if (!eval)
        return dlk_fail(DLK_ERR_MEMORY, "%s: out of memory while building its program", op->name);
    dlk_built *built = memset(out, 0, sizeof *out);
    eval->arena = arena;
    eval->op = op;
    eval->request = request;
    eval->built = built;
    eval->mask = DLK_NONE;
    arena->escape = &eval->escape;
    if (setjmp(eval->escape) == 0) {
        eval->prog = dlk_prog_create(arena);
        build(eval);
    } else if (eval->status == DLK_OK) {
        eval->status = dlk_fail(DLK_ERR_MEMORY, "%s: out of memory while building its program", op->name);
    }
    arena->escape = outer;
    return eval->status;
}

void dlk_build_request_make(dlk_build_request *out)
{
    memset(out, 0, sizeof *out);
    memset(out->output, DLK_DTYPE_NONE, sizeof out->output);
    out->dtype = DLK_DTYPE_NONE;
}

static const char *scalar_name(const dlk_op_version *op, const dlk_build_scalar *scalar)
{
    if (scalar->source == DLK_FROM_INITIAL)
        return "initial";
    return scalar->source == DLK_FROM_INPUT ? op->input_names[scalar->index] : op->parameter_names[scalar->index];
}

/* value as sign and magnitude against the range of an integer dtype. */
static bool fits(dlk_dtype dtype, const dlk_scalar *value)
{
    const bool is_signed = dlk_dtypes[dtype].class_ == DLK_CLASS_INT;
    const uint64_t most = UINT64_MAX >> (64 - dlk_dtypes[dtype].bits + is_signed);
    if (value->kind != DLK_SCALAR_UINT && value->value.i < 0)
        return is_signed && value->value.i >= -(int64_t)most - 1;
    return value->value.u <= most;
}

dlk_status dlk_build_check_scalar(const dlk_op_version *op, const dlk_build_scalar *scalar, const dlk_scalar *value)
{
    for (int dtype = 0; dtype < DLK_DTYPE_COUNT; dtype++) {
        if (!(scalar->fits >> dtype & 1) || fits(dtype, value))
            continue;
        const char *name = scalar_name(op, scalar);
        if (value->kind == DLK_SCALAR_UINT)
            return dlk_fail(DLK_ERR_DTYPE, "%s: the scalar '%s' is %llu, which does not fit %s", op->name, name,
                            (unsigned long long)value->value.u, dlk_dtypes[dtype].name);
        return dlk_fail(DLK_ERR_DTYPE, "%s: the scalar '%s' is %lld, which does not fit %s", op->name, name,
                        (long long)value->value.i, dlk_dtypes[dtype].name);
    }
    return DLK_OK;
}
