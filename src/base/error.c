// error.c - one record per failure: the first one wins and keeps its place.
//
// A step that fails fills the Error and returns its status; the callers only pass it up (TRY).  What happens on the way
// out, such as a file that cannot be closed either, must not hide the reason, so a later fail() changes nothing.
//
// Names and SQLSTATEs come from WEFT_STATUS_LIST in weft.h, so a new status is one line there.

#include <errno.h>
#include <stdio.h>

#include "base/base.h"

static const char *const sqlstates[] = {
#define STATUS_SQLSTATE(name, sqlstate, text) [WEFT_##name] = sqlstate,
    WEFT_STATUS_LIST(STATUS_SQLSTATE)
#undef STATUS_SQLSTATE
};

static const char *const names[] = {
#define STATUS_NAME(name, sqlstate, text) [WEFT_##name] = #name,
    WEFT_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};

const char *weft_status_name(weft_status status)
{
    return (unsigned)status < WEFT_N_STATUS ? names[status] : "UNKNOWN";
}

// A message may quote user text and be cut in the middle of a character; clients refuse what is not UTF-8.
static void drop_cut_character(char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length - (start - 1) < wanted)
        text[start - 1] = '\0';
}

static PRINTF_LIKE(3, 0) void format_cut(char *buffer, size_t capacity, const char *format, va_list args)
{
    int length = vsnprintf(buffer, capacity, format, args);
    if (length < 0)
        buffer[0] = '\0';
    else if ((size_t)length >= capacity)
        drop_cut_character(buffer, capacity - 1);
}

weft_status fail(Error *err, weft_status status, int at, const char *format, ...)
{
    ASSERT(status > WEFT_OK && status < WEFT_N_STATUS);
    ASSERT(format);
    if (!err)
        return status;
    if (err->status != WEFT_OK)
        return err->status;
    va_list args;
    va_start(args, format);
    format_cut(err->message, sizeof(err->message), format, args);
    va_end(args);
    err->status = status;
    memcpy(err->sqlstate, sqlstates[status], sizeof(err->sqlstate));
    err->hint[0] = '\0';
    err->position = at;
    return status;
}

static weft_status status_of_errno(int number)
{
    switch (number) {
    case ENOENT:
        return WEFT_UNDEFINED_FILE;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:                                             // a limit of the process, where the disk may have room
        return WEFT_DISK_FULL;
    case ENOMEM:
        return WEFT_OUT_OF_MEMORY;
    default:
        return WEFT_IO_ERROR;
    }
}

weft_status fail_errno(Error *err, const char *what, const char *path)
{
    ASSERT(what);
    int number = errno;
    char reason[128] = "";
    if (strerror_r(number, reason, sizeof(reason)) != 0)
        snprintf(reason, sizeof(reason), "error %d", number);
    if (!path)
        return fail(err, status_of_errno(number), -1, "could not %s: %s", what, reason);
    return fail(err, status_of_errno(number), -1, "could not %s \"%s\": %s", what, path, reason);
}

void error_hint(Error *err, const char *format, ...)
{
    if (!err || err->status == WEFT_OK || err->hint[0])
        return;
    va_list args;
    va_start(args, format);
    format_cut(err->hint, sizeof(err->hint), format, args);
    va_end(args);
}

void error_clear(Error *err)
{
    if (!err)
        return;
    err->status = WEFT_OK;                                  // field by field: texts are long, and this is called often
    memcpy(err->sqlstate, "00000", sizeof("00000"));
    err->message[0] = err->hint[0] = '\0';
    err->position = -1;
}
