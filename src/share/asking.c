// asking.c - a choice asks the device, and notes what came of it (choose_int.h).

#include "share/choose_int.h"

#include <stdlib.h>

const ShareFacts **choosing_facts(const Choosing *choosing, const int *list, int n)
{
    const ShareFacts **facts = malloc(((size_t)n + 1) * sizeof *facts);
    for (int i = 0; i < n; i++) facts[i] = choosing->riders[list[i]].facts;
    return facts;
}

const ShareRider **choosing_riders(const Choosing *choosing, const int *list, int n)
{
    const ShareRider **riders = malloc(((size_t)n + 1) * sizeof *riders);
    for (int i = 0; i < n; i++) riders[i] = &choosing->riders[list[i]];
    return riders;
}

void choosing_add(Choosing *choosing, const ShareAsk *ask, const int *list)
{
    ShareUnit *unit = &choosing->units[choosing->n_units++];
    *unit = (ShareUnit){ .way = ask->way,
                         .riders = arena_array(choosing->arena, int, ask->n_riders),
                         .gain = ask->gain,
                         .handle = ask->handle };
    for (int i = 0; i < ask->n_riders; i++) {
        if (ask->took && !ask->took[i]) continue;
        unit->riders[unit->n_riders++] = list[i];
        choosing->is_taken[list[i]] = true;
        choosing->n_sieved -= suits(choosing, list[i], SHARE_SIEVED);
    }
    choosing->n_made[ask->way]++;
}

ShareMade choosing_make(Choosing *choosing, ShareWay way, const int *list, int n, int number, double gain,
                        bool is_alike)
{
    const ShareRider **riders = choosing_riders(choosing, list, n);
    ShareAsk           ask = { .way = way,
                               .n_riders = n,
                               .riders = riders,
                               .number = number,
                               .gain = gain,
                               .is_alike = is_alike };
    if (way == SHARE_SIEVED) ask.took = malloc((size_t)n * sizeof *ask.took);
    for (int i = 0; ask.took && i < n; i++) ask.took[i] = true;
    const ShareMade made = choosing->ways->make(choosing->ways->device, &ask);
    if (made == SHARE_DONE) choosing_add(choosing, &ask, list);
    free(ask.took);
    free(riders);
    return made;
}

double choosing_sieve_gain(const Choosing *choosing, const int *list, int n)
{
    const ShareWays   *ways = choosing->ways;
    const ShareFacts **facts = choosing_facts(choosing, list, n);
    double             alone = 0;
    for (int i = 0; i < n; i++) alone += facts[i]->alone;
    const double together = cost_sieve(ways->costs, facts, n, ways->near_bytes, ways->rows);
    free(facts);
    return alone / together;
}
