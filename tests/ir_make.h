/* Small IR functions for tests: targets, random numbers, elementwise functions over arrays, and running them. */
#ifndef DLK_TESTS_IR_MAKE_H
#define DLK_TESTS_IR_MAKE_H

#include "codegen/interpret.h"
#include "codegen/schedule.h"

#include "tests/test.h"

static uint64_t random_state = 0x9E3779B97F4A7C15ull;
static inline uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}
static inline int random_below(int n)
{
    return (int)(random_bits() >> 33) % n;
}

/* A CPU with nothing but what every one has. */
static inline dlk_target plain_target(void)
{
    return (dlk_target){.name = "plain",
                        .family = DLK_TARGET_CPU,
                        .vector_bytes = 16,
                        .registers = 16,
                        .subgroup = 1,
                        .index_bits = 64,
                        .has_f64 = 1,
                        .has_i64 = 1};
}
static inline dlk_target rich_target(void)
{
    dlk_target target = plain_target();
    snprintf(target.name, sizeof target.name, "rich");
    target.fast_fma = target.has_fma = target.has_f16c = 1;
    target.masked_bytes = 1 | 2 | 4 | 8;
    return target;
}

static inline dlk_type type_make(dlk_kind kind, int lanes)
{
    return (dlk_type){(uint8_t)kind, (uint8_t)lanes};
}
static inline dlk_val prim2(dlk_func *func, dlk_prim prim, dlk_val a, dlk_val b)
{
    return dlk_ir_prim(func, prim, a, b, DLK_NONE);
}
static inline int input_buffer(dlk_func *func, int index)
{
    return dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_INPUT, (uint8_t)index}, false);
}
static inline int output_buffer(dlk_func *func, int index)
{
    return dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_OUTPUT, (uint8_t)index}, true);
}
static inline dlk_mem mem_at(int buffer, dlk_val offset)
{
    return (dlk_mem){buffer, offset, DLK_STEP_UNIT, DLK_NONE, DLK_NONE, 1, false};
}
/* The byte offset of the item's `lanes` elements in a dense array. */
static inline dlk_val item_offset(dlk_func *func, int64_t bytes)
{
    return prim2(func, DLK_PRIM_MUL, dlk_ir_item(func, 0), dlk_ir_i64(func, bytes));
}
/* The item's vector of input `index`; a predicate is the lowest bit of a byte. */
static inline dlk_val load_item(dlk_func *func, int index, dlk_kind kind, int lanes)
{
    const dlk_kind stored = kind == DLK_P1 ? DLK_I8 : kind;
    const dlk_val offset = item_offset(func, (int64_t)lanes * dlk_kind_bytes(stored));
    const dlk_val value = dlk_ir_load(func, type_make(stored, lanes), mem_at(input_buffer(func, index), offset));
    return kind == DLK_P1 ? dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_P1, value) : value;
}
static inline void store_item(dlk_func *func, int index, dlk_val value)
{
    if (dlk_val_type(func, value).kind == DLK_P1)
        value = dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I8, value);
    const dlk_type type = dlk_val_type(func, value);
    const dlk_val offset = item_offset(func, (int64_t)type.lanes * dlk_kind_bytes((dlk_kind)type.kind));
    dlk_ir_store(func, value, mem_at(output_buffer(func, index), offset));
}

/* output = prim(inputs), `lanes` elements an item. Buffers: inputs 0 to 2, then the output, all declared. */
static inline dlk_func *prim_func(dlk_arena *arena, const dlk_target *target, dlk_prim prim, dlk_kind from, dlk_kind to,
                                  int lanes)
{
    dlk_func *func = dlk_func_create(arena, target);
    dlk_val v[3] = {DLK_NONE, DLK_NONE, DLK_NONE};
    for (int k = 0; k < 3; k++)
        input_buffer(func, k);
    for (int k = 0; k < dlk_prims[prim].arity; k++)
        v[k] = load_item(func, k, prim == DLK_PRIM_SELECT && k == 0 ? DLK_P1 : from, lanes);
    store_item(func, 0,
               dlk_prims[prim].result == 'T' ? dlk_ir_convert(func, prim, to, v[0])
                                             : dlk_ir_prim(func, prim, v[0], v[1], v[2]));
    return func;
}

/* Runs items [0, items) with the addresses of the GLOBAL buffers in order. */
static inline dlk_status run_func(const dlk_func *func, int64_t items, void *const *buffers, int n)
{
    uint64_t arguments[16] = {0};
    for (int k = 0; k < n; k++)
        arguments[k] = (uint64_t)(uintptr_t)buffers[k];
    return dlk_interpret(func, arguments, 0, items);
}
static inline void run_checked(const dlk_func *func, int64_t items, void *const *buffers, int n)
{
    const dlk_status verified = dlk_ir_verify(func);
    CHECK_MSG(verified == DLK_OK, "%s", dlk_last_error());
    if (verified != DLK_OK)
        return;
    const dlk_status status = run_func(func, items, buffers, n);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
}
static inline void pass_checked(dlk_func *func)
{
    const dlk_status status = dlk_passes_run(func);
    CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
}

static inline int count_nodes(const dlk_func *func, dlk_ir_op op, int prim)
{
    int n = 0;
    for (dlk_val v = 0; v < func->n_nodes; v++)
        n += func->nodes[v].op == op && (op != DLK_IR_PRIM || func->nodes[v].prim == prim);
    return n;
}

static inline bool is_nan_bits(dlk_kind kind, uint64_t bits)
{
    if (kind == DLK_F32)
        return (bits & 0x7fffffff) > 0x7f800000;
    return kind == DLK_F64 && (bits & ~(1ull << 63)) > 0x7ffull << 52;
}
static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
