/* The nodes of scalar programs: equal ones are one, constants fold, scopes and levels follow from what a node depends on. */
#include "tests/test.h"

#include "codegen/dtype.h"
#include "codegen/prog.h"

static dlk_arena arena;
static dlk_prog *prog;

static void begin(void)
{
    arena = (dlk_arena){0};
    prog = dlk_prog_create(&arena);
}

static void end(void)
{
    dlk_arena_free(&arena);
}

static dlk_ref prim(dlk_prim id, dlk_ref a, dlk_ref b)
{
    return dlk_prog_prim(prog, id, a, b, DLK_NONE);
}

static uint64_t f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static dlk_ref f32_const(float x)
{
    return dlk_prog_const(prog, DLK_F32, f32_bits(x));
}

TEST(equal_nodes_are_one)
{
    begin();
    const dlk_ref x = dlk_prog_input(prog, 0, 0, DLK_F32), y = dlk_prog_input(prog, 1, 0, DLK_F32);
    CHECK_INT(dlk_prog_input(prog, 0, 0, DLK_F32), x);
    CHECK(dlk_prog_input(prog, 0, 1, DLK_F32) != x && y != x);
    CHECK_INT(prim(DLK_PRIM_FADD, x, y), prim(DLK_PRIM_FADD, x, y));
    CHECK(prim(DLK_PRIM_FADD, x, y) != prim(DLK_PRIM_FADD, y, x)); /* NaN payloads aside, nothing is reordered */
    const int before = prog->n_nodes;
    dlk_ref sum = x;
    for (int i = 0; i < 3000; i++)
        sum = prim(DLK_PRIM_FMUL, sum, y);
    CHECK_INT(prog->n_nodes, before + 3000);
    sum = x;
    for (int i = 0; i < 3000; i++)
        sum = prim(DLK_PRIM_FMUL, sum, y);
    CHECK_INT(prog->n_nodes, before + 3000);
    CHECK(dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ROW) != dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ROW));
    end();
}

TEST(constants_fold)
{
    begin();
    CHECK_INT(prim(DLK_PRIM_FADD, f32_const(1), f32_const(2)), f32_const(3));
    CHECK_INT(dlk_prog_const(prog, DLK_I8, 0x1ff), dlk_prog_const(prog, DLK_I8, 0xff));
    const dlk_ref x = dlk_prog_input(prog, 0, 0, DLK_F32), p = prim(DLK_PRIM_FLT, x, f32_const(0));
    const dlk_ref yes = dlk_prog_const(prog, DLK_P1, 1), no = dlk_prog_const(prog, DLK_P1, 0);
    CHECK_INT(prim(DLK_PRIM_AND, p, yes), p);
    CHECK_INT(prim(DLK_PRIM_AND, no, p), no);
    CHECK_INT(prim(DLK_PRIM_OR, p, yes), yes);
    CHECK_INT(prim(DLK_PRIM_OR, p, p), p);
    CHECK_INT(dlk_prog_prim(prog, DLK_PRIM_SELECT, yes, x, f32_const(1)), x);
    CHECK_INT(dlk_prog_prim(prog, DLK_PRIM_SELECT, p, x, x), x);
    const dlk_ref mad = dlk_prog_prim(prog, DLK_PRIM_MAD, f32_const(3), f32_const(5), f32_const(1));
    CHECK_INT(prog->nodes[mad].op, DLK_PROG_PRIM); /* how often it rounds is the target's */
    end();
}

/* A sum of `first`. */
static dlk_ref sum_of(dlk_ref first, bool in_leaf)
{
    dlk_reduction sum = {.n = 1, .in_leaf = in_leaf, .has_identity = true, .tree_kind = DLK_F32, .tree_parts = 1};
    static dlk_ref left, right;
    if (prog->n_vars == 0) {
        left = dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ELEMENT);
        right = dlk_prog_var(prog, DLK_F32, DLK_SCOPE_ELEMENT);
    }
    sum.kind[0] = DLK_F32;
    sum.first[0] = first;
    sum.left[0] = left;
    sum.right[0] = right;
    sum.merge[0] = prim(DLK_PRIM_FADD, left, right);
    sum.identity[0] = 0x80000000;
    return dlk_prog_proj(prog, dlk_prog_reduce(prog, &sum), 0, DLK_F32);
}

TEST(scopes_follow_operands)
{
    begin();
    const dlk_ref x = dlk_prog_input(prog, 0, 0, DLK_F32), s = dlk_prog_scalar(prog, 0, 0, DLK_F64);
    const dlk_ref narrow = dlk_prog_convert(prog, DLK_PRIM_FTRUNC, DLK_F32, s), sum = sum_of(x, false),
                  leaf = sum_of(x, true);
    CHECK_INT(prog->nodes[narrow].scope, DLK_SCOPE_UNIFORM);
    CHECK_INT(prog->nodes[sum].scope, DLK_SCOPE_ROW);
    CHECK_INT(prog->nodes[leaf].scope, DLK_SCOPE_LEAF);
    CHECK_INT(prog->nodes[prim(DLK_PRIM_FMUL, sum, narrow)].scope, DLK_SCOPE_ROW);
    CHECK_INT(prog->nodes[prim(DLK_PRIM_FMUL, leaf, sum)].scope, DLK_SCOPE_LEAF);
    CHECK_INT(prog->nodes[prim(DLK_PRIM_FMUL, x, sum)].scope, DLK_SCOPE_ELEMENT);
    CHECK_INT(prog->nodes[dlk_prog_count(prog)].scope, DLK_SCOPE_UNIFORM);
    CHECK_INT(prog->nodes[dlk_prog_leaf_count(prog)].scope, DLK_SCOPE_LEAF);
    CHECK_INT(prog->nodes[dlk_prog_index(prog)].scope, DLK_SCOPE_ELEMENT);
    end();
}

TEST(levels_count_what_must_be_done_before)
{
    begin();
    const dlk_ref x = dlk_prog_input(prog, 0, 0, DLK_F32), sum = sum_of(x, false);
    CHECK_INT(sum_of(x, false), sum);
    const dlk_ref centred = prim(DLK_PRIM_FSUB, x, sum), second = sum_of(centred, false);
    const dlk_ref third = sum_of(prim(DLK_PRIM_FMUL, x, second), false), inner = sum_of(centred, true);
    sum_of(prim(DLK_PRIM_FSUB, x, inner), true);
    CHECK(third != second);
    static const uint8_t levels[] = {0, 1, 2, 0, 1}; /* those in leaves count among themselves */
    CHECK_INT(prog->n_reduces, 5);
    for (int i = 0; i < 5; i++)
        CHECK_INT(prog->reduces[i].level, levels[i]);
    end();
}

TEST(compaction_keeps_what_outputs_need)
{
    begin();
    const dlk_ref x = dlk_prog_input(prog, 0, 0, DLK_F32), unused = dlk_prog_input(prog, 1, 0, DLK_F32);
    sum_of(unused, false);
    const dlk_ref sum = sum_of(prim(DLK_PRIM_FMUL, x, x), false);
    const uint64_t numbers[] = {1, 2};
    dlk_prog_add_table(prog, DLK_I64, numbers, 2);
    prog->n_inputs = 2;
    prog->n_outputs = 1;
    prog->input_dtype[1] = DLK_DTYPE_F32;
    prog->outputs[0] = (dlk_prog_output){
        .part = {prim(DLK_PRIM_FADD, sum, x), DLK_NONE}, .dtype = DLK_DTYPE_F32, .scope = DLK_SCOPE_ELEMENT};
    const dlk_prog *small = dlk_prog_compact(prog, &arena);
    dlk_buffer text = {.arena = &arena};
    CHECK_INT(small->n_reduces, 1);
    CHECK_INT(small->n_tables, 0);
    CHECK_INT(small->n_inputs, 2);
    dlk_prog_print(small, &text);
    CHECK_STR(text.data, "program: 2 inputs, 1 outputs\n"
                         "  %0: element f32 = input 0\n"
                         "  %1: element f32 = var 0\n"
                         "  %2: element f32 = var 1\n"
                         "  %3: element f32 = fadd %1 %2\n"
                         "  %4: element f32 = fmul %0 %0\n"
                         "  %5: row p1 = reduce 0\n"
                         "  %6: row f32 = proj 0 %5\n"
                         "  %7: element f32 = fadd %6 %0\n"
                         "  reduce 0 : level 0, tree f32\n"
                         "    f32: first %4, merge(%1, %2) = %3, identity 0x80000000\n"
                         "  output 0: float32, element, %7\n");
    end();
}
