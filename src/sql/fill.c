// fill.c - a parse tree that was made for one text, filled in for another one of the same shape.
//
// Texts of one shape (shape.c) have the same tokens but for the values of their literals.  So their trees differ in two
// things: the constants, and the places in the text, each of which is where a token begins.  Both are found once, in
// the tree and the text that it was made from, and written anew for each text:
//
//     place:  int *field, token number                         *field = shape->starts[token]
//     site:   constant of the tree, literal number             -5 is one constant, at the place of its minus
//
// Nothing is taken on trust: a constant must lie at its literal's token and have the literal's value.  A literal
// without such a constant is fixed (the 24 of float(24) decides for a type while it is parsed): a text with another one
// has another tree.  A tree with a place where no token begins is not for other texts at all.  What is filled in is
// byte for byte the tree that libpg_query would make (tests/unit/test_shape.c).

#include "sql/sql_int.h"

#include <stddef.h>

typedef struct PlaceField { i32 *field; int token; } PlaceField;

typedef struct Site {
    PgQuery__AConst *constant;         // NULL: the literal is fixed
    bool             is_negated;
    char            *buffer;           // of its text or digits
    size_t           capacity;
    const char      *fixed;            // the bytes that it must have
    size_t           fixed_length;
} Site;

struct TreeFields {
    int         n_places, n_sites;
    PlaceField *places;
    Site       *sites;                 // as many as the shape has literals
    const char *text;                  // not NULL: it is good for this text only
};

typedef struct Finder {                // at work on a tree
    Arena           *arena;
    const TextShape *shape;
    TreeFields      *fields;
    bool             has_failed;
} Finder;

// ---- what a literal means -------------------------------------------------------------------------------------------

// The text between the quotes, where two are one.  TO has room for the literal.
static void unquote(const Literal *literal, char *to)
{
    for (const char *c = literal->bytes + 1, *end = literal->bytes + literal->length - 1; c < end; c++) {
        *to++ = *c;
        c += *c == '\'';
    }
    *to = 0;
}

// TO has room for a minus and the literal.
static void copy_digits(const Literal *literal, bool is_negated, char *to)
{
    if (is_negated) *to++ = '-';
    memcpy(to, literal->bytes, literal->length);
    to[literal->length] = 0;
}

const char *literal_bytes(Arena *arena, const Literal *literal, bool is_negated)
{
    char *bytes = arena_alloc(arena, literal->length + 2);
    if (literal->kind == LITERAL_TEXT) unquote(literal, bytes);
    else copy_digits(literal, is_negated, bytes);
    return bytes;
}

static bool is_same(Arena *arena, const PgQuery__AConst *constant, const Literal *literal, bool is_negated)
{
    char *bytes = arena_alloc(arena, literal->length + 2);
    if (constant->isnull) return false;
    switch (literal->kind) {
        case LITERAL_INTEGER:
            return constant->val_case == PG_QUERY__A__CONST__VAL_IVAL &&
                   constant->ival->ival == (is_negated ? -literal->number : literal->number);
        case LITERAL_NUMBER:
            copy_digits(literal, is_negated, bytes);
            return constant->val_case == PG_QUERY__A__CONST__VAL_FVAL && strcmp(constant->fval->fval, bytes) == 0;
        case LITERAL_TEXT:
            unquote(literal, bytes);
            return !is_negated && constant->val_case == PG_QUERY__A__CONST__VAL_SVAL &&
                   strcmp(constant->sval->sval, bytes) == 0;
        default: return false;
    }
}

// The token that begins at PLACE; -1: none does.
int shape_token_at(const TextShape *shape, int place)
{
    int low = 0, high = shape->n_tokens;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (shape->starts[middle] < place) low = middle + 1;
        else high = middle;
    }
    return low < shape->n_tokens && shape->starts[low] == place ? low : -1;
}

static int literal_at(const TextShape *shape, int token)
{
    int low = 0, high = shape->n_literals;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (shape->literals[middle].token < token) low = middle + 1;
        else high = middle;
    }
    return low < shape->n_literals && shape->literals[low].token == token ? low : -1;
}

int shape_literal_at(const TextShape *shape, int place, bool *is_negated)
{
    const int token = place < 0 ? -1 : shape_token_at(shape, place);
    *is_negated = token >= 0 && shape->text[shape->starts[token]] == '-';
    return token < 0 ? -1 : literal_at(shape, token + *is_negated);
}

int shape_literal_of(Arena *arena, const TextShape *shape, const PgQuery__AConst *constant, bool *is_negated)
{
    const int number = shape_literal_at(shape, constant->location, is_negated);
    return number >= 0 && is_same(arena, constant, &shape->literals[number], *is_negated) ? number : -1;
}

// ---- finding --------------------------------------------------------------------------------------------------------

// 0 and less: a node without a place of its own, or one at the text's first byte.  Whether the first token is there is
// part of the key, so either stays as it is.
static void note_place(Finder *finder, i32 *field)
{
    if (*field <= 0) return;
    const int token = shape_token_at(finder->shape, *field);
    if (token < 0) finder->has_failed = true;
    else *LIST_PUSH(finder->arena, finder->fields->places, finder->fields->n_places) = (PlaceField){ field, token };
}

// The length of a statement is where its ';' is, if the statement begins where the text does; 0: there is none.
static void note_length(Finder *finder, const ProtobufCMessage *message, i32 *field)
{
    const bool is_raw = message->descriptor == &pg_query__raw_stmt__descriptor;
    if (!is_raw || ((const PgQuery__RawStmt *)message)->stmt_location != 0) finder->has_failed = true;
    note_place(finder, field);
}

static void note_constant(Finder *finder, PgQuery__AConst *constant)
{
    bool      is_negated;
    const int number = shape_literal_at(finder->shape, constant->location, &is_negated);
    if (number < 0) return;
    Site *site = &finder->fields->sites[number];
    if (site->constant) finder->has_failed = true;          // one literal, two constants: not known to happen
    if (is_same(finder->arena, constant, &finder->shape->literals[number], is_negated))
        *site = (Site){ .constant = constant, .is_negated = is_negated };
}

static void note_message(Finder *finder, ProtobufCMessage *message);

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (char *)message + offset;
}

static bool is_there(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const bool is_one_of = field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    return !is_one_of || *(u32 *)member(message, field->quantifier_offset) == field->id;
}

static void note_messages(Finder *finder, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        ProtobufCMessage *inner = *(ProtobufCMessage **)member(message, field->offset);
        if (inner) note_message(finder, inner);
        return;
    }
    const size_t       n = *(size_t *)member(message, field->quantifier_offset);
    ProtobufCMessage **inner = *(ProtobufCMessage ***)member(message, field->offset);
    for (size_t i = 0; i < n; i++) note_message(finder, inner[i]);
}

static void note_field(Finder *finder, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (!is_there(message, field)) return;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) note_messages(finder, message, field);
    if (field->type != PROTOBUF_C_TYPE_INT32 || field->label == PROTOBUF_C_LABEL_REPEATED) return;
    i32 *number = member(message, field->offset);
    if (strcmp(field->name, "location") == 0) note_place(finder, number);
    if (strcmp(field->name, "stmt_len") == 0) note_length(finder, message, number);
}

static void note_message(Finder *finder, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    if (descriptor == &pg_query__a__const__descriptor) note_constant(finder, (PgQuery__AConst *)message);
    for (unsigned f = 0; f < descriptor->n_fields; f++) note_field(finder, message, &descriptor->fields[f]);
}

// Literals that no constant stands for must stay what they are.
static void fix_others(Finder *finder)
{
    for (int i = 0; i < finder->shape->n_literals; i++) {
        const Literal *literal = &finder->shape->literals[i];
        Site          *site = &finder->fields->sites[i];
        if (site->constant) continue;
        site->fixed = arena_strndup(finder->arena, literal->bytes, literal->length);
        site->fixed_length = literal->length;
    }
}

TreeFields *tree_fields(Arena *arena, PgQuery__ParseResult *result, const TextShape *shape, bool is_exact)
{
    TreeFields *fields = arena_make(arena, TreeFields);
    Finder      finder = { .arena = arena, .shape = shape, .fields = fields };
    fields->n_sites = shape->n_literals;
    fields->sites = arena_array(arena, Site, shape->n_literals + 1);
    if (!is_exact && !shape->is_exact) note_message(&finder, &result->base);
    if (is_exact || finder.has_failed) fields->text = arena_strndup(arena, shape->text, shape->length);
    fix_others(&finder);
    return fields;
}

// ---- filling in -----------------------------------------------------------------------------------------------------

bool fields_suit(const TreeFields *fields, const TextShape *shape)
{
    if (fields->text) return strcmp(fields->text, shape->text) == 0;
    for (int i = 0; i < shape->n_literals; i++) {
        const Site    *site = &fields->sites[i];
        const Literal *literal = &shape->literals[i];
        if (site->constant) continue;
        if (site->fixed_length != literal->length || memcmp(site->fixed, literal->bytes, literal->length) != 0)
            return false;
    }
    return true;
}

static bool is_fixed_as(const Site *a, const Site *b)
{
    if (a->constant || b->constant) return a->constant && b->constant;
    return a->fixed_length == b->fixed_length && memcmp(a->fixed, b->fixed, a->fixed_length) == 0;
}

bool fields_equal(const TreeFields *a, const TreeFields *b)
{
    if (a->text || b->text) return a->text && b->text && strcmp(a->text, b->text) == 0;
    bool is_equal = a->n_sites == b->n_sites;
    for (int i = 0; is_equal && i < a->n_sites; i++) is_equal = is_fixed_as(&a->sites[i], &b->sites[i]);
    return is_equal;
}

// Lists double, so they may be half empty.
size_t fields_bytes(const TreeFields *fields)
{
    return sizeof *fields + (size_t)fields->n_sites * sizeof(Site) + 2 * (size_t)fields->n_places * sizeof(PlaceField);
}

// Room for LENGTH bytes and a NUL.  A buffer that was too small stays in the arena; the next one is twice as large.
static char *room_for(Arena *arena, Site *site, size_t length, size_t *bytes)
{
    if (length < site->capacity) return site->buffer;
    site->capacity = 2 * (length + 1);
    *bytes += site->capacity;
    return site->buffer = arena_alloc(arena, site->capacity);
}

static void fill_site(Arena *arena, Site *site, const Literal *literal, size_t *bytes)
{
    PgQuery__AConst *constant = site->constant;
    if (literal->kind == LITERAL_INTEGER) {
        constant->ival->ival = site->is_negated ? -literal->number : literal->number;
        return;
    }
    char *room = room_for(arena, site, literal->length + 1, bytes);
    if (literal->kind == LITERAL_TEXT) {
        unquote(literal, room);
        constant->sval->sval = room;
    } else {
        copy_digits(literal, site->is_negated, room);
        constant->fval->fval = room;
    }
}

size_t fields_fill(Arena *arena, TreeFields *fields, const TextShape *shape)
{
    size_t bytes = 0;
    if (fields->text) return 0;
    for (int i = 0; i < fields->n_places; i++) *fields->places[i].field = shape->starts[fields->places[i].token];
    for (int i = 0; i < shape->n_literals; i++)
        if (fields->sites[i].constant) fill_site(arena, &fields->sites[i], &shape->literals[i], &bytes);
    return bytes;
}
