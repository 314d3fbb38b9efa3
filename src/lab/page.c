// page.c - prose on the terminal, and everything together in one HTML page.
//
// The page needs no network: style and plots are inside.  Colours are variables with a light and a dark set, which the
// reader's system chooses; plots use the same ones (plot_style).  Tables and wide plots scroll inside their own box, so
// that a narrow screen never scrolls as a whole.

#include <stdio.h>

#include "lab/lab_int.h"

// ---- files ----------------------------------------------------------------------------------------------------------

weft_status lab_write_file(Lab *lab, const char *name, const char *extension, const Text *text)
{
    if (!lab->options.out)
        return WEFT_OK;
    File file;
    TRY(file_create(arena_printf(lab->arena, "%s/%s.%s", lab->options.out, name, extension), &file, lab->err));
    const weft_status status = file_write(&file, text->bytes, text->length, lab->err);
    file_close(&file);
    return status;
}

// ---- what experiments add -------------------------------------------------------------------------------------------

void page_add(Lab *lab, LabBlockKind kind, const char *name, const char *title, const char *text)
{
    Arena *arena = lab->arena;
    *LIST_PUSH(arena, lab->blocks, lab->n_blocks) =
        (LabBlock){ kind, name ? arena_strdup(arena, name) : NULL, title ? arena_strdup(arena, title) : NULL,
                    text ? arena_strdup(arena, text) : NULL };
}

void lab_section(Lab *lab, const char *title)
{
    if (lab->options.report)
        fprintf(lab->options.report, "\n## %s\n", title);
    page_add(lab, LAB_BLOCK_SECTION, NULL, title, NULL);
}

// Words in lines of at most 100 characters.
static void print_wrapped(FILE *out, const char *text)
{
    enum { LINE = 100 };
    int column = 0;
    fputc('\n', out);
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (column && column + 1 + length > LINE) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%s%.*s", column ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
    fflush(out);
}

void lab_say(Lab *lab, const char *format, ...)
{
    Text text = { 0 };
    va_list args;
    va_start(args, format);
    text_add_args(&text, format, args);
    va_end(args);
    if (lab->options.report)
        print_wrapped(lab->options.report, text.bytes);
    page_add(lab, LAB_BLOCK_PROSE, NULL, text.bytes, NULL);
    text_free(&text);
}

weft_status lab_plot(Lab *lab, const char *name, const char *caption, Text *svg)
{
    Text file = { 0 };
    plot_file(svg, &file);
    page_add(lab, LAB_BLOCK_PLOT, name, caption, svg->bytes);
    const weft_status status = lab_write_file(lab, name, "svg", &file);
    if (lab->options.report && lab->options.out && !status)
        fprintf(lab->options.report, "\n  plot: %s/%s.svg\n", lab->options.out, name);
    text_free(&file);
    text_free(svg);
    return status;
}

// ---- the page -------------------------------------------------------------------------------------------------------

static const char page_style[] =
    "* { box-sizing: border-box }\n"
    "body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, 'Segoe "
    "UI', Roboto, 'DejaVu Sans', sans-serif }\n"
    "main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }\n"
    "header p, .summary { color: var(--soft); margin: .25rem 0 }\n"
    "h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem }\n"
    "h2 { font-size: 1.4rem; line-height: 1.25; margin: 3.5rem 0 0; padding-top: 1rem; border-top: 2px solid "
    "var(--rule) }\n"
    "h3 { font-size: 1.1rem; line-height: 1.3; margin: 2.25rem 0 .5rem }\n"
    "p { max-width: 46rem; margin: .6rem 0; overflow-wrap: break-word }\n"
    "nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1.25rem 0 0 }\n"
    "nav a { display: block; padding: .2rem .8rem; border: 1px solid var(--rule); border-radius: 1rem; "
    "text-decoration: none }\n"
    "nav a:hover { border-color: var(--link) }\n"
    "a { color: var(--link) }\n"
    "figure { margin: 1.25rem 0; background: var(--card); border: 1px solid var(--rule); border-radius: .5rem }\n"
    "figcaption { padding: .55rem .9rem; font-size: .9rem; color: var(--soft) }\n"
    "figcaption strong { color: var(--ink); font-weight: 600 }\n"
    "figcaption a { white-space: nowrap }\n"
    ".scroll { overflow-x: auto }\n"
    ".scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }\n"
    "table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .875rem; line-height: 1.4; "
    "font-variant-numeric: tabular-nums }\n"
    "th, td { padding: .35rem .9rem; text-align: left; border-top: 1px solid var(--rule); vertical-align: top }\n"
    "th { color: var(--soft); font-weight: 600; vertical-align: bottom }\n"
    "tbody tr:hover { background: var(--hover) }\n"
    "td { white-space: nowrap }\n"
    ".number { text-align: right }\n"
    "th:first-child, td:first-child { position: sticky; left: 0; background: var(--card) }\n"
    "tbody tr:hover td:first-child { background: var(--hover) }\n"
    ".plot svg { display: block; width: 100%; min-width: 40rem; height: auto }\n"
    "@media print { nav, figcaption a { display: none } }\n";

static void add_head(Text *html, const Lab *lab)
{
    text_add(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Weft lab: ");
    html_escape(html, lab->device_title);
    text_add(html, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<main>\n", plot_style, page_style);
}

static void add_navigation(Text *html, const Lab *lab)
{
    text_add(html, "<nav aria-label=\"Experiments\"><ul>\n");
    for (int i = 0; i < lab->n_blocks; i++)
        if (lab->blocks[i].kind == LAB_BLOCK_EXPERIMENT)
            text_add(html, "<li><a href=\"#%s\">%s</a></li>\n", lab->blocks[i].name, lab->blocks[i].name);
    text_add(html, "</ul></nav>\n");
}

static void add_header(Text *html, const Lab *lab)
{
    const char *runs = lab->options.runs
                           ? arena_printf(lab->arena, "%d runs of each random experiment", lab->options.runs)
                           : "as many runs of each random experiment as the paper has";
    text_add(html, "<header>\n<h1>Weft lab</h1>\n<p>The experiments of the papers behind Weft, beside the papers' "
                   "figures.</p>\n<p>Card: ");
    html_escape(html, lab->device_title);
    text_add(html, "; %s; seed %llu.</p>\n</header>\n", runs, (unsigned long long)lab->options.seed);
    add_navigation(html, lab);
}

static void add_figure(Text *html, const LabBlock *block)
{
    const bool is_table = block->kind == LAB_BLOCK_TABLE;
    const char *extension = is_table ? "csv" : "svg";
    text_add(html, "<figure class=\"%s\">\n<figcaption><strong>", is_table ? "table" : "plot");
    html_escape(html, block->title);
    text_add(html, "</strong> <a href=\"%s.%s\">%s</a></figcaption>\n<div class=\"scroll\" tabindex=\"0\" "
                   "role=\"region\" aria-label=\"", block->name, extension, is_table ? "CSV" : "SVG");
    html_escape(html, block->title);
    text_add(html, "\">\n%s%s%s\n</div>\n</figure>\n", is_table ? "<table>\n" : "", block->text,
             is_table ? "\n</table>" : "");
}

static void add_block(Text *html, const LabBlock *block)
{
    switch (block->kind) {
    case LAB_BLOCK_EXPERIMENT:
        text_add(html, "<h2 id=\"%s\">%s</h2>\n<p class=\"summary\">", block->name, block->name);
        html_escape(html, block->title);
        text_add(html, "</p>\n");
        break;
    case LAB_BLOCK_SECTION:
        text_add(html, "<h3>");
        html_escape(html, block->title);
        text_add(html, "</h3>\n");
        break;
    case LAB_BLOCK_PROSE:
        text_add(html, "<p>");
        html_escape(html, block->title);
        text_add(html, "</p>\n");
        break;
    case LAB_BLOCK_TABLE:
    case LAB_BLOCK_PLOT: add_figure(html, block); break;
    }
}

weft_status page_write(Lab *lab)
{
    Text html = { 0 };
    add_head(&html, lab);
    add_header(&html, lab);
    for (int i = 0; i < lab->n_blocks; i++)
        add_block(&html, &lab->blocks[i]);
    text_add(&html, "</main>\n</body>\n</html>\n");
    const weft_status status = lab_write_file(lab, "index", "html", &html);
    text_free(&html);
    return status;
}
