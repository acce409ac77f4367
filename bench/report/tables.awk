# The tables of the page, one function each; -v table=NAME chooses.

# cases x clients: rate, and how many times faster dc_incr was
function print_rates(part, reference,    i, c, clients, name, own, head, line, row) {
	head = "| case |"
	line = "|---|"
	for (c = 1; c <= columns[part]; c++) {
		clients = columns[part, c]
		head = head sprintf(" %d client%s /s | ratio |", clients, clients == 1 ? "" : "s")
		line = line "---:|---:|"
	}
	print head
	print line
	for (i = 1; i <= cases[part]; i++) {
		name = cases[part, i]
		row = "| " title[part, name] " |"
		for (c = 1; c <= columns[part]; c++) {
			clients = columns[part, c]
			own = median(key(part, name, clients, "rate"))
			row = row " " show("%.0f", own) " | " \
				show("%.2f", ratio(median(key(part, reference, clients, "rate")), own)) " |"
		}
		print row
	}
}

function print_held(    i, name, free, held, read_free, read_held) {
	print "| case | no snapshot /s | held /s | kept | read, no snapshot ms | read, held ms | times slower |"
	print "|---|---:|---:|---:|---:|---:|---:|"
	for (i = 1; i <= cases["held"]; i++) {
		name = cases["held", i]
		free = median(key("held", name, "free", "rate_last"))
		held = median(key("held", name, "held", "rate_last"))
		read_free = median(key("held", name, "free", "read_ms"))
		read_held = median(key("held", name, "held", "read_ms"))
		printf "| %s | %s | %s | %s | %s | %s | %s |\n", title["one_key", name], show("%.0f", free),
			show("%.0f", held), show("%.2f", ratio(held, free)), show("%.3f", read_free),
			show("%.3f", read_held), show("%.2f", ratio(read_held, read_free))
	}
}

function print_five_keys(    c, i, name, level) {
	print "| isolation level | transaction | committed /s | deadlocks | serialization failures |"
	print "|---|---|---:|---:|---:|"
	for (c = 1; c <= columns["five_keys"]; c++)
		for (i = 1; i <= cases["five_keys"]; i++) {
			level = columns["five_keys", c]
			name = cases["five_keys", i]
			printf "| %s | %s | %s | %s | %s |\n", level, title["five_keys", name],
				show("%.0f", median(key("five_keys", name, level, "rate"))),
				show("%d", sum(key("five_keys", name, level, "deadlocks"))),
				show("%d", sum(key("five_keys", name, level, "serialization")))
		}
}

function print_bulk(    group_by, dc_incr) {
	group_by = median(key("bulk", "group_by", "any", "seconds"))
	dc_incr = median(key("bulk", "dc_incr", "any", "seconds"))
	print "| statement | seconds | times slower |"
	print "|---|---:|---:|"
	print "| `SELECT page, count(*) FROM events GROUP BY page` | " show("%.2f", group_by) " | |"
	print "| `SELECT dc_incr('hits', page) FROM events` | " show("%.2f", dc_incr) " | " \
		show("%.2f", ratio(dc_incr, group_by)) " |"
}

function print_million() {
	print "| the worker's time, s | all compacted after, s | writers on another key meanwhile, share of their rate |"
	print "|---:|---:|---:|"
	print "| " show("%.1f", median(key("million", "dc_incr", "any", "work"))) " | " \
		show("%.1f", median(key("million", "dc_incr", "any", "seconds"))) " | " \
		show("%.2f", median(key("million", "dc_incr", "any", "ratio"))) " |"
}

# A value that a bar names: KEY or "sum KEY"
function value_of(text) {
	return sub(/^sum /, "", text) ? sum(text) : median(text)
}

function print_bars(    i, field, measured, required, verdict) {
	print "| bar | required | measured | |"
	print "|---|---:|---:|---|"
	for (i = 1; i <= bars_count; i++) {
		split(bars[i], field, / *\| */)
		required = field[3] + 0
		measured = value_of(field[4])
		if (field[5] != "")
			measured = ratio(measured, value_of(field[5]))
		if (measured == "")
			verdict = "not run"
		else if (field[2] == "at least")
			verdict = measured >= required ? "met" : "missed"
		else
			verdict = measured <= required ? "met" : "missed"
		printf "| %s | %s %s | %s | %s |\n", field[1], field[2], field[3],
			show(measured == int(measured) ? "%d" : "%.3f", measured), verdict == "missed" ? "**missed**" : verdict
	}
}

# For gnuplot: a block a case (those run with every number of clients), its
# name and title first, then clients and rate
function print_plot(    i, c, name, n) {
	for (i = 1; i <= cases["one_key"]; i++) {
		name = cases["one_key", i]
		for (c = n = 0; c < columns["one_key"]; )
			n += (key("one_key", name, columns["one_key", ++c], "rate") in values)
		if (n < columns["one_key"])
			continue
		print "# " name
		print "\"" title["one_key", name] "\""
		for (c = 1; c <= columns["one_key"]; c++)
			print columns["one_key", c], median(key("one_key", name, columns["one_key", c], "rate"))
		print "\n"
	}
}

END {
	if (table == "one_key")
		print_rates("one_key", "50_dc_incr")
	else if (table == "zipf")
		print_rates("zipf", "20_dc_incr")
	else if (table == "held")
		print_held()
	else if (table == "five_keys")
		print_five_keys()
	else if (table == "bulk")
		print_bulk()
	else if (table == "worker")
		print_rates("worker", "20_dc_incr")
	else if (table == "stock")
		print_rates("stock", "30_dc_take")
	else if (table == "sold_out")
		print_rates("sold_out", "20_dc_take")
	else if (table == "hold")
		print_rates("hold", "20_dc_hold")
	else if (table == "million")
		print_million()
	else if (table == "bars")
		print_bars()
	else
		print_plot()
}
