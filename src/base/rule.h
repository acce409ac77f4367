/*
 * rule.h
 *		Rules that have an owner and users: limits and presences (see rule.c and ruleddl.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_RULE_H
#define DC_RULE_H

#include "base/catrow.h"
#include "base/compat.h"
#include "base/relcached.h"

#define RULE_NAME_MAX 63

/* The common part of the rows of all kinds. The struct of a row begins with it. */
typedef struct DcRuleRow
{
	ItemPointerData tid;
	TransactionId xmin;
	int32 id;
	char *name;
	Oid owner;
	List *users;   /* Oid */
	List *trusted; /* the users that are trusted with more */
	int32 version; /* grows with each change of the row */
	TimestampTz created_at;
} DcRuleRow;

/* A rule that a session has used. The struct of a room begins with it. */
typedef struct DcRuleKnown
{
	char name[RULE_NAME_MAX + 1]; /* hash key */
	bool valid;
	uint32 changes; /* of rules, when it was read */
	Oid catalog;
	Oid owner;
	Oid *users;
	int nusers;
	Oid *trusted;
	int ntrusted;
	/* rights that were found */
	Oid role;
	uint32 role_changes;
	bool may_use;
	bool is_trusted;
} DcRuleKnown;

/* A rule that this transaction has created or dropped, at a nesting level. */
typedef struct DcRuleChange
{
	struct DcRuleChange *next;
	Oid catalog;
	int32 id;
	bool is_new;
	int nest;
} DcRuleChange;

typedef struct DcRuleKind
{
	const char *what;		  /* "limit": in messages, and in the names of functions */
	const char *name_arg;	  /* what messages call an argument */
	const char *view;		  /* shows the rules */
	const char *uncommits;	  /* errdetail: why a rule cannot be used before the commit */
	const char *by_name;	  /* unique index of the catalog */
	const char *ids;		  /* sequence */
	const char *trusted_args; /* arguments of the granting function that make a user trusted */
	uint16 lockclass;
	DcCatalog catalog;
	DcRelCached cache; /* name and size; the rest is set by rule_kind_add() */
	/* copy the fields of a row that the room needs into its part of the entry */
	void (*fill)(DcRuleKnown *known, const DcRuleRow *row);
	/* apply committed changes to memory; must not throw */
	void (*settle)(const DcRuleChange *changes);
	/* set by rule.c */
	DcRuleKnown *last;
	/* set by ruleddl.c */
	struct DcRuleKind *next;
	DcRuleChange *changes; /* the last one first */
	bool is_changed;	   /* by this transaction */
} DcRuleKind;

/* rule.c */
extern void rule_columns_begin(DcCatRow *io, DcRuleRow *row);
extern void rule_columns_end(DcCatRow *io, DcRuleRow *row);
extern void *rule_read(const DcRuleKind *kind, const char *name);
extern List *rule_read_all(const DcRuleKind *kind);
extern void rule_insert(const DcRuleKind *kind, const DcRuleRow *row);
extern void rule_update(const DcRuleKind *kind, DcRuleRow *row);
extern void rule_delete(const DcRuleKind *kind, DcRuleRow *row);
extern bool rule_any(const DcRuleKind *kind);
pg_noreturn extern void rule_missing_error(const DcRuleKind *kind, const char *name);
extern void rule_name_copy(const DcRuleKind *kind, Datum value, char *name);
extern bool rule_may_use(const DcRuleRow *row);
extern void *rule_known(DcRuleKind *kind, const char *name, bool trusted);
extern void rule_cache_init(DcRuleKind *kind, bool preloading);
extern bool rules_have_memory(void);
extern void rules_committed(void);

/* ruleddl.c */
extern void rule_kind_add(DcRuleKind *kind, bool preloading);
extern bool rule_create_begin(DcRuleKind *kind, FunctionCallInfo fcinfo, int if_not_exists, DcRuleRow *row);
extern void rule_create(DcRuleKind *kind, DcRuleRow *row);
extern void *rule_open(DcRuleKind *kind, FunctionCallInfo fcinfo, const char *verb);
extern void rule_alter(const DcRuleKind *kind, DcRuleRow *row);
extern Datum rule_drop(DcRuleKind *kind, FunctionCallInfo fcinfo);
extern Datum rule_grant(DcRuleKind *kind, FunctionCallInfo fcinfo, bool trusted);
extern Datum rule_revoke(DcRuleKind *kind, FunctionCallInfo fcinfo);

#endif /* DC_RULE_H */
