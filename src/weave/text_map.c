// text_map.c - functions of text in kernels: codes to codes.
//
// substring(phone from 1 for 2) is worked out for every distinct phone before the kernel runs, by all threads.  What
// comes out gets a dictionary of its own, and the kernel looks the new code up by the old one:
//
//     phones  0 "13-741"  1 "31-001"  2 "13-222"      map  0 -> 0  1 -> 1  2 -> 0      codes  0 "13"  1 "31"
//
// So a function of text can stand wherever a column of text can: in tests, keys, groups, outputs, other functions.  The
// same function of the same texts is worked out once per kernel.

#include "plan/functions.h"
#include "weave/weave_int.h"

static void release_dict(void *dict) { dict_release(dict); }

bool weave_is_text_map(const Expr *expr)
{
    const Function *function = expr->kind == EXPR_CALL ? function_of(expr->op) : NULL;
    return function && function->eval_text;
}

static weft_status canceled(Weaver *w)
{
    return fail(w->err, WEFT_QUERY_CANCELED, -1, "canceling statement due to user request");
}

// ---- every text of the dictionary -----------------------------------------------------------------------------------

typedef struct MapWork {
    const Expr *call;
    const Dictionary *from;
    Value      *results;               // by code
    Arena     **arenas;                // by part: of what the results hold
    Error      *errors;                // by part: its first
} MapWork;

static void map_part(void *context, int part, u64 first, u64 end)
{
    const MapWork *work = context;
    Value          args[FUNCTION_ARGS];
    bool           is_null = false;
    for (int i = 1; i < work->call->n_args; i++) {
        args[i] = work->call->args[i]->value;
        is_null |= args[i].is_null;
    }
    for (u64 code = first; code < end && !work->errors[part].status; code++) {
        const weft_text text = dict_get(work->from, (u32)code);
        Value          *result = &work->results[code];
        args[0] = (Value){ .type = TYPE(TEXT) };
        args[0].text.bytes = text.bytes, args[0].text.length = (u32)text.length;
        *result = (Value){ .type = work->call->type, .is_null = is_null };
        if (is_null) continue;
        function_of(work->call->op)->eval_text(work->arenas[part], work->call, args, result, &work->errors[part]);
    }
}

static void free_part(void *arena) { arena_free(arena); }

static weft_status map_all(Weaver *w, MapWork *work, u32 n_codes)
{
    const RowParts parts = team_split(&w->job->team, n_codes);
    work->errors = arena_array(w->arena, Error, parts.n_parts + 1);
    work->arenas = arena_array(w->arena, Arena *, parts.n_parts + 1);
    for (int p = 0; p < parts.n_parts; p++) {
        error_clear(&work->errors[p]);
        arena_defer(w->arena, free_part, work->arenas[p] = arena_new(NULL, "text map"));
    }
    if (!team_rows(&w->job->team, &parts, map_part, work)) return canceled(w);
    for (int p = 0; p < parts.n_parts; p++)
        if (work->errors[p].status) {
            *w->err = work->errors[p];
            return w->err->status;
        }
    return WEFT_OK;
}

// ---- the map --------------------------------------------------------------------------------------------------------

static weft_status intern_results(Weaver *w, const MapWork *work, u32 n_codes, TextMap *map)
{
    i32 *codes = arena_array(w->arena, i32, n_codes + 1);
    arena_defer(w->arena, release_dict, map->dict = dict_new());
    for (u32 code = 0; code < n_codes; code++) {
        const Value *result = &work->results[code];
        u32          found = 0;
        if (!(code & 255) && team_is_stopped(&w->job->team)) return canceled(w);
        codes[code] = -1;
        map->has_null |= result->is_null;
        if (result->is_null) continue;
        TRY(dict_intern(map->dict, result->text.bytes, result->text.length, &found, w->err));
        codes[code] = (i32)found;
    }
    map->codes = codes;
    map->dict_count = dict_count(map->dict);
    return WEFT_OK;
}

static bool has_constants(const Expr *call)
{
    for (int i = 1; i < call->n_args; i++)
        if (call->args[i]->kind != EXPR_CONST) return false;
    return true;
}

weft_status text_map_make(Weaver *w, const Expr *call, const Dictionary *from, u32 from_count, TextMap *map)
{
    MapWork work = { .call = call, .from = from };
    if (!has_constants(call))
        return fail(w->err, WEFT_UNSUPPORTED, call->at, "%s with arguments that are not constants is not supported yet",
                    function_of(call->op)->names[0]);
    *map = (TextMap){ .call = call, .from_count = from_count };
    work.results = arena_array(w->arena, Value, from_count + 1);
    TRY(map_all(w, &work, from_count));
    return intern_results(w, &work, from_count, map);
}
