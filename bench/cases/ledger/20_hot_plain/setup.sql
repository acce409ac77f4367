\i bench/cases/ledger/plain.sql
