/* The floating-point environment that dlk computes in: to nearest, subnormals kept, no traps. A caller's thread may have set
 * another one (many frameworks flush subnormals for speed), which then must neither change a result nor be changed. */
#ifndef DLK_BASE_FLOAT_ENV_H
#define DLK_BASE_FLOAT_ENV_H

#include <stdint.h>

#if defined(__SSE2__)
#    include <xmmintrin.h>
#endif

/* Sets dlk's environment and returns the caller's, for dlk_float_env_leave. */
static inline uint64_t dlk_float_env_enter(void)
{
#if defined(__SSE2__)
    const unsigned caller = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return caller;
#elif defined(__aarch64__)
    uint64_t caller;
    const uint64_t standard = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(caller));
    __asm__ volatile("msr fpcr, %0" : : "r"(standard));
    return caller;
#else
    return 0;
#endif
}

static inline void dlk_float_env_leave(uint64_t caller)
{
#if defined(__SSE2__)
    _mm_setcsr((unsigned)caller);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(caller));
#else
    (void)caller;
#endif
}

#endif
