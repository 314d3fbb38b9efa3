// manual.c - what the lists of functions and aggregates say to people: names for hints and completion, the manual.

#include "plan/manual.h"

#include "plan/aggregates.h"
#include "plan/functions.h"
#include "plan/window.h"

enum { HINT_BYTES = 180 };                                  // names that a hint has room for

// Forms of the grammar that look like functions.
static const struct { const char *name, *usage, *gives, *about; } forms[] = {
    { "coalesce", "coalesce(x, ...)", "the common type", "the first value that is not NULL" },
    { "nullif", "nullif(x, y)", "the type of x", "NULL where x = y, else x" },
    { "greatest", "greatest(x, ...)", "the common type", "the largest value that is not NULL" },
    { "least", "least(x, ...)", "the common type", "the smallest value that is not NULL" },
    { "extract", "extract(field from date)", "integer", "a field of a date, see above" },
    { "date_part", "date_part('field', date)", "integer", "the same" },
    { "cast", "cast(x as type), x::type", "the type", "x as a value of another type" },
    { "percentile_cont", "percentile_cont(share) within group (order by number)", "double precision",
      "the value below which this share lies" },
    { "percentile_disc", "percentile_disc(share) within group (order by x)", "the type of x",
      "the first value with this share up to it" },
    { "mode", "mode() within group (order by x)", "the type of x", "the most frequent value, the first of several" },
    { "string_agg", "string_agg(text, delimiter [order by x, ...])", "text",
      "an aggregate: the texts of a group or frame, joined" },
    { "format", "format(pattern, x, ...)", "text", "%s: as text, %I: as a name, %L: as a literal; %2$s, %-10s, %%" },
    { "num_nulls", "num_nulls(x, ...)", "integer", "how many are NULL" },
    { "num_nonnulls", "num_nonnulls(x, ...)", "integer", "how many are not" },
    { "quote_nullable", "quote_nullable(x)", "text", "quote_literal, of NULL the word NULL" },
    { "isfinite", "isfinite(date or time)", "boolean", "true" },
    { "pi", "pi()", "double precision", "3.141592653589793" },
    { "pg_typeof", "pg_typeof(x)", "text", "the name of its type" },
    { "version", "version()", "text", "the version of Weft" },
    { "current_schema", "current_schema, current_schema()", "text", "public" },
    { "random", "random()", "double precision", "at least 0 and below 1; another one for each row and call" },
    { "gen_random_uuid", "gen_random_uuid()", "uuid", "122 random bits (version 4), likewise" },
    { "setseed", "setseed(number)", "text", "begins the session's random numbers anew, from -1 to 1; a constant" },
    { "grouping", "grouping(key, ...)", "integer", "a bit for each key: 1 where the grouping set leaves it out" },
};

// Whether an earlier descriptor has told this name: overloads do not count.
static bool is_repeated(int i)
{
    for (int j = 0; j < i; j++)
        for (int n = 0; n < COUNT_OF(function_at(j)->names) && function_at(j)->names[n]; n++)
            if (!function_at(j)->is_field && strcmp(function_at(j)->names[n], function_at(i)->names[0]) == 0)
                return true;
    return false;
}

// The Nth of the names there are, or NULL; N is counted down by those that were passed.
static const char *nth(const char *const *names, int most, int *n)
{
    for (int i = 0; i < most && names[i]; i++)
        if ((*n)-- == 0) return names[i];
    return NULL;
}

const char *manual_name(int n)
{
    const char *name;
    for (int i = 0; aggregate_at(i); i++)
        if ((name = nth(aggregate_at(i)->names, COUNT_OF(aggregate_at(i)->names), &n))) return name;
    for (int i = 0; window_name_at(i); i++)
        if (n-- == 0) return window_name_at(i)->name;
    for (int i = 0; i < functions_count(); i++) {
        const Function *function = function_at(i);
        if (function->is_field || function->is_hidden || is_repeated(i)) continue;
        if ((name = nth(function->names, COUNT_OF(function->names), &n))) return name;
    }
    return n < COUNT_OF(forms) ? forms[n].name : NULL;
}

const char *manual_field(int n)
{
    for (int i = 0; i < functions_count(); i++)
        if (function_at(i)->is_field && n-- == 0) return function_at(i)->names[0];
    return NULL;
}

const char *manual_list(Arena *arena, const char *(*name)(int n))
{
    Text text = { 0 };
    for (int n = 0; name(n); n++) {
        if (text.length > HINT_BYTES) {
            text_add(&text, ", ... (\"weft functions\" prints all)");
            break;
        }
        text_add(&text, "%s%s", n == 0 ? "" : name(n + 1) ? ", " : " and ", name(n));
    }
    return text_keep(arena, &text);
}

// ---- the manual -----------------------------------------------------------------------------------------------------

static void begin_table(Text *text, const char *title)
{
    text_add(text, "\n## %s\n\n| function | gives | meaning |\n| --- | --- | --- |\n", title);
}

static void add_row(Text *text, const char *usage, const char *gives, const char *about)
{
    if (usage) text_add(text, "| `%s` | %s | %s |\n", usage, gives, about);
}

void manual_write(Text *text)
{
    text_add(text, "# Functions\n\n"
                   "Semantics, result types and errors are PostgreSQL's; where they differ, the table says so.\n"
                   "NULL gives NULL. Written by `weft functions`, from the lists in `src/plan`: do not edit.\n");
    for (int f = 0; function_family(f); f++) {
        const FunctionFamily *family = function_family(f);
        if (!family->title) continue;
        begin_table(text, family->title);
        for (int i = 0; i < family->n_functions; i++)
            add_row(text, family->functions[i].usage, family->functions[i].gives, family->functions[i].about);
    }
    begin_table(text, "Forms");
    for (int i = 0; i < COUNT_OF(forms); i++) add_row(text, forms[i].usage, forms[i].gives, forms[i].about);
    text_add(text, "\n# Aggregates\n\nNULLs do not count. Of no rows an aggregate is NULL, a count 0.\n");
    begin_table(text, "Of groups, or of all rows");
    for (int i = 0; aggregate_at(i); i++)
        add_row(text, aggregate_at(i)->usage, aggregate_at(i)->gives, aggregate_at(i)->about);
    text_add(text, "\n# Window functions\n\nWith OVER, of the rows of a partition. "
                   "All aggregates work here, too, over the rows of the frame.\n");
    begin_table(text, "Of a row among others");
    for (int i = 0; window_name_at(i); i++)
        add_row(text, window_name_at(i)->usage, window_name_at(i)->gives, window_name_at(i)->about);
}
