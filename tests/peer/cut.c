// cut.c - makes a failing query smaller: conditions, columns, tables, nested queries and parts of expressions go as
// long as it fails the same way.
//
// A change is made in place and undone when the query no longer fails.  Nested queries keep their outputs, because
// those around them name them.

#define _GNU_SOURCE
#include "random.h"

typedef struct Cutter {
    bool (*still_fails)(void *context);
    void *context;
    int   n_tries_left;
} Cutter;

static bool cut_query(Cutter *cutter, RandomQuery *query, bool is_whole);
static bool cut_term(Cutter *cutter, Term *term);

static bool still_fails(Cutter *cutter)
{
    return cutter->n_tries_left-- > 0 && cutter->still_fails(cutter->context);
}

// Keeps the change already made to QUERY when it still fails, else puts BEFORE back.
static bool keep_or_undo(Cutter *cutter, RandomQuery *query, const RandomQuery *before)
{
    if (still_fails(cutter))
        return true;
    *query = *before;
    return false;
}

// ---- lists --------------------------------------------------------------------------------------------------------

// LIST and N are part of QUERY.
static bool cut_list(Cutter *cutter, RandomQuery *query, Term **list, int *n)
{
    bool did = false;
    for (int i = *n - 1; i >= 0; i--) {
        RandomQuery before = *query;
        memmove(&list[i], &list[i + 1], sizeof(Term *) * (size_t)(*n - i - 1));
        (*n)--;
        did |= keep_or_undo(cutter, query, &before);
    }
    return did;
}

static bool cut_items(Cutter *cutter, RandomQuery *query)
{
    bool did = false;
    for (int i = query->n_items - 1; i >= 0 && query->n_items > 1 && query->n_order == 0 && !query->keys_by_position;
         i--) {
        RandomQuery before = *query;
        memmove(&query->items[i], &query->items[i + 1], sizeof(Term *) * (size_t)(query->n_items - i - 1));
        query->n_items--;
        did |= keep_or_undo(cutter, query, &before);
    }
    return did;
}

// ---- FROM ---------------------------------------------------------------------------------------------------------

static uint32_t refs_of_list(Term *const *list, int n)
{
    uint32_t refs = 0;
    for (int i = 0; i < n; i++)
        refs |= term_refs(list[i]);
    return refs;
}

static uint32_t refs_of_query(const RandomQuery *query)
{
    uint32_t refs = refs_of_list(query->items, query->n_items) | refs_of_list(query->keys, query->n_keys) |
                    refs_of_list(query->where, query->n_where) | (query->having ? term_refs(query->having) : 0) |
                    (query->order_first ? term_refs(query->order_first) : 0) |
                    (query->order_last ? term_refs(query->order_last) : 0);
    for (int r = 0; r < query->n_refs; r++)
        refs |= refs_of_list(query->from[r].on, query->from[r].n_on);
    return refs;
}

static bool cut_sources(Cutter *cutter, RandomQuery *query)
{
    bool did = false;
    for (int r = query->n_refs - 1; r >= 0; r--) {
        int n_used = 0;
        for (int i = 0; i < query->n_refs; i++)
            n_used += query->from[i].is_used;
        if (n_used < 2 || !query->from[r].is_used || (refs_of_query(query) >> r & 1))
            continue;
        RandomQuery before = *query;
        query->from[r].is_used = false;
        did |= keep_or_undo(cutter, query, &before);
    }
    return did;
}

static bool cut_joins(Cutter *cutter, RandomQuery *query)
{
    bool did = false;
    for (int r = 0; r < query->n_refs; r++) {
        Source *source = &query->from[r];
        did |= cut_list(cutter, query, source->on, &source->n_on);
        if (source->kind == FROM_QUERY && source->is_used)
            did |= cut_query(cutter, source->query, false);
        if (source->join == JOIN_COMMA || source->join == JOIN_INNER)
            continue;
        RandomQuery before = *query;
        source->join = source->join == JOIN_FULL ? JOIN_LEFT : JOIN_INNER;
        did |= keep_or_undo(cutter, query, &before);
    }
    return did;
}

// ---- clauses ------------------------------------------------------------------------------------------------------

static bool drop_limit(RandomQuery *query)
{
    bool is_there = query->limit >= 0 || query->offset >= 0;
    query->limit = query->offset = -1;
    return is_there;
}

static bool drop_order(RandomQuery *query)
{
    bool is_there = query->n_order > 0;
    query->n_order = query->distinct_on = 0;
    query->limit = query->offset = -1;
    return is_there;
}

static bool drop_distinct(RandomQuery *query)
{
    bool is_there = query->is_distinct || query->distinct_on;
    query->is_distinct = false;
    query->distinct_on = 0;
    return is_there;
}

static bool drop_having(RandomQuery *query)
{
    bool is_there = query->having != NULL;
    query->having = NULL;
    return is_there;
}

static bool drop_positions(RandomQuery *query)
{
    bool is_there = query->keys_by_position;
    query->keys_by_position = false;
    return is_there;
}

static bool drop_order_terms(RandomQuery *query)
{
    bool is_there = query->order_first || query->order_last;
    query->order_first = query->order_last = NULL;
    return is_there;
}

static bool drop_offset(RandomQuery *query)
{
    bool is_there = query->offset >= 0;
    query->offset = -1;
    return is_there;
}

static bool drop_rows(RandomQuery *query)
{
    bool is_there = query->n_rows > 1;
    query->n_rows -= is_there;
    return is_there;
}

static bool cut_clauses(Cutter *cutter, RandomQuery *query)
{
    static bool (*const DROPS[])(RandomQuery *) = { drop_limit, drop_order, drop_distinct, drop_having, drop_positions,
                                                    drop_order_terms, drop_offset, drop_rows };
    bool did = false;
    for (int i = 0; i < COUNT_OF(DROPS); i++) {
        RandomQuery before = *query;
        if (DROPS[i](query))
            did |= keep_or_undo(cutter, query, &before);
    }
    return did;
}

// ---- terms --------------------------------------------------------------------------------------------------------

// Replaces a term by one of its arguments, in place: a group key changes wherever it is used.
static bool cut_term(Cutter *cutter, Term *term)
{
    bool did = false;
    for (int i = 0; i < term->n_args; i++) {
        if (term->args[i]->kind != term->kind || term->args[i]->scale != term->scale)
            continue;
        Term before = *term;
        *term = *term->args[i];
        if (still_fails(cutter))
            return true;
        *term = before;
    }
    for (int i = 0; i < term->n_args; i++)
        did |= cut_term(cutter, term->args[i]);
    if (term->query)
        did |= cut_query(cutter, term->query, false);
    return did;
}

static bool cut_terms(Cutter *cutter, Term *const *terms, int n)
{
    bool did = false;
    for (int i = 0; i < n; i++)
        did |= cut_term(cutter, terms[i]);
    return did;
}

static bool cut_terms_of_select(Cutter *cutter, RandomQuery *query)
{
    bool did = query->having && cut_term(cutter, query->having);
    did |= cut_terms(cutter, query->where, query->n_where);
    for (int r = 0; r < query->n_refs; r++)
        did |= cut_terms(cutter, query->from[r].on, query->from[r].n_on);
    did |= cut_terms(cutter, query->items, query->n_items);
    return did;
}

// ---- queries ------------------------------------------------------------------------------------------------------

// One side of a set operation takes its place.
static bool cut_set(Cutter *cutter, RandomQuery *query)
{
    for (int side = 0; side < 2; side++) {
        RandomQuery before = *query, *branch = side ? query->right : query->left;
        *query = *branch;
        memcpy(query->with, before.with, sizeof query->with);
        query->n_with = before.n_with;
        if (keep_or_undo(cutter, query, &before))
            return true;
    }
    bool did = cut_query(cutter, query->left, false);
    return cut_query(cutter, query->right, false) || did;
}

static bool cut_select(Cutter *cutter, RandomQuery *query, bool is_whole)
{
    bool did = cut_list(cutter, query, query->where, &query->n_where);
    did |= cut_joins(cutter, query);
    if (is_whole)
        did |= cut_items(cutter, query);
    if (!query->keys_by_position)
        did |= cut_list(cutter, query, query->keys, &query->n_keys);
    did |= cut_sources(cutter, query);
    did |= cut_terms_of_select(cutter, query);
    return did;
}

static bool cut_with(Cutter *cutter, RandomQuery *query)
{
    bool did = false;
    for (int i = query->n_with - 1; i >= 0; i--) {
        RandomQuery before = *query;
        bool is_last = i == query->n_with - 1;
        query->n_with -= is_last;
        did |= is_last && keep_or_undo(cutter, query, &before);
        if (i < query->n_with)
            did |= cut_query(cutter, query->with[i], false);
    }
    return did;
}

static bool cut_query(Cutter *cutter, RandomQuery *query, bool is_whole)
{
    bool did = cut_clauses(cutter, query);
    did |= cut_with(cutter, query);
    if (query->kind == QUERY_SET)
        did |= cut_set(cutter, query);
    else if (query->kind == QUERY_SELECT)
        did |= cut_select(cutter, query, is_whole);
    return did;
}

void query_cut(RandomQuery *query, int n_tries, bool (*still_fails_)(void *context), void *context)
{
    Cutter cutter = { still_fails_, context, n_tries };
    while (cutter.n_tries_left > 0 && cut_query(&cutter, query, true))
        ;
}
