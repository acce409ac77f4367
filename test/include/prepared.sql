-- Two-phase commit on the counter table c
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned

-- Kept, taken back, with savepoints and early writes
BEGIN;
SELECT dc_incr('c', '2pc', 1), dc_incr('c', '2pc b', 10);
SAVEPOINT a;
SELECT dc_incr('c', '2pc', 100);
SAVEPOINT b;
SELECT dc_apply();
SELECT dc_incr('c', '2pc', 2);
ROLLBACK TO b;
RELEASE a;
PREPARE TRANSACTION 'regress_dc_1';
SELECT dc_get('c', '2pc'), dc_get('c', '2pc b');
-- ... it blocks nobody, in this session or another
SELECT dc_incr('c', '2pc', 1000);
SELECT dc_get('c', '2pc'), dc_compact('c') > 0, dc_get('c', '2pc');
COMMIT PREPARED 'regress_dc_1';
SELECT dc_get('c', '2pc'), dc_get('c', '2pc b');
BEGIN;
SELECT dc_incr('c', '2pc', 10000), dc_apply(), dc_incr('c', '2pc', 10000);
PREPARE TRANSACTION 'regress_dc_2';
SELECT dc_incr('c', '2pc', 5);
SELECT dc_get('c', '2pc');
ROLLBACK PREPARED 'regress_dc_2';
SELECT dc_get('c', '2pc'), dc_sum('c') = (SELECT sum(value) FROM c) + (SELECT sum(inc - dec) FROM c_shard);
-- An error while preparing is a rollback
SELECT dc_decr('c', '2pc full', 9223372036854775807);
BEGIN;
SELECT dc_incr('c', '2pc', 1), dc_apply(), dc_incr('c', '2pc', 1);
SELECT dc_incr('c', '2pc full', 9223372036854775807), dc_apply(), dc_incr('c', '2pc full', 1);
PREPARE TRANSACTION 'regress_dc_3';
SELECT dc_get('c', '2pc'), dc_get('c', '2pc full'), dc_delete('c', '2pc full');
SELECT count(*) FROM pg_prepared_xacts WHERE gid LIKE 'regress_dc%';
\pset format aligned
\pset tuples_only off
\unset VERBOSITY
