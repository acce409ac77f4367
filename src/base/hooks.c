/*
 * hooks.c
 *		The pointers of hooks.h.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "base/hooks.h"

const DcCounterHooks *counter_hooks = NULL;
const DcStatsHooks *stats_hooks = NULL;
const DcBufferHooks *buffer_hooks = NULL;
const DcCacheHooks *cache_hooks = NULL;
const DcStockHooks *stock_hooks = NULL;
const DcOnceHooks *once_hooks = NULL;
const DcLedgerHooks *ledger_hooks = NULL;
const DcOutboxHooks *outbox_hooks = NULL;
const DcConsumerHooks *consumer_hooks = NULL;
const DcBoundHooks *bound_hooks = NULL;
const DcRegionHooks *region_hooks = NULL;
const DcBudgetHooks *budget_hooks = NULL;
const DcUnreadHooks *unread_hooks = NULL;
const DcWindowHooks *window_hooks = NULL;
const DcDistinctHooks *distinct_hooks = NULL;
const DcTrendHooks *trend_hooks = NULL;
