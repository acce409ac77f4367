# Rate against clients.
set title "Counting one key: commits a second against clients"
set xlabel "clients (log scale)"
set ylabel "commits a second (log scale)"
set logscale x 2
set xrange [0.9:72]
set xtics (1, 2, 4, 8, 16, 32, 64)
plot for [i = 0:last] data index turn(i) using 1:2 with linespoints pointtype 7 pointsize 0.8 \
    linewidth width(turn(i)) linecolor rgb colour(turn(i))
