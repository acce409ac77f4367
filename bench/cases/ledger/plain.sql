-- What a careful application has without dcounter
CREATE TABLE balance (
    key text PRIMARY KEY,
    value bigint NOT NULL,
    min_balance bigint,
    CHECK (value >= min_balance)
) WITH (fillfactor = 50);
CREATE TABLE event (
    event_id text PRIMARY KEY,
    transfer_id bigint GENERATED ALWAYS AS IDENTITY
);
CREATE TABLE entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY,
    transfer_id bigint NOT NULL,
    key text NOT NULL,
    amount bigint NOT NULL,
    event_id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    memo jsonb,
    PRIMARY KEY (key, at, entry_id)
);

CREATE FUNCTION transfer(sender text, receiver text, qty bigint, this_event text, note jsonb DEFAULT NULL,
    OUT transfer_id bigint, OUT duplicate boolean) LANGUAGE plpgsql AS $$
DECLARE
    found_rows int;
BEGIN
    IF qty <= 0 OR sender = receiver THEN
        RAISE EXCEPTION 'not a transfer' USING ERRCODE = '22023';
    END IF;
    duplicate := false;
    INSERT INTO event (event_id) VALUES (this_event) ON CONFLICT DO NOTHING
        RETURNING event.transfer_id INTO transfer_id;
    IF NOT FOUND THEN
        duplicate := true;
        SELECT event.transfer_id INTO STRICT transfer_id FROM event WHERE event.event_id = this_event;
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
    INSERT INTO entry (transfer_id, key, amount, event_id, memo)
        VALUES (transfer_id, sender, -qty, this_event, note), (transfer_id, receiver, qty, this_event, note);
END $$;

-- The accounts are those of wallet.sql.
INSERT INTO balance SELECT n, 1000000000, 0 FROM generate_series(0, 999) n;
INSERT INTO balance VALUES ('1000', -2000000000000, NULL), ('1001', 0, NULL), ('1002', 1000000000000, 0);
INSERT INTO event VALUES ('opening');
INSERT INTO entry (transfer_id, key, amount, event_id)
    SELECT 1, key, value, 'opening' FROM balance WHERE value <> 0;
