/* The interface of libdlk-llvm, the module that holds LLVM. libdlk opens it at the first compile and calls the one function
 * it exports; the module knows nothing of libdlk. */
#ifndef DLK_RUNTIME_LLVM_MODULE_H
#define DLK_RUNTIME_LLVM_MODULE_H

#include <stddef.h>

#define DLK_LLVM_MODULE_VERSION 1
#define DLK_LLVM_COMPILE_NAME   "dlk_llvm_compile"

typedef struct dlk_llvm_request {
    size_t size;      /* sizeof(dlk_llvm_request) */
    const char *text; /* LLVM IR with one function, `kernel` */
    size_t text_bytes;
    const char *cpu;                 /* as LLVM spells it: "x86-64-v3" */
    const char *features;            /* "+avx2,-fma"; "" for the cpu's own */
    int want_listing;                /* assembly text instead of an image */
    void *(*allocate)(size_t bytes); /* where the answer's bytes come from, zeroed; NULL when out of memory */
    void (*release)(void *block);
} dlk_llvm_request;

typedef struct dlk_llvm_answer {
    unsigned char *bytes; /* from `allocate`, the caller's: the image, or the listing (NUL-terminated) */
    size_t size;
    size_t entry; /* of `kernel` in the image */
    char error[1024];
} dlk_llvm_answer;

/* 0, or non-zero with answer->error set. Any number of threads at once. The image is position-independent and complete:
 * code and constants, no relocations left, to be copied to the start of a page. */
typedef int (*dlk_llvm_compile_function)(const dlk_llvm_request *request, dlk_llvm_answer *answer);

#endif
