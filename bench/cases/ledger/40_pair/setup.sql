\i bench/cases/ledger/wallet.sql
