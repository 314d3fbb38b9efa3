// rewrite.c - the rewrites, in order.
//
// Each one leaves a tree that means the same.  Their order matters: correlation goes first, since no other rewrite
// knows of it; then names are dropped and unused columns go, so that all the others see less; outer joins become inner
// before filters go down, since filters go further through inner joins; keys must be found before joins can be ordered;
// what is stored is known once they are, and can be reduced.  Pairs that the host must look at are made of joins with
// keys, and then unused columns go once more.
// The end is plan_prove, so that the estimates are those of the final tree.

#include "plan/rewrite.h"

static const Rewrite rewrites[] = {
    { "remove correlation", NULL, rewrite_remove_correlation },
    { "inline shared subplans", NULL, rewrite_inline_shared },
    { "merge nodes", NULL, rewrite_merge },
    { "prune columns", NULL, rewrite_prune },
    { "fold expressions", rewrite_fold, NULL },
    { "window arguments", rewrite_window_args, NULL },
    { "factor or", rewrite_factor_or, NULL },
    { "outer joins to inner", rewrite_outer_to_inner, NULL },
    { "full joins", rewrite_full_joins, NULL },
    { "pull projects", rewrite_pull_projects, NULL },
    { "push filters", rewrite_push_filters, NULL },
    { "implied filters", rewrite_implied, NULL },
    { "sets to groups", rewrite_sets, NULL },
    { "distinct aggregates", rewrite_distinct_aggs, NULL },
    { "drop group keys", rewrite_drop_keys, NULL },
    { "group early", rewrite_group_early, NULL },
    { "order joins", rewrite_order_joins, NULL },
    { "reduce by keys", rewrite_reduce, NULL },
    { "pairs first", rewrite_pairs, NULL },
    { "prune columns", NULL, rewrite_prune },
    { "merge nodes", NULL, rewrite_merge },
    { "leave to the host", rewrite_host, NULL },
};

typedef struct RewriteRun { Plan *plan; const Rewrite *rewrite; Error *err; } RewriteRun;

static weft_status apply_to_tree(void *context, Node **root)
{
    const RewriteRun *run = context;
    return run->rewrite->apply(run->plan, root, run->err);
}

static weft_status apply(RewriteRun *run)
{
    if (run->rewrite->apply_plan) return run->rewrite->apply_plan(run->plan, run->err);
    TRY(plan_visit_trees(run->plan, apply_to_tree, run));
    return plan_order_shared(run->plan);                               // the rewrite may have shared something
}

static weft_status prove_tree(void *context, Node **root)
{
    plan_prove(context, *root);
    return WEFT_OK;
}

// A heading and the tree, unless the tree reads as it did before.
static void trace_tree(const Plan *plan, const char *name, Text *before, Text *trace)
{
    Text now = { 0 };
    plan_print(plan, &now);
    if (!before->bytes || strcmp(before->bytes, now.bytes) != 0)
        text_add(trace, "%s%s:\n%s", trace->length ? "\n" : "", name, now.bytes);
    text_free(before);
    *before = now;
}

weft_status plan_rewrite(Plan *plan, Text *trace, Error *err)
{
    Text        before = { 0 };
    weft_status status = WEFT_OK;
    if (trace) trace_tree(plan, "as bound", &before, trace);
    for (int r = 0; r < COUNT_OF(rewrites) && !status; r++) {
        RewriteRun run = { plan, &rewrites[r], err };
        status = apply(&run);
        if (!status && trace) trace_tree(plan, rewrites[r].name, &before, trace);
    }
    text_free(&before);
    TRY(status);
    TRY(plan_order_shared(plan));
    return plan_visit_trees(plan, prove_tree, plan);
}
