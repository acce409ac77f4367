\set s1 random(0, 999)
\set r1 (:s1 + random(1, 999)) % 1000
\set s2 random(0, 999)
\set r2 (:s2 + random(1, 999)) % 1000
\set s3 random(0, 999)
\set r3 (:s3 + random(1, 999)) % 1000
\set s4 random(0, 999)
\set r4 (:s4 + random(1, 999)) % 1000
\set s5 random(0, 999)
\set r5 (:s5 + random(1, 999)) % 1000
\set s6 random(0, 999)
\set r6 (:s6 + random(1, 999)) % 1000
\set s7 random(0, 999)
\set r7 (:s7 + random(1, 999)) % 1000
\set s8 random(0, 999)
\set r8 (:s8 + random(1, 999)) % 1000
\set s9 random(0, 999)
\set r9 (:s9 + random(1, 999)) % 1000
\set s10 random(0, 999)
\set r10 (:s10 + random(1, 999)) % 1000
\set id random(1, 9000000000000000000)
SELECT dc_transfer_many('wallet', ARRAY[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10],
    ARRAY[:r1, :r2, :r3, :r4, :r5, :r6, :r7, :r8, :r9, :r10], '{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}', :id);
