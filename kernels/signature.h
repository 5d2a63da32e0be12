/* What changes the code of a kernel, as plain bytes: the cache's key. Never extents, strides, addresses or values. */
#ifndef DLK_KERNELS_SIGNATURE_H
#define DLK_KERNELS_SIGNATURE_H

#include "base/buffer.h"
#include "base/hash.h"
#include "codegen/access.h"
#include "codegen/target.h"

typedef struct dlk_signature { /* zeroed first: compared and hashed as bytes */
    dlk_hash program; /* what is computed: definitions, dtypes, kinds of scalars, which part of a cut program */
    char backend[8];
    dlk_target target;
    dlk_nest nest;
} dlk_signature;

dlk_hash dlk_signature_hash(const dlk_signature *signature);
bool dlk_signature_equal(const dlk_signature *a, const dlk_signature *b);
void dlk_signature_print(const dlk_signature *signature, dlk_buffer *out);

/* The class of a stride (bytes) of an element of `bytes` bytes, as the lanes' axis has it. */
dlk_stride_class dlk_stride_classify(int64_t stride, int bytes);

#endif
