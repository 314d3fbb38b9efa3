// copy_returns.c - files whose lines end in carriage returns alone, as old spreadsheets write them.
//
// As in PostgreSQL the first line end decides.  Where it is a CR without an LF behind it, all line ends have to be, and
// become new lines as the bytes are read, so that the rest of COPY knows new lines only.  All other files are looked at
// up to their first line end, and cost nothing.  Returns in quotes and behind a backslash are data and stay.

#include "store/copy_int.h"
#include "store/stream.h"

// Goes on by a byte; true: it is no delimiter and no line end, whatever it is.
static bool is_data(CopyReturns *state, const CopyOptions *options, char byte)
{
    const bool was_escaped = state->is_escaped;
    if (options->json)
        return false;
    if (!options->csv) {
        state->is_escaped = byte == '\\' && !was_escaped;
        return was_escaped;
    }
    if (byte == options->quote && !was_escaped)
        state->is_inside = !state->is_inside;
    state->is_escaped =
        state->is_inside && options->escape != options->quote && byte == options->escape && !was_escaped;
    return state->is_inside;
}

// A CR behind a backslash becomes \r, or it would be taken for one that stands before a new line.
static void keep_return(const CopyOptions *options, char *byte)
{
    if (*byte == '\r' && !options->csv)
        *byte = 'r';
}

// Those of the first line, of which it was not known yet how it ends.
static void keep_returns(const CopyOptions *options, char *bytes, size_t length)
{
    for (size_t at = 0; !options->json && at + 1 < length; at++)
        if (bytes[at] == '\\')
            keep_return(options, &bytes[++at]);
}

// Of a file that is no text the first CR says nothing, and the message should say what it is.
static bool is_text(const char *bytes, size_t length)
{
    return !stream_compression(bytes, length) && !memchr(bytes, '\0', length);
}

// The first line ends at AT.
static void decide(CopyReturns *state, const CopyOptions *options, char *bytes, size_t length, size_t at)
{
    const bool is_alone = at + 1 == length || bytes[at + 1] != '\n';
    state->is_found = bytes[at] == '\r' && is_alone && is_text(bytes, at);
    state->is_over = !state->is_found;
    if (state->is_found)
        keep_returns(options, bytes, at);
}

weft_status copy_returns_fail(const CopyOptions *options, Error *err)
{
    fail(err, WEFT_BAD_COPY, -1, "%s newline found in data", options->csv ? "unquoted" : "literal");
    error_hint(err, "The first line ends in a carriage return alone, so every line has to%s.",
               options->json  ? ""
               : options->csv ? "; quote a field that holds a new line"
                              : "; write a new line in a field as \\n");
    return err->status;
}

void copy_returns_mend(CopyReturns *state, const CopyOptions *options, char *bytes, size_t length, bool is_end,
                       size_t *n_seen)
{
    for (size_t at = *n_seen; at < length && !state->is_over && !state->is_mixed; at++) {
        *n_seen = at;
        if (is_data(state, options, bytes[at])) {
            if (state->is_found)
                keep_return(options, &bytes[at]);
            continue;
        }
        if (bytes[at] != '\r' && bytes[at] != '\n')
            continue;
        if (!state->is_found && bytes[at] == '\r' && at + 1 == length && !is_end)
            return;                                         // the next byte tells
        if (!state->is_found)
            decide(state, options, bytes, length, at);
        state->is_mixed = state->is_found && bytes[at] == '\n';
        if (state->is_found)
            bytes[at] = '\n';
    }
    if (!state->is_mixed)
        *n_seen = length;
}
