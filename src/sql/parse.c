// parse.c - text to parse tree to statement, on a worker's stack; from a tree that was kept (trees.c), on the caller's.
// The tree of a text whose shape came before is kept, too: its constants are filled in.

#include "sql/sql_int.h"

#include <ctype.h>

#include <pg_query.h>

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
    const TextShape *shape;            // NULL: no tree is kept
} BindJob;

static Type *untyped_params(Arena *arena, int n_params)
{
    Type *types = arena_array(arena, Type, n_params + 1);
    for (int i = 0; i < n_params; i++) types[i] = TYPE(NULL);
    return types;
}

static weft_status bind_tree(BindJob *job, const ParseTree *tree)
{
    const PgQuery__ParseResult *result = tree_result(tree);
    Binder binder = { .arena = job->arena, .text = job->text, .names = job->names, .err = job->err,
                      .param_types = untyped_params(job->arena, job->names->n_params),
                      .is_on_worker = job->is_on_worker };
    if (result->n_stmts > 1)
        return fail(job->err, WEFT_SYNTAX_ERROR, result->stmts[1]->stmt_location,
                    "more than one statement where one is expected");
    if (job->names->holes) holes_begin(job->names->holes, job->names->holes->arena, job->names->holes->shape);
    quotients_begin(job->names->quotient_scale ? MAX_OF(job->names->quotient_scale, 0) : QUOTIENT_SCALE);
    const weft_status status = bind_statement(&binder, result->n_stmts ? result->stmts[0] : NULL, job->statement);
    if (!status) (*job->statement)->has_quotients = quotients_made();
    if (job->names->has_quotients) *job->names->has_quotients |= quotients_made();
    quotients_begin(QUOTIENT_SCALE);
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
// stays in its place.  sim:k40 gets them, too, so that it is refused for what it is.
static const char *quote_device(const BindJob *job)
{
    const char *name_end = skip_word(job->text, "set"), *is_end = NULL, *number = NULL;
    if (name_end) name_end = skip_word(name_end, "device");
    if (name_end && !(is_end = skip_word(name_end, "="))) is_end = skip_word(name_end, "to");
    if (is_end && !(number = skip_word(is_end, "cuda:"))) number = skip_word(is_end, "sim:");
    if (!number) return NULL;
    const char *value = skip_space(is_end), *end = number, *rest;
    while (isalnum((u8)*end)) end++;
    rest = skip_space(end);
    if (end == number || *skip_space(rest + (*rest == ';'))) return NULL;
    if (value == is_end && is_end[-1] != '=') return NULL;   // "tocuda" is one word
    return arena_printf(job->arena, "%.*s'%.*s'", (int)(value - job->text), job->text, (int)(end - value), value);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static weft_status parse_and_bind(BindJob *job)
{
    const char *quoted = quote_device(job);
    bool        may_change = quoted != NULL;
    if (!quoted) quoted = sql_quote_files(job->arena, job->text, &may_change);
    PgQueryProtobufParseResult parsed = pg_query_parse_protobuf(quoted ? quoted : job->text);
    ParseTree  *tree = parsed.error ? NULL : tree_unpack(parsed.parse_tree.data, parsed.parse_tree.len);
    weft_status status;
    if (parsed.error) {
        status = sql_syntax_error(job->text, parsed.error->message, parsed.error->cursorpos, job->err);
    } else if (!tree) {
        status = fail(job->err, WEFT_INTERNAL, -1, "the parse tree could not be read");
    } else {
        if (job->nesting <= NESTING_KEPT && job->shape) tree_keep(tree, job->shape, may_change);
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
    job->status = sql_check_text(job->text, job->length, stack_bytes, &job->nesting, job->err);
    if (job->status == WEFT_OK) job->status = parse_and_bind(job);
}

// Only trees of queries are kept: the rows of an INSERT are not looked at for it.
bool sql_has_shape(const char *text, size_t length)
{
    const char *p = text;
    const Token first = token_next(&p);
    return length <= TREE_TEXT_BYTES_MOST &&
           (token_is(&first, "select") || token_is(&first, "with") || token_is(&first, "values") ||
            token_is(&first, "table") || (first.kind == TOKEN_SYMBOL && *first.start == '('));
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
    TextShape  shape;
    ParseTree *tree = NULL;
    if (names->keeps != KEEP_NOTHING && sql_has_shape(text, job.length)) {
        if (names->shape) shape = *names->shape;
        else sql_shape(arena, text, job.length, names->keeps == KEEP_TEXTS, &shape);
        job.shape = &shape;
        tree = tree_find(&shape);
    }
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
