/*
 * utility.h
 *		Functions of rooms around utility statements (see utility.c).
 *
 * Copyright (c) 2026, the dcounter developers
 */
#ifndef DC_UTILITY_H
#define DC_UTILITY_H

#include "tcop/utility.h"

/* A statement, by the arguments of the server's hook. */
typedef struct DcUtility
{
	Node *statement; /* running it may free it */
	PlannedStmt *pstmt;
	const char *query;
	bool read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *completion;
	int left; /* functions that are still to be called */
} DcUtility;

typedef void (*DcUtilityHook)(DcUtility *utility);

extern void utility_add(DcUtilityHook hook);
extern void utility_run(DcUtility *utility);

#endif /* DC_UTILITY_H */
