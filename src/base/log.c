// log.c - lines on standard error for the user of the program; WEFT_LOG=debug|info|warn picks how many.
//
// A line is written with one call, so lines of several threads do not mix.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

typedef enum LogLevel { LOG_DEBUG, LOG_INFO, LOG_WARN } LogLevel;

static const char *const level_names[] = { [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn" };

static LogLevel level_wanted(void)
{
    static _Atomic int cached = -1;
    int wanted = cached;
    if (wanted >= 0)
        return (LogLevel)wanted;
    const char *name = getenv("WEFT_LOG");
    wanted = LOG_WARN;
    for (int level = 0; name && level < COUNT_OF(level_names); level++)
        if (strcmp(name, level_names[level]) == 0)
            wanted = level;
    cached = wanted;
    return (LogLevel)wanted;
}

static PRINTF_LIKE(2, 0) void log_line(LogLevel level, const char *format, va_list args)
{
    if (level < level_wanted())
        return;
    char line[2048];
    size_t capacity = sizeof(line) - 1;                     // one byte stays for the end of the line
    int head = snprintf(line, capacity, "weft: %s: ", level_names[level]);
    int body = vsnprintf(line + head, capacity - (size_t)head, format, args);
    size_t length = (size_t)head + (body < 0 ? 0 : MIN_OF((size_t)body, capacity - (size_t)head - 1));
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written;                                          // nowhere left to complain
}

#define LOG_FUNCTION(name, level)           \
    void name(const char *format, ...)      \
    {                                       \
        va_list args;                       \
        va_start(args, format);             \
        log_line(level, format, args);      \
        va_end(args);                       \
    }

LOG_FUNCTION(log_debug, LOG_DEBUG)
LOG_FUNCTION(log_info, LOG_INFO)
LOG_FUNCTION(log_warn, LOG_WARN)
