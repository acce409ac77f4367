-- For compose.yaml, after the schema of the live page: its role connects over the network.
ALTER ROLE web PASSWORD 'web';
