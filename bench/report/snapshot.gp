# Rate over time: of each case one block without the snapshot, then one with it.
set title "Counting one key, 16 clients, while a snapshot is held (thin: no snapshot)"
set xlabel "seconds since the snapshot was taken"
set ylabel "commits a second (log scale)"
pair(i) = (i / 2 * 2 + last - 1) % (last + 1)
plot for [i = 0:last:2] data index pair(i) using 1:2 with lines linewidth 0.8 \
    linecolor rgb colour(pair(i)) notitle, \
    for [i = 0:last:2] data index pair(i) + 1 using 1:2 with lines linewidth width(pair(i)) \
    linecolor rgb colour(pair(i))
