/* Operations evaluated on a row of numbers without kernels: built to a program, which prog_eval.h runs. */
#ifndef DLK_TESTS_OP_EVAL_H
#define DLK_TESTS_OP_EVAL_H

#include "codegen/dtype.h"
#include "kernels/build.h"
#include "kernels/registry.h"
#include "tests/prog_eval.h"

typedef struct op_eval {
    dlk_registry *registry;
    dlk_arena arena;
    dlk_build_request request;
    dlk_built built;
    dlk_status status;
    prog_eval eval;
    const uint64_t *words[DLK_OPERANDS_MAX][2]; /* by operand and part: one for each element, or... */
    bool is_one[DLK_OPERANDS_MAX];              /* ... one for all of them */
    uint64_t scalars[DLK_SCALARS_MAX][2];
    int64_t n;
} op_eval;

static inline uint64_t op_eval_load(void *context, int operand, int part, int64_t element)
{
    const op_eval *o = context;
    return o->words[operand][part][o->is_one[operand] ? 0 : element];
}

/* Types with blanks between: "f32 f64"; "int", "uint", "float", "bool", "complex" with '~' before are weak: "i8 ~int". */
static inline void op_eval_types(dlk_build_request *request, const char *types)
{
    static const char *const weak[] = {"", "bool", "int", "uint", "float", "complex"};
    while (*types) {
        const size_t length = strcspn(types, " ");
        uint8_t *input = &request->input[request->n_inputs];
        if (length)
            request->n_inputs++;
        if (*types == '~') {
            for (int k = 1; k <= DLK_SCALAR_COMPLEX; k++)
                if (strlen(weak[k]) == length - 1 && memcmp(weak[k], types + 1, length - 1) == 0)
                    *input = (uint8_t)(DLK_BUILD_WEAK + k);
        } else if (length) {
            *input = (uint8_t)dlk_dtype_from_name(types, length);
        }
        types += length + (types[length] == ' ');
    }
}

/* Builds `op`: a name, or text when it has a parenthesis (its last operation). `change` may alter the request. */
static inline dlk_status op_eval_begin_with(op_eval *o, const char *op, const char *types,
                                            void (*change)(dlk_build_request *request))
{
    const dlk_op *found;
    memset(o, 0, sizeof *o);
    o->status = dlk_registry_create(&o->registry);
    if (o->status == DLK_OK)
        o->status =
            strchr(op, '(') ? dlk_registry_define(o->registry, op, &found) : dlk_registry_find(o->registry, op, &found);
    dlk_build_request_make(&o->request);
    op_eval_types(&o->request, types);
    if (change)
        change(&o->request);
    if (o->status == DLK_OK)
        o->status = dlk_build(dlk_op_get_version(found), &o->request, &o->arena, &o->built);
    return o->status;
}

static inline dlk_status op_eval_begin(op_eval *o, const char *op, const char *types)
{
    return op_eval_begin_with(o, op, types, NULL);
}

static inline void op_eval_end(op_eval *o)
{
    dlk_arena_free(&o->arena);
    dlk_registry_destroy(o->registry);
}

/* The word of output 0, part `part`, at `element` of a row of n elements. */
static inline uint64_t op_eval_word(op_eval *o, int part, int64_t n, int64_t element)
{
    prog_eval_begin(&o->eval, o->built.prog, op_eval_load, o, n);
    o->eval.scalars = (const uint64_t(*)[2])o->scalars;
    const uint64_t word = prog_eval_output(&o->eval, 0, part, element);
    prog_eval_end(&o->eval);
    return word;
}

/* ---- Words and numbers --------------------------------------------------------------------------------------------------- */

static inline uint64_t word_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline uint64_t word_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double f64_of(uint64_t word)
{
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static inline float f32_of(uint64_t word)
{
    const uint32_t bits = (uint32_t)word;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A map of up to three words. */
static inline uint64_t op_map(op_eval *o, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t words[3] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        o->words[i][0] = &words[i];
        o->is_one[i] = true;
    }
    return op_eval_word(o, 0, 1, 0);
}

#endif
