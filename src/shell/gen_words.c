// gen_words.c - words that TPC-H has, and SSB after it.

#include "shell/gen_int.h"

const char gen_alphabet[65] = "0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";

const char *const gen_regions[GEN_REGIONS] = { "AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST" };

const GenNation gen_nations[GEN_NATIONS] = {
    { "ALGERIA", 0 },    { "ARGENTINA", 1 },    { "BRAZIL", 1 },       { "CANADA", 1 },  { "EGYPT", 4 },
    { "ETHIOPIA", 0 },   { "FRANCE", 3 },       { "GERMANY", 3 },      { "INDIA", 2 },   { "INDONESIA", 2 },
    { "IRAN", 4 },       { "IRAQ", 4 },         { "JAPAN", 2 },        { "JORDAN", 4 },  { "KENYA", 0 },
    { "MOROCCO", 0 },    { "MOZAMBIQUE", 0 },   { "PERU", 1 },         { "CHINA", 2 },   { "ROMANIA", 3 },
    { "SAUDI ARABIA", 4 }, { "VIETNAM", 2 },    { "RUSSIA", 3 },       { "UNITED KINGDOM", 3 }, { "UNITED STATES", 1 },
};

const char *const gen_colors[GEN_COLORS] = {
    "almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown",
    "burlywood", "burnished", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cornsilk", "cream", "cyan",
    "dark", "deep", "dim", "dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro", "ghost",
    "goldenrod", "green", "grey", "honeydew", "hot", "indian", "ivory", "khaki", "lace", "lavender", "lawn", "lemon",
    "light", "lime", "linen", "magenta", "maroon", "medium", "metallic", "midnight", "mint", "misty", "moccasin",
    "navajo", "navy", "olive", "orange", "orchid", "pale", "papaya", "peach", "peru", "pink", "plum", "powder", "puff",
    "purple", "red", "rose", "rosy", "royal", "saddle", "salmon", "sandy", "seashell", "sienna", "sky", "slate",
    "smoke", "snow", "spring", "steel", "tan", "thistle", "tomato", "turquoise", "violet", "wheat", "white", "yellow",
};

const char *const gen_segments[GEN_SEGMENTS] = { "AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY" };
const char *const gen_priorities[GEN_PRIORITIES] = { "1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW" };
const char *const gen_ship_modes[GEN_SHIP_MODES] = { "REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP" };

static const char *const type_sizes[] = { "STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO" };
static const char *const type_finishes[] = { "ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED" };
static const char *const type_metals[] = { "TIN", "NICKEL", "BRASS", "STEEL", "COPPER" };
static const char *const container_sizes[] = { "SM", "LG", "MED", "JUMBO", "WRAP" };
static const char *const container_kinds[] = { "CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM" };

const char *gen_type(Arena *arena, int number)
{
    return arena_printf(arena, "%s %s %s", type_sizes[number / 25], type_finishes[number / 5 % 5],
                        type_metals[number % 5]);
}

const char *gen_container(Arena *arena, int number)
{
    return arena_printf(arena, "%s %s", container_sizes[number / 8], container_kinds[number % 8]);
}

WordList gen_make_list(Arena *arena, int list, int n_words, GenWord *word_of)
{
    weft_text *words = arena_array(arena, weft_text, n_words);
    for (int i = 0; i < n_words; i++) {
        const char *word = word_of(arena, list, i);
        words[i] = (weft_text){ word, strlen(word) };
    }
    return (WordList){ words, n_words };
}
