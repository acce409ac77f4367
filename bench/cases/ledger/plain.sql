-- What a careful application has without dcounter
CREATE TABLE balance (
    key text PRIMARY KEY,
    value bigint NOT NULL,
    min_balance bigint,
    CHECK (value >= min_balance)
) WITH (fillfactor = 50);
CREATE TABLE op (
    op_id text PRIMARY KEY,
    transfer_id bigint GENERATED ALWAYS AS IDENTITY
);
CREATE TABLE entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY,
    transfer_id bigint NOT NULL,
    key text NOT NULL,
    amount bigint NOT NULL,
    op_id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    memo jsonb,
    PRIMARY KEY (key, at, entry_id)
);

CREATE FUNCTION transfer(sender text, receiver text, qty bigint, this_op text, note jsonb DEFAULT NULL,
    OUT transfer_id bigint, OUT duplicate boolean) LANGUAGE plpgsql AS $$
DECLARE
    found_rows int;
BEGIN
    IF qty <= 0 OR sender = receiver THEN
        RAISE EXCEPTION 'not a transfer' USING ERRCODE = '22023';
    END IF;
    duplicate := false;
    INSERT INTO op (op_id) VALUES (this_op) ON CONFLICT DO NOTHING
        RETURNING op.transfer_id INTO transfer_id;
    IF NOT FOUND THEN
        duplicate := true;
        SELECT op.transfer_id INTO STRICT transfer_id FROM op WHERE op.op_id = this_op;
        RETURN;
    END IF;
    PERFORM FROM balance WHERE key IN (sender, receiver) ORDER BY key FOR NO KEY UPDATE;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows <> 2 THEN
        RAISE EXCEPTION 'account % or % is not open', sender, receiver;
    END IF;
    UPDATE balance SET value = value - qty WHERE key = sender
        AND (min_balance IS NULL OR value - qty >= min_balance);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'not enough balance in account %', sender USING ERRCODE = 'LG001';
    END IF;
    UPDATE balance SET value = value + qty WHERE key = receiver;
    INSERT INTO entry (transfer_id, key, amount, op_id, memo)
        VALUES (transfer_id, sender, -qty, this_op, note), (transfer_id, receiver, qty, this_op, note);
END $$;

-- The accounts are those of wallet.sql.
INSERT INTO balance SELECT n, 1000000000, 0 FROM generate_series(0, 999) n;
INSERT INTO balance VALUES ('1000', -2000000000000, NULL), ('1001', 0, NULL), ('1002', 1000000000000, 0);
INSERT INTO op VALUES ('opening');
INSERT INTO entry (transfer_id, key, amount, op_id)
    SELECT 1, key, value, 'opening' FROM balance WHERE value <> 0;
