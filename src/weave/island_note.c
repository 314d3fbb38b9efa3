// island_note.c - islands that are kept with the dictionary of their column, for the next pipeline that has the same.
//
// The key is the expression with its constants; the column is the dictionary's.  Left out is what depends on more than
// the text (casts to dates know 'today'), what fails for some text, and what makes many texts of its own, which would
// take memory for as long as the dictionary is there.

#include "plan/functions.h"
#include "weave/island_note.h"

enum { MADE_TEXTS = 1 << 12, MADE_BYTES = 1 << 20 };       // of the results, at most

// ---- the key --------------------------------------------------------------------------------------------------------

static void add(Text *key, const void *bytes, size_t length) { text_add_bytes(key, bytes, length); }

static void add_constant(Text *key, const Value *value)
{
    const u64 length = value->type.kind == TYPE_TEXT && !value->is_null ? value->text.length : 0;
    add(key, &value->is_null, sizeof value->is_null);
    if (value->is_null) return;
    if (value->type.kind != TYPE_TEXT) {
        add(key, &value->i, type_is_float(value->type) ? sizeof value->f : sizeof value->i);
        return;
    }
    add(key, &length, sizeof length);
    add(key, value->text.bytes, length);
}

static bool add_expr(Text *key, const Expr *expr)
{
    const int head[] = { (int)expr->kind, expr->type.kind, expr->type.precision, expr->type.scale,
                         expr->kind == EXPR_CALL ? (int)expr->op : 0, expr->n_args };
    if (expr->kind == EXPR_PARAM || type_is_time(expr->type) || expr->type.kind == TYPE_NULL) return false;
    add(key, head, sizeof head);
    if (expr->kind == EXPR_CONST) add_constant(key, &expr->value);
    for (int i = 0; i < expr->n_args; i++)
        if (!add_expr(key, expr->args[i])) return false;
    return true;
}

// ---- how values are stored ------------------------------------------------------------------------------------------

#define FORM_FACTS(form, name, type, width) [form] = { name, width },

static const struct { const char *name; size_t width; } FORMS[] = { ISLAND_FORM_LIST(FORM_FACTS) };

const char *island_form_name(IslandForm form) { return FORMS[form].name; }
size_t      island_width(IslandForm form) { return FORMS[form].width; }

// ---- find and keep --------------------------------------------------------------------------------------------------

typedef struct NoteHead {
    Range      range;
    IslandForm form;
    u32        dict_count;
    bool       has_null, null_is_null, has_states;
} NoteHead;

static size_t values_at(void) { return (sizeof(NoteHead) + 63) / 64 * 64; }

static u64 values_bytes(const Island *island) { return ((u64)island->n_codes + 1) * island_width(island->form); }

static void read_note(const DictNote *note, Island *island)
{
    NoteHead    head;
    const u8   *bytes = note->bytes;
    memcpy(&head, bytes, sizeof head);
    island->range = head.range;
    island->has_null = head.has_null, island->null_is_null = head.null_is_null;
    island->form = head.form;
    island->values = bytes + values_at();
    island->states = head.has_states ? bytes + values_at() + values_bytes(island) : NULL;
    island->dict = note->made, island->dict_count = head.dict_count;
}

typedef struct HeldNote { Dictionary *dict; const DictNote *note; } HeldNote;

static void release_note(void *context)
{
    const HeldNote *held = context;
    dict_note_release(held->dict, held->note);
    dict_release(held->dict);
}

bool island_note_find(Arena *arena, Dictionary *dict, Island *island)
{
    Text            key = { 0 };
    const DictNote *note = NULL;
    if (add_expr(&key, island->expr)) note = dict_note_find(dict, island->n_codes, key.bytes, key.length);
    text_free(&key);
    if (!note) return false;
    HeldNote *held = arena_make(arena, HeldNote);
    *held = (HeldNote){ dict_hold(dict), note };
    arena_defer(arena, release_note, held);
    read_note(note, island);
    return true;
}

static bool makes_few(const Island *island)
{
    u64 bytes = 0;
    if (island->error || (island->dict && island->dict_count > MADE_TEXTS)) return false;
    for (u32 code = 0; island->dict && code < island->dict_count; code++)
        bytes += dict_get(island->dict, code).length;
    return bytes <= MADE_BYTES;
}

static void put_note(Arena *scratch, Dictionary *dict, const Island *island, const Text *key)
{
    const u64 states_at = values_at() + values_bytes(island);
    const u64 size = states_at + (island->states ? (u64)island->n_codes + 1 : 0);
    u8       *bytes = arena_alloc(scratch, size);
    NoteHead *head = arena_make(scratch, NoteHead);
    *head = (NoteHead){ island->range, island->form, island->dict_count, island->has_null, island->null_is_null,
                        island->states != NULL };
    memcpy(bytes, head, sizeof *head);
    memcpy(bytes + values_at(), island->values, values_bytes(island));
    if (island->states) memcpy(bytes + states_at, island->states, size - states_at);
    dict_note_put(dict, island->n_codes, key->bytes, key->length, (DictNote){ bytes, size, island->dict });
}

void island_note_keep(Dictionary *dict, const Island *island)
{
    Text   key = { 0 };
    Arena *scratch = arena_new(NULL, "island note");
    if (makes_few(island) && add_expr(&key, island->expr)) put_note(scratch, dict, island, &key);
    arena_free(scratch);
    text_free(&key);
}
