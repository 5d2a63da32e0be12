/* Fuzz target: the tensor checker. Whatever a DLTensor says, it is refused with a message or described rightly; what is
 * small enough is compared with counting the addresses of all elements. */
#include "tests/fuzz/fuzz.h"

#include "kernels/view.h"

enum { COUNTED_MAX = 512 };

typedef struct made {
    DLTensor tensor;
    int64_t shape[DLK_NDIM_MAX], strides[DLK_NDIM_MAX];
    uint64_t flags;
} made;

static void make_tensor(fuzz_bytes *in, made *out)
{
    static const int32_t ranks[] = {2, 1, 3, 0, 4, 64, -1, 65, INT32_MAX, INT32_MIN};
    static const DLDataType types[] = {{kDLFloat, 32, 1}, {kDLInt, 8, 1},   {kDLComplex, 128, 1}, {kDLFloat, 16, 4},
                                       {kDLBool, 8, 1},   {kDLUInt, 64, 0}, {kDLInt, 128, 1},     {255, 7, 65535}};
    memset(out, 0, sizeof *out);
    out->tensor.ndim = ranks[fuzz_choice(in, 24) % 10];
    out->tensor.dtype = types[fuzz_choice(in, 16) % 8];
    for (int i = 0; i < out->tensor.ndim && i < DLK_NDIM_MAX; i++) {
        out->shape[i] = fuzz_int(in);
        out->strides[i] = fuzz_int(in);
    }
    const uint8_t how = fuzz_byte(in);
    out->tensor.shape = how % 32 == 31 ? NULL : out->shape;
    out->tensor.strides = how & 64 ? NULL : out->strides;
    out->tensor.data = how & 128 ? NULL : (void *)(uintptr_t)(how % 8 == 7 ? (uint64_t)fuzz_int(in) : 1 << 20);
    out->tensor.byte_offset = how % 4 == 3 ? (uint64_t)fuzz_int(in) : 0;
    out->tensor.device.device_type = kDLCPU;
    out->flags = fuzz_byte(in);
}

/* Addresses of all elements relative to the first one, in row-major order; the count, or -1 when there are too many. */
static int count_addresses(const dlk_view *view, int64_t out[COUNTED_MAX])
{
    if (view->elements > COUNTED_MAX)
        return -1;
    for (int n = 0; n < view->elements; n++) {
        int64_t rest = n, address = 0;
        for (int i = view->ndim - 1; i >= 0; i--) {
            address += rest % view->shape[i] * view->strides[i] * view->bytes;
            rest /= view->shape[i];
        }
        out[n] = address;
    }
    return (int)view->elements;
}

static int compare_ints(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void check_view(const dlk_view *view)
{
    int64_t addresses[COUNTED_MAX];
    FUZZ_CHECK(view->ndim >= 0 && view->ndim <= DLK_RANK_MAX && view->elements >= 0);
    FUZZ_CHECK(view->low <= 0 && view->high >= 0 && (view->elements > 0) == (view->high > 0));
    const int n = count_addresses(view, addresses);
    bool is_shared = false;
    if (n > 0) {
        qsort(addresses, (size_t)n, sizeof *addresses, compare_ints);
        FUZZ_CHECK(addresses[0] == view->low && addresses[n - 1] + view->bytes == view->high);
        for (int i = 1; i < n; i++)
            is_shared |= addresses[i] == addresses[i - 1];
    }
    const dlk_status status = dlk_view_check_output(view, (dlk_argument){"output", 0});
    if (view->is_read_only || is_shared)
        FUZZ_CHECK(status == DLK_ERR_LAYOUT && *dlk_last_error());
    else if (n >= 0)
        FUZZ_CHECK(status == DLK_OK);
}

static bool share_bytes(const dlk_view *a, const dlk_view *b)
{
    int64_t of_a[COUNTED_MAX], of_b[COUNTED_MAX];
    const int n_a = count_addresses(a, of_a), n_b = count_addresses(b, of_b);
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++) {
            const uintptr_t x = (uintptr_t)a->data + (uintptr_t)of_a[i], y = (uintptr_t)b->data + (uintptr_t)of_b[j];
            if (x < y + (uintptr_t)b->bytes && y < x + (uintptr_t)a->bytes)
                return true;
        }
    return false;
}

static void check_pair(const dlk_view *a, const dlk_view *b)
{
    const dlk_overlap overlap = dlk_view_overlap(a, b);
    if (overlap == DLK_OVERLAP_NONE)
        FUZZ_CHECK(!a->data || !b->data || !share_bytes(a, b));
    if (overlap == DLK_OVERLAP_EXACT)
        FUZZ_CHECK(a->data == b->data && a->elements == b->elements);
    int ndim = 0;
    int64_t shape[DLK_RANK_MAX] = {0};
    FUZZ_CHECK(dlk_shape_broadcast(a, (dlk_argument){"input", 0}, &ndim, shape) == DLK_OK && ndim == a->ndim);
    if (dlk_shape_broadcast(b, (dlk_argument){"input", 1}, &ndim, shape) != DLK_OK)
        return;
    FUZZ_CHECK(ndim == (a->ndim > b->ndim ? a->ndim : b->ndim));
    for (int i = 0; i < b->ndim; i++)
        FUZZ_CHECK(b->shape[i] == 1 || b->shape[i] == shape[ndim - b->ndim + i]);
    for (int i = 0; i < a->ndim; i++)
        FUZZ_CHECK(a->shape[i] == 1 || a->shape[i] == shape[ndim - a->ndim + i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes in = {data, size};
    dlk_view views[2];
    int n_valid = 0;
    for (int i = 0; i < 2; i++) {
        made from;
        char text[DLK_VIEW_TEXT];
        make_tensor(&in, &from);
        dlk_fail(DLK_OK, "%s", "");
        if (dlk_view_make(&from.tensor, from.flags, (dlk_argument){"input", i}, from.flags & 64, &views[n_valid])) {
            FUZZ_CHECK(*dlk_last_error());
            continue;
        }
        FUZZ_CHECK(strlen(dlk_view_describe(&views[n_valid], text)) < DLK_VIEW_TEXT);
        check_view(&views[n_valid++]);
    }
    if (n_valid == 2)
        check_pair(&views[0], &views[1]);
    return 0;
}
