/* The processor's features by cpuid, and the psABI levels as rows: what each needs and what it gives to schedules. */
#include "runtime/cpu_target.h"

#include <cpuid.h>
#include <stdio.h>
#include <string.h>

typedef enum feature { /* bits of one word, gathered from the leaves below */
                       SSE3,
                       SSSE3,
                       SSE41,
                       SSE42,
                       POPCNT,
                       CX16,
                       AVX,
                       AVX2,
                       FMA,
                       F16C,
                       BMI1,
                       BMI2,
                       MOVBE,
                       LZCNT,
                       AVX512F,
                       AVX512BW,
                       AVX512CD,
                       AVX512DQ,
                       AVX512VL,
                       N_FEATURES
} feature;

enum { ECX_1, EBX_7, ECX_80000001 };

static const struct {
    const char *name;
    int word, bit;
    int state; /* of XCR0 that the system must save: 0, 6 (AVX), 0xe6 (AVX-512) */
} features[N_FEATURES] = {
    [SSE3] = {"SSE3", ECX_1, 0, 0},
    [SSSE3] = {"SSSE3", ECX_1, 9, 0},
    [SSE41] = {"SSE4.1", ECX_1, 19, 0},
    [SSE42] = {"SSE4.2", ECX_1, 20, 0},
    [POPCNT] = {"POPCNT", ECX_1, 23, 0},
    [CX16] = {"CMPXCHG16B", ECX_1, 13, 0},
    [AVX] = {"AVX", ECX_1, 28, 6},
    [AVX2] = {"AVX2", EBX_7, 5, 6},
    [FMA] = {"FMA", ECX_1, 12, 6},
    [F16C] = {"F16C", ECX_1, 29, 6},
    [BMI1] = {"BMI1", EBX_7, 3, 0},
    [BMI2] = {"BMI2", EBX_7, 8, 0},
    [MOVBE] = {"MOVBE", ECX_1, 22, 0},
    [LZCNT] = {"LZCNT", ECX_80000001, 5, 0},
    [AVX512F] = {"AVX512F", EBX_7, 16, 0xe6},
    [AVX512BW] = {"AVX512BW", EBX_7, 30, 0xe6},
    [AVX512CD] = {"AVX512CD", EBX_7, 28, 0xe6},
    [AVX512DQ] = {"AVX512DQ", EBX_7, 17, 0xe6},
    [AVX512VL] = {"AVX512VL", EBX_7, 31, 0xe6},
};

#define BIT(f) (1u << (f))
#define V2     (BIT(SSE3) | BIT(SSSE3) | BIT(SSE41) | BIT(SSE42) | BIT(POPCNT) | BIT(CX16))
#define V3     (V2 | BIT(AVX) | BIT(AVX2) | BIT(FMA) | BIT(F16C) | BIT(BMI1) | BIT(BMI2) | BIT(MOVBE) | BIT(LZCNT))
#define V4     (V3 | BIT(AVX512F) | BIT(AVX512BW) | BIT(AVX512CD) | BIT(AVX512DQ) | BIT(AVX512VL))

/* Best first: `host` takes the first that the processor has. */
static const struct {
    const char *level;
    unsigned needs;
    dlk_target target;
} levels[] = {
    {"v4",
     V4,
     {.name = "x86-64-v4",
      .vector_bytes = 64,
      .registers = 32,
      .fast_fma = 1,
      .has_fma = 1,
      .has_f16c = 1,
      .masked_bytes = 1 | 2 | 4 | 8}},
    {"v3",
     V3,
     {.name = "x86-64-v3",
      .vector_bytes = 32,
      .registers = 16,
      .fast_fma = 1,
      .has_fma = 1,
      .has_f16c = 1,
      .masked_bytes = 4 | 8}},
    {"v2", V2, {.name = "x86-64-v2", .vector_bytes = 16, .registers = 16}},
};
enum { N_LEVELS = sizeof levels / sizeof levels[0] };

static unsigned read_xcr0(unsigned ecx_1)
{
    unsigned low = 0, high = 0;
    if (ecx_1 & 1u << 27) /* OSXSAVE: xgetbv exists */
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned find_features(void)
{
    unsigned words[3] = {0}, a, b, c, d, found = 0;
    if (__get_cpuid(1, &a, &b, &c, &d))
        words[ECX_1] = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d))
        words[EBX_7] = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d))
        words[ECX_80000001] = c;
    const unsigned saved = read_xcr0(words[ECX_1]);
    for (int f = 0; f < N_FEATURES; f++)
        if (words[features[f].word] >> features[f].bit & 1 &&
            (saved & (unsigned)features[f].state) == (unsigned)features[f].state)
            found |= BIT(f);
    return found;
}

static void fill_target(int level, dlk_target *out)
{
    *out = levels[level].target;
    out->family = DLK_TARGET_CPU;
    out->subgroup = 1;
    out->index_bits = 64;
    out->has_f64 = 1;
    out->has_i64 = 1;
}

static dlk_status explain_missing(int level, unsigned missing)
{
    const int first = __builtin_ctz(missing);
    return dlk_fail(DLK_ERR_UNSUPPORTED, "option cpu_target is '%s', but this processor (or its system) lacks %s",
                    levels[level].level, features[first].name);
}

dlk_status dlk_cpu_target(const char *level, dlk_target *out)
{
    const unsigned found = find_features();
    const bool is_host = !strcmp(level, "host");
    for (int k = 0; k < N_LEVELS; k++) {
        const unsigned missing = levels[k].needs & ~found;
        if (!is_host && strcmp(level, levels[k].level) != 0)
            continue;
        if (missing && is_host)
            continue;
        if (missing)
            return explain_missing(k, missing);
        fill_target(k, out);
        return DLK_OK;
    }
    if (is_host)
        return explain_missing(N_LEVELS - 1, levels[N_LEVELS - 1].needs & ~found);
    return dlk_fail(DLK_ERR_INVALID, "option cpu_target is '%s', expected v2, v3, v4 or host", level);
}

void dlk_cpu_name(char *out, int out_bytes)
{
    unsigned text[13] = {0};
    for (unsigned k = 0; k < 3; k++)
        if (!__get_cpuid(0x80000002 + k, &text[4 * k], &text[4 * k + 1], &text[4 * k + 2], &text[4 * k + 3]))
            break;
    const char *name = (const char *)text;
    while (*name == ' ')
        name++;
    snprintf(out, (size_t)out_bytes, "%.47s", *name ? name : "x86-64 processor");
}
