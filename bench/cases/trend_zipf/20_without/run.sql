-- Zipf with exponent 1 over 1 to 10000: within 2 % of it for each key. int()
-- rounds. random_zipfian starts at 1.001, and there one number costs 9 us of a
-- processor that the server needs.
\set u random(1, 1000000000)
\set k int(0.5507 * exp(:u / 1000000000.0 * ln(10000.5 / 0.5507)))
SELECT dc_incr('likes', :k);
