// admission.c - see admission.h for the rules.
//
//     room = limit - used by anybody - what those who run are expected to take still
//
// A claim is expected to take its parts' estimates.  When a part is made, what the query uses by then is a fact, and
// only the parts to come are estimates.  All is decided under one lock, in admit(), whenever somebody comes or
// leaves or a part turns out other than expected.  Memory comes back in other ways, too (a result is freed, a table
// dropped, the limit raised), so the first in the queue looks now and then; everybody else sleeps until it is let
// in, is first, or is cancelled.
//
// Thousands may run, and all of them come and leave through here.  So where there is plenty of room none looks at all
// of them: the sum of what they are expected to take is kept, which is never less than what they will still take, and
// the exact sum is made only where that does not fit.  Who has a shared part is found by its key.

#include "engine/admission.h"

#include <stdlib.h>
#include <time.h>

#define LOOK_MS      20                // the first in the queue looks again
#define QUEUE_SHORT  32                // that many are looked at whenever anything changes; of longer queues
#define LOOK_SHARE   5                 // looks take at most 1 / this of the time
#define ALLOWANCE    ((i64)64 << 20)   // of a look
#define N_BUCKETS    1024              // of keys of shared parts
#define RECYCLE_LOOK 4                 // ended claims that are tried before a new one is made

typedef enum ClaimState { CLAIM_ENDED, CLAIM_WAITING, CLAIM_RUNNING, CLAIM_LOOKING } ClaimState;

typedef struct ClaimPart {
    Part              part;
    bool              is_mine, is_made;                        // mine: this claim is to make it
    struct ClaimPart *next, **link;                            // of running claims: those of one bucket of keys
} ClaimPart;

struct Claim {
    Budget budget;  // what the query uses; first, and never freed while anything may be counted in it
    Admission     *admission;
    ClaimState     state;
    Wish           wish;               // its parts are in parts
    int            n_parts;
    ClaimPart     *parts;
    i64            facts;              // used when the last part was made
    u64            number;             // in the order of coming
    int            n_passed, n_passed_small;                   // that came later and were let in before
    bool           is_small;           // as it was let in
    int            position;
    bool           had_company;        // when it was let in
    u64            n_admitted;         // claims so far, this one included, when it was let in
    i64            counted;            // of its expectation in expected_sum; 0 unless it runs
    double         asked_ms, admitted_ms;
    pthread_cond_t changed;            // let in, first, or cancelled
    struct Claim  *next, **link;       // in its list
};

typedef struct ClaimList { Claim *first, **end; int n_claims; } ClaimList;

struct Admission {
    pthread_mutex_t lock;
    Budget         *budget;
    u64             n_asked;
    ClaimList       running, waiting, ended;                   // waiting: in order
    bool            is_alone;          // the one that runs is to stay alone
    bool            is_by_number;      // those that wait are in the order of coming
    bool            are_places_due;    // some claims were not told their place
    double          next_places_ms;
    bool            is_look_due;       // something changed since the last look at a long queue
    double          next_look_ms;
    u64             n_admitted;
    i128            expected_sum;      // of those that run
    ClaimPart      *by_key[N_BUCKETS]; // parts of those that run
};

// ---- lists ----------------------------------------------------------------------------------------------------------

static void list_init(ClaimList *list) { *list = (ClaimList){ .end = &list->first }; }

static void list_add(ClaimList *list, Claim *claim)
{
    claim->next = NULL, claim->link = list->end;
    *list->end = claim;
    list->end = &claim->next;
    list->n_claims++;
}

static void list_take(ClaimList *list, Claim *claim)
{
    *claim->link = claim->next;
    if (claim->next) claim->next->link = claim->link;
    else list->end = claim->link;
    list->n_claims--;
}

static bool is_tired(const Claim *claim) { return claim->wish.is_alone || claim->n_passed_small >= SMALL_PASSES_MOST; }

static bool is_overdue(const Claim *claim) { return is_tired(claim) || claim->n_passed >= PASSES_MOST; }

static bool goes_before(const Claim *a, const Claim *b)
{
    if (is_overdue(a) != is_overdue(b)) return is_overdue(a);
    if (!is_overdue(a) && a->wish.priority != b->wish.priority) return a->wish.priority > b->wish.priority;
    return a->number < b->number;
}

static Claim *list_last(const ClaimList *list)
{
    return list->first ? (Claim *)(void *)((u8 *)list->end - offsetof(Claim, next)) : NULL;
}

// Most come behind all others.
static void list_put(ClaimList *list, Claim *claim)
{
    const Claim *last = list_last(list);
    if (!last || !goes_before(claim, last)) {
        list_add(list, claim);
        return;
    }
    Claim **link = &list->first;
    while (*link && !goes_before(claim, *link)) link = &(*link)->next;
    claim->next = *link, claim->link = link;
    *link = claim;
    if (claim->next) claim->next->link = &claim->next;
    else list->end = &claim->next;
    list->n_claims++;
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

// Estimates come from products of many numbers.
static i64 add_up(i64 a, i64 b) { return a > INT64_MAX / 2 - b ? INT64_MAX / 2 : a + b; }

static i64 expected(const Claim *claim)
{
    i64 bytes = claim->facts;
    for (int p = 0; p < claim->n_parts; p++)
        if (claim->parts[p].is_mine && !claim->parts[p].is_made) bytes = add_up(bytes, claim->parts[p].part.bytes);
    return bytes;
}

static i64 still_to_take(const Claim *claim) { return MAX_OF(expected(claim) - atomic_load(&claim->budget.used), 0); }

// Whenever the expectation of one that runs may have changed.
static void count_expected(Claim *claim)
{
    const i64 bytes = claim->state == CLAIM_RUNNING ? expected(claim) : 0;
    claim->admission->expected_sum += (i128)bytes - claim->counted;
    claim->counted = bytes;
}

// What is free beside what those who run will take: first at least so much, and exactly once that is asked for.
typedef struct Room { i64 bytes; bool is_exact; } Room;

static Room room_at_least(const Admission *admission)
{
    const i64  limit = atomic_load(&admission->budget->limit);
    const i128 bytes = (i128)limit - atomic_load(&admission->budget->used) - admission->expected_sum;
    if (limit == 0) return (Room){ INT64_MAX, true };
    return (Room){ bytes < INT64_MIN ? INT64_MIN : (i64)bytes, false };
}

static i64 exact_room(const Admission *admission)
{
    i64 taken = atomic_load(&admission->budget->used);
    for (const Claim *claim = admission->running.first; claim; claim = claim->next)
        taken = add_up(taken, still_to_take(claim));
    return atomic_load(&admission->budget->limit) - taken;
}

static bool has_room(const Admission *admission, Room *room, i64 bytes)
{
    if (bytes <= room->bytes) return true;
    if (room->is_exact) return false;
    *room = (Room){ exact_room(admission), true };
    return bytes <= room->bytes;
}

// ---- parts that queries share ---------------------------------------------------------------------------------------

static bool somebody_has(const Admission *admission, u64 key)
{
    for (const ClaimPart *part = admission->by_key[key % N_BUCKETS]; key && part; part = part->next)
        if (part->part.key == key) return true;
    return false;
}

static void find_by_key(Admission *admission, ClaimPart *part)
{
    ClaimPart **bucket = &admission->by_key[part->part.key % N_BUCKETS];
    if (!part->part.key) return;
    part->next = *bucket, part->link = bucket;
    if (part->next) part->next->link = &part->next;
    *bucket = part;
}

static void find_no_more(ClaimPart *part)
{
    if (!part->link) return;
    *part->link = part->next;
    if (part->next) part->next->link = part->link;
    part->next = NULL, part->link = NULL;
}

// Marks the parts that are its own to make, as things are; what they need.
static i64 need(const Admission *admission, Claim *claim)
{
    i64 bytes = 0;
    for (int p = 0; p < claim->n_parts; p++) {
        ClaimPart *part = &claim->parts[p];
        part->is_mine = !somebody_has(admission, part->part.key);
        if (part->is_mine) bytes = add_up(bytes, part->part.bytes);
    }
    return bytes;
}

// ---- letting in -----------------------------------------------------------------------------------------------------

static i64 taken_by_small(const Admission *admission)
{
    i64 bytes = 0;
    for (const Claim *claim = admission->running.first; claim; claim = claim->next)
        if (claim->is_small) bytes = add_up(bytes, MAX_OF(expected(claim), atomic_load(&claim->budget.used)));
    return bytes;
}

// What is found out once while the queue is looked at.
typedef struct Look {
    Room room;                         // for those who are not small
    i64  small_bytes;                  // what small ones take
    bool knows_small;
} Look;

static bool fits_as_small(const Admission *admission, i64 bytes, Look *look)
{
    const i64 limit = atomic_load(&admission->budget->limit), used = atomic_load(&admission->budget->used);
    if (bytes > limit / SMALL_PART || bytes > limit - used) return false;
    if (!look->knows_small) look->small_bytes = taken_by_small(admission), look->knows_small = true;
    return bytes <= limit / SMALL_SHARE - look->small_bytes;
}

static bool may_run(const Admission *admission, Claim *claim, Look *look)
{
    const i64 bytes = need(admission, claim), limit = atomic_load(&admission->budget->limit);
    claim->is_small = limit && bytes <= limit / SMALL_PART;
    if (admission->running.n_claims == 0) return true;
    if (admission->is_alone || claim->wish.is_alone) return false;
    return has_room(admission, &look->room, bytes) || fits_as_small(admission, bytes, look);
}

// True: one of those that came before has been passed so often that it goes to the front.
static bool pass_others(Admission *admission, const Claim *claim)
{
    bool is_any_due = false;
    for (Claim *other = admission->waiting.first; other; other = other->next) {
        const bool was_overdue = is_overdue(other);
        if (other->number > claim->number && admission->is_by_number) break;
        if (other->number > claim->number) continue;
        if (claim->is_small) other->n_passed_small++;
        else other->n_passed++;
        is_any_due = is_any_due || is_overdue(other) != was_overdue;
    }
    return is_any_due;
}

static void let_in(Admission *admission, Claim *claim)
{
    claim->had_company = admission->running.n_claims > 0;
    claim->n_admitted = ++admission->n_admitted;
    claim->state = CLAIM_RUNNING;
    claim->admitted_ms = time_now_ms();
    claim->position = 0;
    admission->is_alone = claim->wish.is_alone;
    list_add(&admission->running, claim);
    for (int p = 0; p < claim->n_parts; p++) find_by_key(admission, &claim->parts[p]);
    count_expected(claim);
    if (claim->wish.position) atomic_store(claim->wish.position, 0);
    pthread_cond_signal(&claim->changed);
}

static Claim *next_to_run(const Admission *admission)
{
    Look look = { .room = room_at_least(admission) };
    for (Claim *claim = admission->waiting.first; claim; claim = claim->next) {
        if (may_run(admission, claim, &look)) return claim;
        if (is_tired(claim)) return NULL;                          // it is the next one, whoever would fit
        if (is_overdue(claim)) look.room = (Room){ -1, true };     // it waits for all there is, but for small ones
    }
    return NULL;
}

// Claims that were passed too often go to the front.
static void put_in_order(Admission *admission)
{
    ClaimList old = admission->waiting;
    Claim    *last = NULL;
    list_init(&admission->waiting);
    for (Claim *claim = old.first, *next; claim; claim = next) {
        next = claim->next;
        if (last && goes_before(claim, last)) {
            list_put(&admission->waiting, claim);
        } else {
            list_add(&admission->waiting, claim);
            last = claim;
        }
    }
    admission->is_by_number = true;
    for (const Claim *claim = admission->waiting.first; claim && claim->next; claim = claim->next)
        admission->is_by_number = admission->is_by_number && claim->number < claim->next->number;
}

static void set_place(Claim *claim, int position)
{
    const bool is_first = position == 1 && claim->position != 1;
    claim->position = position;
    if (claim->wish.position) atomic_store(claim->wish.position, position);
    if (is_first) pthread_cond_signal(&claim->changed);        // it looks now and then from here on
}

// The first learns at once that it is; in a long queue the others learn their places now and then.
static void give_places(Admission *admission)
{
    int position = 0;
    if (!admission->waiting.first) return;
    set_place(admission->waiting.first, 1);
    const double now = time_now_ms();
    admission->are_places_due = admission->waiting.n_claims > QUEUE_SHORT && now < admission->next_places_ms;
    if (admission->are_places_due) return;
    admission->next_places_ms = now + LOOK_MS;
    for (Claim *claim = admission->waiting.first; claim; claim = claim->next) set_place(claim, ++position);
}

// Of one that came, at once: behind all others it changes none of their places.
static void find_place(Admission *admission, Claim *claim)
{
    int position = 1;
    if (!claim->next) {
        set_place(claim, admission->waiting.n_claims);
        return;
    }
    put_in_order(admission);
    for (const Claim *other = admission->waiting.first; other != claim; other = other->next) position++;
    set_place(claim, position);
    give_places(admission);
}

// With thousands that wait, a look at all of them takes long, and every query that runs changes something several
// times.
static bool must_pause(const Admission *admission)
{
    return admission->waiting.n_claims > QUEUE_SHORT && admission->running.n_claims > 0 &&
           time_now_ms() < admission->next_look_ms;
}

// The first in the queue looks when the pause is over.
static void look_later(Admission *admission)
{
    if (!admission->is_look_due) pthread_cond_signal(&admission->waiting.first->changed);
    admission->is_look_due = true;
}

static void admit(Admission *admission)
{
    Claim *claim;
    if (!admission->waiting.first) return;
    if (must_pause(admission)) {
        look_later(admission);
        return;
    }
    const double start_ms = time_now_ms();
    while ((claim = next_to_run(admission))) {
        list_take(&admission->waiting, claim);
        const bool is_any_due = pass_others(admission, claim);
        let_in(admission, claim);
        if (is_any_due) put_in_order(admission);
        admission->are_places_due = true;
    }
    if (admission->are_places_due) give_places(admission);
    const double end_ms = time_now_ms();
    admission->next_look_ms = end_ms + (end_ms - start_ms) * (LOOK_SHARE - 1), admission->is_look_due = false;
}

// ---- claims ---------------------------------------------------------------------------------------------------------

// One that ended and in which nothing is counted any more, or a new one.
static Claim *take_claim(Admission *admission)
{
    for (int i = MIN_OF(RECYCLE_LOOK, admission->ended.n_claims); i > 0; i--) {
        Claim *claim = admission->ended.first;
        list_take(&admission->ended, claim);
        if (atomic_load(&claim->budget.used) == 0) return claim;
        list_add(&admission->ended, claim);
    }
    Claim             *claim = calloc(1, sizeof *claim);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&claim->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    claim->admission = admission;
    return claim;
}

static void begin(Admission *admission, Claim *claim, const Wish *wish)
{
    claim->budget.parent = wish->is_look ? NULL : admission->budget;
    atomic_store(&claim->budget.limit, wish->is_look ? ALLOWANCE : wish->most_bytes);
    atomic_store(&claim->budget.most, 0);
    atomic_store(&claim->budget.temp_bytes, 0);
    atomic_store(&claim->budget.n_temp_files, 0);
    atomic_store(&claim->budget.was_refused, false);
    claim->budget.temp = wish->temp;
    claim->wish = *wish;
    claim->wish.parts = NULL;
    claim->n_parts = wish->n_parts;
    claim->parts = calloc((size_t)wish->n_parts + 1, sizeof *claim->parts);
    for (int p = 0; p < wish->n_parts; p++) claim->parts[p].part = wish->parts[p];
    claim->facts = 0, claim->n_passed = claim->n_passed_small = 0, claim->position = 0, claim->had_company = false;
    claim->number = ++admission->n_asked;
    claim->asked_ms = claim->admitted_ms = time_now_ms();
}

Claim *admission_ask(Admission *admission, const Wish *wish)
{
    pthread_mutex_lock(&admission->lock);
    Claim *claim = take_claim(admission);
    begin(admission, claim, wish);
    if (wish->is_look) {
        claim->state = CLAIM_LOOKING;
    } else {
        claim->state = CLAIM_WAITING;
        list_put(&admission->waiting, claim);
        if (claim->next) admission->is_by_number = false;
        admit(admission);
        if (claim->state == CLAIM_WAITING) find_place(admission, claim);
    }
    pthread_mutex_unlock(&admission->lock);
    return claim;
}

static double look_again_ms(const Admission *admission)
{
    const double left_ms = admission->next_look_ms - time_now_ms();
    return admission->is_look_due && left_ms < LOOK_MS ? MAX_OF(left_ms, 0) : LOOK_MS;
}

static void wait_for_change(Claim *claim)
{
    struct timespec until;
    if (claim->position != 1) {
        pthread_cond_wait(&claim->changed, &claim->admission->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(look_again_ms(claim->admission) * 1e6);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&claim->changed, &claim->admission->lock, &until);
    if (claim->position == 1) admit(claim->admission);
}

weft_status claim_wait(Claim *claim, Error *err)
{
    Admission  *admission = claim->admission;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&admission->lock);
    while (claim->state == CLAIM_WAITING && !(claim->wish.stop && atomic_load(claim->wish.stop)))
        wait_for_change(claim);
    if (claim->state == CLAIM_WAITING)
        status = fail(err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
    pthread_mutex_unlock(&admission->lock);
    return status;
}

Budget *claim_budget(Claim *claim) { return &claim->budget; }

bool claim_is_running(Claim *claim)
{
    pthread_mutex_lock(&claim->admission->lock);
    const bool is_running = claim->state == CLAIM_RUNNING || claim->state == CLAIM_LOOKING;
    pthread_mutex_unlock(&claim->admission->lock);
    return is_running;
}

void claim_make(Claim *claim, int part)
{
    pthread_mutex_lock(&claim->admission->lock);
    claim->parts[part].is_mine = true;
    count_expected(claim);
    pthread_mutex_unlock(&claim->admission->lock);
}

void claim_made(Claim *claim, int part, bool stays)
{
    pthread_mutex_lock(&claim->admission->lock);
    claim->parts[part].is_made = true;
    if (!stays) {
        find_no_more(&claim->parts[part]);
        claim->parts[part].part.key = 0;
    }
    claim->facts = atomic_load(&claim->budget.used);
    count_expected(claim);
    admit(claim->admission);
    pthread_mutex_unlock(&claim->admission->lock);
}

// Somebody was there when it came, or came later.
static bool had_company(const Claim *claim)
{
    return claim->had_company ||
           (claim->state == CLAIM_RUNNING && claim->admission->n_admitted > claim->n_admitted);
}

bool claim_had_company(Claim *claim)
{
    pthread_mutex_lock(&claim->admission->lock);
    const bool is_so = had_company(claim);
    pthread_mutex_unlock(&claim->admission->lock);
    return is_so;
}

void claim_leave(Claim *claim)
{
    if (!claim) return;
    Admission *admission = claim->admission;
    pthread_mutex_lock(&admission->lock);
    if (claim->state == CLAIM_RUNNING) list_take(&admission->running, claim);
    if (claim->state == CLAIM_WAITING) list_take(&admission->waiting, claim);
    if (claim->state == CLAIM_RUNNING) admission->is_alone = false;            // when set, it was this one
    if (claim->state == CLAIM_WAITING) give_places(admission);
    if (claim->wish.position) atomic_store(claim->wish.position, 0);
    claim->had_company = had_company(claim);
    claim->state = CLAIM_ENDED;
    count_expected(claim);
    for (int p = 0; p < claim->n_parts; p++) find_no_more(&claim->parts[p]);
    free(claim->parts);
    claim->parts = NULL, claim->n_parts = 0;
    list_add(&admission->ended, claim);
    admit(admission);
    pthread_mutex_unlock(&admission->lock);
}

// ---- for people -----------------------------------------------------------------------------------------------------

static ClaimFigures figures_of(const Claim *claim)
{
    const bool   is_running = claim->state != CLAIM_WAITING;
    const i64    used = atomic_load(&claim->budget.used);
    ClaimFigures figures = { .query = claim->wish.query,
                             .position = claim->position,
                             .priority = claim->wish.priority,
                             .is_alone = claim->wish.is_alone,
                             .used = used,
                             .most = atomic_load(&claim->budget.most),
                             .temp_bytes = atomic_load(&claim->budget.temp_bytes),
                             .waited_ms = (is_running ? claim->admitted_ms : time_now_ms()) - claim->asked_ms };
    for (int p = 0; p < claim->n_parts; p++) figures.wanted = add_up(figures.wanted, claim->parts[p].part.bytes);
    if (is_running) figures.reserved = MAX_OF(expected(claim), used);
    return figures;
}

ClaimFigures claim_figures(Claim *claim)
{
    pthread_mutex_lock(&claim->admission->lock);
    const ClaimFigures figures = figures_of(claim);
    pthread_mutex_unlock(&claim->admission->lock);
    return figures;
}

void admission_list(Admission *admission, Arena *arena, ClaimFigures **figures, int *n_figures)
{
    *figures = NULL, *n_figures = 0;
    pthread_mutex_lock(&admission->lock);
    for (const Claim *claim = admission->running.first; claim; claim = claim->next)
        *LIST_PUSH(arena, *figures, *n_figures) = figures_of(claim);
    for (const Claim *claim = admission->waiting.first; claim; claim = claim->next)
        *LIST_PUSH(arena, *figures, *n_figures) = figures_of(claim);
    pthread_mutex_unlock(&admission->lock);
}

// ---- the whole ------------------------------------------------------------------------------------------------------

Admission *admission_new(Budget *budget)
{
    Admission *admission = calloc(1, sizeof *admission);
    pthread_mutex_init(&admission->lock, NULL);
    admission->budget = budget, admission->is_by_number = true;
    list_init(&admission->running);
    list_init(&admission->waiting);
    list_init(&admission->ended);
    return admission;
}

void admission_free(Admission *admission)
{
    if (!admission) return;
    while (admission->ended.first) {
        Claim *claim = admission->ended.first;
        list_take(&admission->ended, claim);
        pthread_cond_destroy(&claim->changed);
        free(claim);
    }
    pthread_mutex_destroy(&admission->lock);
    free(admission);
}

bool admission_is_busy(Admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    const bool is_busy = admission->running.n_claims > 0;
    pthread_mutex_unlock(&admission->lock);
    return is_busy;
}

void admission_wake(Admission *admission)
{
    pthread_mutex_lock(&admission->lock);
    for (Claim *claim = admission->waiting.first; claim; claim = claim->next)
        if (claim->wish.stop && atomic_load(claim->wish.stop)) pthread_cond_signal(&claim->changed);
    pthread_mutex_unlock(&admission->lock);
}
