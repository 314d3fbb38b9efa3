// card.c - a GPU under a flow: opened and closed, its memory, and the kernel's coming and going.  See card_int.h.
//
// Frames of the HOST side are pinned memory that is mapped for the device under the same address, so the kernel reads
// and writes them over the link.  Frames of the DEVICE side are device memory, which the host never touches.  As a
// setting both are managed memory with the paper's advice (4.2): a frame stays on its publishers' side, and the other
// side reads it there.
//
// The kernel has left when its last block has written the launch's number into `said->left`: a look at host memory, no
// call.  The driver is asked only to see whether the kernel has failed, and before memory is given back.

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "flow/card_int.h"

#define MANAGED_MOST ((i64)4 << 30)    // of each side

enum { STAY_MS = 1000 };               // then it leaves for a moment, busy or not: calls of others get their turn

weft_status card_said(FlowCard *card, CuResult result, const char *call, Error *err)
{
    if (result == CU_SUCCESS)
        return WEFT_OK;
    Error problem = { 0 };
    const weft_status status = cuda_check(card->cu, result, call, &problem);
    fail(err, status, NO_PLACE, "%s: %s", card->name, problem.message);
    if (!cuda_is_sticky(result))
        return status;
    error_hint(err, "The driver refuses all that this process asks of it from now on; a new process finds the GPU "
                    "again.");
    if (!card->is_lost)
        card->lost = *err;
    card->is_lost = true;
    return status;
}

weft_status card_check(FlowCard *card, Error *err)
{
    pthread_mutex_lock(&card->lock);
    if (card->is_lost && err)
        *err = card->lost;
    const weft_status status = card->is_lost ? card->lost.status : WEFT_OK;
    pthread_mutex_unlock(&card->lock);
    return status;
}

weft_status card_enter(FlowCard *card, CardVisit *visit, Error *err)
{
    *visit = (CardVisit){ .before = NULL };
    card->cu->CtxGetCurrent(&visit->before);
    if (visit->before == card->context)
        return WEFT_OK;
    CARD_TRY(card, CtxSetCurrent, (card->context), err);
    visit->has_changed = true;
    return WEFT_OK;
}

void card_leave(FlowCard *card, CardVisit visit)
{
    if (visit.has_changed)
        card->cu->CtxSetCurrent(visit.before);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static weft_status take_host(FlowCard *card, size_t bytes, void **out, Error *err)
{
    CuAddress address = 0;
    void *memory = NULL;
    *out = NULL;
    CARD_TRY(card, MemHostAlloc, (&memory, bytes, CU_HOST_PORTABLE | CU_HOST_DEVICE_MAP), err);
    weft_status status = card_said(card, card->cu->MemHostGetDevicePointer(&address, memory, 0),
                               "cuMemHostGetDevicePointer", err);
    if (!status && address != (CuAddress)(uintptr_t)memory)
        status = fail(err, WEFT_NO_DEVICE, NO_PLACE, "%s: pinned memory has another address on the device", card->name);
    if (status)
        card->cu->MemFreeHost(memory);
    else
        *out = memory;
    return status;
}

weft_status card_take_mapped(FlowCard *card, size_t bytes, void **out, Error *err)
{
    TRY(take_host(card, bytes, out, err));
    memset(*out, 0, bytes);
    return WEFT_OK;
}

// Memory is given back after it, so a call that fails once is tried again.
static weft_status wait_for_stream(FlowCard *card, CuStream stream, Error *err)
{
    enum { TRIES = 3 };
    Error problem = { 0 };
    for (int i = 0; i < TRIES; i++) {
        error_clear(&problem);
        if (card_said(card, card->cu->StreamSynchronize(stream), "cuStreamSynchronize", &problem) == WEFT_OK)
            return WEFT_OK;
    }
    fail(err, problem.status, NO_PLACE, "%s", problem.message);
    error_hint(err, "%s", problem.hint);
    return problem.status;
}

weft_status card_clear(FlowCard *card, CuAddress to, size_t bytes, Error *err)
{
    CARD_TRY(card, MemsetD8Async, (to, 0, bytes, card->stream), err);
    return wait_for_stream(card, card->stream, err);
}

weft_status card_take_device(FlowCard *card, size_t bytes, CuAddress *out, Error *err)
{
    *out = 0;
    CARD_TRY(card, MemAlloc, (out, bytes), err);
    const weft_status status = card_clear(card, *out, bytes, err);
    if (status) {
        card->cu->MemFree(*out);
        *out = 0;
    }
    return status;
}

// What cannot be given back is the driver's to free with the process: it has said why in another call.
void card_give_mapped(FlowCard *card, void *memory)
{
    if (memory)
        card->cu->MemFreeHost(memory);
}

void card_give_device(FlowCard *card, CuAddress address)
{
    if (address)
        card->cu->MemFree(address);
}

weft_status card_copy_in(FlowCard *card, CuAddress to, const void *from, size_t bytes, Error *err)
{
    CARD_TRY(card, MemcpyHtoDAsync, (to, from, bytes, card->copies), err);
    return wait_for_stream(card, card->copies, err);
}

weft_status card_copy_out(FlowCard *card, void *to, CuAddress from, size_t bytes, Error *err)
{
    CARD_TRY(card, MemcpyDtoHAsync, (to, from, bytes, card->copies), err);
    return wait_for_stream(card, card->copies, err);
}

// ---- managed memory -------------------------------------------------------------------------------------------------

weft_status card_use_managed(FlowCard *card, Error *err)
{
    int at_once = 0;
    if (!card->cu->MemAllocManaged || !card->cu->MemAdvise)
        return fail(err, WEFT_NO_DEVICE, NO_PLACE, "%s: this driver has no managed memory", card->name);
    CARD_TRY(card, DeviceGetAttribute, (&at_once, CU_DEVICE_MANAGED_AT_ONCE, card->handle), err);
    if (!at_once)
        return fail(err, WEFT_NO_DEVICE, NO_PLACE,
                    "%s: the host cannot use managed memory while a kernel runs on this card", card->name);
    card->is_managed = true;
    return WEFT_OK;
}

// Frames of the HOST side stay in the host's memory and are mapped for the GPU.  The host cannot map the GPU's memory:
// what it reads of DEVICE frames moves to it, and back with the GPU's next write.
static weft_status advise(FlowCard *card, weft_side side, CuAddress address, size_t bytes, Error *err)
{
    const CuDevice home = side == WEFT_SIDE_HOST ? CU_ON_HOST : card->handle;
    CARD_TRY(card, MemAdvise, (address, bytes, CU_ADVISE_PREFERRED_LOCATION, home), err);
    if (side == WEFT_SIDE_HOST)
        CARD_TRY(card, MemAdvise, (address, bytes, CU_ADVISE_ACCESSED_BY, card->handle), err);
    return WEFT_OK;
}

static weft_status take_managed(FlowCard *card, weft_side side, size_t bytes, void **out, Error *err)
{
    CuAddress address = 0;
    CARD_TRY(card, MemAllocManaged, (&address, bytes, CU_MANAGED_GLOBAL), err);
    const weft_status status = advise(card, side, address, bytes, err);
    if (status)
        card->cu->MemFree(address);
    else
        *out = (void *)(uintptr_t)address;
    return status;
}

// ---- the heap's memory ----------------------------------------------------------------------------------------------

// With the card's lock and in its context; the kernel is away then, and the next look launches it again.
static bool is_away(FlowCard *card);

static void *take_frames(FlowCard *card, weft_side side, size_t bytes)
{
    Error ignored = { 0 };                                  // the heap says that there is no memory
    CuAddress address = 0;
    void *memory = NULL;
    pthread_mutex_lock(&card->lock);
    CardVisit visit;
    if (card_enter(card, &visit, &ignored) == WEFT_OK && is_away(card)) {
        if (card->is_managed)
            take_managed(card, side, bytes, &memory, &ignored);
        else if (side == WEFT_SIDE_HOST)
            take_host(card, bytes, &memory, &ignored);
        else if (card_said(card, card->cu->MemAlloc(&address, bytes), "cuMemAlloc", &ignored) == WEFT_OK)
            memory = (void *)(uintptr_t)address;
    }
    card_leave(card, visit);
    pthread_mutex_unlock(&card->lock);
    if (ignored.status)
        log_debug("flow: no memory for frames: %s", ignored.message);
    return memory;
}

static void give_frames(FlowCard *card, weft_side side, void *memory)
{
    CardVisit visit;
    Error ignored = { 0 };
    pthread_mutex_lock(&card->lock);
    if (card_enter(card, &visit, &ignored) || (!is_away(card) && !card->is_lost))
        log_warn("flow: memory of frames is not given back to %s: %s", card->name,
                 ignored.status ? ignored.message : "its kernel does not leave");
    else if (side == WEFT_SIDE_HOST && !card->is_managed)
        card->cu->MemFreeHost(memory);
    else
        card->cu->MemFree((CuAddress)(uintptr_t)memory);
    card_leave(card, visit);
    pthread_mutex_unlock(&card->lock);
}

static void *take_pinned(void *card, size_t bytes) { return take_frames(card, WEFT_SIDE_HOST, bytes); }
static void *take_device(void *card, size_t bytes) { return take_frames(card, WEFT_SIDE_DEVICE, bytes); }

static void give_pinned(void *card, void *memory, size_t bytes)
{
    (void)bytes;
    if (memory)
        give_frames(card, WEFT_SIDE_HOST, memory);
}

static void give_device(void *card, void *memory, size_t bytes)
{
    (void)bytes;
    if (memory)
        give_frames(card, WEFT_SIDE_DEVICE, memory);
}

// is_remote for both sides: the pattern of free frames would have the host touch every page of a frame twice, which
// takes longer than all else that it does for the frame.
weft_memory card_memory(FlowCard *card, weft_side side, i64 bytes_max)
{
    const bool is_host = side == WEFT_SIDE_HOST;
    if (card->is_managed)
        bytes_max = bytes_max ? MIN_OF(bytes_max, MANAGED_MOST) : MANAGED_MOST;
    return (weft_memory){ .take = is_host ? take_pinned : take_device, .give = is_host ? give_pinned : give_device,
                          .context = card, .is_private = !is_host, .is_remote = true, .bytes_max = bytes_max };
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static bool has_left(const FlowCard *card)
{
    return __atomic_load_n(&card->said->left, __ATOMIC_ACQUIRE) == card->n_launches;
}

static void note_left(FlowCard *card)
{
    const u64 why = __atomic_load_n(&card->said->why, __ATOMIC_ACQUIRE);
    card->is_running = false;
    card->n_left_idle += why == FLOW_LEFT_IDLE;
    card->n_left_asked += why == FLOW_LEFT_ASKED;
    card->n_left_turn += why == FLOW_LEFT_TURN;
}

bool card_is_running(FlowCard *card)
{
    ASSERT(mutex_is_held(&card->lock));
    if (card->is_running && has_left(card))
        note_left(card);
    return card->is_running;
}

weft_status card_look(FlowCard *card, Error *err)
{
    ASSERT(mutex_is_held(&card->lock));
    if (!card->is_running)
        return WEFT_OK;
    const CuResult result = card->cu->EventQuery(card->ended);
    if (result == CU_NOT_READY || (result == CU_SUCCESS && has_left(card)))
        return WEFT_OK;
    if (result != CU_SUCCESS)
        return card_said(card, result, "cuEventQuery", err);
    card->is_running = false;
    return fail(err, WEFT_DEVICE_FAILED, NO_PLACE, "%s: the kernel of the flow ended without a word", card->name);
}

// The last block has said that it leaves; the driver says when it is gone.
static weft_status settle(FlowCard *card, Error *err)
{
    if (!card->is_settled)
        TRY(wait_for_stream(card, card->stream, err));
    card->is_settled = true;
    return WEFT_OK;
}

weft_status card_send_away(FlowCard *card, int time_ms, Error *err)
{
    const double until = time_now_ms() + time_ms;
    ASSERT(mutex_is_held(&card->lock));
    if (!card_is_running(card))
        return settle(card, err);
    if (card->is_lost)
        return fail(err, WEFT_DEVICE_FAILED, NO_PLACE, "%s", card->lost.message);
    __atomic_store_n(&card->posted->leave, 1, __ATOMIC_RELEASE);
    for (int i = 0; card_is_running(card); i++) {
        if (i % 64 == 63) {
            TRY(card_look(card, err));
            if (time_now_ms() > until)
                return fail(err, WEFT_NOT_READY, NO_PLACE, "%s: the kernel of the flow did not leave within %d ms",
                            card->name, time_ms);
            usleep(50);
        }
        sched_yield();
    }
    __atomic_store_n(&card->posted->leave, 0, __ATOMIC_RELEASE);
    return settle(card, err);
}

static bool is_away(FlowCard *card)
{
    Error ignored = { 0 };
    return card_send_away(card, CARD_LEAVE_MS, &ignored) == WEFT_OK;
}

weft_status card_launch(FlowCard *card, int n_operators, u32 idle_ms, Error *err)
{
    ASSERT(mutex_is_held(&card->lock) && !card->is_running);
    void *parameters[] = { &card->args };
    card->args->launch = card->n_launches + 1;
    card->args->n_operators = (u32)n_operators;
    card->args->idle_ns = (u64)idle_ms * 1000000;
    card->args->stay_ns = (u64)STAY_MS * 1000000;
    __atomic_store_n(&card->posted->leave, 0, __ATOMIC_RELEASE);
    CARD_TRY(card, MemsetD8Async, (card->mirror, 0, sizeof(FlowMirror), card->stream), err);
    CARD_TRY(card, LaunchKernel,
             (card->function, (unsigned)card->n_blocks, 1, 1, CARD_THREADS, 1, 1, 0, card->stream, parameters, NULL),
             err);
    card->n_launches++;
    card->is_running = true;
    card->is_settled = false;
    CARD_TRY(card, EventRecord, (card->ended, card->stream), err);
    return WEFT_OK;
}

// ---- opening and closing --------------------------------------------------------------------------------------------

static weft_status read_card(FlowCard *card, Error *err)
{
    int maps = 0, has_one_space = 0;
    char name[128] = "";
    const struct { int *to, attribute; } wanted[] = {
        { &card->major, CU_DEVICE_CAPABILITY_MAJOR }, { &card->minor, CU_DEVICE_CAPABILITY_MINOR },
        { &card->n_multiprocessors, CU_DEVICE_MULTIPROCESSORS },
        { &maps, CU_DEVICE_MAPS_HOST_MEMORY }, { &has_one_space, CU_DEVICE_UNIFIED_ADDRESSING } };
    CARD_TRY(card, DeviceGet, (&card->handle, card->number), err);
    CARD_TRY(card, DeviceGetName, (name, sizeof(name), card->handle), err);
    for (int i = 0; i < COUNT_OF(wanted); i++)
        CARD_TRY(card, DeviceGetAttribute, (wanted[i].to, wanted[i].attribute, card->handle), err);
    if (!maps || !has_one_space)
        return fail(err, WEFT_NO_DEVICE, NO_PLACE, "%s (%s) cannot use the host's memory in place", card->name, name);
    return cuda_check_capability(card->name, name, card->major, card->minor, err);
}

static weft_status make_parts(FlowCard *card, Error *err)
{
    CARD_TRY(card, StreamCreate, (&card->stream, CU_STREAM_NON_BLOCKING), err);
    CARD_TRY(card, StreamCreate, (&card->copies, CU_STREAM_NON_BLOCKING), err);
    CARD_TRY(card, EventCreate, (&card->ended, CU_EVENT_DISABLE_TIMING), err);
    void *args, *posted, *said;
    TRY(card_take_mapped(card, sizeof(FlowArgs), &args, err));
    card->args = args;
    TRY(card_take_mapped(card, sizeof(FlowPosted), &posted, err));
    card->posted = posted;
    TRY(card_take_mapped(card, sizeof(FlowSaid), &said, err));
    card->said = said;
    TRY(card_take_device(card, sizeof(FlowMirror), &card->mirror, err));
    card->args->posted = card->posted;
    card->args->said = card->said;
    card->args->mirror = (FlowMirror *)(uintptr_t)card->mirror;
    card->args->end_of_stream = WEFT_END_OF_STREAM;
    return WEFT_OK;
}

static weft_status open_parts(FlowCard *card, Error *err)
{
    TRY(cuda_check_number(card->number, err));
    TRY(read_card(card, err));
    CARD_TRY(card, DevicePrimaryCtxRetain, (&card->context, card->handle), err);
    CardVisit visit;
    TRY(card_enter(card, &visit, err));
    const weft_status status = make_parts(card, err);
    card_leave(card, visit);
    return status;
}

weft_status card_open(int number, FlowCard **out, Error *err)
{
    FlowCard *card = calloc(1, sizeof(FlowCard));
    *out = NULL;
    if (!card)
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for a device of the flow");
    Error problem = { 0 };
    weft_status status = cuda_need(&card->cu, &problem);
    card->number = number;
    snprintf(card->name, sizeof(card->name), "cuda:%d", number);
    card->is_settled = true;
    pthread_mutex_init(&card->lock, NULL);
    pthread_mutex_init(&card->code_lock, NULL);
    card->cubins = cubins_new(NULL);
    if (!status)
        status = open_parts(card, &problem);
    if (status) {
        fail(err, status, NO_PLACE, "%s", problem.message);
        error_hint(err, "%s", problem.hint);
        card_close(card);
        return status;
    }
    *out = card;
    return WEFT_OK;
}

static void give_parts(FlowCard *card)
{
    if (card->stream)                                       // first: what is still under way uses the rest
        card->cu->StreamDestroy(card->stream);
    if (card->copies)
        card->cu->StreamDestroy(card->copies);
    card_give_device(card, card->mirror);
    card_give_mapped(card, card->args);
    card_give_mapped(card, card->posted);
    card_give_mapped(card, card->said);
    if (card->module)
        card->cu->ModuleUnload(card->module);
    if (card->ended)
        card->cu->EventDestroy(card->ended);
}

void card_close(FlowCard *card)
{
    if (!card)
        return;
    if (card->context) {
        CardVisit visit;
        Error ignored = { 0 };
        if (card_enter(card, &visit, &ignored) == WEFT_OK)
            give_parts(card);
        card_leave(card, visit);
        card->cu->DevicePrimaryCtxRelease(card->handle);
    }
    for (int i = 0; i < card->n_texts; i++)
        free(card->texts[i]);
    text_free(&card->cubin);
    cubins_free(card->cubins);
    pthread_mutex_destroy(&card->lock);
    pthread_mutex_destroy(&card->code_lock);
    free(card);
}
