// choice.c - where operators of the DEVICE side run: on a GPU, or on threads.
//
// A GPU runs tile C whose parameters can be copied to it (context_bytes).  With "auto" all else runs on threads, and
// the log says so once for each operator; where a GPU was named, that is an error.

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "flow/card_int.h"
#include "flow/run_int.h"

typedef struct DeviceWord { bool is_auto, is_cuda; int number; } DeviceWord;

static bool parse(const char *word, DeviceWord *out)
{
    enum { DIGITS_MOST = 3 };
    const char *digits = strncasecmp(word, "cuda:", 5) == 0 ? word + 5 : "0";
    const size_t n_digits = strspn(digits, "0123456789");
    *out = (DeviceWord){ .is_auto = strcasecmp(word, "auto") == 0,
                         .is_cuda = strcasecmp(word, "cuda") == 0 || digits == word + 5 };
    if (n_digits == 0 || n_digits > DIGITS_MOST || digits[n_digits])
        return false;
    out->number = atoi(digits);
    return out->is_auto || out->is_cuda || strcasecmp(word, "cpu") == 0;
}

static weft_status read_word(const char *asked, DeviceWord *word, Error *err)
{
    const char *own = getenv("WEFT_DEVICE");
    *word = (DeviceWord){ .is_auto = true };
    if (asked && !parse(asked, word)) {
        fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "there is no device \"%s\"", asked);
        error_hint(err, "Devices are auto, cpu, cuda and cuda:N.");
        return WEFT_INVALID_PARAMETER;
    }
    if (!asked && own && *own && !parse(own, word)) {
        log_warn("WEFT_DEVICE=%s is not understood: auto, cpu, cuda or cuda:N", own);
        *word = (DeviceWord){ .is_auto = true };
    }
    return WEFT_OK;
}

static bool has_own_memory(const weft_flow_options *options)
{
    return options->memory[WEFT_SIDE_HOST].take || options->memory[WEFT_SIDE_DEVICE].take;
}

weft_status choose_device(weft_flow *flow, Error *err)
{
    DeviceWord word;
    Error problem = { 0 };
    TRY(read_word(flow->options.device, &word, err));
    flow->options.device = NULL;                            // the caller's text is not kept
    if (!word.is_cuda && (!word.is_auto || cuda_driver()->n_gpus == 0))
        return WEFT_OK;
    weft_status status = has_own_memory(&flow->options)
                             ? fail(&problem, WEFT_INVALID_PARAMETER, NO_PLACE,
                                    "a flow on a GPU has the GPU's memory, so its memory must not have take and give")
                             : card_open(word.number, &flow->card, &problem);
    if (!status && flow->options.is_managed)
        status = card_use_managed(flow->card, &problem);
    if (status) {
        card_close(flow->card);
        flow->card = NULL;
    }
    if (status && word.is_auto) {
        log_warn("flow: operators run on threads, not on cuda:%d: %s", word.number, problem.message);
        return WEFT_OK;
    }
    if (status) {
        fail(err, status, NO_PLACE, "%s", problem.message);
        error_hint(err, "%s", problem.hint);
        return status;
    }
    flow->is_card_asked = word.is_cuda;
    for (int side = 0; side < WEFT_N_SIDES; side++)
        flow->options.memory[side] = card_memory(flow->card, side, flow->options.memory[side].bytes_max);
    return WEFT_OK;
}

static weft_status check_gpu(const weft_operator *op, const char *text, Error *err)
{
    if (!text) {
        fail(err, WEFT_UNSUPPORTED, NO_PLACE, "it is a function, and a GPU runs tile C");
        error_hint(err, "Make it tile C, or an operator of the HOST side, or set the flow's device to auto or cpu.");
    } else if (op->options.context && !op->options.context_bytes) {
        fail(err, WEFT_INVALID_PARAMETER, NO_PLACE, "its context has no context_bytes, so a GPU cannot have a copy");
        error_hint(err, "Set context_bytes to the size of what context points to.");
    } else {
        return WEFT_OK;
    }
    return err->status;
}

static weft_status check_topics(const weft_topic *from, const weft_topic *to, Error *err)
{
    if (from)
        TRY(topic_check_host(from, err));
    return to ? topic_check_host(to, err) : WEFT_OK;
}

weft_status choose_place(weft_operator *op, const char *text, const weft_topic *from, const weft_topic *to, Error *err)
{
    weft_flow *flow = op->flow;
    Error problem = { 0 };
    if (!flow->card)
        return WEFT_OK;
    if (op->options.side != WEFT_SIDE_DEVICE)
        return check_topics(from, to, err);
    weft_status status = check_gpu(op, text, &problem);
    if (status && !flow->is_card_asked) {
        log_info("flow: operator \"%s\" runs on threads: %s", op->name, problem.message);
        return check_topics(from, to, err);
    }
    if (!status) {
        op->is_on_gpu = true;
        op->has_state = strstr(text, "STATE(") != NULL;
        op->has_pages = strstr(text, "COLUMN(") != NULL;
        status = card_check(flow->card, &problem);
    }
    if (!status)
        status = card_add_text(flow->card, text, &op->text_code, &problem);
    if (!status)
        return WEFT_OK;
    fail(err, status, NO_PLACE, "operator \"%s\": %s", op->name, problem.message);
    error_hint(err, "%s", problem.hint);
    return status;
}
