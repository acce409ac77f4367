SELECT count(*) FROM dcounter.outbox;
