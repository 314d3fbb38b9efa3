// markup.c - text inside HTML and SVG.

#include "lab/plot.h"

void html_escape(Text *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': text_add(out, "&amp;"); break;
        case '<': text_add(out, "&lt;"); break;
        case '>': text_add(out, "&gt;"); break;
        case '"': text_add(out, "&quot;"); break;
        default:
            if ((u8)*text >= ' ' || *text == '\n')
                text_add_bytes(out, text, 1);
        }
    }
}
