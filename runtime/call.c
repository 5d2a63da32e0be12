/* One launch on the host: the odometer over the axes that the kernel does not know. A range of work is a range of
 * (step, item) pairs, so that few steps of many items and many steps of few items are shared among threads alike. */
#include "runtime/backend.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/pool.h"

#define ARGUMENTS_MAX 512 /* words that one kernel can ask for: 64 operands with two strides each, and the rest */
#define OUTER_MAX     132 /* 64 axes and lanes, kept and reduced */

typedef struct odometer {
    int64_t index[OUTER_MAX];
    uint64_t arguments[ARGUMENTS_MAX];
} odometer;

static void move_along(odometer *at, const dlk_call *call, int axis, int64_t steps)
{
    const int64_t *moves = call->outer_moves + (ptrdiff_t)axis * call->n_moving;
    for (int m = 0; m < call->n_moving; m++)
        at->arguments[call->moving[m]] += (uint64_t)moves[m] * (uint64_t)steps;
    at->index[axis] += steps;
}

static void odometer_start(odometer *at, const dlk_call *call, int64_t step)
{
    memset(at->index, 0, sizeof at->index);
    memcpy(at->arguments, call->arguments, sizeof(uint64_t) * (size_t)call->n_arguments);
    for (int axis = call->n_outer - 1; axis >= 0 && step; axis--) {
        move_along(at, call, axis, step % call->outer_extents[axis]);
        step /= call->outer_extents[axis];
    }
}

static void odometer_next(odometer *at, const dlk_call *call)
{
    for (int axis = call->n_outer - 1; axis >= 0; axis--) {
        move_along(at, call, axis, 1);
        if (at->index[axis] < call->outer_extents[axis])
            return;
        move_along(at, call, axis, -call->outer_extents[axis]);
    }
}

/* Runs the pairs [first, end), numbered step by step. */
static dlk_status run_range(const dlk_call *call, dlk_run_items run, const dlk_code *code, int64_t first, int64_t end)
{
    odometer at;
    odometer_start(&at, call, first / call->items);
    while (first < end) {
        const int64_t item = first % call->items;
        const int64_t left = call->items - item;
        const int64_t n = left < end - first ? left : end - first;
        DLK_TRY(run(code, at.arguments, item, item + n));
        first += n;
        if (first < end)
            odometer_next(&at, call);
    }
    return DLK_OK;
}

typedef struct job {
    const dlk_call *call;
    dlk_run_items run;
    const dlk_code *code;
    _Atomic int status; /* a failure of any piece */
} job;

static void run_piece(void *context, int64_t first, int64_t end)
{
    job *j = context;
    const dlk_status status = j->call->n_outer ? run_range(j->call, j->run, j->code, first, end)
                                               : j->run(j->code, j->call->arguments, first, end);
    if (status != DLK_OK)
        j->status = status;
}

dlk_status dlk_call_run(const dlk_call *call, dlk_run_items run, const dlk_code *code)
{
    if (call->n_arguments > ARGUMENTS_MAX || call->n_outer > OUTER_MAX)
        return dlk_fail(DLK_ERR_UNSUPPORTED, "a kernel with %d argument words under %d outer axes; at most %d and %d",
                        call->n_arguments, call->n_outer, ARGUMENTS_MAX, OUTER_MAX);
    const int64_t pairs = call->outer_steps * call->items;
    if (call->threads <= 1)
        return call->n_outer ? run_range(call, run, code, 0, pairs) : run(code, call->arguments, 0, pairs);
    job j = {call, run, code, DLK_OK};
    dlk_pool_run(pairs, call->threads, run_piece, &j);
    return j.status == DLK_OK ? DLK_OK : dlk_fail((dlk_status)j.status, "a kernel failed in a worker thread");
}
