CREATE TABLE dcounter.ledger (
	ledger    pg_catalog.regclass NOT NULL,
	limits    pg_catalog.regclass NOT NULL,
	entries   pg_catalog.regclass NOT NULL,
	entry_ids pg_catalog.regclass NOT NULL,
	accounts  pg_catalog.regclass NOT NULL,
	pendings  pg_catalog.regclass NOT NULL,
	openings  pg_catalog.regclass,
	auto_open pg_catalog.bool     NOT NULL,
	CONSTRAINT ledger_pkey PRIMARY KEY (ledger)
);
COMMENT ON TABLE dcounter.ledger IS 'tables and settings of each ledger';
COMMENT ON COLUMN dcounter.ledger.ledger IS 'the table of balances, which identifies the ledger';
COMMENT ON COLUMN dcounter.ledger.limits IS 'the stock of the amounts that bounded accounts may still post';
COMMENT ON COLUMN dcounter.ledger.entries IS 'the entries';
COMMENT ON COLUMN dcounter.ledger.entry_ids IS 'the sequence of their numbers';
COMMENT ON COLUMN dcounter.ledger.accounts IS 'the accounts and their bounds';
COMMENT ON COLUMN dcounter.ledger.pendings IS 'pending transfers';
COMMENT ON COLUMN dcounter.ledger.openings IS 'balances carried forward when entries were detached, if any were';
COMMENT ON COLUMN dcounter.ledger.auto_open IS 'whether posting to an account opens it';

CREATE FUNCTION dcounter.on_ledger_row_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ledger_row_change() IS 'internal: makes restoring the ledgers idempotent and tells sessions of changes';

CREATE TRIGGER on_ledger_row_change
	BEFORE INSERT OR UPDATE OR DELETE ON dcounter.ledger
	FOR EACH ROW EXECUTE FUNCTION dcounter.on_ledger_row_change();

CREATE FUNCTION dcounter.on_ledger_change() RETURNS pg_catalog.trigger
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10;
COMMENT ON FUNCTION dcounter.on_ledger_change() IS 'internal: keeps the tables of a ledger from being changed except by its functions';

CREATE FUNCTION dc_ledger_create(ledger text, auto_open boolean DEFAULT false, op_retention interval DEFAULT NULL, partition_by text DEFAULT NULL, if_not_exists boolean DEFAULT false) RETURNS regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_ledger_create(text, boolean, interval, text, boolean) IS 'creates a ledger: balances, accounts and entries';

CREATE FUNCTION dc_account_open(ledger regclass, key anycompatible, min_balance bigint DEFAULT 0, max_balance bigint DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_account_open(regclass, anycompatible, bigint, bigint) IS 'opens an account of a ledger, or changes its bounds';

CREATE FUNCTION dc_transfer(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL, OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer(regclass, anycompatible, anycompatible, bigint, text, jsonb) IS 'moves an amount from one account to another, once for each op';

CREATE FUNCTION dc_transfer_many(ledger regclass, from_keys anycompatiblearray, to_keys anycompatiblearray, amounts bigint[], op_id text, memo jsonb DEFAULT NULL, OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_many(regclass, anycompatiblearray, anycompatiblearray, bigint[], text, jsonb) IS 'moves amounts between many accounts, all or none';

CREATE FUNCTION dc_transfer_pending(ledger regclass, from_key anycompatible, to_key anycompatible, amount bigint, op_id text, memo jsonb DEFAULT NULL, ttl interval DEFAULT '10 minutes', OUT transfer_id bigint, OUT duplicate boolean)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_pending(regclass, anycompatible, anycompatible, bigint, text, jsonb, interval) IS 'sets an amount aside for a transfer that is posted or voided later';

CREATE FUNCTION dc_transfer_post(ledger regclass, transfer_id bigint, amount bigint DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_post(regclass, bigint, bigint) IS 'ends a pending transfer by posting it, or part of it';

CREATE FUNCTION dc_transfer_void(ledger regclass, transfer_id bigint) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100;
COMMENT ON FUNCTION dc_transfer_void(regclass, bigint) IS 'ends a pending transfer and gives back the amount that it set aside';

CREATE FUNCTION dc_transfers_pending(ledger regclass, key anycompatible DEFAULT NULL::text, OUT transfer_id bigint, OUT from_key text, OUT to_key text, OUT amount bigint, OUT op_id text, OUT memo jsonb, OUT expires_at timestamptz, OUT age interval) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_transfers_pending(regclass, anycompatible) IS 'open pending transfers of an account, of all accounts by default';

CREATE FUNCTION dc_balance(ledger regclass, key anycompatible, OUT balance bigint, OUT pending_out bigint, OUT pending_in bigint, OUT available bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 20;
COMMENT ON FUNCTION dc_balance(regclass, anycompatible) IS 'balance of an account, and how much may be withdrawn from it';

CREATE FUNCTION dc_balance_at(ledger regclass, key anycompatible, at timestamptz) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION dc_balance_at(regclass, anycompatible, timestamptz) IS 'balance of an account at a time, from its entries';

CREATE FUNCTION dc_account_statement(ledger regclass, key anycompatible, from_at timestamptz, to_at timestamptz, OUT at timestamptz, OUT entry_id bigint, OUT transfer_id bigint, OUT amount bigint, OUT balance bigint, OUT op_id text, OUT memo jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL RESTRICTED COST 100 ROWS 100;
COMMENT ON FUNCTION dc_account_statement(regclass, anycompatible, timestamptz, timestamptz) IS 'entries of an account, with the balance after each';

CREATE FUNCTION dc_ledger_check(ledger regclass, OUT key text, OUT balance numeric, OUT entries_sum numeric, OUT problem text) RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_ledger_check(regclass) IS 'inconsistencies in a ledger; no rows if it is sound';

CREATE FUNCTION dc_ledger_detach(ledger regclass, before timestamptz) RETURNS SETOF regclass
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION dc_ledger_detach(regclass, timestamptz) IS 'detaches the entries of old months from a ledger, and carries their balances forward';

CREATE FUNCTION dc_ledger_adopt(ledger regclass, auto_open boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000;
COMMENT ON FUNCTION dc_ledger_adopt(regclass, boolean) IS 'registers existing tables as a ledger, and puts back the triggers that protect them';

-- pg_dump reads the catalog. Only functions write it, which check ownership themselves.
GRANT SELECT ON dcounter.ledger TO PUBLIC;
-- A role that may execute a trigger function may put it on a table of its own.
REVOKE EXECUTE ON FUNCTION dcounter.on_ledger_row_change() FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('dcounter.ledger', '');
