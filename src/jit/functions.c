// functions.c - what goes between the words and a kernel: functions, for the few kernels that call them.
//
// They are longer than most kernels, so a text that calls none is compiled without them.  Code by tcc calls those of
// the library instead.

#include "jit/jit_int.h"

// Words of src/kernel/cpu.h and cuda.h, without the _F64( that all of them end in.
static const char *const math_words[] = { "SQRT", "EXP",   "LN",   "LOG10",   "LOG2",
                                          "POWER", "FLOOR", "CEIL", "NEAREST", "TRUNC" };

static bool ends_in_math_word(const char *text, const char *end)
{
    for (int i = 0; i < COUNT_OF(math_words); i++) {
        size_t length = strlen(math_words[i]);
        if ((size_t)(end - text) >= length && memcmp(end - length, math_words[i], length) == 0)
            return true;
    }
    return false;
}

static bool has_math_word(const char *text)
{
    for (const char *at = text; (at = strstr(at, "_F64(")); at++)
        if (ends_in_math_word(text, at))
            return true;
    return false;
}

// Words for numbers of 128 bits that are more than a few additions; but for WIDE_MUL they are calls (WIDE_CALL_).
bool jit_has_calls(const char *text)
{
    static const char *const words[] = { "ROUND(", "MOD(", "F64(", "FROM_F64(", "DIV(", "MUL_ROUND(", "DECIMAL_F64(" };
    static const char        first[] = "WIDE_";
    for (const char *at = text; (at = strstr(at, first));) {
        at += sizeof first - 1;
        for (int i = 0; i < COUNT_OF(words); i++)
            if (strncmp(at, words[i], strlen(words[i])) == 0) return true;
    }
    return false;
}

static bool has_wide_word(const char *text) { return strstr(text, "WIDE_MUL(") || jit_has_calls(text); }

const char *jit_functions(const char *text)
{
    const bool has_math = has_math_word(text), has_wide = has_wide_word(text);
    return has_math && has_wide ? math_wide_text : has_math ? math_text : has_wide ? wide_text : "";
}
