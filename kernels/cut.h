/* A program whose values cannot all be computed in one kernel, cut at its reductions: for softmax over axes that do not
 * merge, first the maximum of each row, then the sum, each into a tensor of its own, then a map that reads them back. */
#ifndef DLK_KERNELS_CUT_H
#define DLK_KERNELS_CUT_H

#include "base/status.h"
#include "codegen/prog.h"

typedef enum dlk_stage_kind {
    DLK_STAGE_REDUCTION, /* writes tensors of the reduced shape that later stages read: the temporaries */
    DLK_STAGE_FULL,      /* a map over the full shape: outputs of the whole program */
    DLK_STAGE_REDUCED    /* a map over the reduced shape: outputs of the whole program */
} dlk_stage_kind;

typedef struct dlk_stage {
    const dlk_prog *prog;             /* operands: the whole program's inputs, then the temporaries made so far */
    uint8_t kind;                     /* dlk_stage_kind */
    uint8_t output[DLK_OPERANDS_MAX]; /* of each output: the temporary it makes, or the output of the whole program */
} dlk_stage;

typedef struct dlk_cut {
    int n_stages;
    dlk_stage *stages; /* to be run one after the other */
    int n_temporaries;
    uint8_t temporary_dtype[DLK_OPERANDS_MAX];
} dlk_cut;

/* DLK_ERR_UNSUPPORTED when that takes more operands than a kernel has. */
dlk_status dlk_prog_cut(const dlk_prog *prog, dlk_arena *arena, dlk_cut *out);

#endif
