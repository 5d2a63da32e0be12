/* The key of a kernel. Operands beyond the last are zero, so only the used part is hashed and compared. */
#include "kernels/signature.h"

#include <stddef.h>
#include <string.h>

#include "codegen/dtype.h"

/* The nest, whose end is mostly unused, comes last; behind it lies padding alone. */
_Static_assert(sizeof(dlk_signature) - offsetof(dlk_signature, nest) - sizeof(dlk_nest) < sizeof(uint64_t),
               "nest last");

static size_t used_bytes(const dlk_signature *signature)
{
    const int n = signature->nest.n_inputs + signature->nest.n_outputs;
    return offsetof(dlk_signature, nest) + offsetof(dlk_nest, operand) + sizeof(dlk_access) * (size_t)n;
}

dlk_hash dlk_signature_hash(const dlk_signature *signature)
{
    return dlk_hash_of(signature, used_bytes(signature));
}

bool dlk_signature_equal(const dlk_signature *a, const dlk_signature *b)
{
    return used_bytes(a) == used_bytes(b) && !memcmp(a, b, used_bytes(a));
}

dlk_stride_class dlk_stride_classify(int64_t stride, int bytes)
{
    return stride == 0        ? DLK_STRIDE_ZERO
           : stride == bytes  ? DLK_STRIDE_UNIT
           : stride == -bytes ? DLK_STRIDE_REVERSE
                              : DLK_STRIDE_ANY;
}

static void print_operand(const dlk_nest *nest, int i, dlk_buffer *out)
{
    static const char *const classes[] = {"zero", "unit", "reverse", "any"};
    const dlk_access *a = &nest->operand[i];
    const bool is_input = i < nest->n_inputs;
    dlk_buffer_printf(out, "  %s %d: %s [", is_input ? "input" : "output", is_input ? i : i - nest->n_inputs,
                      dlk_dtypes[a->dtype].name);
    for (int k = 0; k < nest->n_axes; k++)
        dlk_buffer_printf(out, "%s%s", k ? ", " : "", classes[a->stride[k]]);
    dlk_buffer_printf(out, "]%s%s%s\n", a->is_aligned ? "" : " unaligned", a->is_padded ? " padded" : "",
                      a->is_exact_alias ? " in place" : "");
}

void dlk_signature_print(const dlk_signature *signature, dlk_buffer *out)
{
    static const char *const from[] = {"elements", "states", "leaves"}, *const to[] = {"result", "states"};
    static const char *const rows[] = {"streamed", "cached", "in registers"};
    const dlk_nest *nest = &signature->nest;
    const dlk_hash key = dlk_signature_hash(signature);
    dlk_buffer_printf(out, "kernel %016llx%016llx for %s %s\n", (unsigned long long)key.hi, (unsigned long long)key.lo,
                      signature->backend, signature->target.name);
    dlk_buffer_printf(out, "  program %016llx%016llx, %d axes, lanes along axis %d%s%s\n",
                      (unsigned long long)signature->program.hi, (unsigned long long)signature->program.lo,
                      nest->n_axes, nest->lane_axis, nest->is_disjoint ? ", disjoint" : "",
                      nest->is_nontemporal ? ", past the cache" : "");
    if (nest->reduced_axis != 0xff)
        dlk_buffer_printf(out, "  reduces axis %d from %s to %s%s, rows %s\n", nest->reduced_axis, from[nest->from],
                          to[nest->to], nest->has_runs ? " in runs" : "", rows[nest->row_bucket]);
    for (int i = 0; i < nest->n_inputs + nest->n_outputs; i++)
        print_operand(nest, i, out);
}
