// functions_text.c - functions of text.
//
// Kernels see texts as codes of a dictionary, so such a function has no formula: it is worked out once per distinct
// text before the kernel runs, and the kernel looks the outcome up by code (weave/text_map.c).  That needs all
// arguments but the first to be constants.

#include "plan/functions.h"

#include "plan/expr_int.h"

// ---- substring ------------------------------------------------------------------------------------------------------

static size_t bytes_of_character(const char *text, size_t length)
{
    const unsigned char first = (unsigned char)*text;
    const size_t        wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return MIN_OF(wanted, length);
}

// Bytes of the first N_CHARACTERS characters.
static size_t bytes_of_characters(const char *text, size_t length, i128 n_characters)
{
    size_t at = 0;
    for (; n_characters > 0 && at < length; n_characters--) at += bytes_of_character(text + at, length - at);
    return at;
}

// Characters FIRST to before END, counted from 1; what lies outside the text is not there.
static void cut_text(const Value *text, i128 first, i128 end, Value *value)
{
    const char  *bytes = text->text.bytes;
    const size_t length = text->text.length;
    const size_t from = bytes_of_characters(bytes, length, first - 1);
    const i128   n = end - MAX_OF(first, (i128)1);
    value->text.bytes = bytes + from;
    value->text.length = (u32)bytes_of_characters(bytes + from, length - from, n);
}

static weft_status eval_substring_from(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)
{
    (void)arena, (void)call, (void)err;
    cut_text(&args[0], args[1].i, (i128)1 << 64, value);
    return WEFT_OK;
}

static weft_status eval_substring(Arena *arena, const Expr *call, const Value *args, Value *value, Error *err)
{
    (void)arena;
    if (args[2].i < 0) return fail(err, WEFT_SUBSTRING_ERROR, call->at, "negative substring length not allowed");
    cut_text(&args[0], args[1].i, args[1].i + args[2].i, value);
    return WEFT_OK;
}

static const Function functions[] = {
    { .names = { "substring", "substr" }, .usage = "substring(text, from, count)", .gives = "text",
      .about = "`count` characters from number `from` on; also `(text from 1 for 2)`",
      .n_args = 3, .args = { ARG_TEXT, ARG_INTEGER, ARG_INTEGER }, .eval_text = eval_substring },
    { .names = { "substring", "substr" }, .usage = "substring(text, from)", .gives = "text",
      .about = "all characters from number `from` on", .n_args = 2, .args = { ARG_TEXT, ARG_INTEGER },
      .eval_text = eval_substring_from },
};

const FunctionFamily functions_text = { "Text", functions, COUNT_OF(functions) };
