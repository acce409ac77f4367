\set member random(1, 100000)
\set room :member % 100
SELECT dc_beat('chat', :room::text, :member::text);
