-- What memory.sql has left, on a server that is preloaded: prints a line for each thing.
\set ON_ERROR_STOP on
\set QUIET on
\pset format unaligned
\pset tuples_only on
SET search_path = rooms, public;

SELECT 'buffered', k, dc_get('pings', k) FROM unnest('{host:0,host:1,host:2}'::text[]) AS k;
SELECT 'limit', (dc_limit_peek('login', 'ip:192.0.2.1')).remaining, (dc_limit_peek('login', 'ip:192.0.2.2')).remaining, (dc_limit_peek('export', 'customer:7')).remaining;
SELECT 'present', dc_present('chat', 'lobby'), dc_present('chat', 'hall'), dc_present('stadium', 'final');
SELECT 'member', member, meta FROM dc_presence_list('chat', 'lobby');
