/*
 * ledgershape.c
 *		What the tables of a ledger must look like, as ledgertable.c and detach.c make
 *		them; see core/table/shape.c.
 *
 * Copyright (c) 2026, the dcounter developers
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"

#include "transactional/ledger/ledgershape.h"

/* Plain or partitioned. */
#define LEDGER_KINDS "rp"

const DcShape account_shape = {
	.relkinds = LEDGER_KINDS,
	.logged = true,
	.nkeys = 1,
	.keys = {ACCOUNT_KEY},
	.ncolumns = 4,
	.columns = {[ACCOUNT_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[ACCOUNT_MIN] = {"min_balance", INT8OID, InvalidOid, SHAPE_NULLABLE},
				[ACCOUNT_MAX] = {"max_balance", INT8OID, InvalidOid, SHAPE_NULLABLE},
				[ACCOUNT_OPENED_AT] = {"opened_at", TIMESTAMPTZOID}}};

/* Of a month, too. Numbers come from a sequence: nothing relies on an index. */
const DcShape entry_shape = {
	.relkinds = LEDGER_KINDS,
	.part = true, /* a partition of the ledger's own table; others are written by SQL */
	.logged = true,
	.ncolumns = 7,
	.columns = {[ENTRY_ID] = {"entry_id", INT8OID},
				[ENTRY_TRANSFER_ID] = {"transfer_id", INT8OID},
				[ENTRY_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[ENTRY_AMOUNT] = {"amount", INT8OID},
				[ENTRY_OP_ID] = {"op_id", TEXTOID, C_COLLATION_OID},
				[ENTRY_AT] = {"at", TIMESTAMPTZOID},
				[ENTRY_MEMO] = {"memo", JSONBOID, InvalidOid, SHAPE_NULLABLE}}};

const DcShape pending_shape = {
	.relkinds = LEDGER_KINDS,
	.logged = true,
	.nkeys = 1,
	.keys = {0},
	.ncolumns = 11,
	.columns = {{"transfer_id", INT8OID},
				{"from_key", TEXTOID, C_COLLATION_OID},
				{"to_key", TEXTOID, C_COLLATION_OID},
				{"amount", INT8OID},
				{"state", TEXTOID, DEFAULT_COLLATION_OID},
				{"posted", INT8OID},
				{"op_id", TEXTOID, C_COLLATION_OID},
				{"memo", JSONBOID, InvalidOid, SHAPE_NULLABLE},
				{"created_at", TIMESTAMPTZOID},
				{"expires_at", TIMESTAMPTZOID, InvalidOid, SHAPE_NULLABLE},
				{"ended_at", TIMESTAMPTZOID, InvalidOid, SHAPE_NULLABLE}}};

const DcShape opening_shape = {
	.relkinds = LEDGER_KINDS,
	.logged = true,
	.nkeys = 1,
	.keys = {OPENING_KEY},
	.ncolumns = 3,
	.columns = {[OPENING_KEY] = {"key", TEXTOID, C_COLLATION_OID},
				[OPENING_AMOUNT] = {"amount", INT8OID},
				[OPENING_BEFORE] = {"before", TIMESTAMPTZOID}}};
