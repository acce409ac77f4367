\set member random(1, 100000000)
SELECT dc_enter('chat', '1', 'new ' || :member), dc_exit('chat', '1', 'new ' || :member);
