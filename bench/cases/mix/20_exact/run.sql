-- Zipf with exponent 1 over 1 to 1000, as in the cases "zipf"
\set u random(1, 1000000000)
\set k int(0.5507 * exp(:u / 1000000000.0 * ln(1000.5 / 0.5507)))
SELECT dc_get('views', :k, '1 second');
