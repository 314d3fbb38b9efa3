// lines.c - kernel text read again, line by line: cube.c and fuse.c make new text from it.
//
// They can, since the text is our own: a declaration or statement per line, word(type, name, number), at a known depth.

#include "weave/weave_int.h"

#include <stdlib.h>

bool line_begins(const char *line, const char *with) { return strncmp(line, with, strlen(with)) == 0; }

const char *line_next(const char *line) { return line + strcspn(line, "\n") + 1; }

const char *line_last(const char *text, const char *with)
{
    const char *last = NULL;
    for (const char *line = text; *line; line = line_next(line))
        if (line_begins(line, with)) last = line;
    return last;
}

int line_number(const char *line)
{
    const char *end = strchr(line, '\n');
    while (end > line && (*end < '0' || *end > '9')) end--;
    while (end > line && end[-1] >= '0' && end[-1] <= '9') end--;
    return atoi(end);
}

const char *line_argument(Arena *arena, const char *line, int n)
{
    const char *at = strchr(line, '(') + 1;
    while (n-- > 0) at = strchr(at, ',') + 2;
    return arena_printf(arena, "%.*s", (int)strcspn(at, ",)"), at);
}

bool line_is_load(const char *line) { return line_begins(line, "        LOAD_ROWS(") || line_begins(line, "        LOAD_TEST("); }

void line_add_load(Text *out, const char *line)
{
    const char *rest = strchr(line, '(');
    text_add(out, "        LOAD%.*s", (int)(line_next(line) - rest), rest);
}
