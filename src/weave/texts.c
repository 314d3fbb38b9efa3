// texts.c - kernel texts, found again by what they are printed from.
//
// Queries that differ in constants have the same text, and to print it took a third of the time of weaving.  So what
// print.c looks at is written down in a few hundred bytes, and under these bytes the text is kept for the next query:
//
//     Ir  ->  key  ->  shelf  ->  key equal: its name and text          else ir_print, and the shelf holds this one
//
// A key holds everything of an Ir that ir_print reads for one query: two kernels with equal keys have equal texts.
// If you make print.c read another field, add the field to the key here.  All tests set WEFT_CHECK_TEXTS: each text
// that is found is then printed as well, and the process ends if the two differ.
//
// A shelf holds the latest text only, so what is kept is bounded.  A text is copied under the lock, so it may be
// replaced at any time.

#include "weave/weave_int.h"

#include <pthread.h>
#include <stdlib.h>

enum { N_SHELVES = 1024, N_LOCKS = 64 };
enum { KEY_MOST = 6 << 10, TEXT_MOST = 12 << 10, NAME_BYTES = 20 };            // larger ones are not kept

typedef struct KeptText {
    u64    hash;                       // of the key
    size_t n_key, n_text;
    char   name[NAME_BYTES];
    char   bytes[];                    // key, then text with its NUL
} KeptText;

static KeptText           *shelves[N_SHELVES];
static pthread_mutex_t locks[N_LOCKS];
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static bool            is_checked;     // what is found is printed again

static void set_up(void)
{
    is_checked = getenv("WEFT_CHECK_TEXTS") != NULL;
    for (int l = 0; l < N_LOCKS; l++) pthread_mutex_init(&locks[l], NULL);
}

// ---- keys -----------------------------------------------------------------------------------------------------------

typedef struct WovenKey { size_t length; bool is_too_long; char bytes[KEY_MOST]; } WovenKey;

static void add(WovenKey *key, const void *bytes, size_t length)
{
    key->is_too_long |= length > sizeof key->bytes - key->length;
    if (key->is_too_long || length == 0) return;           // of nothing BYTES may be NULL
    memcpy(key->bytes + key->length, bytes, length);
    key->length += length;
}

// No text begins as another one with something behind it, so what follows cannot be taken for a part of it.
static void add_text(WovenKey *key, const char *text)
{
    add(key, text ? "+" : "-", 1);
    if (text) add(key, text, strlen(text) + 1);
}

#define ADD_NUMBERS(key, ...) add((key), (const int[]){ __VA_ARGS__ }, sizeof((const int[]){ __VA_ARGS__ }))

static void add_heads(WovenKey *key, const Ir *ir)
{
    add_text(key, ir->title);
    ADD_NUMBERS(key, ir->n_decls, ir->n_columns, ir->n_steps, ir->n_dims, ir->class_bytes, ir->first_class,
                ir->first_param);
    add(key, ir->dims, (size_t)ir->n_dims * sizeof *ir->dims);
    for (int d = 0; d < ir->n_decls; d++) {
        ADD_NUMBERS(key, ir->decls[d].kind, ir->decls[d].number);
        add_text(key, ir->decls[d].type);
        add_text(key, ir->decls[d].name);
    }
    for (int c = 0; c < ir->n_columns; c++)
        ADD_NUMBERS(key, ir->columns[c].decl, ir->columns[c].load, ir->columns[c].has_nulls);
}

static void add_step(WovenKey *key, const Step *step)
{
    const char *const texts[] = { step->word,  step->text, step->keep, step->live,
                                  step->inner, step->row,  step->next, step->hit };
    ADD_NUMBERS(key, step->kind, step->n_carries, step->first_column, step->end_column, step->is_unsure,
                step->is_dense, step->is_on_mask, step->count);
    add(key, step->carries, (size_t)step->n_carries * sizeof *step->carries);
    for (int t = 0; t < COUNT_OF(texts); t++) add_text(key, texts[t]);
}

static void add_sink(WovenKey *key, const IrSink *sink)
{
    ADD_NUMBERS(key, sink->kind, sink->groups, sink->n_accumulators, sink->rows, sink->first_column, sink->end_column,
                sink->n_outs, sink->notes != NULL);
    add_text(key, sink->live);
    add_text(key, sink->keys);
    add_text(key, sink->adds);
    for (int a = 0; a < sink->n_accumulators; a++) {
        ADD_NUMBERS(key, sink->accumulators[a].slot, sink->accumulators[a].kind);
        add_text(key, sink->accumulators[a].type);
    }
    for (int o = 0; o < sink->n_outs; o++)
        ADD_NUMBERS(key, sink->outs[o].value, sink->outs[o].null, sink->outs[o].is_float,
                    sink->notes ? sink->notes[o] : 0);
}

static void key_of(const Ir *ir, WovenKey *key)
{
    key->length = 0, key->is_too_long = false;
    add_heads(key, ir);
    for (int s = 0; s < ir->n_steps; s++) add_step(key, &ir->steps[s]);
    add_sink(key, &ir->sink);
}

// ---- shelves --------------------------------------------------------------------------------------------------------

static bool is_it(const KeptText *kept, const WovenKey *key, u64 hash)
{
    return kept && kept->hash == hash && kept->n_key == key->length &&
           memcmp(kept->bytes, key->bytes, key->length) == 0;
}

static bool find(Arena *arena, const WovenKey *key, u64 hash, const char **name, const char **text)
{
    pthread_mutex_t *lock = &locks[hash % N_LOCKS];
    pthread_mutex_lock(lock);
    const KeptText *kept = shelves[hash % N_SHELVES];
    const bool  found = is_it(kept, key, hash);
    if (found) {
        *name = arena_strdup(arena, kept->name);
        *text = arena_strndup(arena, kept->bytes + kept->n_key, kept->n_text);
    }
    pthread_mutex_unlock(lock);
    return found;
}

static void keep(const WovenKey *key, u64 hash, const char *name, const char *text)
{
    pthread_mutex_t *lock = &locks[hash % N_LOCKS];
    const size_t     n_text = strlen(text);
    if (n_text > TEXT_MOST || strlen(name) >= NAME_BYTES) return;
    KeptText *kept = malloc(sizeof *kept + key->length + n_text + 1);
    if (!kept) return;
    kept->hash = hash, kept->n_key = key->length, kept->n_text = n_text;
    memcpy(kept->name, name, strlen(name) + 1);
    memcpy(kept->bytes, key->bytes, key->length);
    memcpy(kept->bytes + key->length, text, n_text + 1);
    pthread_mutex_lock(lock);
    KeptText *old = shelves[hash % N_SHELVES];
    shelves[hash % N_SHELVES] = kept;
    pthread_mutex_unlock(lock);
    free(old);
}

// ---- texts ----------------------------------------------------------------------------------------------------------

// The name is the hash of the text with '@' in its place.
static void print(Arena *arena, const Ir *ir, const char **name, const char **text)
{
    Text printed = { 0 };
    ir_print(ir, "@", &printed);
    const char  *at = strchr(printed.bytes, '@');
    char        *own = arena_printf(arena, "p_%016llx", (unsigned long long)hash_bytes(printed.bytes, printed.length));
    const size_t n_before = (size_t)(at - printed.bytes), n_name = strlen(own), n_behind = strlen(at + 1);
    char        *bytes = arena_alloc(arena, n_before + n_name + n_behind + 1);
    memcpy(bytes, printed.bytes, n_before);
    memcpy(bytes + n_before, own, n_name);
    memcpy(bytes + n_before + n_name, at + 1, n_behind);
    *name = own, *text = bytes;
    text_free(&printed);
}

static bool is_as_printed(const Ir *ir, const char *name, const char *text)
{
    Arena      *arena = arena_new(NULL, "kernel text again");
    const char *name_again, *text_again;
    print(arena, ir, &name_again, &text_again);
    const bool is_equal = strcmp(name, name_again) == 0 && strcmp(text, text_again) == 0;
    arena_free(arena);
    return is_equal;
}

void texts_get(Arena *arena, const Ir *ir, const char **name, const char **text)
{
    WovenKey key;
    key_of(ir, &key);
    if (key.is_too_long) {
        print(arena, ir, name, text);
        return;
    }
    const u64 hash = hash_bytes(key.bytes, key.length);
    pthread_once(&once, set_up);
    if (find(arena, &key, hash, name, text)) {
        const bool is_sound = !is_checked || is_as_printed(ir, *name, *text);
        ASSERT(is_sound);
        return;
    }
    print(arena, ir, name, text);
    keep(&key, hash, *name, *text);
}
