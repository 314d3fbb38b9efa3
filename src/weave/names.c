// names.c - identifiers for kernel text, made of the names of columns and tables through a checked alphabet.

#include "weave/weave_int.h"

#include <stdio.h>

// Words of C, of tile C and of our own naming that a column must not take.  Tile C's macros are upper case: no clash.
static const char *const reserved[] = {
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "asm",
    "typeof",
    "i",
    "live",
    "group",
    "key",
    "words",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f32",
    "f64",
    "main",
    "linux",
    "unix",
    "class",
    "new",
    "template",
    "this",
    "operator",
    "bool",
    "true",
    "false",
    "namespace",
    "private",
    "public",
    "protected",
    "delete",
    "try",
    "catch",
    "throw",
    "friend",
    "virtual",
    "export",
    "mutable",
    "explicit",
    "using",
    "typename",
    "and",
    "or",
    "not",
    "xor",
    "bitand",
    "bitor",
    "compl",
    "wchar_t",
    "int8_t",
    "half",
    "min",
    "max",
    "abs",
    "printf",
    "assert",
    "clock",
    "and_eq",
    "or_eq",
    "xor_eq",
    "not_eq",
    "alignas",
    "alignof",
    "char8_t",
    "char16_t",
    "char32_t",
    "concept",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "co_await",
    "co_return",
    "co_yield",
    "decltype",
    "dynamic_cast",
    "noexcept",
    "nullptr",
    "reinterpret_cast",
    "requires",
    "static_assert",
    "static_cast",
    "thread_local",
    "typeid",
    "errno",
    "stdin",
    "stdout",
    "stderr",
};

// Temporaries, parameters and outputs (e1, e1_null, p2, o3) and all about live rows (live, live1, live_n) are ours.
static bool is_ours(const char *name)
{
    const size_t n_digits = strchr("epo", name[0]) ? strspn(name + 1, "0123456789") : 0;
    return (n_digits > 0 && (!name[1 + n_digits] || name[1 + n_digits] == '_')) || strncmp(name, "live", 4) == 0;
}

// Words derive further names from a column's, so two names clash where one is the other and such an ending.
static const char *const suffixes[] = { "_all",  "_base", "_valid", "_valid_all", "_col",    "_low",  "_span", "_row",
                                        "_at",   "_of",   "_null",  "_map",       "_mask",   "_next", "_n",    "_in",
                                        "_rows", "_u",    "_words", "_size",      "_picked", "_hit" };

// Both lists by hash, made once: every name of every kernel is looked up in them.
typedef enum WordMark { WORD_RESERVED = 1, WORD_SUFFIX = 2 } WordMark;
typedef struct Word { const char *text; size_t length; WordMark mark; } Word;

enum { N_WORD_SLOTS = 512 };
static Word           word_slots[N_WORD_SLOTS];
static pthread_once_t words_once = PTHREAD_ONCE_INIT;

static Word *find_word(const char *text, size_t length)
{
    u64 at = hash_bytes(text, length) % N_WORD_SLOTS;
    while (word_slots[at].text && (word_slots[at].length != length || memcmp(word_slots[at].text, text, length) != 0))
        at = (at + 1) % N_WORD_SLOTS;
    return &word_slots[at];
}

static void fill_words(void)
{
    _Static_assert(COUNT_OF(reserved) + COUNT_OF(suffixes) < N_WORD_SLOTS / 2, "the words fill their slots");
    for (int i = 0; i < COUNT_OF(reserved); i++)
        *find_word(reserved[i], strlen(reserved[i])) = (Word){ reserved[i], strlen(reserved[i]), WORD_RESERVED };
    for (int i = 0; i < COUNT_OF(suffixes); i++)
        *find_word(suffixes[i], strlen(suffixes[i])) = (Word){ suffixes[i], strlen(suffixes[i]), WORD_SUFFIX };
}

static bool is_word(const char *text, size_t length, WordMark mark)
{
    pthread_once(&words_once, fill_words);
    const Word *word = find_word(text, length);
    return word->text && word->mark == mark;
}

static bool is_reserved(const char *name, size_t length)
{
    return is_word(name, length, WORD_RESERVED) || is_ours(name) || (length > 1 && name[length - 1] == '_');
}

// The length of the next shorter stem of NAME: what is left without an ending.  0: there is none; begin with the whole
// length.
static size_t next_stem(const char *name, size_t length, size_t stem)
{
    while (stem-- > 1)
        if (name[stem] == '_' && is_word(name + stem, length - stem, WORD_SUFFIX)) return stem;
    return 0;
}

typedef enum NameMark { NAME_TAKEN = 1, NAME_IS_STEM = 2 } NameMark;    // a stem: a taken name is this and an ending

static u64 name_marks(const TakenNames *names, const char *name, size_t length)
{
    u64 marks = 0;
    map_get(names->taken, name, length, &marks);
    return marks;
}

static bool is_taken(const TakenNames *names, const char *name, size_t length)
{
    if (name_marks(names, name, length)) return true;
    for (size_t stem = next_stem(name, length, length); stem; stem = next_stem(name, length, stem))
        if (name_marks(names, name, stem) & NAME_TAKEN) return true;
    return false;
}

static void take_name(TakenNames *names, const char *name, size_t length)
{
    map_set(names->taken, name, length, name_marks(names, name, length) | NAME_TAKEN);
    for (size_t stem = next_stem(name, length, length); stem; stem = next_stem(name, length, stem))
        map_set(names->taken, name, stem, name_marks(names, name, stem) | NAME_IS_STEM);
}

const char *names_new(TakenNames *names, const char *wanted)
{
    char   clean[48];
    size_t length = 0;
    bool   is_ok = true;
    for (const char *c = wanted; *c && length < 32; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'), digit = *c >= '0' && *c <= '9';
        if (letter) clean[length++] = (char)(*c | 0x20);
        else if ((digit || *c == '_') && length > 0) clean[length++] = *c;
        else if (length > 0) clean[length++] = '_';
    }
    if (!length) memcpy(clean, "column", length = 6), is_ok = false;
    clean[length] = 0;
    u64 n = 1;  // the last number given to this stem, so that many equal names take no longer than others
    size_t n_name = length;
    char   name[64];
    memcpy(name, clean, length + 1);
    if (!is_ok || is_reserved(clean, length)) memcpy(name + length, "_c", 3), n_name += 2;
    if (is_taken(names, name, n_name)) {
        map_get(names->numbers, clean, length, &n);
        while (is_taken(names, name, n_name))
            n_name = (size_t)snprintf(name, sizeof name, "%s_%llu_c", clean, (unsigned long long)++n);
        map_set(names->numbers, clean, length, n);
    }
    take_name(names, name, n_name);
    return arena_strndup(names->arena, name, n_name);
}

TakenNames names_begin(Arena *arena) { return (TakenNames){ arena, map_new(arena), map_new(arena) }; }

bool names_are_taken(const TakenNames *names, const char *name) { return is_taken(names, name, strlen(name)); }

void names_take(TakenNames *names, const char *name) { take_name(names, name, strlen(name)); }
