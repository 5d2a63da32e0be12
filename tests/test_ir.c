/* Builders (what they fold and what they must not), the text of a function, and every complaint of the verifier. */
#include "tests/ir_make.h"

static const dlk_type i64x1 = {DLK_I64, 1}, i32x4 = {DLK_I32, 4}, f32x4 = {DLK_F32, 4};

typedef struct fixture {
    dlk_arena arena;
    dlk_target target;
    dlk_func *func;
} fixture;

static dlk_func *begin(fixture *f)
{
    *f = (fixture){.target = rich_target()};
    return f->func = dlk_func_create(&f->arena, &f->target);
}
static void end(fixture *f)
{
    dlk_arena_free(&f->arena);
}

/* ---- Builders ---- */

static bool is_const(const dlk_func *func, dlk_val value, uint64_t bits)
{
    return func->nodes[value].op == DLK_IR_CONST && (uint64_t)func->nodes[value].imm == bits;
}

static bool is_prim(const dlk_func *func, dlk_val value)
{
    return func->nodes[value].op == DLK_IR_PRIM;
}

TEST(constants_fold)
{
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_val two = dlk_ir_const(func, i32x4, 2), minus = dlk_ir_const(func, i32x4, ~0ull);
    CHECK(is_const(func, minus, 0xffffffff));
    CHECK(is_const(func, prim2(func, DLK_PRIM_ADD, two, minus), 1));
    CHECK(is_const(func, prim2(func, DLK_PRIM_SLT, minus, two), 1));
    CHECK(is_const(func, dlk_ir_convert(func, DLK_PRIM_SEXT, DLK_I64, minus), ~0ull));
    CHECK(is_const(func, dlk_ir_convert(func, DLK_PRIM_SITOF, DLK_F32, two), 0x40000000));
    CHECK(is_const(func, dlk_ir_splat(func, dlk_ir_i64(func, -3), 8), (uint64_t)-3));
    CHECK(is_const(func, dlk_ir_extract(func, two, 3), 2));
    CHECK(is_const(func, dlk_ir_iota(func, i64x1), 0));
    CHECK(is_const(func, dlk_ir_any(func, dlk_ir_const(func, type_make(DLK_P1, 4), 1)), 1));
    CHECK_INT(dlk_val_type(func, prim2(func, DLK_PRIM_EQ, two, two)).kind, DLK_P1);
    end(&f);
}

TEST(mad_folds_as_the_target_rounds)
{
    const uint64_t a = bits_of(0x1.0000001p0), c = bits_of(-0x1.0000002p0);
    for (int fused = 0; fused < 2; fused++) {
        fixture f;
        dlk_func *func = begin(&f);
        f.target.fast_fma = (uint8_t)fused;
        const dlk_type type = {DLK_F64, 1};
        const dlk_val x = dlk_ir_const(func, type, a), z = dlk_ir_const(func, type, c);
        CHECK(is_const(func, dlk_ir_prim(func, DLK_PRIM_MAD, x, x, z), bits_of(fused ? 0x1p-56 : 0)));
        CHECK(is_const(func, dlk_ir_prim(func, DLK_PRIM_FMA, x, x, z), bits_of(0x1p-56)));
        end(&f);
    }
}

TEST(integer_identities)
{
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_val x = dlk_ir_load(func, i32x4, mem_at(input_buffer(func, 0), dlk_ir_i64(func, 0)));
    const dlk_val zero = dlk_ir_const(func, i32x4, 0), one = dlk_ir_const(func, i32x4, 1),
                  ones = dlk_ir_const(func, i32x4, 0xffffffff);
    const struct {
        dlk_prim prim;
        dlk_val a, b, result;
    } rows[] = {
        {DLK_PRIM_ADD, x, zero, x},    {DLK_PRIM_ADD, zero, x, x},  {DLK_PRIM_SUB, x, zero, x},
        {DLK_PRIM_MUL, x, one, x},     {DLK_PRIM_MUL, one, x, x},   {DLK_PRIM_MUL, x, zero, zero},
        {DLK_PRIM_MUL, zero, x, zero}, {DLK_PRIM_AND, x, x, x},     {DLK_PRIM_AND, x, ones, x},
        {DLK_PRIM_AND, zero, x, zero}, {DLK_PRIM_OR, x, zero, x},   {DLK_PRIM_OR, ones, x, ones},
        {DLK_PRIM_SHL, x, zero, x},    {DLK_PRIM_LSHR, x, zero, x}, {DLK_PRIM_ASHR, x, zero, x},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        CHECK_INT(prim2(func, rows[k].prim, rows[k].a, rows[k].b), rows[k].result);
    const dlk_val p = prim2(func, DLK_PRIM_SLT, x, one), yes = dlk_ir_const(func, type_make(DLK_P1, 4), 1);
    CHECK_INT(dlk_ir_prim(func, DLK_PRIM_SELECT, p, x, x), x);
    CHECK_INT(dlk_ir_prim(func, DLK_PRIM_SELECT, yes, x, one), x);
    CHECK(prim2(func, DLK_PRIM_SUB, zero, x) != x);
    CHECK_INT(dlk_ir_convert(func, DLK_PRIM_BITCAST, DLK_I32, x), x);
    end(&f);
}

/* x + 0.0 is not x for -0, x * 1 not for a signalling NaN. */
TEST(floats_are_left_alone)
{
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_val x = dlk_ir_load(func, f32x4, mem_at(input_buffer(func, 0), dlk_ir_i64(func, 0)));
    const dlk_val zero = dlk_ir_const(func, f32x4, 0), one = dlk_ir_const(func, f32x4, 0x3f800000);
    CHECK(is_prim(func, prim2(func, DLK_PRIM_FADD, x, zero)));
    CHECK(is_prim(func, prim2(func, DLK_PRIM_FSUB, x, x)));
    CHECK(is_prim(func, prim2(func, DLK_PRIM_FMUL, x, zero)));
    CHECK(is_prim(func, prim2(func, DLK_PRIM_FMUL, x, one)));
    CHECK(is_prim(func, prim2(func, DLK_PRIM_FMAX, x, x)));
    end(&f);
}

TEST(shapes_fold)
{
    static const int8_t same[4] = {0, 1, 2, 3}, swap[4] = {1, 0, 3, 2};
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_val x = dlk_ir_load(func, i32x4, mem_at(input_buffer(func, 0), dlk_ir_i64(func, 0)));
    const dlk_val one = dlk_ir_extract(func, x, 2), wide = dlk_ir_splat(func, one, 8);
    CHECK_INT(dlk_ir_perm(func, x, DLK_NONE, same, 4), x);
    CHECK(dlk_ir_perm(func, x, DLK_NONE, swap, 4) != x);
    CHECK_INT(dlk_ir_splat(func, one, 1), one);
    CHECK_INT(dlk_ir_extract(func, wide, 5), one);
    CHECK_INT(dlk_ir_extract(func, one, 0), one);
    CHECK_INT(dlk_val_type(func, wide).lanes, 8);
    end(&f);
}

TEST(what_is_found_is_not_added)
{
    static const uint64_t ones[2] = {1, 1}, twos[2] = {2, 2};
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_uniform extent = {.role = DLK_UNIFORM_EXTENT, .kind = DLK_I64},
                      other = {.role = DLK_UNIFORM_EXTENT, .kind = DLK_I64, .axis = 1};
    const dlk_val outside = dlk_func_uniform(func, extent);
    const dlk_val branch = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, outside, dlk_ir_i64(func, 5)), false);
    CHECK_INT(dlk_func_uniform(func, extent), outside);
    const dlk_val second = dlk_func_uniform(func, other); /* made in the arm, but for the whole body */
    dlk_ir_if_else(func, branch, &second, 1);
    dlk_ir_if_end(func, branch, &outside);
    store_item(func, 0, prim2(func, DLK_PRIM_ADD, second, dlk_ir_result(func, branch, 0)));
    CHECK_INT(dlk_ir_verify(func), DLK_OK);
    CHECK_INT(func->n_uniforms, 2);
    CHECK_INT(input_buffer(func, 3), input_buffer(func, 3));
    CHECK(input_buffer(func, 3) != input_buffer(func, 4));
    CHECK_INT(dlk_func_table(func, DLK_I32, ones, 2), dlk_func_table(func, DLK_I32, ones, 2));
    CHECK(dlk_func_table(func, DLK_I32, ones, 2) != dlk_func_table(func, DLK_I32, twos, 2));
    CHECK(dlk_func_table(func, DLK_I32, ones, 2) != dlk_func_table(func, DLK_I64, ones, 2));
    end(&f);
}

/* ---- Text ---- */

TEST(text)
{
    fixture f;
    dlk_func *func = begin(&f);
    const int out = output_buffer(func, 0);
    const int local = dlk_func_local(func, DLK_SPACE_SHARED, DLK_F32, 64);
    const dlk_val n = dlk_func_uniform(func, (dlk_uniform){.role = DLK_UNIFORM_EXTENT, .kind = DLK_I64, .axis = 1});
    func->threads = 64;
    func->subgroup = 8;
    const dlk_val zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1), start = dlk_ir_const(func, f32x4, 0x3f800000);
    dlk_mem mem = mem_at(local, zero);
    mem.count = n;
    const dlk_val loop = dlk_ir_loop_begin(func, zero, n, one, &start, 1);
    const dlk_val next = prim2(func, DLK_PRIM_FADD, dlk_ir_loop_carried(func, loop, 0), dlk_ir_load(func, f32x4, mem));
    dlk_ir_loop_end(func, loop, &next, DLK_NONE);
    dlk_ir_barrier(func);
    dlk_ir_store(func, dlk_ir_shfl_xor(func, dlk_ir_result(func, loop, 0), 4), mem_at(out, zero));
    dlk_buffer text = {.arena = &f.arena};
    dlk_ir_print(func, &text);
    CHECK_STR(text.data, "buffer b0: global output0 written\n"
                         "buffer b1: shared f32[64]\n"
                         "uniform u0: i64 extent axis 1 index 0\n"
                         "threads 64 subgroup 8\n"
                         "v0: i64x1 = uniform u0\n"
                         "v1: i64x1 = const 0x0\n"
                         "v2: i64x1 = const 0x1\n"
                         "v3: f32x4 = const 0x3f800000\n"
                         "v4: loop v1, v0, v2 carrying v3\n"
                         "do (v5, v6)\n"
                         "  v7: f32x4 = load b1[v1] unit count v0 align 1\n"
                         "  v8: f32x4 = fadd v6, v7\n"
                         "  yield v8\n"
                         "v9: barrier\n"
                         "v10: f32x4 = result #0 v4\n"
                         "v11: f32x4 = shfl_xor #4 v10\n"
                         "v12: store b0[v1] unit align 1 v11\n");
    CHECK_INT(dlk_ir_verify(func), DLK_OK);
    end(&f);
}

/* ---- The verifier ---- */

/* A function with one of everything, to break in one place: nodes by name. */
typedef struct sound {
    fixture f;
    dlk_func *func;
    int in, out, shared, table;
    dlk_val n, zero, one, x, y, p, loop, branch, result, load, store, splat, perm, any, shfl, lookup, barrier, iota,
        item, thread, select, convert, until;
} sound;

static void make_control(sound *s)
{
    dlk_func *func = s->func;
    s->loop = dlk_ir_loop_begin(func, s->zero, s->n, s->one, &s->x, 1);
    const dlk_val next = prim2(func, DLK_PRIM_ADD, dlk_ir_loop_carried(func, s->loop, 0), s->x);
    s->until = prim2(func, DLK_PRIM_SLT, s->n, dlk_ir_loop_index(func, s->loop));
    dlk_ir_loop_end(func, s->loop, &next, s->until);
    s->result = dlk_ir_result(func, s->loop, 0);
    s->branch = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, s->n, s->one), true);
    const dlk_val a = prim2(func, DLK_PRIM_XOR, s->x, s->result);
    dlk_ir_if_else(func, s->branch, &a, 1);
    dlk_ir_if_end(func, s->branch, &s->x);
}

static void make_sound(sound *s)
{
    static const int8_t perm[4] = {3, 2, 5, 0};
    static const uint64_t numbers[2] = {10, 20};
    *s = (sound){0};
    dlk_func *func = s->func = begin(&s->f);
    s->in = input_buffer(func, 0);
    s->out = output_buffer(func, 0);
    s->shared = dlk_func_local(func, DLK_SPACE_SHARED, DLK_I32, 64);
    s->table = dlk_func_table(func, DLK_I32, numbers, 2);
    func->threads = func->subgroup = 8;
    s->n = dlk_func_uniform(func, (dlk_uniform){.role = DLK_UNIFORM_EXTENT, .kind = DLK_I64});
    s->zero = dlk_ir_i64(func, 0);
    s->one = dlk_ir_i64(func, 1);
    s->item = dlk_ir_item(func, 0);
    s->thread = dlk_ir_thread(func);
    s->x = s->load = dlk_ir_load(func, i32x4, mem_at(s->in, s->zero));
    s->y = prim2(func, DLK_PRIM_MUL, s->x, s->x);
    s->p = prim2(func, DLK_PRIM_SLT, s->x, s->y);
    s->select = dlk_ir_prim(func, DLK_PRIM_SELECT, s->p, s->x, s->y);
    s->convert = dlk_ir_convert(func, DLK_PRIM_SEXT, DLK_I64, s->y);
    s->iota = dlk_ir_iota(func, i32x4);
    s->any = dlk_ir_any(func, s->p);
    s->splat = dlk_ir_splat(func, s->thread, 4);
    s->perm = dlk_ir_perm(func, s->x, s->y, perm, 4);
    s->lookup = dlk_ir_table(func, s->table, s->splat);
    s->shfl = dlk_ir_shfl_xor(func, s->lookup, 4);
    make_control(s);
    dlk_ir_store(func, s->x, mem_at(s->out, s->zero));
    s->store = func->n_nodes - 1;
    dlk_ir_barrier(func);
    s->barrier = func->n_nodes - 1;
}

static dlk_node *at(sound *s, dlk_val value)
{
    return &s->func->nodes[value];
}

#define BREAK(name, ...)       \
    static void name(sound *s) \
    {                          \
        __VA_ARGS__;           \
    }
BREAK(operand_missing, at(s, s->y)->b = DLK_NONE)
BREAK(operand_out_of_range, at(s, s->y)->b = 100000)
BREAK(operand_later, at(s, s->y)->b = s->perm)
BREAK(operand_itself, at(s, s->y)->a = s->y)
BREAK(operand_of_loop_outside, at(s, s->store)->d = at(s, s->loop)->body->nodes[0])
BREAK(operand_param_outside, at(s, s->store)->d = at(s, s->loop)->body->params[1])
BREAK(operand_of_arm_outside, at(s, s->store)->d = at(s, s->branch)->body->nodes[0])
BREAK(operand_of_other_arm, at(s, s->branch)->other->yields[0] = at(s, s->branch)->body->nodes[0])
BREAK(operand_too_many, at(s, s->y)->c = s->x)
BREAK(op_unknown, at(s, s->y)->op = DLK_IR_OP_COUNT)
BREAK(op_param_listed, at(s, s->y)->op = DLK_IR_PARAM)
BREAK(prim_unknown, at(s, s->y)->prim = DLK_PRIM_COUNT)
BREAK(prim_of_other_kind, at(s, s->y)->prim = DLK_PRIM_FMUL)
BREAK(prim_result_kind, at(s, s->p)->type.kind = DLK_I32)
BREAK(prim_kinds_differ, at(s, s->y)->b = s->p)
BREAK(prim_eq_of_floats, at(s, s->load)->type = f32x4; at(s, s->p)->prim = DLK_PRIM_EQ; at(s, s->y)->op = DLK_IR_CONST;
      at(s, s->y)->type = f32x4; at(s, s->y)->imm = 0)
BREAK(prim_lanes, at(s, s->y)->type.lanes = 8)
BREAK(select_of_numbers, at(s, s->select)->a = s->x)
BREAK(conversion_down, at(s, s->convert)->type.kind = DLK_I16)
BREAK(conversion_to_float, at(s, s->convert)->type.kind = DLK_F64)
BREAK(lanes_none, at(s, s->y)->type.lanes = 0)
BREAK(lanes_many, at(s, s->y)->type.lanes = 65)
BREAK(kind_unknown, at(s, s->y)->type.kind = DLK_KIND_COUNT)
BREAK(const_bits, at(s, s->y)->op = DLK_IR_CONST; at(s, s->y)->imm = 1ll << 32)
BREAK(item_dimension, at(s, s->item)->imm = 3)
BREAK(thread_type, at(s, s->thread)->type.lanes = 2)
BREAK(iota_of_floats, at(s, s->iota)->type.kind = DLK_F32)
BREAK(uniform_unknown, at(s, s->n)->imm = 1)
BREAK(uniform_kind, at(s, s->n)->type.kind = DLK_F64)
BREAK(splat_of_lanes, at(s, s->splat)->a = s->convert)
BREAK(perm_lane, at(s, s->perm)->perm[0] = 8)
BREAK(perm_types, at(s, s->perm)->b = s->thread)
BREAK(any_of_numbers, at(s, s->any)->a = s->x)
BREAK(any_wide, at(s, s->any)->type.lanes = 4)
BREAK(shuffle_far, at(s, s->shfl)->imm = 8)
BREAK(shuffle_odd, at(s, s->shfl)->imm = 3)
BREAK(shuffle_type, at(s, s->shfl)->type.kind = DLK_F32)
BREAK(table_unknown, at(s, s->lookup)->imm = 1)
BREAK(table_index, at(s, s->lookup)->a = s->x)
BREAK(table_kind, at(s, s->lookup)->type.kind = DLK_F32)
BREAK(buffer_unknown, at(s, s->load)->imm = 3)
BREAK(memory_predicate, at(s, s->load)->type.kind = DLK_P1)
BREAK(memory_offset, at(s, s->load)->a = s->any)
BREAK(memory_count, at(s, s->store)->count = s->x)
BREAK(memory_align, at(s, s->load)->align = 3)
BREAK(memory_stride, at(s, s->store)->step = DLK_STEP_UNIFORM)
BREAK(memory_ignored_stride, at(s, s->store)->b = s->zero)
BREAK(memory_gather, at(s, s->store)->step = DLK_STEP_GATHER; at(s, s->store)->b = s->x)
BREAK(load_nontemporal, at(s, s->load)->nontemporal = true)
BREAK(store_nontemporal, at(s, s->store)->nontemporal = true; at(s, s->store)->count = s->n)
BREAK(store_to_one_place, at(s, s->store)->step = DLK_STEP_ZERO)
BREAK(store_to_input, at(s, s->store)->imm = s->in)
BREAK(store_type, at(s, s->store)->d = s->convert)
BREAK(loop_bound, at(s, s->loop)->b = s->x)
BREAK(loop_step, at(s, s->one)->imm = 0)
BREAK(loop_params, at(s, s->loop)->body->n_params = 1)
BREAK(loop_param_type, at(s, at(s, s->loop)->body->params[1])->type.kind = DLK_F32)
BREAK(loop_yields, at(s, s->loop)->has_until = false)
BREAK(loop_carries, at(s, s->loop)->body->yields[0] = s->convert)
BREAK(loop_until, at(s, s->loop)->body->yields[1] = s->x)
BREAK(loop_without_body, at(s, s->loop)->body = NULL)
BREAK(if_condition, at(s, s->branch)->a = s->p)
BREAK(if_one_arm, at(s, s->branch)->other = NULL)
BREAK(if_yields, at(s, s->branch)->other->n_yields = 0)
BREAK(if_types, at(s, s->branch)->other->yields[0] = s->convert)
BREAK(if_outer, at(s, s->branch)->other->outer = at(s, s->loop)->body)
BREAK(result_of_value, at(s, s->result)->a = s->x)
BREAK(result_number, at(s, s->result)->imm = 1)
BREAK(result_type, at(s, s->result)->type.kind = DLK_F32)
BREAK(node_twice, s->func->body->nodes[3] = s->func->body->nodes[2])
BREAK(node_unknown, s->func->body->nodes[3] = 100000)
BREAK(threads, s->func->threads = 12)
BREAK(subgroup, s->func->subgroup = 6; s->func->threads = 12)
BREAK(local_first, s->func->buffers[s->in].space = DLK_SPACE_SHARED; s->func->buffers[s->in].kind = DLK_I8;
      s->func->buffers[s->in].count = 1)
BREAK(local_empty, s->func->buffers[s->shared].count = 0)

static const struct {
    const char *name;
    void (*apply)(sound *s);
    const char *complaint;
} breaks[] = {
#define ROW(name, complaint)   \
    {                          \
#        name, name, complaint \
    }
    ROW(operand_missing, "missing"),
    ROW(operand_out_of_range, "out of range"),
    ROW(operand_later, "before its use"),
    ROW(operand_itself, "before its use"),
    ROW(operand_of_loop_outside, "before its use"),
    ROW(operand_param_outside, "before its use"),
    ROW(operand_of_arm_outside, "before its use"),
    ROW(operand_of_other_arm, "before its use"),
    ROW(operand_too_many, "more operands"),
    ROW(op_unknown, "not a node that a block lists"),
    ROW(op_param_listed, "not a node that a block lists"),
    ROW(prim_unknown, "no such primitive"),
    ROW(prim_of_other_kind, "does not take"),
    ROW(prim_result_kind, "does not take"),
    ROW(prim_kinds_differ, "before its use"),
    ROW(prim_eq_of_floats, "does not take"),
    ROW(prim_lanes, "number of lanes"),
    ROW(select_of_numbers, "select"),
    ROW(conversion_down, "conversion"),
    ROW(conversion_to_float, "conversion"),
    ROW(lanes_none, "number of lanes"),
    ROW(lanes_many, "number of lanes"),
    ROW(kind_unknown, "no such kind"),
    ROW(const_bits, "bits beyond"),
    ROW(item_dimension, "dimension"),
    ROW(thread_type, "one lane of i64"),
    ROW(iota_of_floats, "iota"),
    ROW(uniform_unknown, "no such uniform"),
    ROW(uniform_kind, "declared kind"),
    ROW(splat_of_lanes, "splat"),
    ROW(perm_lane, "lane that there is not"),
    ROW(perm_types, "differ in type"),
    ROW(any_of_numbers, "any"),
    ROW(any_wide, "any"),
    ROW(shuffle_far, "below the subgroup"),
    ROW(shuffle_odd, "below the subgroup"),
    ROW(shuffle_type, "changes the type"),
    ROW(table_unknown, "no such table"),
    ROW(table_index, "index is i64"),
    ROW(table_kind, "another kind"),
    ROW(buffer_unknown, "no such buffer"),
    ROW(memory_predicate, "no form in memory"),
    ROW(memory_offset, "before its use"),
    ROW(memory_count, "one lane of i64"),
    ROW(memory_align, "power of two"),
    ROW(memory_stride, "missing"),
    ROW(memory_ignored_stride, "stride"),
    ROW(memory_gather, "gather"),
    ROW(load_nontemporal, "only stores"),
    ROW(store_nontemporal, "whole and dense"),
    ROW(store_to_one_place, "one place"),
    ROW(store_to_input, "not declared written"),
    ROW(store_type, "another type"),
    ROW(loop_bound, "one lane of i64"),
    ROW(loop_step, "not positive"),
    ROW(loop_params, "parameters"),
    ROW(loop_param_type, "parameter"),
    ROW(loop_yields, "number of values"),
    ROW(loop_carries, "changes its type"),
    ROW(loop_until, "leave a loop"),
    ROW(loop_without_body, "one block"),
    ROW(if_condition, "one lane of a predicate"),
    ROW(if_one_arm, "two blocks"),
    ROW(if_yields, "number of values"),
    ROW(if_types, "different types"),
    ROW(if_outer, "elsewhere"),
    ROW(result_of_value, "neither loop nor if"),
    ROW(result_number, "no such result"),
    ROW(result_type, "another type"),
    ROW(node_twice, "two places"),
    ROW(node_unknown, "not"),
    ROW(threads, "expected whole ones"),
    ROW(subgroup, "expected whole ones"),
    ROW(local_first, "come first"),
    ROW(local_empty, "at least one"),
};

TEST(the_sound_function_is_sound)
{
    sound s;
    make_sound(&s);
    CHECK_MSG(dlk_ir_verify(s.func) == DLK_OK, "%s", dlk_last_error());
    end(&s.f);
}

TEST(every_complaint)
{
    for (size_t k = 0; k < sizeof breaks / sizeof breaks[0]; k++) {
        sound s;
        make_sound(&s);
        breaks[k].apply(&s);
        const dlk_status status = dlk_ir_verify(s.func);
        CHECK_MSG(status == DLK_ERR_INTERNAL, "%s passes", breaks[k].name);
        CHECK_MSG(status == DLK_OK || strstr(dlk_last_error(), breaks[k].complaint), "%s: %s", breaks[k].name,
                  dlk_last_error());
        end(&s.f);
    }
}

/* ---- Uniform control ---- */

typedef enum condition {
    BY_UNIFORM,
    BY_THREAD,
    BY_PRIVATE,
    BY_SHARED,
    BY_SHUFFLE,
    BY_LOOP,
    BY_IF,
    BY_CARRIED
} condition;

/* A number that is the same in all threads, or not. */
static dlk_val make_number(dlk_func *func, condition by)
{
    const dlk_val zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1), thread = dlk_ir_thread(func);
    const dlk_val n = dlk_func_uniform(func, (dlk_uniform){.role = DLK_UNIFORM_EXTENT, .kind = DLK_I64});
    dlk_val owner;
    switch (by) {
    case BY_UNIFORM:
        return prim2(func, DLK_PRIM_ADD, n, dlk_ir_item(func, 0));
    case BY_THREAD:
        return prim2(func, DLK_PRIM_MUL, n, thread);
    case BY_PRIVATE:
        return dlk_ir_load(func, i64x1, mem_at(dlk_func_local(func, DLK_SPACE_PRIVATE, DLK_I64, 1), zero));
    case BY_SHARED:
        return dlk_ir_load(func, i64x1, mem_at(dlk_func_local(func, DLK_SPACE_SHARED, DLK_I64, 1), zero));
    case BY_SHUFFLE:
        return dlk_ir_shfl_xor(func, thread, 1);
    case BY_LOOP: /* runs as often as the thread says */
        owner = dlk_ir_loop_begin(func, zero, thread, one, &zero, 1);
        dlk_ir_loop_end(func, owner, &one, DLK_NONE);
        return dlk_ir_result(func, owner, 0);
    case BY_IF:
        owner = dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, thread, n), false);
        dlk_ir_if_else(func, owner, &zero, 1);
        dlk_ir_if_end(func, owner, &one);
        return dlk_ir_result(func, owner, 0);
    default: /* BY_CARRIED: only from the second round on */
        owner = dlk_ir_loop_begin(func, zero, n, one, (dlk_val[]){zero, zero}, 2);
        dlk_ir_loop_end(func, owner, (dlk_val[]){dlk_ir_loop_carried(func, owner, 1), dlk_ir_thread(func)}, DLK_NONE);
        return dlk_ir_result(func, owner, 0);
    }
}

typedef enum place { IN_IF, IN_LOOP, IN_LOOP_LEFT_EARLY } place;

static dlk_status verify_barrier(condition by, place where, bool shuffle)
{
    fixture f;
    dlk_func *func = begin(&f);
    func->threads = func->subgroup = 8;
    const dlk_val number = make_number(func, by), zero = dlk_ir_i64(func, 0), one = dlk_ir_i64(func, 1);
    const dlk_val p = prim2(func, DLK_PRIM_SLT, number, one);
    const dlk_val owner =
        where == IN_IF ? dlk_ir_if_begin(func, p, false)
                       : dlk_ir_loop_begin(func, zero, where == IN_LOOP ? number : dlk_ir_i64(func, 9), one, NULL, 0);
    if (shuffle)
        dlk_ir_shfl_xor(func, number, 1);
    else
        dlk_ir_barrier(func);
    if (where == IN_IF) {
        dlk_ir_if_else(func, owner, NULL, 0);
        dlk_ir_if_end(func, owner, NULL);
    } else {
        dlk_ir_loop_end(func, owner, NULL, where == IN_LOOP ? DLK_NONE : p);
    }
    const dlk_status status = dlk_ir_verify(func);
    CHECK_MSG(status == DLK_OK || strstr(dlk_last_error(), "different ways"), "%s", dlk_last_error());
    end(&f);
    return status;
}

TEST(barriers_and_shuffles_need_uniform_control)
{
    for (int by = BY_UNIFORM; by <= BY_CARRIED; by++)
        for (int where = IN_IF; where <= IN_LOOP_LEFT_EARLY; where++)
            for (int shuffle = 0; shuffle < 2; shuffle++) {
                const bool is_sound = by == BY_UNIFORM || by == BY_SHARED;
                const dlk_status status = verify_barrier((condition)by, (place)where, shuffle);
                CHECK_MSG((status == DLK_OK) == is_sound, "condition %d place %d shuffle %d", by, where, shuffle);
            }
}

/* With one thread nothing diverges. */
TEST(one_thread_never_diverges)
{
    fixture f;
    dlk_func *func = begin(&f);
    const dlk_val branch =
        dlk_ir_if_begin(func, prim2(func, DLK_PRIM_SLT, make_number(func, BY_PRIVATE), dlk_ir_i64(func, 3)), false);
    dlk_ir_barrier(func);
    dlk_ir_if_else(func, branch, NULL, 0);
    dlk_ir_if_end(func, branch, NULL);
    CHECK_INT(dlk_ir_verify(func), DLK_OK);
    end(&f);
}
