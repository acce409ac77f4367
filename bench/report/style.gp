# Shared by both pictures; plot.sh sets data and cases (see draw there). A viewer without DejaVu
# Sans takes another font.
set terminal svg size 900,560 noenhanced font "DejaVu Sans,15" background "white" linewidth 1
set border 3 linecolor rgb "#555555"
set tics nomirror
set grid ytics linecolor rgb "#dddddd" linewidth 1 dashtype solid
set key outside bottom center horizontal Left reverse maxcols 2 samplen 3 spacing 1.3 height 1
set key autotitle columnheader
set logscale y 10
set ytics ("100" 100, "200" 200, "500" 500, "1,000" 1000, "2,000" 2000, "5,000" 5000, "10,000" 10000, \
    "20,000" 20000, "50,000" 50000, "100,000" 100000, "200,000" 200000, "500,000" 500000)
# colours that the colour-blind can tell apart (Okabe and Ito); dc_incr is 5
array colours[9] = ["#d55e00", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#56b4e9", "#000000", "#999999", "#000000"]
number(i) = int(word(cases, i + 1))
colour(i) = colours[number(i)]
width(i) = number(i) == 5 ? 5 : 2
last = words(cases) - 1
# dc_incr, the last, is drawn first: a wide line under the others
turn(i) = (i + last) % (last + 1)
stats data using ($2 > 0 ? $2 : NaN) nooutput
set yrange [STATS_min * 0.8:STATS_max * 1.25]
