// gen_tpch_text.c - the text that TPC-H's comments are cut from.
//
// A grammar with weights (TPC-H specification, 4.2.2.10 and 4.2.2.14) makes sentences until 300 MiB are full; a comment
// is a piece of it, from a random place and of a random length.
//
//     sentence -> N V P T    noun phrase, verb phrase, prepositional phrase, terminator
//     N        -> D J N      adverb, adjective, noun:   "slyly final foxes "
//     V        -> V D        verb, adverb:              "cajole furiously "
//     P        -> P the N    preposition, noun phrase:  "above the even theodolites "
//     T        -> .          in place of the last blank, then a blank
//
// Sentences draw different numbers of random numbers, so where in the stream a sentence begins is known only once all
// sentences before it are made.  Workers still make pieces of the stream side by side.  A worker that begins to read
// inside a sentence makes wrong sentences at first; as soon as one of them ends where a right one ends, all that follow
// are right.  That took at most 747 numbers in some 3000 trials, so a worker begins 4096 before its piece:
//
//     stream     |        piece 0        |        piece 1        |        piece 2        | ...
//     worker 1                     ~~~~~~|-----------------------|-->     thrown away, then kept
//
// The numbers are always the same, so what worked once works always.  An assertion checks it all the same: a piece
// begins at the number behind the last sentence of the piece before.

#include <assert.h>

#include "shell/gen_tpch_int.h"

typedef struct Weighted { const char *text; int weight; } Weighted;

static const Weighted nouns[] = {
    { "packages", 40 },    { "requests", 40 },  { "accounts", 40 },     { "deposits", 40 },     { "foxes", 20 },
    { "ideas", 20 },       { "theodolites", 20 }, { "pinto beans", 20 }, { "instructions", 20 }, { "dependencies", 10 },
    { "excuses", 10 },     { "platelets", 10 }, { "asymptotes", 10 },   { "courts", 5 },        { "dolphins", 5 },
    { "multipliers", 1 },  { "sauternes", 1 },  { "warthogs", 1 },      { "frets", 1 },         { "dinos", 1 },
    { "attainments", 1 },  { "somas", 1 },      { "Tiresias", 1 },      { "patterns", 1 },      { "forges", 1 },
    { "braids", 1 },       { "frays", 1 },      { "warhorses", 1 },     { "dugouts", 1 },       { "notornis", 1 },
    { "epitaphs", 1 },     { "pearls", 1 },     { "tithes", 1 },        { "waters", 1 },        { "orbits", 1 },
    { "gifts", 1 },        { "sheaves", 1 },    { "depths", 1 },        { "sentiments", 1 },    { "decoys", 1 },
    { "realms", 1 },       { "pains", 1 },      { "grouches", 1 },      { "escapades", 1 },     { "hockey players", 1 },
};

static const Weighted verbs[] = {
    { "sleep", 20 },  { "wake", 20 },    { "are", 20 },      { "cajole", 20 },   { "haggle", 20 },  { "nag", 10 },
    { "use", 10 },    { "boost", 10 },   { "affix", 5 },     { "detect", 5 },    { "integrate", 5 }, { "maintain", 1 },
    { "nod", 1 },     { "was", 1 },      { "lose", 1 },      { "sublate", 1 },   { "solve", 1 },    { "thrash", 1 },
    { "promise", 1 }, { "engage", 1 },   { "hinder", 1 },    { "print", 1 },     { "x-ray", 1 },    { "breach", 1 },
    { "eat", 1 },     { "grow", 1 },     { "impress", 1 },   { "mold", 1 },      { "poach", 1 },    { "serve", 1 },
    { "run", 1 },     { "dazzle", 1 },   { "snooze", 1 },    { "doze", 1 },      { "unwind", 1 },   { "kindle", 1 },
    { "play", 1 },    { "hang", 1 },     { "believe", 1 },   { "doubt", 1 },
};

static const Weighted adverbs[] = {
    { "sometimes", 1 },  { "always", 1 },     { "never", 1 },   { "furiously", 50 }, { "slyly", 50 },
    { "carefully", 50 }, { "blithely", 40 },  { "quickly", 30 }, { "fluffily", 20 }, { "slowly", 1 },
    { "quietly", 1 },    { "ruthlessly", 1 }, { "thinly", 1 },  { "closely", 1 },    { "doggedly", 1 },
    { "daringly", 1 },   { "bravely", 1 },    { "stealthily", 1 }, { "permanently", 1 }, { "enticingly", 1 },
    { "idly", 1 },       { "busily", 1 },     { "regularly", 1 }, { "finally", 1 },  { "ironically", 1 },
    { "evenly", 1 },     { "boldly", 1 },     { "silently", 1 },
};

static const Weighted adjectives[] = {
    { "special", 20 }, { "pending", 20 }, { "unusual", 20 }, { "express", 20 }, { "furious", 1 },   { "sly", 1 },
    { "careful", 1 },  { "blithe", 1 },   { "quick", 1 },    { "fluffy", 1 },   { "slow", 1 },      { "quiet", 1 },
    { "ruthless", 1 }, { "thin", 1 },     { "close", 1 },    { "dogged", 1 },   { "daring", 1 },    { "brave", 1 },
    { "stealthy", 1 }, { "permanent", 1 }, { "enticing", 1 }, { "idle", 1 },    { "busy", 1 },      { "regular", 50 },
    { "final", 40 },   { "ironic", 40 },  { "even", 30 },    { "bold", 20 },    { "silent", 10 },
};

static const Weighted prepositions[] = {
    { "about", 50 },   { "above", 50 },     { "according to", 50 }, { "across", 50 }, { "after", 50 },
    { "against", 40 }, { "along", 40 },     { "alongside of", 30 }, { "among", 30 },  { "around", 20 },
    { "at", 10 },      { "atop", 1 },       { "before", 1 },        { "behind", 1 },  { "beneath", 1 },
    { "beside", 1 },   { "besides", 1 },    { "between", 1 },       { "beyond", 1 },  { "by", 1 },
    { "despite", 1 },  { "during", 1 },     { "except", 1 },        { "for", 1 },     { "from", 1 },
    { "in place of", 1 }, { "inside", 1 },  { "instead of", 1 },    { "into", 1 },    { "near", 1 },
    { "of", 1 },       { "on", 1 },         { "outside", 1 },       { "over", 1 },    { "past", 1 },
    { "since", 1 },    { "through", 1 },    { "throughout", 1 },    { "to", 1 },      { "toward", 1 },
    { "under", 1 },    { "until", 1 },      { "up", 1 },            { "upon", 1 },    { "whithout", 1 },
    { "with", 1 },     { "within", 1 },
};

static const Weighted auxiliaries[] = {
    { "do", 1 },       { "may", 1 },        { "might", 1 },        { "shall", 1 },        { "will", 1 },
    { "would", 1 },    { "can", 1 },        { "could", 1 },        { "should", 1 },       { "ought to", 1 },
    { "must", 1 },     { "will have to", 1 }, { "shall have to", 1 }, { "could have to", 1 }, { "should have to", 1 },
    { "must have to", 1 }, { "need to", 1 }, { "try to", 1 },
};

static const Weighted terminators[] = { { ".", 50 }, { ";", 1 }, { ":", 1 }, { "?", 1 }, { "!", 1 }, { "--", 1 } };

// Phrases in a sentence: N, V, P as above, T the terminator.
static const Weighted sentences[] = { { "NVT", 3 }, { "NVPT", 3 }, { "NVNT", 3 }, { "NPVNT", 1 }, { "NPVPT", 1 } };

// Words in a phrase: N noun, J adjective, D adverb, V verb, X auxiliary; a comma stands behind the word before.
static const Weighted noun_phrases[] = { { "N", 10 }, { "JN", 20 }, { "J,JN", 10 }, { "DJN", 50 } };
static const Weighted verb_phrases[] = { { "V", 30 }, { "XV", 1 }, { "VD", 40 }, { "XVD", 1 } };

// ---- choices --------------------------------------------------------------------------------------------------------

enum {
    WEIGHT_MAX = 512,                  // of a choice; the prepositions weigh 456
    MEMBERS_MAX = 48,
    MEMBER_BYTES = 16,                 // the longest word and a blank; copied whole, which is one instruction
    PIECE_DRAWS = 1 << 18,             // of the stream, for one worker: about 1.3 MB of text
    PIECE_BYTES = PIECE_DRAWS * 8,     // room for it and more
    EARLY_DRAWS = 1 << 12              // read before a piece, to find where a sentence begins
};

typedef struct Member { char bytes[MEMBER_BYTES]; size_t length; } Member;

// A list, ready to be drawn from: an even draw among WEIGHT places, each of which names a member.
typedef struct WeightedChoice {
    double weight;
    u8     places[WEIGHT_MAX];
    Member members[MEMBERS_MAX];
} WeightedChoice;

typedef struct Grammar {
    WeightedChoice nouns, verbs, adverbs, adjectives, prepositions, auxiliaries, terminators;
    WeightedChoice sentences, noun_phrases, verb_phrases;
} Grammar;

// TAIL goes behind every member.
static void make_choice(WeightedChoice *choice, const Weighted *list, int n_members, const char *tail)
{
    int weight = 0;
    for (int i = 0; i < n_members; i++) {
        Member *member = &choice->members[i];
        size_t length = strlen(list[i].text), tail_length = strlen(tail);
        memcpy(member->bytes, list[i].text, length);
        memcpy(member->bytes + length, tail, tail_length);
        member->length = length + tail_length;
        memset(choice->places + weight, i, (size_t)list[i].weight);
        weight += list[i].weight;
    }
    choice->weight = weight;
}

static Grammar *make_grammar(Arena *arena)
{
    Grammar *grammar = arena_make(arena, Grammar);
#define CHOICE(name, tail) make_choice(&grammar->name, name, COUNT_OF(name), tail)
    CHOICE(nouns, " ");
    CHOICE(verbs, " ");
    CHOICE(adverbs, " ");
    CHOICE(adjectives, " ");
    CHOICE(prepositions, " ");
    CHOICE(auxiliaries, " ");
    CHOICE(terminators, " ");
    CHOICE(sentences, "");
    CHOICE(noun_phrases, "");
    CHOICE(verb_phrases, "");
#undef CHOICE
    return grammar;
}

typedef struct Draws { RandomStream stream; u64 n_draws; } Draws;         // draws from the beginning of the stream

static inline const Member *draw_member(Draws *source, const WeightedChoice *choice)
{
    source->n_draws++;
    return &choice->members[choice->places[stream_share(&source->stream, choice->weight)]];
}

// ---- sentences ------------------------------------------------------------------------------------------------------
// Each writes at TO and returns the place behind.  Up to MEMBER_BYTES behind that may be overwritten.

static inline char *put_word(char *to, Draws *source, const WeightedChoice *choice)
{
    const Member *member = draw_member(source, choice);
    memcpy(to, member->bytes, MEMBER_BYTES);
    return to + member->length;
}

static char *put_noun_phrase(const Grammar *grammar, char *to, Draws *source)
{
    for (const char *word = draw_member(source, &grammar->noun_phrases)->bytes; *word; word++) {
        switch (*word) {
        case 'N': to = put_word(to, source, &grammar->nouns); break;
        case 'J': to = put_word(to, source, &grammar->adjectives); break;
        case 'D': to = put_word(to, source, &grammar->adverbs); break;
        default:
            to[-1] = ',';
            *to++ = ' ';
        }
    }
    return to;
}

static char *put_verb_phrase(const Grammar *grammar, char *to, Draws *source)
{
    for (const char *word = draw_member(source, &grammar->verb_phrases)->bytes; *word; word++) {
        switch (*word) {
        case 'V': to = put_word(to, source, &grammar->verbs); break;
        case 'X': to = put_word(to, source, &grammar->auxiliaries); break;
        default: to = put_word(to, source, &grammar->adverbs);
        }
    }
    return to;
}

static char *put_prepositional_phrase(const Grammar *grammar, char *to, Draws *source)
{
    to = put_word(to, source, &grammar->prepositions);
    memcpy(to, "the ", 4);
    return put_noun_phrase(grammar, to + 4, source);
}

static char *put_sentence(const Grammar *grammar, char *to, Draws *source)
{
    for (const char *phrase = draw_member(source, &grammar->sentences)->bytes; *phrase; phrase++) {
        switch (*phrase) {
        case 'N': to = put_noun_phrase(grammar, to, source); break;
        case 'V': to = put_verb_phrase(grammar, to, source); break;
        case 'P': to = put_prepositional_phrase(grammar, to, source); break;
        default: to = put_word(to - 1, source, &grammar->terminators);
        }
    }
    return to;
}

// ---- pieces ---------------------------------------------------------------------------------------------------------

typedef struct TextMaker {
    const Grammar  *grammar;
    char           *text;
    char           *rooms;             // PIECE_BYTES for each worker
    _Atomic u64     next_piece;        // to be made
    pthread_mutex_t mutex;             // all below
    pthread_cond_t  turn;
    u64             n_pieces;          // that have their place in the text
    size_t          length;            // of these pieces; the text is complete when it reaches TPCH_TEXT_BYTES
    u64             n_draws;           // they took
} TextMaker;

static Draws enter_stream(u64 n_draws)
{
    RandomStream streams[STREAM_N];
    streams_enter(streams, STREAM_TEXT, STREAM_TEXT, n_draws);
    return (Draws){ streams[STREAM_TEXT], n_draws };
}

typedef struct Made { size_t length; u64 first_draw, last_draw; } Made;

// The sentences that begin in a piece of the stream.
static Made make_piece(const Grammar *grammar, u64 piece, char *room)
{
    u64 first = piece * PIECE_DRAWS;
    Draws source = enter_stream(piece > 0 ? first - EARLY_DRAWS : 0);
    while (source.n_draws < first)
        put_sentence(grammar, room, &source);
    Made made = { .first_draw = source.n_draws };
    char *to = room;
    while (source.n_draws < first + PIECE_DRAWS)
        to = put_sentence(grammar, to, &source);
    made.length = (size_t)(to - room);
    made.last_draw = source.n_draws;
    return made;
}

// Copies a piece to its place, which is known once the pieces before it have theirs.  Those are in work already, so
// waiting is safe.  False: the text is complete.
static bool place_piece(TextMaker *maker, u64 piece, const char *room, const Made *made)
{
    pthread_mutex_lock(&maker->mutex);
    while (maker->n_pieces != piece)
        pthread_cond_wait(&maker->turn, &maker->mutex);
    size_t place = MIN_OF(maker->length, (size_t)TPCH_TEXT_BYTES);
    assert(made->first_draw == maker->n_draws);
    maker->n_pieces++;
    maker->length += made->length;
    maker->n_draws = made->last_draw;
    pthread_cond_broadcast(&maker->turn);
    pthread_mutex_unlock(&maker->mutex);
    memcpy(maker->text + place, room, MIN_OF(made->length, TPCH_TEXT_BYTES - place));
    return place + made->length < TPCH_TEXT_BYTES;
}

static void make_pieces(void *context, int worker)
{
    TextMaker *maker = context;
    char *room = maker->rooms + (size_t)worker * PIECE_BYTES;
    u64 piece;
    Made made;
    do {
        piece = atomic_fetch_add(&maker->next_piece, 1);
        made = make_piece(maker->grammar, piece, room);
    } while (place_piece(maker, piece, room, &made));
}

static void make_text(Pool *pool, char *text, char *rooms)
{
    Arena *arena = arena_new(NULL, "grammar");
    TextMaker maker = { .grammar = make_grammar(arena), .text = text, .rooms = rooms };
    pthread_mutex_init(&maker.mutex, NULL);
    pthread_cond_init(&maker.turn, NULL);
    pool_run(pool, pool_size(pool), make_pieces, &maker);
    pthread_cond_destroy(&maker.turn);
    pthread_mutex_destroy(&maker.mutex);
    arena_free(arena);
}

weft_status tpch_text_make(Pool *pool, const char **text, Error *err)
{
    size_t rooms_bytes = (size_t)pool_size(pool) * PIECE_BYTES;
    void *memory, *rooms;
    TRY(mem_alloc(NULL, TPCH_TEXT_BYTES, &memory, err));
    weft_status status = mem_alloc(NULL, rooms_bytes, &rooms, err);
    if (!status) {
        make_text(pool, memory, rooms);
        mem_free(NULL, rooms, rooms_bytes);
        *text = memory;
    } else {
        mem_free(NULL, memory, TPCH_TEXT_BYTES);
    }
    return status;
}

void tpch_text_free(const char *text)
{
    mem_free(NULL, (void *)text, TPCH_TEXT_BYTES);
}
