-- Budgets against a model of one key: 300 random calls, the same in each run, compared after each.
SELECT dc_budget_create('model');
SET client_min_messages = warning; -- 19 tells of functions that depend on temporary types
CREATE TEMP TABLE m_grant (id bigint PRIMARY KEY, name text, priority int, over boolean, amount bigint, units bigint);
CREATE TEMP TABLE m_reservation (id uuid PRIMARY KEY, state text, short boolean, reserved bigint, cost bigint);
CREATE TEMP TABLE m_line (n bigint GENERATED ALWAYS AS IDENTITY, id uuid, grant_id bigint, taken bigint);
CREATE TEMP TABLE m_debt AS SELECT 0::bigint AS owed;

-- Take up to so many units of the grants in their order; note them as lines of a reservation, if there is one
CREATE FUNCTION m_draw(n bigint, reservation uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	got bigint := 0;
	g m_grant;
	t bigint;
BEGIN
	FOR g IN SELECT * FROM m_grant WHERE NOT over AND units > 0 ORDER BY priority, id LOOP
		t := least(g.units, n - got);
		EXIT WHEN t = 0;
		UPDATE m_grant SET units = units - t WHERE id = g.id;
		INSERT INTO m_line (id, grant_id, taken) SELECT reservation, g.id, t WHERE reservation IS NOT NULL;
		got := got + t;
	END LOOP;
	RETURN got;
END $$;
CREATE FUNCTION m_give_back(reservation uuid, kept bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	l m_line;
	t bigint;
BEGIN
	FOR l IN SELECT * FROM m_line WHERE id = reservation ORDER BY n LOOP
		t := least(l.taken, kept);
		UPDATE m_grant SET units = units + l.taken - t WHERE id = l.grant_id;
		kept := kept - t;
	END LOOP;
	RETURN kept;
END $$;
CREATE FUNCTION m_left() RETURNS bigint LANGUAGE sql AS 'SELECT coalesce(sum(units), 0)::bigint FROM m_grant WHERE NOT over';
CREATE FUNCTION m_reserve(n bigint, least_ bigint, reservation uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	got bigint;
	r m_reservation;
BEGIN
	IF m_left() - (SELECT owed FROM m_debt) < least_ THEN
		FOR r IN SELECT * FROM m_reservation WHERE short AND state = 'open' LOOP
			PERFORM m_give_back(r.id, 0);
			UPDATE m_reservation SET state = 'expired' WHERE id = r.id;
		END LOOP;
	END IF;
	IF m_left() - (SELECT owed FROM m_debt) < least_ THEN
		RETURN 0;
	END IF;
	PERFORM m_draw((SELECT owed FROM m_debt), NULL);
	UPDATE m_debt SET owed = 0;
	RETURN m_draw(n, reservation);
END $$;
CREATE FUNCTION m_settle(r m_reservation, cost_ bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	missing bigint := cost_;
BEGIN
	IF r.state = 'open' THEN
		missing := m_give_back(r.id, cost_);
	END IF;
	missing := missing - m_draw(missing, NULL);
	UPDATE m_debt SET owed = owed + missing;
	UPDATE m_reservation SET state = 'settled', cost = cost_ WHERE id = r.id;
	RETURN CASE r.state WHEN 'expired' THEN 'settled late' ELSE 'settled' END;
END $$;

DO $$
DECLARE
	r m_reservation;
	g m_grant;
	id_ uuid;
	what text;
	wanted text;
	found_ text;
	a bigint;
	b bigint;
	counts jsonb := '{}';
BEGIN
	PERFORM setseed(0.42);
	FOR i IN 1 .. 300 LOOP
		a := 1 + (random() * 40)::int;
		b := 1 + (random() * (a - 1))::int;
		what := (ARRAY['grant', 'reserve', 'reserve', 'reserve', 'settle', 'settle', 'settle', 'release', 'over'])[1 + floor(random() * 9)];
		SELECT * INTO r FROM m_reservation ORDER BY CASE WHEN state IN ('open', 'expired') OR random() < 0.1 THEN random() ELSE 2 END LIMIT 1;
		IF what = 'grant' THEN
			a := a * 3;
			what := 'g' || floor(random() * 6);
			SELECT * INTO g FROM m_grant WHERE name = what;
			IF g.id IS NULL THEN
				INSERT INTO m_grant VALUES (dc_grant('model', 'k', a, what, priority => a::int % 3), what, a % 3, false, a, a);
			ELSE
				a := a + g.amount - 40; -- more or less
				CONTINUE WHEN a < 0;
				b := CASE WHEN a < g.amount THEN least(g.amount - a, g.units) ELSE g.amount - a END;
				UPDATE m_grant SET amount = amount - b, units = units - b, over = false WHERE id = g.id;
				PERFORM dc_grant('model', 'k', a, what, priority => g.priority);
			END IF;
		ELSIF what = 'reserve' THEN
			id_ := md5(i::text)::uuid;
			wanted := m_reserve(a, b, id_);
			INSERT INTO m_reservation SELECT id_, 'open', i % 4 = 0, wanted::bigint WHERE wanted <> '0';
			found_ := dc_reserve('model', 'k', a, id_, CASE WHEN i % 4 = 0 THEN interval '1 us' ELSE '1 day' END, at_least => b);
			IF found_ <> '0' AND dc_reserve('model', 'k', a, id_, CASE WHEN i % 4 = 0 THEN interval '1 us' ELSE '1 day' END, at_least => b) <> found_::bigint THEN
				RAISE 'repeated with another answer';
			END IF;
		ELSIF what = 'settle' AND r.state IN ('open', 'expired', 'settled') THEN
			a := CASE WHEN i % 3 = 0 THEN a ELSE a % (r.reserved + 1) END;
			IF r.state = 'settled' THEN
				a := r.cost;
				wanted := 'settled already';
			ELSE
				wanted := m_settle(r, a);
			END IF;
			found_ := dc_settle('model', r.id, a);
		ELSIF what = 'release' AND r.state IN ('open', 'expired', 'released') THEN
			wanted := CASE r.state WHEN 'open' THEN 'released' WHEN 'released' THEN 'released already' ELSE r.state END;
			IF r.state = 'open' THEN
				PERFORM m_give_back(r.id, 0);
				UPDATE m_reservation SET state = 'released' WHERE id = r.id;
			END IF;
			found_ := dc_release('model', r.id);
		ELSIF what = 'over' AND i % 5 = 0 THEN
			SELECT * INTO g FROM m_grant WHERE NOT over ORDER BY random() LIMIT 1;
			CONTINUE WHEN g.id IS NULL;
			UPDATE m_grant SET over = true WHERE id = g.id;
			PERFORM dc_grant('model', 'k', g.amount, g.name, now(), g.priority);
		ELSE
			CONTINUE;
		END IF;
		what := left(what, 7);
		counts := counts || jsonb_build_object(what || ' ' || coalesce(found_, ''), 1 + coalesce((counts->>(what || ' ' || coalesce(found_, '')))::int, 0));
		IF wanted IS DISTINCT FROM found_ THEN
			RAISE 'call %: % %: % instead of %', i, what, r, found_, wanted;
		END IF;
		SELECT concat_ws(' ', m_left(), (SELECT coalesce(sum(reserved), 0) FROM m_reservation WHERE state = 'open'), (SELECT owed FROM m_debt), (SELECT string_agg(units::text, ',' ORDER BY id) FROM m_grant)) INTO wanted;
		SELECT concat_ws(' ', available, reserved, owed, (SELECT string_agg(dc_get('model_pool', grant_id)::text, ',' ORDER BY grant_id) FROM model)) INTO found_ FROM dc_budget('model', 'k');
		IF wanted <> found_ THEN
			RAISE 'call %, %: has % instead of %', i, what, found_, wanted;
		END IF;
		IF EXISTS (SELECT FROM dc_budget_check('model')) THEN
			RAISE 'call %, %: %', i, what, (SELECT c FROM dc_budget_check('model') AS c);
		END IF;
		wanted := NULL;
		found_ := NULL;
	END LOOP;
	-- the calls were of all kinds
	IF NOT counts ?& ARRAY['reserve 0', 'settle settled', 'settle settled already', 'settle settled late', 'release released', 'release released already', 'over '] THEN
		RAISE 'there were only %', counts;
	END IF;
END $$;
SELECT count(*) FROM dc_budget_check('model');
DROP TABLE model;
DROP FUNCTION m_draw, m_give_back, m_left, m_reserve, m_settle;
DROP TABLE m_grant, m_reservation, m_line, m_debt;
