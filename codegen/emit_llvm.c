/* Prints IR as LLVM 19 text: one function `kernel` (ABI in ir.h) that runs the body for each item. What LLVM leaves
 * undefined is guarded here: division, oversized shifts, floats out of an integer's range. No fast-math flags anywhere.
 *
 * A primitive is a row of templates: text with {holes}, filled by fill() below. */
#include <stdlib.h>
#include <string.h>

#include "codegen/emit.h"

typedef struct printer {
    const dlk_func *func;
    dlk_buffer *out;
    const char *block; /* label of the basic block that is being printed: phis name it */
    int n_labels;
    bool uses_nontemporal;
    dlk_status status;
} printer;

static const char *const kind_types[DLK_KIND_COUNT] = {"i1", "i8", "i16", "i32", "i64", "float", "double"};
static const char *const kind_suffixes[DLK_KIND_COUNT] = {"i1", "i8", "i16", "i32", "i64", "f32", "f64"};

/* ---- Types, names, constants ---- */

static dlk_type type_of(const printer *p, dlk_val value)
{
    return p->func->nodes[value].type;
}

static void put_type_name(printer *p, const char *element, int lanes)
{
    if (lanes == 1)
        dlk_buffer_puts(p->out, element);
    else
        dlk_buffer_printf(p->out, "<%d x %s>", lanes, element);
}
static void put_type(printer *p, dlk_type type)
{
    put_type_name(p, kind_types[type.kind], type.lanes);
}
/* As intrinsic names spell it: v8f32, i64. */
static void put_suffix(printer *p, dlk_type type)
{
    if (type.lanes > 1)
        dlk_buffer_printf(p->out, "v%d", type.lanes);
    dlk_buffer_puts(p->out, kind_suffixes[type.kind]);
}

/* LLVM writes a float constant as the bits of the double of the same value. */
static uint64_t as_double_bits(uint64_t f32_bits)
{
    const uint64_t sign = f32_bits >> 31 << 63, mantissa = f32_bits & 0x7fffff;
    if ((f32_bits >> 23 & 0xff) == 0xff)
        return sign | 0x7ffull << 52 | mantissa << 29;
    const uint32_t low = (uint32_t)f32_bits;
    float f;
    memcpy(&f, &low, sizeof f);
    const double d = (double)f;
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static void put_element(printer *p, dlk_kind kind, uint64_t bits)
{
    if (kind == DLK_F32)
        dlk_buffer_printf(p->out, "0x%016llX", (unsigned long long)as_double_bits(bits));
    else if (kind == DLK_F64)
        dlk_buffer_printf(p->out, "0x%016llX", (unsigned long long)bits);
    else if (kind == DLK_P1)
        dlk_buffer_puts(p->out, bits & 1 ? "true" : "false");
    else
        dlk_buffer_printf(p->out, "%lld",
                          (long long)((int64_t)(bits << (64 - dlk_kind_bits(kind))) >> (64 - dlk_kind_bits(kind))));
}

static void put_constant(printer *p, dlk_type type, uint64_t bits)
{
    if (type.lanes > 1)
        dlk_buffer_printf(p->out, "splat (%s ", kind_types[type.kind]);
    put_element(p, (dlk_kind)type.kind, bits);
    if (type.lanes > 1)
        dlk_buffer_puts(p->out, ")");
}

static void put_name(printer *p, dlk_val value)
{
    const dlk_node *node = &p->func->nodes[value];
    if (node->op == DLK_IR_CONST) {
        put_constant(p, node->type, (uint64_t)node->imm);
    } else if (node->op == DLK_IR_UNIFORM) {
        dlk_buffer_printf(p->out, "%%u%lld", (long long)node->imm);
    } else if (node->op == DLK_IR_ITEM) {
        dlk_buffer_puts(p->out, "%item");
    } else if (node->op == DLK_IR_THREAD) {
        dlk_buffer_puts(p->out, "0");
    } else if (node->op == DLK_IR_RESULT) {
        const dlk_node *owner = &p->func->nodes[node->a];
        if (owner->op == DLK_IR_LOOP && !owner->has_until)
            put_name(p, owner->body->params[node->imm + 1]);
        else
            dlk_buffer_printf(p->out, "%%v%d.r%lld", node->a, (long long)node->imm);
    } else {
        dlk_buffer_printf(p->out, "%%v%d", value);
    }
}
static void put_typed(printer *p, dlk_val value)
{
    put_type(p, type_of(p, value));
    dlk_buffer_puts(p->out, " ");
    put_name(p, value);
}

/* ---- Primitives ---- */

/* Holes: {r} result, {a} {b} {c} operands, {t} its type, {s} type of a, {p} predicate of as many lanes, {d} integer of
 * twice the width, {h} half-precision float, {n} {m} intrinsic suffix of t and of s, {0} {1} {-} the constants 0, 1, -1 of t, {w} the
 * width of t and {l} the last bit's number as constants of t, {W} the width as one of d. */
typedef struct template_row {
    dlk_prim prim;
    const char *text;
} template_row;

#define GUARDED_SIGNED(instruction, for_minus_one)                                              \
    "{r}.z = icmp eq {t} {b}, {0}\n{r}.m = icmp eq {t} {b}, {-}\n{r}.g = or {p} {r}.z, {r}.m\n" \
    "{r}.s = select {p} {r}.g, {t} {1}, {t} {b}\n{r}.q = " instruction " {t} {a}, {r}.s\n"      \
    "{r}.n = " for_minus_one "\n{r}.v = select {p} {r}.m, {t} {r}.n, {t} {r}.q\n"               \
    "{r} = select {p} {r}.z, {t} {0}, {t} {r}.v"
#define GUARDED_UNSIGNED(instruction)                                            \
    "{r}.z = icmp eq {t} {b}, {0}\n{r}.s = select {p} {r}.z, {t} {1}, {t} {b}\n" \
    "{r}.q = " instruction " {t} {a}, {r}.s\n{r} = select {p} {r}.z, {t} {0}, {t} {r}.q"
#define HIGH_HALF(extension)                                                                                     \
    "{r}.x = " extension " {t} {a} to {d}\n{r}.y = " extension " {t} {b} to {d}\n{r}.m = mul {d} {r}.x, {r}.y\n" \
    "{r}.h = lshr {d} {r}.m, {W}\n{r} = trunc {d} {r}.h to {t}"
#define INTRINSIC1(name) "{r} = call {t} @llvm." name ".{n}({t} {a})"
#define INTRINSIC2(name) "{r} = call {t} @llvm." name ".{n}({t} {a}, {t} {b})"
#define SHIFT(name) \
    "{r}.i = icmp ult {t} {b}, {w}\n{r}.s = " name " {t} {a}, {b}\n{r} = select {p} {r}.i, {t} {r}.s, {t} {0}"

static const template_row templates[] = {
    {DLK_PRIM_ADD, "{r} = add {t} {a}, {b}"},
    {DLK_PRIM_SUB, "{r} = sub {t} {a}, {b}"},
    {DLK_PRIM_MUL, "{r} = mul {t} {a}, {b}"},
    {DLK_PRIM_SDIV, GUARDED_SIGNED("sdiv", "sub {t} {0}, {a}")},
    {DLK_PRIM_SREM, GUARDED_SIGNED("srem", "sub {t} {a}, {a}")},
    {DLK_PRIM_UDIV, GUARDED_UNSIGNED("udiv")},
    {DLK_PRIM_UREM, GUARDED_UNSIGNED("urem")},
    {DLK_PRIM_SMULHI, HIGH_HALF("sext")},
    {DLK_PRIM_UMULHI, HIGH_HALF("zext")},
    {DLK_PRIM_SMIN, INTRINSIC2("smin")},
    {DLK_PRIM_SMAX, INTRINSIC2("smax")},
    {DLK_PRIM_UMIN, INTRINSIC2("umin")},
    {DLK_PRIM_UMAX, INTRINSIC2("umax")},
    {DLK_PRIM_AND, "{r} = and {t} {a}, {b}"},
    {DLK_PRIM_OR, "{r} = or {t} {a}, {b}"},
    {DLK_PRIM_XOR, "{r} = xor {t} {a}, {b}"},
    {DLK_PRIM_NOT, "{r} = xor {t} {a}, {-}"},
    {DLK_PRIM_SHL, SHIFT("shl")},
    {DLK_PRIM_LSHR, SHIFT("lshr")},
    {DLK_PRIM_ASHR,
     "{r}.i = icmp ult {t} {b}, {w}\n{r}.s = select {p} {r}.i, {t} {b}, {t} {l}\n{r} = ashr {t} {a}, {r}.s"},
    {DLK_PRIM_CLZ, "{r} = call {t} @llvm.ctlz.{n}({t} {a}, i1 false)"},
    {DLK_PRIM_CTZ, "{r} = call {t} @llvm.cttz.{n}({t} {a}, i1 false)"},
    {DLK_PRIM_POPCOUNT, INTRINSIC1("ctpop")},
    {DLK_PRIM_FADD, "{r} = fadd {t} {a}, {b}"},
    {DLK_PRIM_FSUB, "{r} = fsub {t} {a}, {b}"},
    {DLK_PRIM_FMUL, "{r} = fmul {t} {a}, {b}"},
    {DLK_PRIM_FDIV, "{r} = fdiv {t} {a}, {b}"},
    {DLK_PRIM_FSQRT, INTRINSIC1("sqrt")},
    {DLK_PRIM_FNEG, "{r} = fneg {t} {a}"},
    {DLK_PRIM_FABS, INTRINSIC1("fabs")},
    {DLK_PRIM_COPYSIGN, INTRINSIC2("copysign")},
    {DLK_PRIM_FMA, "{r} = call {t} @llvm.fma.{n}({t} {a}, {t} {b}, {t} {c})"},
    {DLK_PRIM_FMIN, INTRINSIC2("minimum")},
    {DLK_PRIM_FMAX, INTRINSIC2("maximum")},
    {DLK_PRIM_FLOOR, INTRINSIC1("floor")},
    {DLK_PRIM_CEIL, INTRINSIC1("ceil")},
    {DLK_PRIM_TRUNC, INTRINSIC1("trunc")},
    {DLK_PRIM_RINT, INTRINSIC1("roundeven")},
    {DLK_PRIM_EQ, "{r} = icmp eq {s} {a}, {b}"},
    {DLK_PRIM_NE, "{r} = icmp ne {s} {a}, {b}"},
    {DLK_PRIM_SLT, "{r} = icmp slt {s} {a}, {b}"},
    {DLK_PRIM_SLE, "{r} = icmp sle {s} {a}, {b}"},
    {DLK_PRIM_ULT, "{r} = icmp ult {s} {a}, {b}"},
    {DLK_PRIM_ULE, "{r} = icmp ule {s} {a}, {b}"},
    {DLK_PRIM_FEQ, "{r} = fcmp oeq {s} {a}, {b}"},
    {DLK_PRIM_FNE, "{r} = fcmp une {s} {a}, {b}"},
    {DLK_PRIM_FLT, "{r} = fcmp olt {s} {a}, {b}"},
    {DLK_PRIM_FLE, "{r} = fcmp ole {s} {a}, {b}"},
    {DLK_PRIM_SELECT, "{r} = select {p} {a}, {t} {b}, {t} {c}"},
    {DLK_PRIM_SEXT, "{r} = sext {s} {a} to {t}"},
    {DLK_PRIM_ZEXT, "{r} = zext {s} {a} to {t}"},
    {DLK_PRIM_ITRUNC, "{r} = trunc {s} {a} to {t}"},
    {DLK_PRIM_SITOF, "{r} = sitofp {s} {a} to {t}"},
    {DLK_PRIM_UITOF, "{r} = uitofp {s} {a} to {t}"},
    {DLK_PRIM_FTOSI, "{r} = call {t} @llvm.fptosi.sat.{n}.{m}({s} {a})"},
    {DLK_PRIM_FTOUI, "{r} = call {t} @llvm.fptoui.sat.{n}.{m}({s} {a})"},
    {DLK_PRIM_FEXT, "{r} = fpext {s} {a} to {t}"},
    {DLK_PRIM_FTRUNC, "{r} = fptrunc {s} {a} to {t}"},
    {DLK_PRIM_BITCAST, "{r} = bitcast {s} {a} to {t}"},
    {DLK_PRIM_HTOF, "{r}.h = bitcast {s} {a} to {h}\n{r} = fpext {h} {r}.h to {t}"},
    {DLK_PRIM_FTOH, "{r}.h = fptrunc {s} {a} to {h}\n{r} = bitcast {h} {r}.h to {t}"},
};

static const char *template_of(dlk_prim prim)
{
    for (size_t k = 0; k < sizeof templates / sizeof templates[0]; k++)
        if (templates[k].prim == prim)
            return templates[k].text;
    return NULL;
}

static void put_double_width(printer *p, dlk_type type)
{
    static const char *const names[DLK_KIND_COUNT] = {
        [DLK_I8] = "i16", [DLK_I16] = "i32", [DLK_I32] = "i64", [DLK_I64] = "i128"};
    put_type_name(p, names[type.kind], type.lanes);
}

static void put_wide_width(printer *p, dlk_type type)
{
    static const char *const names[DLK_KIND_COUNT] = {
        [DLK_I8] = "i16", [DLK_I16] = "i32", [DLK_I32] = "i64", [DLK_I64] = "i128"};
    if (type.lanes > 1)
        dlk_buffer_printf(p->out, "splat (%s %d)", names[type.kind], dlk_kind_bits((dlk_kind)type.kind));
    else
        dlk_buffer_printf(p->out, "%d", dlk_kind_bits((dlk_kind)type.kind));
}

static void fill(printer *p, dlk_val value, char hole)
{
    const dlk_node *node = &p->func->nodes[value];
    const dlk_type t = node->type, s = type_of(p, node->a);
    switch (hole) {
    case 'r':
        dlk_buffer_printf(p->out, "%%v%d", value);
        break;
    case 'a':
        put_name(p, node->a);
        break;
    case 'b':
        put_name(p, node->b);
        break;
    case 'c':
        put_name(p, node->c);
        break;
    case 't':
        put_type(p, t);
        break;
    case 's':
        put_type(p, s);
        break;
    case 'p':
        put_type_name(p, "i1", t.lanes);
        break;
    case 'd':
        put_double_width(p, t);
        break;
    case 'h':
        put_type_name(p, "half", t.lanes);
        break;
    case 'n':
        put_suffix(p, t);
        break;
    case 'm':
        put_suffix(p, s);
        break;
    case '0':
    case '1':
        put_constant(p, t, (uint64_t)(hole - '0'));
        break;
    case '-':
        put_constant(p, t, ~0ull);
        break;
    case 'w':
        put_constant(p, t, (uint64_t)dlk_kind_bits((dlk_kind)t.kind));
        break;
    case 'l':
        put_constant(p, t, (uint64_t)dlk_kind_bits((dlk_kind)t.kind) - 1);
        break;
    default: /* 'W' */
        put_wide_width(p, t);
    }
}

static void put_template(printer *p, dlk_val value, const char *text)
{
    dlk_buffer_puts(p->out, "  ");
    while (*text) {
        const size_t plain = strcspn(text, "{\n");
        dlk_buffer_append(p->out, text, plain);
        text += plain;
        if (*text == '\n') {
            dlk_buffer_puts(p->out, "\n  ");
            text++;
        } else if (*text == '{') {
            fill(p, value, text[1]);
            text += 3;
        }
    }
    dlk_buffer_puts(p->out, "\n");
}

static void put_prim(printer *p, dlk_val value, const dlk_node *node)
{
    dlk_prim prim = (dlk_prim)node->prim;
    if (prim == DLK_PRIM_MAD && p->func->target->fast_fma)
        prim = DLK_PRIM_FMA;
    const char *text =
        prim == DLK_PRIM_MAD ? "{r}.p = fmul {t} {a}, {b}\n{r} = fadd {t} {r}.p, {c}" : template_of(prim);
    put_template(p, value, text);
}

/* ---- Vectors ---- */

static void put_iota(printer *p, dlk_val value, dlk_type type)
{
    dlk_buffer_printf(p->out, "  %%v%d = add ", value);
    put_type(p, type);
    dlk_buffer_puts(p->out, " <");
    for (int l = 0; l < type.lanes; l++)
        dlk_buffer_printf(p->out, "%s%s %d", l ? ", " : "", kind_types[type.kind], l);
    dlk_buffer_puts(p->out, ">, zeroinitializer\n");
}

/* %name = a vector whose lanes are all `scalar` (text). */
static void put_splat_of(printer *p, const char *name, const char *element, const char *scalar, int lanes)
{
    dlk_buffer_printf(p->out, "  %s.i = insertelement <%d x %s> poison, %s %s, i64 0\n", name, lanes, element, element,
                      scalar);
    dlk_buffer_printf(p->out, "  %s = shufflevector <%d x %s> %s.i, <%d x %s> poison, <%d x i32> zeroinitializer\n",
                      name, lanes, element, name, lanes, element, lanes);
}

static const char *text_of(printer *p, dlk_val value)
{
    dlk_buffer text = {.arena = p->func->arena};
    dlk_buffer *out = p->out;
    p->out = &text;
    put_name(p, value);
    p->out = out;
    return text.data;
}

static void put_splat(printer *p, dlk_val value, const dlk_node *node)
{
    put_splat_of(p, dlk_arena_printf(p->func->arena, "%%v%d", value), kind_types[node->type.kind], text_of(p, node->a),
                 node->type.lanes);
}

/* Operands of one lane are scalars in LLVM, which no shuffle takes. */
static void put_perm_of_scalars(printer *p, dlk_val value, const dlk_node *node)
{
    const char *element = kind_types[node->type.kind];
    if (node->type.lanes == 1) {
        const bool first = node->perm[0] <= 0;
        dlk_buffer_printf(p->out, "  %%v%d = select i1 true, %s %s, %s %s\n", value, element,
                          text_of(p, first ? node->a : node->b), element, text_of(p, node->a));
        return;
    }
    for (int l = 0; l < node->type.lanes; l++) {
        const bool last = l == node->type.lanes - 1;
        dlk_buffer_printf(p->out, "  %%v%d%s = insertelement ", value,
                          last ? "" : dlk_arena_printf(p->func->arena, ".i%d", l));
        put_type(p, node->type);
        dlk_buffer_printf(p->out, " %s, %s %s, i64 %d\n",
                          l ? dlk_arena_printf(p->func->arena, "%%v%d.i%d", value, l - 1) : "poison", element,
                          text_of(p, node->perm[l] <= 0 ? node->a : node->b), l);
    }
}

static void put_perm(printer *p, dlk_val value, const dlk_node *node)
{
    const dlk_type from = type_of(p, node->a);
    if (from.lanes == 1) {
        put_perm_of_scalars(p, value, node);
        return;
    }
    if (node->type.lanes == 1) {
        const int lane = node->perm[0] < 0 ? 0 : node->perm[0];
        dlk_buffer_printf(p->out, "  %%v%d = extractelement ", value);
        put_typed(p, lane < from.lanes ? node->a : node->b);
        dlk_buffer_printf(p->out, ", i64 %d\n", lane % from.lanes);
        return;
    }
    dlk_buffer_printf(p->out, "  %%v%d = shufflevector ", value);
    put_typed(p, node->a);
    dlk_buffer_puts(p->out, ", ");
    if (node->b == DLK_NONE) {
        put_type(p, from);
        dlk_buffer_puts(p->out, " poison");
    } else {
        put_typed(p, node->b);
    }
    dlk_buffer_printf(p->out, ", <%d x i32> <", node->type.lanes);
    for (int l = 0; l < node->type.lanes; l++)
        dlk_buffer_printf(p->out, node->perm[l] < 0 ? "%si32 poison" : "%si32 %d", l ? ", " : "", node->perm[l]);
    dlk_buffer_puts(p->out, ">\n");
}

static void put_any(printer *p, dlk_val value, const dlk_node *node)
{
    dlk_buffer_printf(p->out, "  %%v%d = call i1 @llvm.vector.reduce.or.v%di1(", value, type_of(p, node->a).lanes);
    put_typed(p, node->a);
    dlk_buffer_puts(p->out, ")\n");
}

/* ---- Memory ---- */

static const char *buffer_name(const printer *p, int64_t buffer)
{
    return dlk_arena_printf(p->func->arena, "%%b%lld", (long long)buffer);
}

/* Metadata: !0 is the domain of alias scopes; buffer b has scope !(10 + 3b), the list of it !(11 + 3b), and the list of all
 * others !(12 + 3b). */
static void put_alias(printer *p, int64_t buffer)
{
    if (p->func->buffers[buffer].noalias)
        dlk_buffer_printf(p->out, ", !alias.scope !%lld, !noalias !%lld", (long long)(11 + 3 * buffer),
                          (long long)(12 + 3 * buffer));
}

static void put_address(printer *p, const char *name, const dlk_node *node, int64_t plus)
{
    dlk_buffer_printf(p->out, "  %s%s = getelementptr i8, ptr %s, i64 ", name, plus ? ".0" : "",
                      buffer_name(p, node->imm));
    put_name(p, node->a);
    dlk_buffer_puts(p->out, "\n");
    if (plus)
        dlk_buffer_printf(p->out, "  %s = getelementptr i8, ptr %s.0, i64 %lld\n", name, name, (long long)plus);
}

/* The mask of the lanes below node->count, as %name.k, compared in integers as wide as an element: a mask of the data's own
 * shape is split into registers as the data is. */
static void put_mask(printer *p, const char *name, const dlk_node *node)
{
    static const char *const words[] = {[1] = "i8", [2] = "i16", [4] = "i32", [8] = "i64"};
    const int lanes = node->type.lanes;
    const char *word = words[dlk_kind_bytes((dlk_kind)node->type.kind)];
    dlk_buffer_printf(p->out, "  %s.c0 = call i64 @llvm.smax.i64(i64 %s, i64 0)\n", name, text_of(p, node->count));
    dlk_buffer_printf(p->out, "  %s.c1 = call i64 @llvm.smin.i64(i64 %s.c0, i64 %d)\n", name, name, lanes);
    dlk_buffer_printf(p->out, "  %s.c2 = %s i64 %s.c1 to %s\n", name, strcmp(word, "i64") ? "trunc" : "bitcast", name,
                      word);
    put_splat_of(p, dlk_arena_printf(p->func->arena, "%s.c", name), word,
                 dlk_arena_printf(p->func->arena, "%s.c2", name), lanes);
    dlk_buffer_printf(p->out, "  %s.k = icmp sgt <%d x %s> %s.c, <", name, lanes, word, name);
    for (int l = 0; l < lanes; l++)
        dlk_buffer_printf(p->out, "%s%s %d", l ? ", " : "", word, l);
    dlk_buffer_puts(p->out, ">\n");
}

static void put_masked(printer *p, const char *name, const dlk_node *node)
{
    put_mask(p, name, node);
    if (node->op == DLK_IR_LOAD) {
        dlk_buffer_printf(p->out, "  %s = call ", name);
        put_type(p, node->type);
        dlk_buffer_puts(p->out, " @llvm.masked.load.");
        put_suffix(p, node->type);
        dlk_buffer_printf(p->out, ".p0(ptr %s.p, i32 %d, <%d x i1> %s.k, ", name, node->align, node->type.lanes, name);
        put_type(p, node->type);
        dlk_buffer_puts(p->out, " zeroinitializer)");
    } else {
        dlk_buffer_puts(p->out, "  call void @llvm.masked.store.");
        put_suffix(p, node->type);
        dlk_buffer_puts(p->out, ".p0(");
        put_typed(p, node->d);
        dlk_buffer_printf(p->out, ", ptr %s.p, i32 %d, <%d x i1> %s.k)", name, node->align, node->type.lanes, name);
    }
    put_alias(p, node->imm);
    dlk_buffer_puts(p->out, "\n");
}

static void put_whole(printer *p, const char *name, const dlk_node *node, const char *value, int align)
{
    if (node->op == DLK_IR_LOAD) {
        dlk_buffer_printf(p->out, "  %s = load ", value);
        put_type(p, node->type);
        dlk_buffer_printf(p->out, ", ptr %s.p, align %d", name, align);
    } else {
        dlk_buffer_puts(p->out, "  store ");
        put_type(p, node->type);
        dlk_buffer_printf(p->out, " %s, ptr %s.p, align %d", value, name, align);
    }
    put_alias(p, node->imm);
    if (node->nontemporal) {
        dlk_buffer_puts(p->out, ", !nontemporal !1");
        p->uses_nontemporal = true;
    }
    dlk_buffer_puts(p->out, "\n");
}

static void put_reversal(printer *p, const char *to, const char *from, dlk_type type)
{
    dlk_buffer_printf(p->out, "  %s = shufflevector ", to);
    put_type(p, type);
    dlk_buffer_printf(p->out, " %s, ", from);
    put_type(p, type);
    dlk_buffer_printf(p->out, " poison, <%d x i32> <", type.lanes);
    for (int l = 0; l < type.lanes; l++)
        dlk_buffer_printf(p->out, "%si32 %d", l ? ", " : "", type.lanes - 1 - l);
    dlk_buffer_puts(p->out, ">\n");
}

static void put_reversed(printer *p, const char *name, const dlk_node *node)
{
    const int bytes = dlk_kind_bytes((dlk_kind)node->type.kind), align = node->align < bytes ? node->align : bytes;
    const char *turned = dlk_arena_printf(p->func->arena, "%s.v", name);
    if (node->op == DLK_IR_LOAD) {
        put_whole(p, name, node, turned, align);
        put_reversal(p, name, turned, node->type);
    } else {
        put_reversal(p, turned, text_of(p, node->d), node->type);
        put_whole(p, name, node, turned, align);
    }
}

/* The address of lane l of a UNIFORM or GATHER step, as %name.a<l>. */
static void put_lane_address(printer *p, const char *name, const dlk_node *node, int l)
{
    if (node->step == DLK_STEP_UNIFORM)
        dlk_buffer_printf(p->out, "  %s.o%d = mul i64 %s, %d\n", name, l, text_of(p, node->b), l);
    else
        dlk_buffer_printf(p->out, "  %s.o%d = extractelement <%d x i64> %s, i64 %d\n", name, l, node->type.lanes,
                          text_of(p, node->b), l);
    dlk_buffer_printf(p->out, "  %s.a%d = getelementptr i8, ptr %s.p, i64 %s.o%d\n", name, l, name, name, l);
}

static void put_lane_by_lane(printer *p, const char *name, const dlk_node *node)
{
    const char *element = kind_types[node->type.kind];
    const int lanes = node->type.lanes;
    for (int l = 0; l < lanes; l++) {
        put_lane_address(p, name, node, l);
        if (node->op == DLK_IR_LOAD) {
            dlk_buffer_printf(p->out, "  %s.e%d = load %s, ptr %s.a%d, align 1", name, l, element, name, l);
            put_alias(p, node->imm);
            dlk_buffer_printf(p->out, "\n  %s%s = insertelement <%d x %s> %s, %s %s.e%d, i64 %d\n", name,
                              l == lanes - 1 ? "" : dlk_arena_printf(p->func->arena, ".x%d", l), lanes, element,
                              l ? dlk_arena_printf(p->func->arena, "%s.x%d", name, l - 1) : "poison", element, name, l,
                              l);
        } else {
            dlk_buffer_printf(p->out, "  %s.e%d = extractelement <%d x %s> %s, i64 %d\n", name, l, lanes, element,
                              text_of(p, node->d), l);
            dlk_buffer_printf(p->out, "  store %s %s.e%d, ptr %s.a%d, align 1", element, name, l, name, l);
            put_alias(p, node->imm);
            dlk_buffer_puts(p->out, "\n");
        }
    }
}

static void put_zero_step(printer *p, const char *name, const dlk_node *node)
{
    const char *element = kind_types[node->type.kind], *one = dlk_arena_printf(p->func->arena, "%s.e", name);
    dlk_buffer_printf(p->out, "  %s = load %s, ptr %s.p, align %d", one, element, name, node->align);
    put_alias(p, node->imm);
    dlk_buffer_puts(p->out, "\n");
    put_splat_of(p, name, element, one, node->type.lanes);
}

static void put_memory(printer *p, dlk_val value, const dlk_node *node)
{
    const char *name = dlk_arena_printf(p->func->arena, "%%v%d", value);
    const bool one = node->type.lanes == 1, partial = node->count != DLK_NONE;
    const int64_t back =
        node->step == DLK_STEP_REVERSE ? (node->type.lanes - 1) * dlk_kind_bytes((dlk_kind)node->type.kind) : 0;
    if (partial && (node->step != DLK_STEP_UNIT || one)) {
        p->status = dlk_fail(DLK_ERR_INTERNAL, "LLVM text: node v%d: partial access that no pass expanded", value);
        return;
    }
    put_address(p, dlk_arena_printf(p->func->arena, "%s.p", name), node, -back);
    if (partial)
        put_masked(p, name, node);
    else if (one || node->step == DLK_STEP_UNIT)
        put_whole(p, name, node, node->op == DLK_IR_LOAD ? name : text_of(p, node->d), node->align);
    else if (node->step == DLK_STEP_REVERSE)
        put_reversed(p, name, node);
    else if (node->step == DLK_STEP_ZERO)
        put_zero_step(p, name, node);
    else
        put_lane_by_lane(p, name, node);
}

static void put_table_lane(printer *p, const char *name, const dlk_node *node, const char *index, const char *suffix)
{
    const dlk_table *table = &p->func->tables[node->imm];
    const char *element = kind_types[table->kind];
    dlk_buffer_printf(p->out, "  %s%s.l = call i64 @llvm.smax.i64(i64 %s, i64 0)\n", name, suffix, index);
    dlk_buffer_printf(p->out, "  %s%s.h = call i64 @llvm.smin.i64(i64 %s%s.l, i64 %d)\n", name, suffix, name, suffix,
                      table->count - 1);
    dlk_buffer_printf(p->out, "  %s%s.p = getelementptr [%d x %s], ptr @t%lld, i64 0, i64 %s%s.h\n", name, suffix,
                      table->count, element, (long long)node->imm, name, suffix);
    dlk_buffer_printf(p->out, "  %s%s = load %s, ptr %s%s.p\n", name, suffix, element, name, suffix);
}

static void put_table_load(printer *p, dlk_val value, const dlk_node *node)
{
    dlk_arena *arena = p->func->arena;
    const char *name = dlk_arena_printf(arena, "%%v%d", value), *element = kind_types[node->type.kind];
    const int lanes = node->type.lanes;
    if (lanes == 1) {
        put_table_lane(p, name, node, text_of(p, node->a), "");
        return;
    }
    for (int l = 0; l < lanes; l++) {
        const char *index = dlk_arena_printf(arena, "%s.n%d", name, l), *lane = dlk_arena_printf(arena, ".e%d", l);
        dlk_buffer_printf(p->out, "  %s = extractelement <%d x i64> %s, i64 %d\n", index, lanes, text_of(p, node->a),
                          l);
        put_table_lane(p, name, node, index, lane);
        dlk_buffer_printf(p->out, "  %s%s = insertelement <%d x %s> %s, %s %s%s, i64 %d\n", name,
                          l == lanes - 1 ? "" : dlk_arena_printf(arena, ".x%d", l), lanes, element,
                          l ? dlk_arena_printf(arena, "%s.x%d", name, l - 1) : "poison", element, name, lane, l);
    }
}

/* ---- Control ---- */

static void put_block(printer *p, const dlk_block *block);

static void start_block(printer *p, const char *label)
{
    dlk_buffer_printf(p->out, "%s:\n", label);
    p->block = label;
}

static void put_phi(printer *p, const char *name, dlk_type type, const char *a, const char *from_a, const char *b,
                    const char *from_b)
{
    dlk_buffer_printf(p->out, "  %s = phi ", name);
    put_type(p, type);
    dlk_buffer_printf(p->out, " [ %s, %%%s ], [ %s, %%%s ]\n", a, from_a, b, from_b);
}

static void put_loop(printer *p, dlk_val value, const dlk_node *node)
{
    dlk_arena *arena = p->func->arena;
    const dlk_block *body = node->body;
    const int n = p->n_labels++;
    const char *before = p->block, *head = dlk_arena_printf(arena, "L%d", n),
               *latch = dlk_arena_printf(arena, "L%d.latch", n);
    const char *leave = dlk_arena_printf(arena, "L%d.leave", n), *after = dlk_arena_printf(arena, "L%d.after", n);
    dlk_buffer_printf(p->out, "  br label %%%s\n", head);
    start_block(p, head);
    put_phi(p, text_of(p, body->params[0]), type_of(p, body->params[0]), text_of(p, node->a), before,
            dlk_arena_printf(arena, "%%v%d.i", value), latch);
    for (int k = 0; k < node->n_inits; k++)
        put_phi(p, text_of(p, body->params[k + 1]), type_of(p, node->inits[k]), text_of(p, node->inits[k]), before,
                text_of(p, body->yields[k]), latch);
    dlk_buffer_printf(p->out, "  %%v%d.m = icmp slt i64 %s, %s\n", value, text_of(p, body->params[0]),
                      text_of(p, node->b));
    dlk_buffer_printf(p->out, "  br i1 %%v%d.m, label %%L%d.body, label %%%s\n", value, n, after);
    start_block(p, dlk_arena_printf(arena, "L%d.body", n));
    put_block(p, body);
    if (node->has_until)
        dlk_buffer_printf(p->out, "  br i1 %s, label %%%s, label %%%s\n%s:\n  br label %%%s\n",
                          text_of(p, body->yields[node->n_inits]), leave, latch, leave, after);
    else
        dlk_buffer_printf(p->out, "  br label %%%s\n", latch);
    start_block(p, latch);
    dlk_buffer_printf(p->out, "  %%v%d.i = add i64 %s, %s\n  br label %%%s\n", value, text_of(p, body->params[0]),
                      text_of(p, node->c), head);
    start_block(p, after);
    for (int k = 0; node->has_until && k < node->n_inits; k++)
        put_phi(p, dlk_arena_printf(arena, "%%v%d.r%d", value, k), type_of(p, node->inits[k]),
                text_of(p, body->params[k + 1]), head, text_of(p, body->yields[k]), leave);
}

static void put_if(printer *p, dlk_val value, const dlk_node *node)
{
    dlk_arena *arena = p->func->arena;
    const int n = p->n_labels++;
    const char *then = dlk_arena_printf(arena, "I%d.then", n), *other = dlk_arena_printf(arena, "I%d.else", n),
               *end = dlk_arena_printf(arena, "I%d.end", n);
    dlk_buffer_printf(p->out, "  br i1 %s, label %%%s, label %%%s%s\n", text_of(p, node->a), then, other,
                      node->imm ? ", !prof !2" : "");
    start_block(p, then);
    put_block(p, node->body);
    const char *then_end = p->block;
    dlk_buffer_printf(p->out, "  br label %%%s\n", end);
    start_block(p, other);
    put_block(p, node->other);
    const char *other_end = p->block;
    dlk_buffer_printf(p->out, "  br label %%%s\n", end);
    start_block(p, end);
    for (int k = 0; k < node->body->n_yields; k++)
        put_phi(p, dlk_arena_printf(arena, "%%v%d.r%d", value, k), type_of(p, node->body->yields[k]),
                text_of(p, node->body->yields[k]), then_end, text_of(p, node->other->yields[k]), other_end);
}

static void put_node(printer *p, dlk_val value)
{
    const dlk_node *node = &p->func->nodes[value];
    switch ((dlk_ir_op)node->op) {
    case DLK_IR_IOTA:
        put_iota(p, value, node->type);
        break;
    case DLK_IR_PRIM:
        put_prim(p, value, node);
        break;
    case DLK_IR_SPLAT:
        put_splat(p, value, node);
        break;
    case DLK_IR_PERM:
        put_perm(p, value, node);
        break;
    case DLK_IR_ANY:
        put_any(p, value, node);
        break;
    case DLK_IR_LOAD:
    case DLK_IR_STORE:
        put_memory(p, value, node);
        break;
    case DLK_IR_TABLE:
        put_table_load(p, value, node);
        break;
    case DLK_IR_LOOP:
        put_loop(p, value, node);
        break;
    case DLK_IR_IF:
        put_if(p, value, node);
        break;
    case DLK_IR_SHFL_XOR:
        p->status = dlk_fail(DLK_ERR_INTERNAL, "LLVM text: node v%d: the CPU has no shuffles between threads", value);
        break;
    default: /* named where they are used; a barrier of one thread is nothing */
        break;
    }
}

static void put_block(printer *p, const dlk_block *block)
{
    for (int k = 0; k < block->n && p->status == DLK_OK; k++)
        put_node(p, block->nodes[k]);
}

/* ---- The function ---- */

static void put_tables(printer *p)
{
    for (int t = 0; t < p->func->n_tables; t++) {
        const dlk_table *table = &p->func->tables[t];
        const char *element = kind_types[table->kind];
        dlk_buffer_printf(p->out, "@t%d = private unnamed_addr constant [%d x %s] [", t, table->count, element);
        for (int k = 0; k < table->count; k++) {
            dlk_buffer_printf(p->out, "%s%s ", k ? ", " : "", element);
            put_element(p, (dlk_kind)table->kind, table->bits[k]);
        }
        dlk_buffer_puts(p->out, "]\n");
    }
}

static int count_globals(const dlk_func *func)
{
    int n = 0;
    while (n < func->n_buffers && func->buffers[n].space == DLK_SPACE_GLOBAL)
        n++;
    return n;
}

static void put_uniform(printer *p, int k, int word)
{
    const dlk_kind kind = (dlk_kind)p->func->uniforms[k].kind;
    const bool is_float = dlk_kind_is_float(kind);
    const char *type = is_float ? "double" : "i64";
    dlk_buffer_printf(p->out, "  %%u%d.p = getelementptr i64, ptr %%arguments, i64 %d\n", k, word);
    dlk_buffer_printf(p->out, "  %%u%d%s = load %s, ptr %%u%d.p, align 8, !invariant.load !3\n", k,
                      kind == DLK_I64 || kind == DLK_F64 ? "" : ".w", type, k);
    if (kind == DLK_F32)
        dlk_buffer_printf(p->out, "  %%u%d = fptrunc double %%u%d.w to float\n", k, k);
    else if (kind != DLK_I64 && kind != DLK_F64)
        dlk_buffer_printf(p->out, "  %%u%d = trunc i64 %%u%d.w to %s\n", k, k, kind_types[kind]);
}

static void put_entry(printer *p)
{
    const dlk_func *func = p->func;
    const int n_globals = count_globals(func);
    for (int b = 0; b < func->n_buffers; b++) {
        if (b < n_globals) {
            dlk_buffer_printf(p->out, "  %%b%d.p = getelementptr i64, ptr %%arguments, i64 %d\n", b, b);
            dlk_buffer_printf(p->out, "  %%b%d = load ptr, ptr %%b%d.p, align 8, !invariant.load !3\n", b, b);
        } else {
            dlk_buffer_printf(p->out, "  %%b%d = alloca [%lld x %s], align 64\n", b, (long long)func->buffers[b].count,
                              kind_types[func->buffers[b].kind]);
        }
    }
    for (int k = 0; k < func->n_uniforms; k++)
        put_uniform(p, k, n_globals + k);
}

static void put_metadata(printer *p)
{
    const int n = count_globals(p->func);
    dlk_buffer_puts(p->out,
                    "!0 = distinct !{!0}\n!1 = !{i32 1}\n!2 = !{!\"branch_weights\", i32 1, i32 4000}\n!3 = !{}\n"
                    "!4 = !{i32 8, !\"cf-protection-branch\", i32 1}\n!llvm.module.flags = !{!4}\n");
    for (int b = 0; b < n; b++) {
        dlk_buffer_printf(p->out, "!%d = distinct !{!%d, !0}\n!%d = !{!%d}\n!%d = !{", 10 + 3 * b, 10 + 3 * b,
                          11 + 3 * b, 10 + 3 * b, 12 + 3 * b);
        bool first = true;
        for (int other = 0; other < n; other++) {
            if (other == b || !p->func->buffers[other].noalias)
                continue;
            dlk_buffer_printf(p->out, "%s!%d", first ? "" : ", ", 10 + 3 * other);
            first = false;
        }
        dlk_buffer_puts(p->out, "}\n");
    }
}

static void put_attributes(printer *p)
{
    const int bits = p->func->target->vector_bytes * 8;
    dlk_buffer_printf(
        p->out,
        "attributes #0 = { nounwind \"frame-pointer\"=\"all\" \"no-builtins\" \"min-legal-vector-width\"=\"%d\" "
        "\"prefer-vector-width\"=\"%d\" }\n",
        bits, bits);
}

dlk_status dlk_emit_llvm(const dlk_func *func, dlk_buffer *out)
{
    printer p = {.func = func, .out = out, .status = DLK_OK};
    if (func->threads != 1)
        return dlk_fail(DLK_ERR_INTERNAL, "LLVM text: the function has %d threads, expected 1", func->threads);
    put_tables(&p);
    dlk_buffer_puts(out, "define dso_local void @kernel(ptr noalias readonly %arguments, i64 %first, i64 %end) #0 {\n");
    start_block(&p, "entry");
    put_entry(&p);
    dlk_buffer_puts(out,
                    "  br label %items\nitems:\n  %item = phi i64 [ %first, %entry ], [ %item.next, %items.latch ]\n"
                    "  %item.more = icmp slt i64 %item, %end\n  br i1 %item.more, label %items.body, label %done\n");
    start_block(&p, "items.body");
    put_block(&p, func->body);
    dlk_buffer_puts(
        out, "  br label %items.latch\nitems.latch:\n  %item.next = add i64 %item, 1\n  br label %items\ndone:\n");
    if (p.uses_nontemporal)
        dlk_buffer_puts(out, "  call void @llvm.x86.sse.sfence()\n");
    dlk_buffer_puts(out, "  ret void\n}\n");
    if (p.uses_nontemporal)
        dlk_buffer_puts(out, "declare void @llvm.x86.sse.sfence()\n");
    put_attributes(&p);
    put_metadata(&p);
    return p.status;
}
