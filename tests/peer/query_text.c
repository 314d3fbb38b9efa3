// query_text.c - a random query as SQL, in the dialect of each engine.
//
// What SQLite says otherwise than Weft and PostgreSQL:
//     values (1), (2)                     select 1 as c0 union all select 2
//     (..) union (..)                     select * from (..) union select * from (..)
//     a intersect all b, a except all b   the same without ALL, the copies of each row numbered
//     select distinct on (a) ..           the rows numbered within each a, and the first of them

#define _GNU_SOURCE
#include "query_int.h"

#include <stdlib.h>

typedef struct Writer {
    FILE          *out;
    const DataSet *data;
    int            dialect;
} Writer;

static void write_query(const Writer *w, const RandomQuery *query);

// ---- terms --------------------------------------------------------------------------------------------------------

static void write_term(const Writer *w, const Term *term);

static void write_form(const Writer *w, const Term *term, const char *form)
{
    for (const char *c = form; *c; c++) {
        if (*c != '@') {
            fputc(*c, w->out);
        } else if (*++c != 'q') {
            write_term(w, term->args[*c - '0']);
        } else {
            fputc('(', w->out);
            write_query(w, term->query);
            fputc(')', w->out);
        }
    }
}

// extract() is an integer in Weft and numeric in PostgreSQL, where a quotient of it would have a fraction.
static void write_term(const Writer *w, const Term *term)
{
    const char *form = term->form[w->dialect == IN_SQLITE ? IN_SQLITE : IN_WEFT];
    bool is_cast = w->dialect == IN_POSTGRES && !strncmp(form, "extract(", 8);
    fputs(is_cast ? "cast(" : "", w->out);
    write_form(w, term, form);
    fputs(is_cast ? " as integer)" : "", w->out);
}

static void write_terms(const Writer *w, Term *const *terms, int n, const char *between)
{
    for (int i = 0; i < n; i++) {
        fputs(i ? between : "", w->out);
        write_term(w, terms[i]);
    }
}

// "c0, c1, c2"
static void write_names(const Writer *w, int n)
{
    for (int i = 0; i < n; i++)
        fprintf(w->out, i ? ", c%d" : "c%d", i);
}

// ---- FROM, WHERE, GROUP BY ----------------------------------------------------------------------------------------

static void write_source(const Writer *w, const RandomQuery *query, int ref)
{
    const Source *source = &query->from[ref];
    if (source->kind == FROM_TABLE) {
        fputs(w->data->tables[source->table].name, w->out);
    } else if (source->kind == FROM_WITH) {
        fprintf(w->out, "w%d", source->table);
    } else {
        fputc('(', w->out);
        write_query(w, source->query);
        fputc(')', w->out);
    }
    if (query->has_aliases)
        fprintf(w->out, " %c%d", query->alias, ref);
    if (source->kind == FROM_QUERY && source->query->kind != QUERY_SELECT && w->dialect != IN_SQLITE) {
        fputs(" (", w->out);
        write_names(w, source->query->n_items);
        fputc(')', w->out);
    }
}

static void write_from(const Writer *w, const RandomQuery *query)
{
    static const char *const JOINS[] = {
        ", ", " join ", " left join ", " right join ", " full join ", " cross join "
    };
    bool is_first = true;
    for (int ref = 0; ref < query->n_refs; ref++) {
        const Source *source = &query->from[ref];
        if (!source->is_used)
            continue;
        JoinKind join = is_first ? JOIN_COMMA : source->join;
        fputs(is_first ? "" : JOINS[join], w->out);
        write_source(w, query, ref);
        if (join != JOIN_COMMA && join != JOIN_CROSS) {
            fputs(source->n_on ? " on " : " on true", w->out);
            write_terms(w, source->on, source->n_on, " and ");
        }
        is_first = false;
    }
}

static void write_group(const Writer *w, const RandomQuery *query)
{
    fputs(query->n_keys ? " group by " : "", w->out);
    for (int k = 0; k < query->n_keys && query->keys_by_position; k++)
        fprintf(w->out, k ? ", %d" : "%d", k + 1);
    if (!query->keys_by_position)
        write_terms(w, query->keys, query->n_keys, ", ");
    if (query->having) {
        fputs(" having ", w->out);
        write_term(w, query->having);
    }
}

// ---- ORDER BY, LIMIT ----------------------------------------------------------------------------------------------

static void write_order_items(const Writer *w, const RandomQuery *query)
{
    for (int i = 0; i < query->n_order; i++) {
        bool is_name = i % 2 && query->kind == QUERY_SELECT;      // by name and by position in turn
        fprintf(w->out, i ? ", " : "");
        fprintf(w->out, is_name ? "c%d" : "%d", query->order[i] + (is_name ? 0 : 1));
        fprintf(w->out, "%s nulls %s", query->order_descends[i] ? " desc" : "",
                query->order_nulls_first[i] ? "first" : "last");
    }
}

static void write_order(const Writer *w, const RandomQuery *query)
{
    if (query->n_order) {
        fputs(" order by ", w->out);
        if (query->order_first) {
            write_term(w, query->order_first);
            fputs(" nulls first, ", w->out);
        }
        write_order_items(w, query);
        if (query->order_last) {
            fputs(", ", w->out);
            write_term(w, query->order_last);
            fputs(" desc nulls last", w->out);
        }
    }
    if (query->limit >= 0)
        fprintf(w->out, " limit %d", query->limit);
    else if (query->offset >= 0 && w->dialect == IN_SQLITE)
        fputs(" limit -1", w->out);
    if (query->offset >= 0)
        fprintf(w->out, " offset %d", query->offset);
}

static bool is_bare(const RandomQuery *query)
{
    return query->n_order == 0 && query->limit < 0 && query->offset < 0;
}

// ---- SELECT -------------------------------------------------------------------------------------------------------

static void write_distinct(const Writer *w, const RandomQuery *query)
{
    fputs(query->is_distinct ? "distinct " : "", w->out);
    if (!query->distinct_on || w->dialect == IN_SQLITE)
        return;
    fputs("distinct on (", w->out);
    for (int i = 0; i < query->distinct_on; i++)
        fprintf(w->out, i ? ", c%d" : "c%d", query->order[i]);
    fputs(") ", w->out);
}

static void write_select(const Writer *w, const RandomQuery *query)
{
    fputs("select ", w->out);
    write_distinct(w, query);
    for (int i = 0; i < query->n_items; i++) {
        fputs(i ? ", " : "", w->out);
        write_term(w, query->items[i]);
        fprintf(w->out, " as c%d", i);
    }
    fputs(" from ", w->out);
    write_from(w, query);
    fputs(query->n_where ? " where " : "", w->out);
    write_terms(w, query->where, query->n_where, " and ");
    write_group(w, query);
}

static void write_numbered_first(const Writer *w, const RandomQuery *query)
{
    fputs("select ", w->out);
    write_names(w, query->n_items);
    fputs(" from (select *, row_number() over (partition by ", w->out);
    for (int i = 0; i < query->distinct_on; i++)
        fprintf(w->out, i ? ", c%d" : "c%d", query->order[i]);
    for (int i = 0; i < query->n_order; i++)
        fprintf(w->out, "%s c%d%s nulls %s", i ? "," : " order by", query->order[i],
                query->order_descends[i] ? " desc" : "", query->order_nulls_first[i] ? "first" : "last");
    fputs(") as n from (", w->out);
    write_select(w, query);
    fputs(")) where n = 1", w->out);
}

// ---- VALUES and set operations ------------------------------------------------------------------------------------

static void write_values(const Writer *w, const RandomQuery *query)
{
    bool is_sqlite = w->dialect == IN_SQLITE;
    fputs(is_sqlite ? "" : "values ", w->out);
    for (int row = 0; row < query->n_rows; row++) {
        fputs(is_sqlite ? row ? " union all select " : "select " : row ? ", (" : "(", w->out);
        for (int i = 0; i < query->n_items; i++) {
            fputs(i ? ", " : "", w->out);
            write_term(w, query->rows[row][i]);
            if (is_sqlite && row == 0)
                fprintf(w->out, " as c%d", i);
        }
        fputs(is_sqlite ? "" : ")", w->out);
    }
}

static bool is_intersect(const RandomQuery *query)
{
    return query->set == SET_INTERSECT || query->set == SET_INTERSECT_ALL;
}

// Whether the grammar reads BRANCH, on that side, as the one query that it is.
static bool needs_no_parentheses(const RandomQuery *query, const RandomQuery *branch, int dialect)
{
    if (!is_bare(branch))
        return false;
    if (branch->kind != QUERY_SET)
        return branch->kind == QUERY_SELECT || dialect != IN_SQLITE;
    if (dialect == IN_SQLITE)
        return branch == query->left;                             // all from left to right
    return branch == query->left ? !is_intersect(query) || is_intersect(branch)
                                 : is_intersect(branch) && !is_intersect(query);
}

static void write_branch(const Writer *w, const RandomQuery *query, const RandomQuery *branch)
{
    bool is_wrapped = !needs_no_parentheses(query, branch, w->dialect);
    fputs(!is_wrapped ? "" : w->dialect == IN_SQLITE ? "select * from (" : "(", w->out);
    write_query(w, branch);
    fputs(is_wrapped ? ")" : "", w->out);
}

static void write_numbered(const Writer *w, const RandomQuery *branch)
{
    fputs("select *, row_number() over (partition by ", w->out);
    write_names(w, branch->n_items);
    fputs(") as n from (", w->out);
    write_query(w, branch);
    fputs(")", w->out);
}

static void write_set(const Writer *w, const RandomQuery *query)
{
    static const char *const WORDS[] = { " union all ", " union ",         " intersect ",
                                         " except ",    " intersect all ", " except all " };
    if (w->dialect != IN_SQLITE || query->set < SET_INTERSECT_ALL) {
        write_branch(w, query, query->left);
        fputs(WORDS[query->set], w->out);
        write_branch(w, query, query->right);
        return;
    }
    fputs("select ", w->out);
    write_names(w, query->n_items);
    fputs(" from (", w->out);
    write_numbered(w, query->left);
    fputs(query->set == SET_INTERSECT_ALL ? " intersect " : " except ", w->out);
    write_numbered(w, query->right);
    fputs(")", w->out);
}

// ---- all of it ----------------------------------------------------------------------------------------------------

static void write_body(const Writer *w, const RandomQuery *query)
{
    if (query->kind == QUERY_VALUES)
        write_values(w, query);
    else if (query->kind == QUERY_SET)
        write_set(w, query);
    else if (query->distinct_on && w->dialect == IN_SQLITE)
        write_numbered_first(w, query);
    else
        write_select(w, query);
}

static void write_with(const Writer *w, const RandomQuery *query)
{
    for (int i = 0; i < query->n_with; i++) {
        fprintf(w->out, "%sw%d (", i ? ", " : "with ", i);
        write_names(w, query->with[i]->n_items);
        fputs(") as (", w->out);
        write_query(w, query->with[i]);
        fputs(i + 1 < query->n_with ? ")" : ") ", w->out);
    }
}

static void write_query(const Writer *w, const RandomQuery *query)
{
    write_with(w, query);
    bool is_wrapped = query->kind == QUERY_VALUES && w->dialect == IN_SQLITE && !is_bare(query);
    fputs(is_wrapped ? "select * from (" : "", w->out);
    write_body(w, query);
    fputs(is_wrapped ? ")" : "", w->out);
    write_order(w, query);
}

char *query_sql(const RandomQuery *query, const DataSet *data, int dialect)
{
    char *sql = NULL;
    size_t length;
    Writer writer = { open_memstream(&sql, &length), data, dialect };
    write_query(&writer, query);
    fclose(writer.out);
    return sql;
}
