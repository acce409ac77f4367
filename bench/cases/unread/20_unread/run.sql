\set member random(1, 2000)
SELECT unread FROM dc_unread('seen', :member::text, ARRAY['c1']);
