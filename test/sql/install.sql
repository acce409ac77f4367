-- CREATE EXTENSION in a database that has never seen it; the tests that follow
-- use this one
CREATE EXTENSION dcounter;
SELECT extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'dcounter';
SELECT count(*) FROM dcounter.counter;
