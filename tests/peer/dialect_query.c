// dialect_query.c - random statements over the whole dialect.
//
// Kept out, since both answers may be right: LIMIT without an order over all items, orders by intervals, window
// functions whose answer depends on how ties fall (a total order comes from the ids of all tables), inexact values
// anywhere but in the output.

#define _GNU_SOURCE
#include "dialect.h"

enum { MOST_NESTED = 4, MOST_ITEMS = 6 };

typedef struct Types { int n; TreeType list[MOST_ITEMS]; } Types;

static Tree *draw_query(Names *names, const Types *types, Statement *statement, bool is_top);

static bool may_nest(Names *names, int percent)
{
    return names->level > 0 && *names->n_left > 0 && rng_chance(names->rng, percent);
}

static Names below(Names *names, bool is_correlated)
{
    (*names->n_left)--;
    Names made = *names;
    made.n = 0;
    made.unique = NULL;
    made.level--;
    made.has_subqueries = made.level > 0;
    made.outer = is_correlated ? names : NULL;
    return made;
}

static Tree *part(Names *names, TreeType type, const char *form, int n, Tree *const *args)
{
    return tree_new(names->arena, type, form, n, args);
}

static Tree *clause(Names *names, const char *form, Tree *arg)
{
    Tree *made = part(names, PART_CLAUSE, form, arg ? 1 : 0, &arg);
    made->can_go = true;
    return made;
}

static Tree *nothing(Names *names)
{
    return clause(names, "", NULL);
}

static void add_name(Names *names, TreeType type, const char *text, Tree *tree)
{
    if (names->n < MAX_NAMES)
        names->list[names->n++] = (Name){ text, type, tree };
}

// ---- FROM ---------------------------------------------------------------------------------------------------------

static void add_unique(Names *names, int alias, bool is_first)
{
    if (is_first)
        names->unique = arena_printf(names->arena, "r%d.id", alias);
    else if (names->unique)
        names->unique = arena_printf(names->arena, "%s, r%d.id", names->unique, alias);
}

static Tree *draw_table(Names *names, bool is_first)
{
    int alias = (*names->n_aliases)++, table = rng_below(names->rng, N_DIALECT_TABLES);
    add_name(names, TYPE_INTEGER, arena_printf(names->arena, "r%d.id", alias), NULL);
    for (int c = 0; c < dialect_column_count(); c++)
        add_name(names, DIALECT_COLUMNS[c].type, arena_printf(names->arena, "r%d.%s", alias, DIALECT_COLUMNS[c].name),
                 NULL);
    add_unique(names, alias, is_first);
    return part(names, PART_SOURCE, arena_printf(names->arena, "t%d as r%d", table, alias), 0, NULL);
}

static void add_items(Names *names, const Tree *items, int alias)
{
    for (int i = 0; i < items->n_args; i++)
        add_name(names, items->args[i]->args[0]->type, arena_printf(names->arena, "r%d.c%d", alias, i), NULL);
    names->unique = NULL;
}

// IS_LATERAL: it may name the sources before it.
static Tree *draw_derived(Names *names, bool is_lateral)
{
    int alias = (*names->n_aliases)++;
    Names inner = below(names, is_lateral);
    Statement statement = { 0 };
    Tree *query = draw_query(&inner, NULL, &statement, false);
    add_items(names, statement.items, alias);
    return part(names, PART_SOURCE, arena_printf(names->arena, "%s(@0) as r%d", is_lateral ? "lateral " : "", alias), 1,
                &query);
}

static Tree *draw_values_source(Names *names)
{
    int alias = (*names->n_aliases)++, n_columns = rng_between(names->rng, 1, 3);
    Tree *rows = tree_list(names->arena, ", ");
    TreeType types[3];
    for (int c = 0; c < n_columns; c++)
        types[c] = draw_type(names);
    for (int r = rng_between(names->rng, 1, 4); r > 0; r--) {
        Tree *cells = part(names, PART_CLAUSE, n_columns == 1 ? "(@0)" : n_columns == 2 ? "(@0, @1)" : "(@0, @1, @2)",
                           n_columns, (Tree *[3]){ 0 });
        for (int c = 0; c < n_columns; c++)
            cells->args[c] = part(names, types[c], dialect_literal(names->arena, names->rng, types[c], names->is_wild),
                                  0, NULL);
        tree_push(rows, cells);
    }
    char *columns = arena_printf(names->arena, "c0");
    for (int c = 0; c < n_columns; c++) {
        if (c)
            columns = arena_printf(names->arena, "%s, c%d", columns, c);
        add_name(names, types[c], arena_printf(names->arena, "r%d.c%d", alias, c), NULL);
    }
    names->unique = NULL;
    return part(names, PART_SOURCE, arena_printf(names->arena, "(values @0) as r%d(%s)", alias, columns), 1, &rows);
}

// A query that WITH has named: its columns are c0 integer, c1 text in every one of them.
static Tree *draw_cte_source(Names *names)
{
    int alias = (*names->n_aliases)++;
    const Name *cte = &names->ctes[rng_below(names->rng, names->n_ctes)];
    for (int c = 0; c < cte->tree->n_args; c++)
        add_name(names, cte->tree->args[c]->args[0]->type, arena_printf(names->arena, "r%d.c%d", alias, c), NULL);
    names->unique = NULL;
    return part(names, PART_SOURCE, arena_printf(names->arena, "%s as r%d", cte->text, alias), 0, NULL);
}

static Tree *draw_source(Names *names, bool is_first)
{
    if (names->n_ctes && rng_chance(names->rng, 40))
        return draw_cte_source(names);
    if (may_nest(names, 20))
        return draw_derived(names, false);
    if (rng_chance(names->rng, 4))
        return draw_values_source(names);
    return draw_table(names, is_first);
}

// IS_LAST: no join follows, whose condition could not see beyond a comma.
static Tree *draw_join(Names *names, Tree *left, bool is_last)
{
    static const char *const JOINS[] = { "join", "join", "left join", "left join", "right join", "full join" };
    int first_new = names->n, draw = rng_below(names->rng, 100);
    if (draw < 12 && may_nest(names, 100)) {
        Tree *right = draw_derived(names, true);
        const char *form = rng_chance(names->rng, 50) ? "@0 cross join @1" : "@0 left join @1 on true";
        return part(names, PART_SOURCE, form, 2, (Tree *[]){ left, right });
    }
    Tree *right = draw_source(names, false);
    if (draw < 20)
        return part(names, PART_SOURCE, draw < 16 && is_last ? "@0, @1" : "@0 cross join @1", 2,
                    (Tree *[]){ left, right });
    const char *join = JOINS[rng_below(names->rng, COUNT_OF(JOINS))];
    Tree *on = NULL;
    if (left->n_args == 0 && right->n_args == 0 && left->form[0] == 't' && right->form[0] == 't' &&
        rng_chance(names->rng, 15)) {
        const char *using = rng_chance(names->rng, 50) ? "id" : rng_chance(names->rng, 50) ? "k" : "k, b";
        return part(names, PART_SOURCE, arena_printf(names->arena, "@0 %s @1 using (%s)", join, using), 2,
                    (Tree *[]){ left, right });
    }
    for (int attempt = 0; attempt < 30 && !on; attempt++) {
        const Name *a = &names->list[rng_below(names->rng, first_new)];
        const Name *b = &names->list[rng_between(names->rng, first_new, names->n - 1)];
        bool is_number = a->type <= TYPE_NUMERIC && b->type <= TYPE_NUMERIC && rng_chance(names->rng, 10);
        if (a->type == b->type || is_number)
            on = part(names, TYPE_BOOLEAN, arena_printf(names->arena, "(%s = %s)", a->text, b->text), 0, NULL);
    }
    if (!on)
        return part(names, PART_SOURCE, "@0 cross join @1", 2, (Tree *[]){ left, right });
    if (rng_chance(names->rng, 35) && strcmp(join, "full join"))
        on = part(names, TYPE_BOOLEAN, "(@0 and @1)", 2, (Tree *[]){ on, draw_value(names, TYPE_BOOLEAN, 2) });
    return part(names, PART_SOURCE, arena_printf(names->arena, "@0 %s @1 on @2", join), 3,
                (Tree *[]){ left, right, on });
}

static Tree *draw_from(Names *names)
{
    int draw = rng_below(names->rng, 100);
    Tree *from = draw_source(names, true);
    for (int n = draw < 60 ? 0 : draw < 92 ? 1 : 2; n > 0; n--)
        from = draw_join(names, from, n == 1);
    return from;
}

// ---- SELECT -------------------------------------------------------------------------------------------------------

static Tree *item(Names *names, Tree *value, int number)
{
    return part(names, PART_ITEM, arena_printf(names->arena, "@0 as c%d", number), 1, &value);
}

static Tree *draw_items(Names *names, const Types *types, bool is_top)
{
    Tree *items = tree_list(names->arena, ", ");
    int n = types ? types->n : rng_between(names->rng, 1, 4);
    for (int i = 0; i < n; i++) {
        TreeType type = types ? types->list[i] : draw_type(names);
        if (is_top && !types && rng_chance(names->rng, 6))
            type = TYPE_INTERVAL;
        int depth = rng_between(names->rng, 0, 3);
        Tree *value = is_top && !types ? draw_output(names, type, depth) : draw_value(names, type, depth);
        tree_push(items, item(names, value, i));
    }
    return items;
}

static Tree *draw_where(Names *names, int percent)
{
    if (!rng_chance(names->rng, percent))
        return nothing(names);
    return clause(names, " where @0", draw_value(names, TYPE_BOOLEAN, rng_between(names->rng, 1, 3)));
}

static bool is_exact(const Tree *items)
{
    for (int i = 0; i < items->n_args; i++)
        if (items->args[i]->args[0]->is_inexact)
            return false;
    return true;
}

// Intervals that are equal need not look alike: 30 days and a month.  Of rows that tie, any may come first.
static bool tells_ties_apart(const Tree *items)
{
    for (int i = 0; i < items->n_args; i++)
        if (items->args[i]->args[0]->type == TYPE_INTERVAL)
            return false;
    return true;
}

static Tree *draw_tail(Names *names, Statement *statement, bool is_top)
{
    bool has_limit = rng_chance(names->rng, is_top ? 20 : 12);
    if (!is_exact(statement->items) || !tells_ties_apart(statement->items) ||
        (!has_limit && !(is_top && rng_chance(names->rng, 40))))
        return nothing(names);
    static const char *const LIMITS[] = { " limit 3", " limit 5 offset 2", " offset 4", " fetch first 2 rows only",
                                          " limit 0", " offset 1 rows fetch next row only", " limit 100" };
    const char *limit = has_limit ? LIMITS[rng_below(names->rng, COUNT_OF(LIMITS))] : "";
    Tree *tail = clause(names, arena_printf(names->arena, " order by @*%s", limit), statement->items);
    tail->salt = rng_below(names->rng, 1 << 30);
    statement->has_all_rows &= !has_limit;
    return tail;
}

static Tree *select_of(Names *names, const char *word, Tree *items, Tree *from, Tree *where, Tree *group, Tree *tail)
{
    Tree *args[] = { items, from, where, group, tail };
    return part(names, PART_QUERY, arena_printf(names->arena, "select %s@0 from @1@2@3@4", word), 5, args);
}

static bool has_query(const Tree *tree)
{
    bool found = tree->type == PART_SOURCE;
    for (int i = 0; i < tree->n_args; i++)
        found |= has_query(tree->args[i]);
    return found;
}

static Tree *draw_plain(Names *names, const Types *types, Statement *statement, bool is_top)
{
    Tree *from = draw_from(names), *where = draw_where(names, 60), *items = draw_items(names, types, is_top);
    statement->items = items;
    statement->has_all_rows = where->form[0] == 0 && !strncmp(from->form, "t0 ", 3) && !has_query(items);
    if (!types && rng_chance(names->rng, 20) && items->n_args < MOST_ITEMS) {
        Tree *window = draw_dialect_window(names);
        if (is_top || !window->is_inexact)
            tree_push(items, item(names, window, items->n_args));
    }
    const char *word = rng_chance(names->rng, 12) && is_exact(items) ? "distinct " : "";
    Tree *tail = draw_tail(names, statement, is_top);
    if (!*word && *tail->form && rng_chance(names->rng, 8)) {     // the first item, with which ORDER BY begins
        tail->can_go = false;
        Tree *inner = select_of(names, "", items, from, where, nothing(names), nothing(names));
        return part(names, PART_QUERY, "select distinct on (c0) * from (@0) as x@1", 2, (Tree *[]){ inner, tail });
    }
    return select_of(names, word, items, from, where, nothing(names), tail);
}

// ---- GROUP BY -----------------------------------------------------------------------------------------------------

// Grouping sets are of columns: PostgreSQL 15 folds a key that is constant in the end, and then does not find it.
static const char *group_form(Names *names, Tree *const *keys, int n_keys)
{
    bool is_plain = true;
    for (int k = 0; k < n_keys; k++)
        is_plain &= keys[k]->n_args == 0;
    static const char *const TWO[] = { " group by rollup(@0, @1)", " group by cube(@0, @1)",
                                       " group by grouping sets ((@0), (@1), ())",
                                       " group by grouping sets ((@0, @1), (@1))", " group by @0, rollup(@1)" };
    static const char *const PLAIN[] = { " group by ()", " group by @0", " group by @0, @1", " group by @0, @1, @2" };
    if (n_keys == 2 && is_plain && rng_chance(names->rng, 60))
        return TWO[rng_below(names->rng, COUNT_OF(TWO))];
    if (n_keys == 1 && is_plain && rng_chance(names->rng, 10))
        return " group by rollup(@0)";
    return PLAIN[n_keys];
}

static bool names_column(const Tree *tree)
{
    bool found = tree->n_args == 0 && strchr("rwj", tree->form[0]) && strchr(tree->form, '.');
    for (int i = 0; i < tree->n_args; i++)
        found |= names_column(tree->args[i]);
    return found;
}

// Never a constant: a literal would be a position, and of constants that a grouping set makes NULL PostgreSQL 15 thinks
// that they need no sorting.
static Tree *draw_key(Names *rows)
{
    for (int attempt = 0; attempt < 10; attempt++) {
        Tree *key = draw_value(rows, draw_type(rows), rng_chance(rows->rng, 60) ? 0 : 2);
        if (names_column(key))
            return key;
    }
    return NULL;
}

static Tree *draw_group(Names *rows, Names *groups)
{
    Tree *keys[3];
    int n_keys = 0;
    Names inner = *rows;
    inner.has_subqueries = false;
    inner.outer = NULL;
    for (int n = rng_below(rows->rng, 4); n > 0; n--) {
        Tree *key = draw_key(&inner);
        if (key) {
            keys[n_keys++] = key;
            add_name(groups, key->type, NULL, key);
        }
    }
    if (n_keys == 0)
        return nothing(rows);
    return part(rows, PART_CLAUSE, group_form(rows, keys, n_keys), n_keys, keys);
}

static Tree *draw_grouped(Names *rows, const Types *types, Statement *statement, bool is_top)
{
    Tree *from = draw_from(rows), *where = draw_where(rows, 50);
    Names groups = *rows;
    groups.n = 0;
    groups.unique = NULL;
    Tree *group = draw_group(rows, &groups), *items = tree_list(rows->arena, ", ");
    int n_keys = groups.n;
    for (int n = rng_between(rows->rng, 1, 3); n > 0; n--) {
        Tree *aggregate = draw_dialect_aggregate(rows, TYPE_N);
        if (!aggregate->is_inexact)
            add_name(&groups, aggregate->type, NULL, aggregate);
        else if (is_top && !types)
            tree_push(items, item(rows, aggregate, items->n_args));
    }
    for (int k = 0; !types && k < groups.n && items->n_args < MOST_ITEMS; k++)
        tree_push(items, item(rows, groups.list[k].tree, items->n_args));
    for (int k = 0; types && k < types->n; k++)
        tree_push(items, item(rows, draw_value(&groups, types->list[k], 1), k));
    if (!types && n_keys && group->form[10] != '@' && rng_chance(rows->rng, 60) && items->n_args < MOST_ITEMS)
        tree_push(items, item(rows, part(rows, TYPE_INTEGER, "grouping(@0)", 1, &group->args[0]), items->n_args));
    if (!types && (items->n_args == 0 || rng_chance(rows->rng, 40)) && items->n_args < MOST_ITEMS)
        tree_push(items, item(rows, draw_value(&groups, draw_type(rows), 2), items->n_args));
    if (!types && rng_chance(rows->rng, 12) && items->n_args < MOST_ITEMS && groups.n) {
        Tree *window = draw_dialect_window(&groups);
        if (is_top || !window->is_inexact)
            tree_push(items, item(rows, window, items->n_args));
    }
    if (rng_chance(rows->rng, 20)) {
        Tree *having = clause(rows, " having @0", draw_value(&groups, TYPE_BOOLEAN, 2));
        group = part(rows, PART_CLAUSE, "@0@1", 2, (Tree *[]){ group, having });
    }
    statement->items = items;
    return select_of(rows, "", items, from, where, group, draw_tail(rows, statement, is_top));
}

// ---- set operations, WITH -----------------------------------------------------------------------------------------

static Tree *draw_set(Names *names, const Types *types, Statement *statement, bool is_top)
{
    static const char *const FORMS[] = { "(@0) union all (@1)@2", "(@0) union (@1)@2", "(@0) intersect (@1)@2",
                                         "(@0) except (@1)@2", "(@0) except all (@1)@2", "(@0) intersect all (@1)@2" };
    Types drawn = { .n = rng_between(names->rng, 1, 3) };
    for (int i = 0; i < drawn.n; i++)
        drawn.list[i] = draw_type(names);
    if (!types)
        types = &drawn;
    Names left = below(names, false), right = below(names, false);
    left.outer = right.outer = names->outer;
    Statement other = { 0 };
    Tree *a = draw_query(&left, types, statement, false), *b = draw_query(&right, types, &other, false);
    statement->has_all_rows = false;
    Tree *tail = draw_tail(names, statement, is_top);
    return part(names, PART_QUERY, FORMS[rng_below(names->rng, COUNT_OF(FORMS))], 3, (Tree *[]){ a, b, tail });
}

static Tree *draw_recursive(Names *names, Name *cte)
{
    Names first = below(names, false), next = below(names, false);
    Types types = { 2, { TYPE_INTEGER, draw_type(names) } };
    Statement statement = { 0 };
    first.level = next.level = 0;
    first.has_subqueries = next.has_subqueries = false;
    Tree *start = draw_plain(&first, &types, &statement, false);
    statement.items->args[0]->args[0] = part(names, TYPE_INTEGER, "1", 0, NULL);
    add_name(&next, TYPE_INTEGER, "w.c0", NULL);
    add_name(&next, types.list[1], "w.c1", NULL);
    bool is_joined = rng_chance(names->rng, 40);
    if (is_joined)
        for (int c = 0; c < dialect_column_count(); c++)
            add_name(&next, DIALECT_COLUMNS[c].type, arena_printf(names->arena, "j.%s", DIALECT_COLUMNS[c].name), NULL);
    Tree *step = draw_value(&next, types.list[1], 2);
    if (types.list[1] == TYPE_TEXT)                               // a text that doubles would grow out of bounds
        step = part(names, TYPE_TEXT, "left(@0, 20)", 1, &step);
    if (types.list[1] == TYPE_NUMERIC)                            // its type must be that of the first part
        step = part(names, TYPE_NUMERIC, "cast(@0 as numeric(38,4))", 1, &step);
    Tree *first_value = statement.items->args[1]->args[0];
    if (types.list[1] == TYPE_NUMERIC)
        statement.items->args[1]->args[0] = part(names, TYPE_NUMERIC, "cast(@0 as numeric(38,4))", 1, &first_value);
    Tree *filter = draw_value(&next, TYPE_BOOLEAN, rng_chance(names->rng, 50) ? 2 : 0);
    const char *form = arena_printf(
        names->arena, "%s as (@0 union %sselect w.c0 + 1, @1 from %s%s where w.c0 < %d and @2)", cte->text,
        rng_chance(names->rng, 50) ? "all " : "", cte->text, is_joined ? " as w join t1 as j on j.k = w.c0" : " as w",
        rng_between(names->rng, 2, 4));
    cte->tree = statement.items;
    return part(names, PART_CLAUSE, form, 3, (Tree *[]){ start, step, filter });
}

static Tree *draw_with(Names *names, Statement *statement)
{
    bool is_recursive = rng_chance(names->rng, 30);
    Name *ctes = arena_array(names->arena, Name, 2);
    Tree *list = tree_list(names->arena, ", ");
    Names inner = *names;
    inner.ctes = ctes;
    for (int i = 0; i < rng_between(names->rng, 1, 2) && i < 2; i++) {
        ctes[i].text = i ? "w1" : "w0";
        if (is_recursive && i == 0) {
            tree_push(list, draw_recursive(&inner, &ctes[i]));
        } else {
            Names lower = below(&inner, false);
            Statement named = { 0 };
            Tree *query = draw_query(&lower, NULL, &named, false);
            ctes[i].tree = named.items;
            const char *form = arena_printf(names->arena, "%s as (@0)", ctes[i].text);
            tree_push(list, part(names, PART_CLAUSE, form, 1, &query));
        }
        inner.n_ctes++;
    }
    Tree *query = draw_query(&inner, NULL, statement, true);
    statement->has_all_rows = false;
    return part(names, PART_QUERY, is_recursive ? "with recursive @0 @1" : "with @0 @1", 2, (Tree *[]){ list, query });
}

static Tree *draw_query(Names *names, const Types *types, Statement *statement, bool is_top)
{
    int draw = rng_below(names->rng, 100);
    if (is_top && !types && !names->ctes && draw < 12)
        return draw_with(names, statement);
    if (may_nest(names, 10))
        return draw_set(names, types, statement, is_top);
    return draw < 65 ? draw_plain(names, types, statement, is_top) : draw_grouped(names, types, statement, is_top);
}

// ---- queries in expressions ---------------------------------------------------------------------------------------

// One row: an aggregate without groups.
Tree *draw_scalar(Names *names, TreeType type)
{
    if (!may_nest(names, 100))
        return NULL;
    Names inner = below(names, true);
    Tree *from = draw_from(&inner), *where = draw_where(&inner, 80), *aggregate = draw_dialect_aggregate(&inner, type);
    if (!aggregate)
        return NULL;
    return part(names, type, "(select @0 from @1@2)", 3, (Tree *[]){ aggregate, from, where });
}

Tree *draw_condition_query(Names *names)
{
    if (!may_nest(names, 100))
        return NULL;
    Statement statement = { 0 };
    Types one = { 1, { draw_type(names) } };
    bool is_in = rng_chance(names->rng, 50);
    Tree *value = draw_value(names, one.list[0], 1);
    Names inner = below(names, rng_chance(names->rng, 70));
    Tree *query = draw_query(&inner, &one, &statement, false);
    bool is_negated = rng_chance(names->rng, 40);
    if (!is_in)
        return part(names, TYPE_BOOLEAN, is_negated ? "(not exists (@0))" : "exists (@0)", 1, &query);
    return part(names, TYPE_BOOLEAN, is_negated ? "(@0 not in (@1))" : "(@0 in (@1))", 2, (Tree *[]){ value, query });
}

// ---- statements ---------------------------------------------------------------------------------------------------

static void draw_oracle(Names *names, Statement *statement)
{
    statement->oracle = (Oracle)rng_between(names->rng, ORACLE_ROWS, ORACLE_COUNT);
    Tree *from = draw_from(names), *items = tree_list(names->arena, ", ");
    int n = rng_between(names->rng, 1, 3);
    for (int i = 0; i < n; i++) {
        Tree *value = draw_value(names, draw_type(names), rng_below(names->rng, 3));
        tree_push(items, item(names, value, i));
    }
    statement->items = items;
    Tree *condition = draw_value(names, TYPE_BOOLEAN, rng_between(names->rng, 1, 3));
    statement->root = part(names, PART_CLAUSE, "@0 from @1 where @2", 3, (Tree *[]){ items, from, condition });
}

void dialect_draw(Arena *arena, const DialectData *data, uint64_t seed, uint64_t number, Statement *statement)
{
    Rng rng = rng_from(seed, 21, number);
    int n_left = MOST_NESTED, n_aliases = 0;
    Names names = { .arena = arena, .rng = &rng, .is_wild = data->is_wild, .level = 2, .n_left = &n_left,
                    .n_aliases = &n_aliases, .has_subqueries = true };
    *statement = (Statement){ 0 };
    statement->root = draw_query(&names, NULL, statement, true);
}

void oracle_draw(Arena *arena, const DialectData *data, uint64_t seed, uint64_t number, Statement *statement)
{
    Rng rng = rng_from(seed, 22, number);
    int n_left = MOST_NESTED, n_aliases = 0;
    Names names = { .arena = arena, .rng = &rng, .is_wild = data->is_wild, .level = 2, .n_left = &n_left,
                    .n_aliases = &n_aliases, .has_subqueries = true };
    *statement = (Statement){ 0 };
    draw_oracle(&names, statement);
}
