// refusals.c - the list of what is refused, as the binder and as readers of the manual need it.

#include "sql/refusals.h"

static const Refusal refusals[] = {
#define CHAPTER(title_, works_)                             { REFUSAL_CHAPTER, title_, .shown = works_ },
#define REFUSED(name_, shown_, example_, instead_)          { REFUSAL_FEATURE, name_, 0, shown_, example_, instead_ },
#define SAYS(name_, message_, shown_, example_, instead_)                                                              \
    { REFUSAL_FEATURE, name_, message_, shown_, example_, instead_ },
#define STATEMENT(node_, name_, shown_, example_, instead_)   REFUSED(name_, shown_, example_, instead_)
#define TRANSACTION(kind_, name_, shown_, example_, instead_) REFUSED(name_, shown_, example_, instead_)
#define NO_FUNCTION(name_, shown_, instead_)                { REFUSAL_FUNCTION, name_, 0, shown_, 0, instead_ },
#define NO_TYPE(name_, shown_, instead_)                    { REFUSAL_TYPE, name_, 0, shown_, 0, instead_ },
#define NO_OPERATOR(name_, shown_, instead_)                { REFUSAL_OPERATOR, name_, 0, shown_, 0, instead_ },
#define ABSENT(shown_)                                      { REFUSAL_ABSENT, "", .shown = shown_ },
#include "sql/refusals.def"
};

const Refusal *refusal_at(int n) { return n >= 0 && n < COUNT_OF(refusals) ? &refusals[n] : NULL; }

const Refusal *refusal_find(RefusalKind kind, const char *name)
{
    for (int i = 0; i < COUNT_OF(refusals); i++)
        if (refusals[i].kind == kind && strcmp(refusals[i].name, name) == 0) return &refusals[i];
    return NULL;
}

// ---- the manual -----------------------------------------------------------------------------------------------------

// The entries of the chapter at FIRST are up to here.
static int chapter_end(int first)
{
    int n = first + 1;
    while (n < COUNT_OF(refusals) && refusals[n].kind != REFUSAL_CHAPTER) n++;
    return n;
}

enum { LINE_MOST = 120 };                                   // columns of the manual

// Adds a paragraph, or a point of a list, with lines that are not too long; those behind the first are indented.
static void add_wrapped(Text *text, const char *words, int indent)
{
    int column = 0;
    for (const char *word = words; *word;) {
        const int length = (int)strcspn(word, " ");
        if (column && column + 1 + length > LINE_MOST) column = 0, text_add(text, "\n%*s", indent, "");
        else if (word > words) text_add(text, " ");
        text_add(text, "%.*s", length, word);
        column += length + 1;
        if (column == length + 1) column += indent - 1;
        word += length;
        while (*word == ' ') word++;
    }
    text_add(text, "\n");
}

static void add_point(Text *text, const Refusal *refusal)
{
    Text point = { 0 };
    text_add(&point, "- %s, as in `%s`", refusal->name, refusal->example);
    if (refusal->instead) text_add(&point, ". Instead: %s", refusal->instead);
    add_wrapped(text, point.bytes, 2);
    text_free(&point);
}

static void add_examples(Text *text, int first, int end)
{
    bool has_list = false;
    for (int i = first; i < end; i++) {
        if (!refusals[i].example) continue;
        if (!has_list) text_add(text, "\nRefused:\n\n");
        has_list = true;
        add_point(text, &refusals[i]);
    }
}

// Without a full stop at its end.
static int length_of_hint(const char *hint)
{
    const int length = (int)strlen(hint);
    return length > 3 && hint[length - 1] == '.' && hint[length - 2] != '.' ? length - 1 : length;
}

// One paragraph of names, with what to write instead.
static void add_names(Text *text, int first, int end, RefusalKind kind, const char *what)
{
    Text names = { 0 };
    for (int i = first; i < end; i++) {
        const Refusal *refusal = &refusals[i];
        const bool is_told = refusal->example || (i > first && strcmp(refusal->name, refusals[i - 1].name) == 0);
        const char *mark = kind == REFUSAL_FEATURE ? "" : "`";
        if (refusal->kind != kind || is_told) continue;
        text_add(&names, "%s%s%s%s", names.length ? "; " : what, mark, refusal->name, mark);
        if (refusal->instead) text_add(&names, " (instead: %.*s)", length_of_hint(refusal->instead), refusal->instead);
    }
    if (names.length) {
        text_add(&names, ".");
        text_add(text, "\n");
        add_wrapped(text, names.bytes, 0);
    }
    text_free(&names);
}

void refusals_write(Text *text)
{
    text_add(text, "# What works and what does not\n\n"
                   "The grammar is PostgreSQL's, and so are names, types, results and errors. What Weft does not do is "
                   "refused by name, with\nSQLSTATE 0A000 and a hint where there is another way. Other SQL of "
                   "PostgreSQL that fails is a bug.\n[functions.md](functions.md) lists the functions, "
                   "[src/sql/README.md](../src/sql/README.md) where results differ.\n"
                   "Written by `weft sql` from `src/sql/refusals.def`, the list that refuses: do not edit.\n\n");
    refusals_write_short(text);
    for (int i = 0; i < COUNT_OF(refusals); i = chapter_end(i)) {
        const int first = i + 1, end = chapter_end(i);
        text_add(text, "\n## %s\n", refusals[i].name);
        if (refusals[i].shown) text_add(text, "\nWorks: %s.\n", refusals[i].shown);
        add_examples(text, first, end);
        add_names(text, first, end, REFUSAL_FUNCTION, "Functions that PostgreSQL has and Weft has not: ");
        add_names(text, first, end, REFUSAL_OPERATOR, "Operators that Weft has not: ");
        add_names(text, first, end, REFUSAL_TYPE, "Types that Weft has not: ");
        add_names(text, first, end, REFUSAL_FEATURE, "Refused, too: ");
        for (int n = first; n < end; n++)
            if (refusals[n].kind == REFUSAL_ABSENT) text_add(text, "\nNot there: %s.\n", refusals[n].shown);
    }
}

void refusals_write_short(Text *text)
{
    text_add(text, "| works today | not yet |\n| --- | --- |\n");
    for (int i = 0; i < COUNT_OF(refusals); i = chapter_end(i)) {
        int n_shown = 0;
        if (!refusals[i].shown) continue;
        text_add(text, "| %s |", refusals[i].shown);
        for (int n = i + 1; n < chapter_end(i); n++)
            if (refusals[n].shown) text_add(text, "%s%s", n_shown++ ? ", " : " ", refusals[n].shown);
        text_add(text, " |\n");
    }
}
