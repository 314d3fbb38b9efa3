// fault.c - make the Nth call of a kind fail, to test that its caller handles the failure.
//
// A test runs a statement with fault_set(kind, 1, false), then 2, 3, ... until fault_count() stays below the number:
// then every call of that kind has failed once.  For a whole process, WEFT_FAULT="file:12,memory:3+" does the same.
// Counting costs one atomic add per call, and the calls counted here all cost far more, so it is always compiled in.

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"

typedef struct Fault {
    _Atomic i64  count;
    _Atomic i64  nth;                                       // 0: off
    _Atomic bool and_all_after;
} Fault;

static Fault faults[FAULT_N];
static const char *const kind_names[FAULT_N] = {
    [FAULT_FILE] = "file", [FAULT_MEMORY] = "memory", [FAULT_COMPILE] = "compile", [FAULT_SOLVE] = "solve",
    [FAULT_SPACE] = "space", [FAULT_THREAD] = "thread"
};

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void set(FaultKind kind, i64 nth, bool and_all_after)
{
    ASSERT((unsigned)kind < FAULT_N && nth >= 0);
    faults[kind].nth = 0;                                   // off while the rest changes
    faults[kind].count = 0;
    faults[kind].and_all_after = and_all_after;
    faults[kind].nth = nth;
}

// One "kind:nth" or "kind:nth+".  Returns what follows it, or NULL when it is not of this form.
static const char *parse_one(const char *text)
{
    for (int kind = 0; kind < FAULT_N; kind++) {
        size_t length = strlen(kind_names[kind]);
        if (strncmp(text, kind_names[kind], length) != 0 || text[length] != ':')
            continue;
        char *end;
        errno = 0;
        i64 nth = strtoll(text + length + 1, &end, 10);
        if (end == text + length + 1 || errno || nth < 0)
            return NULL;
        bool and_all_after = *end == '+';
        set((FaultKind)kind, nth, and_all_after);
        return end + and_all_after;
    }
    return NULL;
}

static void read_environment(void)
{
    const char *all = getenv("WEFT_FAULT");
    for (const char *rest = all; rest && *rest;) {
        rest = parse_one(rest);
        if (!rest || (*rest && *rest != ','))
            log_warn("WEFT_FAULT=\"%s\" is not of the form file:12 or memory:3+", all);
        if (rest && *rest == ',')
            rest++;
        else
            break;
    }
}

void fault_set(FaultKind kind, i64 nth, bool and_all_after)
{
    pthread_once(&environment_once, read_environment);      // or it would override this call later
    set(kind, nth, and_all_after);
}

bool fault_now(FaultKind kind)
{
    pthread_once(&environment_once, read_environment);
    ASSERT((unsigned)kind < FAULT_N);
    Fault *fault = &faults[kind];
    i64 count = atomic_fetch_add(&fault->count, 1) + 1;
    i64 nth = fault->nth;
    return nth > 0 && (count == nth || (fault->and_all_after && count > nth));
}

i64 fault_count(FaultKind kind)
{
    return faults[kind].count;
}
