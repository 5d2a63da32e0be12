/* Every primitive on every kind, compiled for each instruction set that this machine has, against its value by
 * dlk_prim_eval: edge values and random ones, as one lane and as vectors. And what the compiler module refuses. */
#include "tests/test.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/os.h"
#include "codegen/emit.h"
#include "codegen/interpret.h"
#include "codegen/schedule.h"
#include "runtime/backend.h"

enum { N = 64 };

static const uint64_t edges[] = {
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    0x7fffffffffffffff,
    0x8000000000000000,
    0xffffffffffffffff,
    0x3f800000,
    0xbf800000,
    0x7f800000,
    0xff800000,
    0x7fc00000,
    0x00800000,
    0x007fffff,
    0x00000001,
    0x7f7fffff,
    0x4f000000,
    0xcf000000,
    0x5f000000,
    0x3ff0000000000000,
    0xbff0000000000000,
    0x7ff0000000000000,
    0xfff0000000000000,
    0x7ff8000000000000,
    0x0010000000000000,
    0x000fffffffffffff,
    0x7fefffffffffffff,
    0x43e0000000000000,
    0xc3e0000000000000,
    0x41dfffffffc00000,
    0x3fe0000000000000,
    0x3f000000,
    0x40200000,
    0x4004000000000000,
    0x38800000,
    0x33800000,
    0x33000000,
    0x477fefff,
    0x477ff000,
};
enum { N_EDGES = sizeof edges / sizeof edges[0] };

static uint64_t state = 0x9E3779B97F4A7C15ull;
static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

typedef struct trial {
    dlk_prim prim;
    dlk_kind from, to;
    int lanes;
} trial;

static dlk_val load_operand(dlk_func *func, trial t, int operand, dlk_kind kind)
{
    /* predicates travel as bytes */
    const dlk_kind stored = kind == DLK_P1 ? DLK_I8 : kind;
    const int buffer = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_INPUT, (uint8_t)operand}, false);
    const dlk_val offset = dlk_ir_prim(func, DLK_PRIM_MUL, dlk_ir_item(func, 0),
                                       dlk_ir_i64(func, (int64_t)t.lanes * dlk_kind_bytes(stored)), DLK_NONE);
    const dlk_type type = {(uint8_t)stored, (uint8_t)t.lanes};
    const dlk_val loaded =
        dlk_ir_load(func, type, (dlk_mem){buffer, offset, DLK_STEP_UNIT, DLK_NONE, DLK_NONE, 1, false});
    return kind == DLK_P1 ? dlk_ir_convert(func, DLK_PRIM_ITRUNC, DLK_P1, loaded) : loaded;
}

static dlk_func *make(dlk_arena *arena, const dlk_target *target, trial t)
{
    dlk_func *func = dlk_func_create(arena, target);
    const int out = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_OUTPUT, 0}, true);
    const dlk_prim_info *info = &dlk_prims[t.prim];
    dlk_val v[3] = {DLK_NONE, DLK_NONE, DLK_NONE};
    for (int k = 0; k < info->arity; k++)
        v[k] = load_operand(func, t, k, t.prim == DLK_PRIM_SELECT && k == 0 ? DLK_P1 : t.from);
    dlk_val r =
        info->result == 'T' ? dlk_ir_convert(func, t.prim, t.to, v[0]) : dlk_ir_prim(func, t.prim, v[0], v[1], v[2]);
    if (dlk_val_type(func, r).kind == DLK_P1)
        r = dlk_ir_convert(func, DLK_PRIM_ZEXT, DLK_I8, r);
    const int64_t bytes = dlk_kind_bytes((dlk_kind)dlk_val_type(func, r).kind);
    const dlk_val offset =
        dlk_ir_prim(func, DLK_PRIM_MUL, dlk_ir_item(func, 0), dlk_ir_i64(func, t.lanes * bytes), DLK_NONE);
    dlk_ir_store(func, r, (dlk_mem){out, offset, DLK_STEP_UNIT, DLK_NONE, DLK_NONE, 1, false});
    return func;
}

static bool is_nan(dlk_kind kind, uint64_t bits)
{
    if (kind == DLK_F32)
        return (bits & 0x7fffffff) > 0x7f800000;
    return kind == DLK_F64 && (bits & ~(1ull << 63)) > 0x7ffull << 52;
}

static uint64_t element(const unsigned char *bytes, dlk_kind kind, int k)
{
    uint64_t word = 0;
    const size_t size = kind == DLK_P1 ? 1 : (size_t)dlk_kind_bytes(kind);
    memcpy(&word, bytes + (size_t)k * size, size);
    return kind == DLK_P1 ? word & 1 : word;
}

static void fill_operand(unsigned char *bytes, dlk_kind kind, int operand, int round)
{
    const size_t size = kind == DLK_P1 ? 1 : (size_t)dlk_kind_bytes(kind);
    for (int k = 0; k < N; k++) {
        const uint64_t word = round < N_EDGES && operand == 1 ? edges[round]
                              : round < N_EDGES               ? edges[k % N_EDGES]
                                                              : next_random();
        memcpy(bytes + (size_t)k * size, &word, size);
    }
}

static void check_round(const dlk_code *code, const dlk_target *target, trial t, int round)
{
    unsigned char in[3][N * 8], out[N * 8];
    for (int k = 0; k < 3; k++)
        fill_operand(in[k], t.prim == DLK_PRIM_SELECT && k == 0 ? DLK_P1 : t.from, k, round);
    uint64_t arguments[4] = {(uint64_t)(uintptr_t)out};
    for (int k = 0; k < dlk_prims[t.prim].arity; k++)
        arguments[k + 1] = (uint64_t)(uintptr_t)in[k];
    const dlk_call call = {
        .arguments = arguments, .n_arguments = 4, .n_buffers = 4, .items = N / t.lanes, .outer_steps = 1, .threads = 1};
    CHECK_INT(dlk_backend_cpu.launch(code, &call), DLK_OK);
    for (int k = 0; k < N; k++) {
        const uint64_t a = element(in[0], t.prim == DLK_PRIM_SELECT ? DLK_P1 : t.from, k),
                       b = element(in[1], t.from, k), c = element(in[2], t.from, k);
        const uint64_t wanted = dlk_prim_eval(t.prim, t.from, t.to, a, b, c, target->fast_fma),
                       found = element(out, t.to, k);
        /* a half's NaN is a NaN whatever its payload */
        const bool half_nan = t.prim == DLK_PRIM_FTOH && (wanted & 0x7fff) > 0x7c00 && (found & 0x7fff) > 0x7c00;
        const bool same = found == wanted || (is_nan(t.to, wanted) && is_nan(t.to, found)) || half_nan;
        CHECK_MSG(same,
                  "%s %s x%d kind %d to %d of %" PRIx64 " %" PRIx64 " %" PRIx64 " is %" PRIx64 ", expected %" PRIx64,
                  target->name, dlk_prims[t.prim].name, t.lanes, t.from, t.to, a, b, c, found, wanted);
        if (!same)
            return;
    }
}

/* All verbs up to `load`. */
static dlk_status make_code(const dlk_target *target, dlk_func *func, dlk_arena *arena, dlk_image *image,
                            dlk_code **code)
{
    dlk_buffer text = {.arena = arena};
    DLK_TRY(dlk_ir_verify(func));
    DLK_TRY(dlk_passes_run(func));
    DLK_TRY(dlk_backend_cpu.emit(func, &text));
    DLK_TRY(dlk_backend_cpu.compile(target, text.data, text.size, image));
    return dlk_backend_cpu.load(func, image, code);
}

static void check_trial(const dlk_target *target, trial t)
{
    dlk_arena arena = {0};
    dlk_image image = {0};
    dlk_code *code = NULL;
    const dlk_status status = make_code(target, make(&arena, target, t), &arena, &image, &code);
    CHECK_MSG(status == DLK_OK, "%s %s x%d kind %d: %s", target->name, dlk_prims[t.prim].name, t.lanes, t.from,
              dlk_last_error());
    for (int round = 0; status == DLK_OK && round < N_EDGES + 8 && !test_failed; round++)
        check_round(code, target, t, round);
    dlk_backend_cpu.unload(code);
    dlk_free(image.bytes);
    dlk_arena_free(&arena);
}

static bool converts(dlk_prim prim, dlk_kind from, dlk_kind to)
{
    const int f = dlk_kind_bits(from), t = dlk_kind_bits(to);
    const bool fi = dlk_kind_is_int(from), ti = dlk_kind_is_int(to), ff = dlk_kind_is_float(from),
               tf = dlk_kind_is_float(to);
    switch (prim) {
    case DLK_PRIM_SEXT:
        return fi && ti && t > f;
    case DLK_PRIM_ZEXT:
        return !ff && ti && t > f;
    case DLK_PRIM_ITRUNC:
        return fi && !tf && t < f;
    case DLK_PRIM_SITOF:
    case DLK_PRIM_UITOF:
        return fi && tf;
    case DLK_PRIM_FTOSI:
    case DLK_PRIM_FTOUI:
        return ff && ti;
    case DLK_PRIM_FEXT:
        return from == DLK_F32 && to == DLK_F64;
    case DLK_PRIM_FTRUNC:
        return from == DLK_F64 && to == DLK_F32;
    case DLK_PRIM_BITCAST:
        return f == t && from != to && from != DLK_P1 && to != DLK_P1;
    case DLK_PRIM_HTOF:
        return from == DLK_I16 && to == DLK_F32;
    default:
        return from == DLK_F32 && to == DLK_I16;
    }
}

static bool takes(dlk_prim prim, dlk_kind kind)
{
    const char args = dlk_prims[prim].args;
    if (args == 'A')
        return prim == DLK_PRIM_SELECT || !dlk_kind_is_float(kind);
    return args == 'F' ? dlk_kind_is_float(kind) : dlk_kind_is_int(kind);
}

static void check_prim_on(const dlk_target *target, dlk_prim prim, int lanes)
{
    for (int from = 0; from < DLK_KIND_COUNT && !test_failed; from++) {
        if (dlk_prims[prim].result != 'T' && takes(prim, (dlk_kind)from))
            check_trial(target,
                        (trial){prim, (dlk_kind)from, dlk_prims[prim].result == 'P' ? DLK_P1 : (dlk_kind)from, lanes});
        for (int to = 0; to < DLK_KIND_COUNT && dlk_prims[prim].result == 'T'; to++)
            if (converts(prim, (dlk_kind)from, (dlk_kind)to))
                check_trial(target, (trial){prim, (dlk_kind)from, (dlk_kind)to, lanes});
    }
}

/* False where this machine has no such target: the test is skipped, or has failed. */
static bool get_target(const char *level, dlk_target *out)
{
    CHECK_INT(dlk_option_set("cpu_target", level), DLK_OK);
    const dlk_status status = dlk_backend_cpu.target(out);
    if (status == DLK_ERR_UNSUPPORTED || status == DLK_ERR_NO_LIBRARY)
        test_skipped = dlk_last_error();
    else
        CHECK_MSG(status == DLK_OK, "%s", dlk_last_error());
    return status == DLK_OK;
}

static void check_level(const char *level, int lanes)
{
    dlk_target target;
    if (!get_target(level, &target))
        return;
    for (int prim = 0; prim < DLK_PRIM_COUNT && !test_failed; prim++)
        check_prim_on(&target, (dlk_prim)prim, lanes);
}

TEST(v2_vectors)
{
    check_level("v2", 8);
}
TEST(v3_vectors)
{
    check_level("v3", 16);
}
TEST(v4_vectors)
{
    check_level("v4", 32);
}
TEST(host_one_lane)
{
    check_level("host", 1);
}

/* ---- Accesses of only the first lanes ---- */

/* Output = the first `count` lanes of the input, zeros behind them; second output: only those lanes are written. */
static dlk_func *make_partial(dlk_arena *arena, const dlk_target *target, dlk_type type)
{
    dlk_func *func = dlk_func_create(arena, target);
    const int whole = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_OUTPUT, 0}, true);
    const int some = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_OUTPUT, 1}, true);
    const int in = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_INPUT, 0}, false);
    const int counts = dlk_func_buffer(func, (dlk_buffer_role){DLK_BUFFER_INPUT, 1}, false);
    const dlk_val start = dlk_ir_i64(func, 0);
    const dlk_mem whole_mem = {whole, start, DLK_STEP_UNIT, DLK_NONE, DLK_NONE, 1, false};
    dlk_mem mem = {counts, start, DLK_STEP_UNIT, DLK_NONE, DLK_NONE, 8, false};
    const dlk_val count = dlk_ir_load(func, (dlk_type){DLK_I64, 1}, mem);
    mem = (dlk_mem){in, start, DLK_STEP_UNIT, DLK_NONE, count, 1, false};
    const dlk_val value = dlk_ir_load(func, type, mem);
    dlk_ir_store(func, value, whole_mem);
    mem.buffer = some;
    dlk_ir_store(func, value, mem);
    return func;
}

/* Two pages, the second of them not to be touched. */
static unsigned char *fenced_pages(size_t page)
{
    unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        return NULL;
    return pages;
}

static void check_partial_count(const dlk_code *code, dlk_type type, int64_t count, unsigned char *in,
                                unsigned char *out, size_t page)
{
    unsigned char whole[64 * 8];
    const int bytes = dlk_kind_bytes((dlk_kind)type.kind);
    const int64_t lanes = count < 0 ? 0 : count > type.lanes ? type.lanes : count;
    const size_t size = (size_t)lanes * (size_t)bytes;
    unsigned char *from = in + page - size, *to = out + page - size; /* lane `lanes` would be on the second page */
    for (size_t k = 0; k < page; k++)
        in[k] = (unsigned char)(k * 7 + 1);
    memset(out, 0xcc, page);
    memset(whole, 0xcc, sizeof whole);
    const uint64_t arguments[4] = {(uint64_t)(uintptr_t)whole, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from,
                                   (uint64_t)(uintptr_t)&count};
    const dlk_call call = {
        .arguments = arguments, .n_arguments = 4, .n_buffers = 4, .items = 1, .outer_steps = 1, .threads = 1};
    CHECK_INT(dlk_backend_cpu.launch(code, &call), DLK_OK);
    for (size_t k = 0; k < (size_t)type.lanes * (size_t)bytes; k++)
        CHECK_MSG(whole[k] == (k < size ? from[k] : 0), "kind %d x%d, count %lld: byte %zu of the load is %x",
                  type.kind, type.lanes, (long long)count, k, whole[k]);
    CHECK_MSG(!memcmp(to, from, size) && out[page - size - 1] == 0xcc, "kind %d x%d, count %lld: the store", type.kind,
              type.lanes, (long long)count);
}

static void check_partial(const dlk_target *target, dlk_type type, unsigned char *in, unsigned char *out, size_t page)
{
    dlk_arena arena = {0};
    dlk_func *func = make_partial(&arena, target, type);
    dlk_image image = {0};
    dlk_code *code = NULL;
    const dlk_status status = make_code(target, func, &arena, &image, &code);
    CHECK_MSG(status == DLK_OK, "%s kind %d x%d: %s", target->name, type.kind, type.lanes, dlk_last_error());
    for (int64_t count = -1; status == DLK_OK && count <= type.lanes + 1; count++)
        check_partial_count(code, type, count, in, out, page);
    if (status == DLK_OK) {
        check_partial_count(code, type, INT64_MIN, in, out, page);
        check_partial_count(code, type, (int64_t)1 << 32, in, out, page);
        check_partial_count(code, type, INT64_MAX, in, out, page);
    }
    dlk_backend_cpu.unload(code);
    dlk_free(image.bytes);
    dlk_arena_free(&arena);
}

static void check_partial_on(const char *level)
{
    static const uint8_t lanes[] = {1, 4, 16, 32, 64};
    const size_t page = dlk_os_page_bytes();
    dlk_target target;
    unsigned char *in = fenced_pages(page), *out = fenced_pages(page);
    if (!get_target(level, &target) || !in || !out)
        return;
    for (int kind = DLK_I8; kind <= DLK_F64 && !test_failed; kind++)
        for (size_t k = 0; k < sizeof lanes; k++)
            check_partial(&target, (dlk_type){(uint8_t)kind, lanes[k]}, in, out, page);
    munmap(in, 2 * page);
    munmap(out, 2 * page);
}

TEST(partial_accesses_of_v2)
{
    check_partial_on("v2");
}
TEST(partial_accesses_of_v3)
{
    check_partial_on("v3");
}
TEST(partial_accesses_of_v4)
{
    check_partial_on("v4");
}

TEST(text_that_llvm_refuses)
{
    dlk_target target;
    dlk_image image = {0};
    CHECK_INT(dlk_option_set("cpu_target", "host"), DLK_OK);
    if (dlk_backend_cpu.target(&target) == DLK_ERR_NO_LIBRARY)
        SKIP("libdlk-llvm was not built");
    const char
        *broken = "define void @kernel( {",
        *needy =
            "declare float @sinf(float)\ndefine void @kernel(ptr %p, i64 %a, i64 %b) {\n"
            "  %x = load float, ptr %p\n  %y = call float @sinf(float %x)\n  store float %y, ptr %p\n  ret void\n}\n",
        *impossible = "define float @f(float %x) #0 {\n  ret float %x\n}\n"
                      "define void @kernel(ptr %p, i64 %a, i64 %b) {\n  ret void\n}\n"
                      "attributes #0 = { \"target-features\"=\"-sse\" }\n";
    CHECK_INT(dlk_backend_cpu.compile(&target, broken, strlen(broken), &image), DLK_ERR_COMPILE);
    CHECK(strstr(dlk_last_error(), "LLVM text"));
    CHECK_INT(dlk_backend_cpu.compile(&target, needy, strlen(needy), &image), DLK_ERR_COMPILE);
    CHECK_MSG(strstr(dlk_last_error(), "sinf"), "%s", dlk_last_error());
    /* the code generator's own errors, which end the process where nobody takes them */
    CHECK_INT(dlk_backend_cpu.compile(&target, impossible, strlen(impossible), &image), DLK_ERR_COMPILE);
    CHECK_MSG(strstr(dlk_last_error(), "SSE disabled"), "%s", dlk_last_error());
}
