// table.c - a table, three times: on the terminal, as CSV, and in the page.

#include <math.h>

#include "lab/lab_int.h"

typedef struct LabColumn {
    const char *title;
    LabAlign    align;
    int         width;                                      // characters of the widest cell
} LabColumn;

struct LabTable {
    Lab         *lab;
    const char  *name, *title;
    LabColumn   *columns;
    int          n_columns;
    const char **cells;                                     // row after row
    int          n_cells;
};

// ---- cells ----------------------------------------------------------------------------------------------------------

const char *lab_number(Lab *lab, double value, int n_decimals)
{
    return isfinite(value) ? arena_printf(lab->arena, "%.*f", n_decimals, value) : "-";
}

const char *lab_count_text(Lab *lab, i64 value)
{
    return arena_printf(lab->arena, "%lld", (long long)value);
}

const char *lab_ms(Lab *lab, i64 ns)
{
    return lab_number(lab, (double)ns / 1e6, 3);
}

const char *lab_percent(Lab *lab, double share)
{
    return isfinite(share) ? arena_printf(lab->arena, "%.1f %%", 100 * share) : "-";
}

// ---- building -------------------------------------------------------------------------------------------------------

LabTable *lab_table_new(Lab *lab, const char *name, const char *title)
{
    LabTable *table = arena_make(lab->arena, LabTable);
    *table = (LabTable){ .lab = lab, .name = arena_strdup(lab->arena, name), .title = arena_strdup(lab->arena, title) };
    return table;
}

// Characters, not bytes: what follows the first byte of a character does not count.
static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((u8)*text & 0xC0) != 0x80;
    return width;
}

void lab_column(LabTable *table, const char *title, LabAlign align)
{
    ASSERT(table->n_cells == 0);
    *LIST_PUSH(table->lab->arena, table->columns, table->n_columns) =
        (LabColumn){ arena_strdup(table->lab->arena, title), align, text_width(title) };
}

void lab_row_cells(LabTable *table, int n_cells, const char *const *cells)
{
    ASSERT(n_cells == table->n_columns);
    for (int i = 0; i < n_cells; i++) {
        LabColumn *column = &table->columns[i];
        *LIST_PUSH(table->lab->arena, table->cells, table->n_cells) = arena_strdup(table->lab->arena, cells[i]);
        column->width = MAX_OF(column->width, text_width(cells[i]));
    }
}

static int n_rows(const LabTable *table)
{
    return table->n_columns ? table->n_cells / table->n_columns : 0;
}

static const char *cell_at(const LabTable *table, int row, int column)
{
    return table->cells[row * table->n_columns + column];
}

// ---- on the terminal ------------------------------------------------------------------------------------------------

static void print_cell(FILE *out, const LabColumn *column, const char *text, bool is_last)
{
    const int blanks = column->width - text_width(text);
    if (column->align == LAB_RIGHT)
        fprintf(out, "%*s%s", blanks, "", text);
    else
        fprintf(out, "%s%*s", text, is_last ? 0 : blanks, "");
    fputs(is_last ? "\n" : "  ", out);
}

static void print_table(const LabTable *table, FILE *out)
{
    const int last = table->n_columns - 1;
    fprintf(out, "\n  %s\n\n  ", table->title);
    for (int c = 0; c <= last; c++)
        print_cell(out, &table->columns[c], table->columns[c].title, c == last);
    fputs("  ", out);
    for (int c = 0; c <= last; c++) {
        for (int i = 0; i < table->columns[c].width; i++)
            fputc('-', out);
        fputs(c == last ? "\n" : "  ", out);
    }
    for (int r = 0; r < n_rows(table); r++) {
        fputs("  ", out);
        for (int c = 0; c <= last; c++)
            print_cell(out, &table->columns[c], cell_at(table, r, c), c == last);
    }
    fflush(out);
}

// ---- as CSV ---------------------------------------------------------------------------------------------------------

// RFC 4180: quoted where a comma, a quote or the end of a line is inside; quotes are doubled.
static void csv_cell(Text *csv, const char *text, bool is_last)
{
    if (!strpbrk(text, ",\"\r\n")) {
        text_add(csv, "%s", text);
    } else {
        text_add(csv, "\"");
        for (const char *at = text; *at; at++)
            text_add(csv, *at == '"' ? "\"\"" : "%c", *at);
        text_add(csv, "\"");
    }
    text_add(csv, "%s", is_last ? "\n" : ",");
}

static weft_status write_csv(const LabTable *table)
{
    Text csv = { 0 };
    const int last = table->n_columns - 1;
    for (int c = 0; c <= last; c++)
        csv_cell(&csv, table->columns[c].title, c == last);
    for (int r = 0; r < n_rows(table); r++)
        for (int c = 0; c <= last; c++)
            csv_cell(&csv, cell_at(table, r, c), c == last);
    const weft_status status = lab_write_file(table->lab, table->name, "csv", &csv);
    text_free(&csv);
    return status;
}

// ---- in the page ----------------------------------------------------------------------------------------------------

static void html_cell(Text *html, const LabColumn *column, const char *tag, const char *text)
{
    text_add(html, "<%s%s>", tag, column->align == LAB_RIGHT ? " class=\"number\"" : "");
    html_escape(html, text);
    text_add(html, "</%.2s>", tag);
}

static void add_to_page(const LabTable *table)
{
    Text html = { 0 };
    text_add(&html, "<thead><tr>");
    for (int c = 0; c < table->n_columns; c++)
        html_cell(&html, &table->columns[c], "th scope=\"col\"", table->columns[c].title);
    text_add(&html, "</tr></thead>\n<tbody>\n");
    for (int r = 0; r < n_rows(table); r++) {
        text_add(&html, "<tr>");
        for (int c = 0; c < table->n_columns; c++)
            html_cell(&html, &table->columns[c], "td", cell_at(table, r, c));
        text_add(&html, "</tr>\n");
    }
    text_add(&html, "</tbody>");
    page_add(table->lab, LAB_BLOCK_TABLE, table->name, table->title, html.bytes);
    text_free(&html);
}

weft_status lab_table_end(LabTable *table)
{
    ASSERT(table->n_columns > 0);
    if (table->lab->options.report)
        print_table(table, table->lab->options.report);
    add_to_page(table);
    return write_csv(table);
}

weft_status lab_table_file(LabTable *table)
{
    return write_csv(table);
}
