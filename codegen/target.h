/* What a schedule and the lowering passes may know of the machine. Part of every kernel's key, so: plain bytes. */
#ifndef DLK_CODEGEN_TARGET_H
#define DLK_CODEGEN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

typedef enum dlk_target_family { DLK_TARGET_CPU, DLK_TARGET_GPU } dlk_target_family;

typedef struct dlk_target {
    char name[24];        /* as the compiler of the backend spells it: "x86-64-v3", "sm_90", "gfx90a" */
    uint8_t family;       /* dlk_target_family */
    uint8_t vector_bytes; /* CPU: a register; GPU: the widest access, 16 */
    uint8_t registers;    /* CPU: vector registers */
    uint8_t fast_fma;     /* MAD is one rounding */
    uint8_t has_fma;      /* FMA is an instruction; else passes expand it exactly */
    uint8_t has_f16c;     /* HTOF and FTOH are instructions; else passes expand them in integers */
    uint8_t masked_bytes; /* bit mask of element sizes (1, 2, 4, 8) whose partial loads and stores are instructions;
                             passes turn the others into loops over a private buffer */
    uint8_t subgroup;     /* GPU: threads that shuffle with each other; 1: none */
    uint8_t index_bits;   /* GPU: width the schedule computes offsets in where they fit: 32 or 64 */
    uint8_t has_f64, has_i64;
    uint8_t zero[1];
    uint16_t max_threads;  /* GPU: of one item */
    uint32_t shared_bytes; /* GPU: of one item */
} dlk_target;

#endif
