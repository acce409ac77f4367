/*
 * account.h
 *		The accounts of a ledger, and the amounts that their bounds let through.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_ACCOUNT_H
#define DC_ACCOUNT_H

#include "transactional/ledger/ledger.h"

/* The rules of an account. */
typedef struct DcRules
{
	bool has_min;
	bool has_max;
	int64 min;
	int64 max;
} DcRules;

/* By how much a transfer changes an account. */
typedef struct DcLeg
{
	const DcKey *key;
	int64 in;
	int64 out;
	DcRules rules;
} DcLeg;

/* account.c */
extern bool account_find(DcLedger *ledger, const DcKey *key, DcRules *rules);
extern void account_check_key(const DcKey *key);
extern void account_rules(DcLedger *ledger, const DcKey *key, DcRules *rules);

/* accountbound.c */
extern void limits_take(DcLedger *ledger, const DcLeg *legs, int nlegs);
extern void limits_give(DcLedger *ledger, const DcLeg *legs, int nlegs);
extern void limit_give(DcLedger *ledger, const DcKey *key, bool upper, int64 amount);
extern void limit_set(DcLedger *ledger, const DcKey *key, bool upper, int64 amount);

#endif /* DC_ACCOUNT_H */
