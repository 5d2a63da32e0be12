/* Tensors for tests: random and edge values in every layout that DLPack can say, with guard bytes around them. */
#ifndef DLK_TESTS_TENSORS_H
#define DLK_TESTS_TENSORS_H

#include "dlk/dlk.h"
#include "tests/ref_scalar.h"
#include <stdio.h>
#include <stdlib.h>

#define TENSOR_RANK 8
enum { GUARD = 192 };

typedef enum layout {
    LAYOUT_CONTIGUOUS,
    LAYOUT_FORTRAN,      /* first axis fastest */
    LAYOUT_STEP,         /* every second element of the last axis */
    LAYOUT_REVERSED,     /* last axis backwards */
    LAYOUT_ALL_REVERSED, /* every axis backwards */
    LAYOUT_BYTE_OFFSET,  /* starts three elements in, by byte_offset */
    LAYOUT_MISALIGNED,   /* starts one byte off */
    LAYOUT_NULL_STRIDES,
    LAYOUT_ROW,         /* first axis of extent 1: broadcast */
    LAYOUT_COLUMN,      /* last axis of extent 1 */
    LAYOUT_SCALAR,      /* rank 0 */
    LAYOUT_EXPANDED,    /* stride 0 along the last axis */
    LAYOUT_PADDED_ROWS, /* rows of a larger array */
    LAYOUT_COUNT
} layout;
/* Outputs cannot be broadcast: the layouts that an output takes, by turns. */
#define LAYOUT_GIVEN(k) ((layout)((k) % LAYOUT_NULL_STRIDES))

static const char *const layout_names[LAYOUT_COUNT] = {
    "contiguous",   "fortran", "step",   "reversed", "all-reversed", "byte-offset", "misaligned",
    "null-strides", "row",     "column", "scalar",   "expanded",     "padded-rows"};

/* Why the instruction set that DLK_CPU_TARGET asks for cannot run here; NULL where it can, or none is asked for. */
static inline const char *missing_target(void)
{
    static dlk_device_info devices[16];
    int n = 0;
    if (!getenv("DLK_CPU_TARGET") || dlk_device_list(NULL, devices, 16, &n) != DLK_OK)
        return NULL;
    for (int k = 0; k < n && k < 16; k++)
        if (!strcmp(devices[k].backend, "cpu") && !devices[k].is_available)
            return devices[k].description;
    return NULL;
}

typedef struct tensor {
    DLTensor dl;
    int dtype; /* R_* */
    int64_t shape[TENSOR_RANK], strides[TENSOR_RANK];
    unsigned char *block;
    size_t block_bytes;
    layout how;
} tensor;

typedef struct index_space {
    int ndim;
    int64_t shape[TENSOR_RANK], index[TENSOR_RANK];
} index_space;

static inline index_space index_space_of(const DLTensor *t)
{
    index_space s = {.ndim = t->ndim};
    for (int k = 0; k < t->ndim; k++)
        s.shape[k] = t->shape[k];
    return s;
}
static inline bool index_empty(const index_space *s)
{
    for (int k = 0; k < s->ndim; k++)
        if (!s->shape[k])
            return true;
    return false;
}
static inline bool index_next(index_space *s)
{
    for (int k = s->ndim - 1; k >= 0; k--) {
        if (++s->index[k] < s->shape[k])
            return true;
        s->index[k] = 0;
    }
    return false;
}
static inline const char *index_text(const index_space *s)
{
    static char text[128];
    size_t n = 0;
    text[0] = 0;
    for (int k = 0; k < s->ndim; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%lld", k ? "," : "", (long long)s->index[k]);
    return text;
}

static inline char *tensor_address(const DLTensor *t, int dtype, const int64_t *index)
{
    char *at = (char *)t->data + t->byte_offset;
    int64_t dense = ref_bytes(dtype);
    for (int k = t->ndim - 1; k >= 0; k--) {
        at += index[k] * (t->strides ? t->strides[k] * ref_bytes(dtype) : dense);
        dense *= t->shape[k];
    }
    return at;
}
static inline char *tensor_at(const tensor *t, const int64_t *index)
{
    return tensor_address(&t->dl, t->dtype, index);
}
/* The element that NumPy broadcasting puts at the space's index. */
static inline char *tensor_broadcast_at(const tensor *t, const index_space *s)
{
    int64_t index[TENSOR_RANK];
    for (int k = 0; k < t->dl.ndim; k++)
        index[k] = t->dl.shape[k] == 1 ? 0 : s->index[s->ndim - t->dl.ndim + k];
    return tensor_at(t, index);
}

static uint64_t random_state = 88172645463325252ull;
static inline uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static inline ref_value random_value(int dtype)
{
    static const long double edges[] = {0,
                                        -0.0L,
                                        1,
                                        -1,
                                        0.5L,
                                        1.5L,
                                        2.5L,
                                        -2.5L,
                                        (long double)INFINITY,
                                        -(long double)INFINITY,
                                        (long double)NAN,
                                        3.14159265L,
                                        1e10L,
                                        -1e-10L,
                                        1e-40L,
                                        88.7L,
                                        -87.5L,
                                        -103.0L,
                                        1e30L,
                                        65504,
                                        448,
                                        2,
                                        4,
                                        -4};
    static const int64_t integers[] = {0,  1,  -1,  2,    3,         -3,        7,         64,        31,
                                       32, 63, 127, -128, INT64_MAX, INT64_MIN, INT32_MIN, INT32_MAX, 255};
    const ref_dtype *t = &ref_dtypes[dtype];
    ref_value v = {0, 0, 0};
    const uint64_t dice = random_bits() % 4;
    if (t->class_ >= REF_FLOAT) {
        long double part[2];
        for (int k = 0; k < 2; k++)
            part[k] = dice == 0 ? edges[random_bits() % (sizeof edges / sizeof edges[0])]
                      : dice == 1 && t->class_ == REF_FLOAT
                          ? ref_decode_float(
                                random_bits() & (t->man + t->exp == 63 ? ~0ull : (2ull << (t->man + t->exp)) - 1), t)
                          : ((long double)(int64_t)random_bits() / 9.3e17L);
        v.re = ref_decode_float(ref_encode_float(part[0], t), t);
        v.im = ref_decode_float(ref_encode_float(part[1], t), t);
    } else {
        v.i = dice == 0   ? integers[random_bits() % (sizeof integers / sizeof integers[0])]
              : dice == 1 ? (int64_t)random_bits()
                          : (int64_t)(random_bits() % 41) - 20;
        v.i = t->class_ == REF_BOOL ? v.i & 1 : ref_wrap(v.i, t);
    }
    return v;
}

static inline void dense_strides(const int64_t *shape, int ndim, bool first_fastest, int64_t unit, int64_t *strides)
{
    for (int k = 0; k < ndim; k++) {
        const int axis = first_fastest ? k : ndim - 1 - k;
        strides[axis] = unit;
        unit *= shape[axis] > 0 ? shape[axis] : 1;
    }
}

/* A tensor for the result shape `shape`; broadcasting layouts have extents 1 or a lower rank. Filled with random values. */
static inline void tensor_create(tensor *out, int dtype, const int64_t *shape, int ndim, layout how)
{
    tensor t = {.dtype = dtype, .how = how};
    const int64_t bytes = ref_bytes(dtype);
    int64_t elements = 1, first = 0;
    t.dl.ndim = how == LAYOUT_SCALAR ? 0 : ndim;
    for (int k = 0; k < t.dl.ndim; k++)
        t.shape[k] =
            (how == LAYOUT_ROW && k == 0 && ndim > 1) || (how == LAYOUT_COLUMN && k == ndim - 1) ? 1 : shape[k];
    dense_strides(t.shape, t.dl.ndim, how == LAYOUT_FORTRAN, how == LAYOUT_STEP ? 2 : 1, t.strides);
    if (how == LAYOUT_PADDED_ROWS)
        for (int k = 0; k + 1 < t.dl.ndim; k++)
            t.strides[k] += 3 * t.strides[k] / (t.shape[t.dl.ndim - 1] ? t.shape[t.dl.ndim - 1] : 1) + 3;
    if (how == LAYOUT_EXPANDED && t.dl.ndim)
        t.strides[t.dl.ndim - 1] = 0;
    for (int k = 0; k < t.dl.ndim; k++) {
        const bool reversed = how == LAYOUT_ALL_REVERSED || (how == LAYOUT_REVERSED && k == t.dl.ndim - 1);
        const int64_t span = t.shape[k] > 0 ? (t.shape[k] - 1) * t.strides[k] : 0;
        elements += span;
        if (reversed) {
            first += span;
            t.strides[k] = -t.strides[k];
        }
    }
    t.block_bytes = (size_t)(elements + 4) * (size_t)bytes + 2 * GUARD + 1;
    t.block = malloc(t.block_bytes);
    memset(t.block, 0xA5, t.block_bytes);
    unsigned char *start = t.block + GUARD + (how == LAYOUT_MISALIGNED);
    t.dl.byte_offset = how == LAYOUT_BYTE_OFFSET ? (uint64_t)(3 * bytes) : 0;
    t.dl.data = start + first * bytes;
    t.dl.device = (DLDevice){kDLCPU, 0};
    t.dl.dtype = (DLDataType){ref_dtypes[dtype].code, ref_dtypes[dtype].bits, 1};
    *out = t;
    out->dl.shape = t.dl.ndim ? out->shape : NULL;
    out->dl.strides = t.dl.ndim && how != LAYOUT_NULL_STRIDES ? out->strides : NULL;
    index_space s = index_space_of(&out->dl);
    if (!index_empty(&s))
        do
            ref_store(dtype, tensor_at(out, s.index), random_value(dtype));
        while (index_next(&s));
}

/* True when no byte outside the elements was written: every byte that no element owns still has the pattern. */
static inline bool tensor_guards_intact(const tensor *t)
{
    unsigned char *owned = calloc(1, t->block_bytes);
    index_space s = index_space_of(&t->dl);
    if (!index_empty(&s))
        do
            memset(owned + (tensor_at(t, s.index) - (char *)t->block), 1, (size_t)ref_bytes(t->dtype));
        while (index_next(&s));
    bool intact = true;
    for (size_t k = 0; k < t->block_bytes; k++)
        intact &= owned[k] || t->block[k] == 0xA5;
    free(owned);
    return intact;
}

static inline void tensor_destroy(tensor *t)
{
    free(t->block);
    t->block = NULL;
}

static inline void case_text(char *out, size_t size, const int64_t *shape, int ndim, const layout *layouts, int n)
{
    size_t at = (size_t)snprintf(out, size, "(");
    for (int k = 0; k < ndim; k++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", k ? "," : "", (long long)shape[k]);
    at += (size_t)snprintf(out + at, size - at, ")");
    for (int k = 0; k < n; k++)
        at += (size_t)snprintf(out + at, size - at, " %s", layout_names[layouts[k]]);
}

#endif
