// card_code.c - the texts of a flow's operators as one module: the words, the loop, each text once, a switch.
//
//     flow.h, flow_pages.h, flow_args.h, flow_loop.h
//     namespace code_0 { OPERATOR(twice) { ... } }
//     namespace code_1 { OPERATOR(aes) { ... } }
//     switch (code) { case 0: code_0::operator_(round); ...
//     FLOW_KERNEL
//
// Texts are only ever added.  A text that is new makes a new module, which is loaded while the kernel is away; numbers
// of the older texts stay as they are, so rounds that were posted before are computed by the same code after it.

#include <stdio.h>
#include <stdlib.h>

#include "flow/card_int.h"
#include "kernel/kernel.h"

// With the code's lock.
static weft_status add_text(FlowCard *card, const char *text, u32 *code, Error *err)
{
    int i = 0;
    while (i < card->n_texts && strcmp(card->texts[i], text) != 0)
        i++;
    *code = (u32)i;
    if (i < card->n_texts)
        return WEFT_OK;
    if (i == CARD_TEXTS_MOST)
        return fail(err, WEFT_TOO_LONG, NO_PLACE, "a flow has %d different texts on %s at most", CARD_TEXTS_MOST,
                    card->name);
    card->texts[i] = strdup(text);
    if (!card->texts[i])
        return fail(err, WEFT_OUT_OF_MEMORY, NO_PLACE, "no memory for an operator's text");
    card->n_texts++;
    return WEFT_OK;
}

static void write_module(const FlowCard *card, Text *text)
{
    for (int i = 0; i < card->n_texts; i++)
        text_add(text, "\nnamespace code_%d {\n#line 1 \"operator\"\n%s\n}\n", i, card->texts[i]);
    text_add(text, "static __device__ __forceinline__ void flow_dispatch_(u32 code, FlowRound *round)\n{\n"
                   "    switch (code) {\n");
    for (int i = 0; i < card->n_texts; i++)
        text_add(text, "    case %d: code_%d::operator_(round); break;\n", i, i);
    text_add(text, "    }\n}\nFLOW_KERNEL\n");
}

static weft_status build(FlowCard *card, Error *err)        // with the code's lock
{
    Text prelude = { 0 }, text = { 0 }, cubin = { 0 };
    Error problem = { 0 };
    bool was_cached;
    text_add(&prelude, "%s\n%s\n%s\n%s\n", kernel_flow_text, kernel_flow_pages_text, kernel_flow_args_text,
             kernel_flow_loop_text);
    write_module(card, &text);
    const CubinJob job = { .prelude = prelude.bytes, .text = text.bytes, .driver_version = card->cu->version,
                           .major = card->major, .minor = card->minor, .is_tile_c = true };
    const weft_status status = cubins_get(card->cubins, &job, &cubin, &was_cached, &problem);
    text_free(&prelude);
    text_free(&text);
    if (status) {
        text_free(&cubin);
        fail(err, status, NO_PLACE, "%s: %s", card->name, problem.message);
        error_hint(err, "%s", problem.hint);
        return status;
    }
    text_free(&card->cubin);
    card->cubin = cubin;
    card->n_built = card->n_texts;
    card->is_new = true;
    return WEFT_OK;
}

weft_status card_add_text(FlowCard *card, const char *text, u32 *code, Error *err)
{
    pthread_mutex_lock(&card->code_lock);
    weft_status status = add_text(card, text, code, err);
    if (!status && card->n_built < card->n_texts) {
        status = build(card, err);
        if (status)
            free(card->texts[--card->n_texts]);             // it must not be in the way of others
    }
    pthread_mutex_unlock(&card->code_lock);
    return status;
}

// One block that works for each multiprocessor, and the scout.  A second one for each adds little but requests that
// wait for the link.  On an H200, 133 blocks moved 39.1 GB/s each way in frames of 64 KB, 264 moved 36.2; 40.2 against
// 37.9 in 256 KB, 37.6 against 31.8 in 4 MB, and one frame of 4 KB came back within 14.6 us in 99 % of cases, not 17.8.
// Below 64 KB, 264 are better: 8.1 against 7.4 in 4 KB, 23.2 against 22.2 in 16 KB.
// WEFT_FLOW_BLOCKS=N: N of them, as far as they are resident together.
static int blocks_wanted(const FlowCard *card)
{
    const char *own = getenv("WEFT_FLOW_BLOCKS");
    const int n = own ? atoi(own) : 0;
    return MIN_OF(n >= 2 ? n : card->n_multiprocessors + 1, FLOW_BLOCKS_MOST);
}

// With the code's lock.
static weft_status load_cubin(FlowCard *card, Error *err)
{
    int per_multiprocessor = 0;
    if (card->module)
        CARD_TRY(card, ModuleUnload, (card->module), err);
    card->module = NULL;
    CARD_TRY(card, ModuleLoadData, (&card->module, card->cubin.bytes), err);
    CARD_TRY(card, ModuleGetFunction, (&card->function, card->module, "flow_kernel"), err);
    CARD_TRY(card, OccupancyMaxActiveBlocksPerMultiprocessor,
             (&per_multiprocessor, card->function, CARD_THREADS, 0), err);
    card->n_blocks = MIN_OF(per_multiprocessor * card->n_multiprocessors, blocks_wanted(card));
    if (card->n_blocks < 2)                                 // the scout, and one that works
        return fail(err, WEFT_DEVICE_FAILED, NO_PLACE, "%s has no room for the operators' kernel: %d blocks of %d "
                    "threads", card->name, card->n_blocks, CARD_THREADS);
    card->is_new = false;
    return WEFT_OK;
}

weft_status card_load(FlowCard *card, Error *err)
{
    pthread_mutex_lock(&card->code_lock);
    const weft_status status = card->is_new || !card->module ? load_cubin(card, err) : WEFT_OK;
    pthread_mutex_unlock(&card->code_lock);
    return status;
}
