-- More of the behaviour of the counter table c, for tables of this server only:
-- what the limits of a row do, and how many rows there are.
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned

-- A row that would leave bigint is an error at commit, and nothing is changed
SELECT dc_set('c', 'full', 9223372036854775806);
BEGIN;
SELECT dc_incr('c', 'before', 1), dc_incr('c', 'zz after', 1), dc_incr('c', 'full', 2);
SELECT dc_get('c', 'before'), dc_get('c', 'zz after');
COMMIT;
SELECT dc_get('c', 'before'), dc_get('c', 'zz after'), dc_get('c', 'full');
SELECT dc_incr('c', 'full', 1);
SELECT dc_get('c', 'full'), dc_delete('c', 'full');
-- dec is a limit of its own, which the value does not show
BEGIN;
SELECT dc_decr('c', 'down', 9223372036854775807);
COMMIT;
SELECT dc_incr('c', 'down', 9223372036854775807);
SELECT dc_get('c', 'down'), dc_decr('c', 'down', 1);
SELECT value, inc, dec FROM dc_info('c', 'down');
SELECT dc_delete('c', 'down');
-- The rows of a key: one from each transaction while nobody else is about, a
-- second one from an early write, none after two compactions
SELECT dc_incr('c', 'rows', i) FROM generate_series(1, 3) i;
SELECT dc_incr('c', 'rows', 4);
SELECT value, shards FROM dc_info('c', 'rows');
BEGIN;
SELECT dc_incr('c', 'rows', 5), dc_apply(), dc_incr('c', 'rows', 6), dc_apply(), dc_incr('c', 'rows', 7);
COMMIT;
SELECT value, shards FROM dc_info('c', 'rows');
SELECT dc_compact('c') > 0;
SELECT value, shards FROM dc_info('c', 'rows');
SELECT dc_compact('c');
SELECT value, shards FROM dc_info('c', 'rows');
\pset format aligned
\pset tuples_only off
\unset VERBOSITY
