// parse.c - text to parse tree to statement, on a worker's stack; from a tree that was kept (trees.c), on the caller's.
//
// What libpg_query and protobuf-c need of the stack was measured (arm64, libpg_query 15-4.0.0), all in reading the tree
// back:
//
//     1+1+...  a::int::int...  - - -a  f(f(...     1.85 kB a level, and so for all other chains
//     x is null between 1 and 2 is null ...        3.7 kB a round of six tokens
//     (select (select ...                          5.5 kB a level of two tokens
//
// so 8 KiB for each token that can nest (see sql_nesting) is at least twice what is used.  A limit on the length alone
// would have to assume a level for every two bytes, and refuse an INSERT of a few thousand rows.

#include "sql/sql_int.h"

#include <pg_query.h>

enum {
    TEXT_BYTES_MAX = 4 << 20,
    NESTING_MAX = 10000,
    VIEW_NESTING = 1000,               // of a view's text: parsed while the statement that uses it is bound
    NESTING_KEPT = 100,                // of trees that are bound on the caller's stack: less than 100 kB of it
    STACK_PER_TOKEN = 8 << 10,
    RESCANS_MAX = 300000000
};  // rescans: a second

typedef struct BindJob {
    Arena       *arena;
    const char  *text;
    size_t       length;
    int          nesting;              // found by check_text
    const Names *names;
    Statement  **statement;
    Error       *err;
    weft_status  status;
    const ParseTree *tree;             // that was kept; NULL: the text is to be parsed
    bool         is_on_worker, needs_worker;
} BindJob;

static weft_status check_text(BindJob *job, size_t stack_bytes)
{
    const size_t length = job->length;
    if (length > TEXT_BYTES_MAX) {
        fail(job->err, WEFT_TOO_LONG, -1, "statement of %zu bytes is too long", length);
        error_hint(job->err, "The limit is %d bytes. COPY loads more rows than INSERT can.", TEXT_BYTES_MAX);
        return WEFT_TOO_LONG;
    }
    Value     ignored;
    const int limit = (int)MIN_OF((size_t)NESTING_MAX, stack_bytes / STACK_PER_TOKEN);
    int       at = -1;
    TRY(value_parse(TYPE(TEXT), job->text, length, &ignored, job->err));       // UTF-8
    if (sql_rescans(job->text) > RESCANS_MAX) {
        fail(job->err, WEFT_TOO_COMPLEX, -1, "statement is too complex");
        error_hint(job->err, "A run of comments or operators is too long.");
        return WEFT_TOO_COMPLEX;
    }
    job->nesting = sql_nesting(job->text, limit, &at);
    if (job->nesting <= limit) return WEFT_OK;
    fail(job->err, WEFT_TOO_COMPLEX, at, "statement is too complex");
    error_hint(job->err, "An expression or a chain of joins has more than %d tokens without a comma, AND or OR.",
               limit);
    return WEFT_TOO_COMPLEX;
}

// libpg_query counts characters from 1.
static int byte_offset(const char *text, int cursor)
{
    const char *p = text;
    if (cursor <= 0) return -1;
    for (int i = 1; i < cursor && *p; i++) {
        p++;
        while (((unsigned char)*p & 0xC0) == 0x80) p++;
    }
    return (int)(p - text);
}

static weft_status syntax_error(const BindJob *job, const PgQueryError *error)
{
    const int at = byte_offset(job->text, error->cursorpos);
    if (strncmp(error->message, "memory exhausted", 16) != 0)
        return fail(job->err, WEFT_SYNTAX_ERROR, at, "%s", error->message);
    fail(job->err, WEFT_TOO_COMPLEX, at, "statement is nested too deeply");    // bison's own stack: 10,000 symbols
    error_hint(job->err, "The parser's limit is about 10,000 brackets.");
    return WEFT_TOO_COMPLEX;
}

static weft_status bind_tree(BindJob *job, const ParseTree *tree)
{
    const PgQuery__ParseResult *result = tree_result(tree);
    Binder binder = { .arena = job->arena, .text = job->text, .names = job->names, .err = job->err,
                      .is_on_worker = job->is_on_worker };
    if (result->n_stmts > 1)
        return fail(job->err, WEFT_SYNTAX_ERROR, result->stmts[1]->stmt_location,
                    "more than one statement where one is expected");
    const weft_status status = bind_statement(&binder, result->n_stmts ? result->stmts[0] : NULL, job->statement);
    job->needs_worker = binder.needs_worker;
    return status;
}

static const char *skip_space(const char *p) { return p + strspn(p, " \t\n\r\f"); }

// Behind WORD, and space before it; NULL: something else stands there.
static const char *skip_word(const char *p, const char *word)
{
    p = skip_space(p);
    return strncasecmp(p, word, strlen(word)) == 0 ? p + strlen(word) : NULL;
}

// SET device = cuda:1 with the quotes that the grammar needs; NULL: it is something else.  What stands before the value
// stays in its place.
static const char *quote_device(const BindJob *job)
{
    const char *name_end = skip_word(job->text, "set"), *is_end = NULL, *number = NULL;
    if (name_end) name_end = skip_word(name_end, "device");
    if (name_end && !(is_end = skip_word(name_end, "="))) is_end = skip_word(name_end, "to");
    if (is_end) number = skip_word(is_end, "cuda:");
    if (!number) return NULL;
    const char *value = skip_space(is_end), *end = number + strspn(number, "0123456789"), *rest = skip_space(end);
    if (end == number || *skip_space(rest + (*rest == ';'))) return NULL;
    if (value == is_end && is_end[-1] != '=') return NULL;   // "tocuda" is one word
    return arena_printf(job->arena, "%.*s'%.*s'", (int)(value - job->text), job->text, (int)(end - value), value);
}

// ---- a text of its own: a view's -------------------------------------------------------------------------------------

weft_status sql_parse_text(Arena *arena, const char *text, ParseTree **tree, Error *err)
{
    const size_t length = strlen(text);
    *tree = tree_find(text, length);
    if (*tree) return WEFT_OK;
    BindJob     job = { .arena = arena, .text = text, .length = length, .err = err };
    const char *quoted = sql_quote_files(arena, text);
    TRY(check_text(&job, (size_t)VIEW_NESTING * STACK_PER_TOKEN));
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(quoted ? quoted : text);
    *tree = parsed.error ? NULL : tree_unpack(parsed.parse_tree.data, parsed.parse_tree.len);
    const weft_status status = parsed.error ? syntax_error(&job, parsed.error)
                               : *tree      ? WEFT_OK
                                            : fail(err, WEFT_INTERNAL, -1, "the parse tree could not be read");
    if (*tree && job.nesting <= NESTING_KEPT) tree_keep(*tree, text, length);
    pg_query_free_protobuf_parse_result(parsed);
    return status;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static weft_status parse_and_bind(BindJob *job)
{
    const char *quoted = quote_device(job);
    if (!quoted) quoted = sql_quote_files(job->arena, job->text);
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(quoted ? quoted : job->text);
    ParseTree  *tree = parsed.error ? NULL : tree_unpack(parsed.parse_tree.data, parsed.parse_tree.len);
    weft_status status;
    if (parsed.error) {
        status = syntax_error(job, parsed.error);
    } else if (!tree) {
        status = fail(job->err, WEFT_INTERNAL, -1, "the parse tree could not be read");
    } else {
        if (job->nesting <= NESTING_KEPT) tree_keep(tree, job->text, job->length);
        status = bind_tree(job, tree);
    }
    tree_release(tree);
    pg_query_free_protobuf_parse_result(parsed);
    return status;
}

static void run_job(void *context, size_t stack_bytes)
{
    BindJob *job = context;
    job->is_on_worker = true;
    if (job->tree) {
        job->status = bind_tree(job, job->tree);
        return;
    }
    job->status = check_text(job, stack_bytes);
    if (job->status == WEFT_OK) job->status = parse_and_bind(job);
}

// A tree that was kept has passed all checks, and is shallow enough for any thread's stack.
weft_status sql_bind(Arena *arena, const char *text, const Names *names, Statement **statement, Error *err)
{
    BindJob    job = { .arena = arena, .text = text, .length = strlen(text), .names = names, .statement = statement,
                       .err = err };
    if (strspn(text, " \t\n\r\f") == job.length) {           // what follows the last ';' of most files and programs
        Binder binder = { .arena = arena, .text = text, .names = names, .err = err };
        return bind_statement(&binder, NULL, statement);
    }
    ParseTree *tree = tree_find(text, job.length);
    if (tree) job.status = bind_tree(&job, tree);
    if (!tree || job.needs_worker) {
        job.tree = tree;
        if (tree) error_clear(err);
        const weft_status refused = sql_worker_run(run_job, &job, names->stop, err);
        if (refused) job.status = refused;
    }
    tree_release(tree);
    return job.status;
}
