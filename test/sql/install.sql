-- CREATE EXTENSION in a database that has never seen it; the tests that follow
-- use this one
CREATE EXTENSION dcounter;
-- On a server that has it preloaded, the worker would change what they look at: it
-- stays away from this database
SELECT dc_worker_stop() IS NOT NULL AS stopped;
SELECT count(pid) FROM dc_stat_worker WHERE datname = current_database();
SELECT extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'dcounter';
SELECT count(*) FROM dcounter.counter;
