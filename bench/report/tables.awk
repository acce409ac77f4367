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

# Each case beside its baseline
function print_cold(    p, parts, label, c, i, part, clients, name, base) {
	label["cold"] = "existing keys, uniform"
	label["cold_new"] = "new keys"
	label["cold_zipf"] = "existing keys, Zipf 1.05"
	split("cold cold_new cold_zipf", parts, " ")
	print "| keys | clients | statement | rate /s | ratio | WAL bytes | ratio | processor us | ratio |"
	print "|---|---:|---|---:|---:|---:|---:|---:|---:|"
	for (p = 1; p <= 3; p++) {
		part = parts[p]
		for (c = 1; c <= columns[part]; c++) {
			clients = columns[part, c]
			base = part == "cold_new" ? "10_upsert" : "10_update"
			for (i = 1; i <= cases[part]; i++) {
				name = cases[part, i]
				printf "| %s | %s | %s | %s | %s | %s |\n", i == 1 ? label[part] : "", i == 1 ? clients : "",
					title[part, name], cost("%.0f", part, name, base, clients, "rate"),
					cost("%.0f", part, name, base, clients, "wal"), cost("%.1f", part, name, base, clients, "cpu_us")
			}
		}
	}
}

# a number and its ratio to that of the baseline, as two cells
function cost(format, part, name, base, clients, metric,    own) {
	own = median(key(part, name, clients, metric))
	return show(format, own) " | " (name == base ? "" : show("%.2f", ratio(own, median(key(part, base, clients, metric)))))
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

function print_retention(    i, name, own) {
	print "| rows let go by | seconds | ratio |"
	print "|---|---:|---:|"
	for (i = 1; i <= cases["retention"]; i++) {
		name = cases["retention", i]
		own = median(key("retention", name, "any", "seconds"))
		printf "| %s | %s | %s |\n", title["retention", name], show("%.3f", own),
			show("%.1f", ratio(own, median(key("retention", "30_rotate", "any", "seconds"))))
	}
}

function print_bound_insert(part,    i, name) {
	print "| an insert, and | rate /s | ratio | WAL bytes | ratio | processor us | ratio |"
	print "|---|---:|---:|---:|---:|---:|---:|"
	for (i = 1; i <= cases[part]; i++) {
		name = cases[part, i]
		print "| " title[part, name] " | " cost("%.0f", part, name, "10_plain", 16, "rate") " | " \
			cost("%.0f", part, name, "10_plain", 16, "wal") " | " cost("%.1f", part, name, "10_plain", 16, "cpu_us") " |"
	}
}

function print_bound_rows(list,    p, n, parts, label, i, part, name) {
	label["rollup_rows"] = "`INSERT ... SELECT`"
	label["bound_copy"] = "`COPY`"
	label["bound_update"] = "`UPDATE`"
	n = split(list, parts, " ")
	print "| statement | and | seconds | ratio | WAL bytes a row | ratio | processor us a row | ratio |"
	print "|---|---|---:|---:|---:|---:|---:|---:|"
	for (p = 1; p <= n; p++) {
		part = parts[p]
		for (i = 1; i <= cases[part]; i++) {
			name = cases[part, i]
			print "| " (i == 1 ? label[part] : "") " | " title[part, name] " | " cost("%.2f", part, name, "10_plain", "any", "seconds") " | " \
				cost("%.0f", part, name, "10_plain", "any", "wal") " | " cost("%.2f", part, name, "10_plain", "any", "cpu_us") " |"
		}
	}
}

function print_bound_build(    group_by) {
	group_by = median(key("bound_build", "group_by", "any", "seconds"))
	print "| statement | seconds | times slower |"
	print "|---|---:|---:|"
	print "| `SELECT post_id, count(*) FROM likes GROUP BY post_id` | " show("%.2f", group_by) " | |"
	print "| the same without parallel workers | " cost_of_build("group_by_serial", group_by) " |"
	print "| `CALL dc_build('post_likes')` | " cost_of_build("dc_build", group_by) " |"
	print "| `GROUP BY post_id, fan % 20`, without parallel workers | " show("%.2f", median(key("bound_build", "group_by_finest", "any", "seconds"))) " | |"
	print "| `dc_build` of `CUBE` of these two, two values | " cost_of_build("dc_build_sets", median(key("bound_build", "group_by_finest", "any", "seconds"))) " |"
	print ""
	print "| while | share of the writers' rate before and after |"
	print "|---|---:|"
	print "| a session calls `dc_build` again and again | " show("%.2f", median(key("bound_writers", "dc_build", "any", "ratio"))) " |"
	print "| the worker builds | " show("%.2f", median(key("bound_writers", "worker", "any", "ratio"))) " |"
	print "| the worker verifies | " show("%.2f", median(key("bound_writers", "verify", "any", "ratio"))) " |"
}

# seconds, and how many times as long as the GROUP BY, as two cells
function cost_of_build(name, group_by,    own) {
	own = median(key("bound_build", name, "any", "seconds"))
	return show("%.2f", own) " | " show("%.2f", ratio(own, group_by))
}

function print_rollup_read(    i, n, name, names, label) {
	label["dc_get"] = "`dc_get` of the count of all rows"
	label["month"] = "a month by days of a key, `dc_get_many`"
	label["year"] = "a year by days of a key, `dc_scan`"
	label["old"] = "`UPDATE` of 2,000 rows of half a year ago, which moves them to another day"
	label["new"] = "the same of the newest"
	n = split("dc_get month year old new", names, " ")
	print "| statement | ms | ms of the processor |"
	print "|---|---:|---:|"
	for (i = 1; i <= n; i++)
		print "| " label[names[i]] " | " show("%.3g", median(key("rollup_read", names[i], "any", "ms"))) " | " \
			(i <= 3 ? show("%.3g", median(key("rollup_read", names[i], "any", "cpu_ms"))) : "") " |"
}

function print_million() {
	print "| the worker's time, s | all compacted after, s | writers on another key meanwhile, share of their rate |"
	print "|---:|---:|---:|"
	print "| " show("%.1f", median(key("million", "dc_incr", "any", "work"))) " | " \
		show("%.1f", median(key("million", "dc_incr", "any", "seconds"))) " | " \
		show("%.2f", median(key("million", "dc_incr", "any", "ratio"))) " |"
}

function print_replay(    i, n, name, names, label) {
	label["new"] = "new events"
	label["again"] = "the same again, nine times"
	label["storm"] = "new ones, each ten times at once"
	n = split("new again storm", names, " ")
	print "| events | calls /s |"
	print "|---|---:|"
	for (i = 1; i <= n; i++)
		print "| " label[names[i]] " | " show("%.0f", median(key("replay", names[i], 16, "rate"))) " |"
}

# Each case beside its baseline, which has "_plain" after its name
function print_ledger(    i, name, own, plain) {
	print "| transfers between | function in plpgsql /s | dcounter /s | ratio |"
	print "|---|---:|---:|---:|"
	for (i = 1; i <= cases["ledger"]; i++) {
		name = cases["ledger", i]
		if (name ~ /_plain$/)
			continue
		own = median(key("ledger", name, 16, "rate"))
		plain = median(key("ledger", name "_plain", 16, "rate"))
		printf "| %s | %s | %s | %s |\n", title["ledger", name], show("%.0f", plain), show("%.0f", own),
			show("%.2f", ratio(own, plain))
	}
}

# Each case's sides, dcounter's own first, and the others' time as a multiple
function print_sketch(    i, c, name, own, sides, side, seconds, label, n) {
	label["dc_hll"] = "dc_hll"
	label["dc_cms"] = "dc_cms"
	label["dc_topk"] = "dc_topk"
	label["would_change"] = "dc_hll, `WHERE dc_hll_would_change(h, item)`"
	label["hll"] = "postgresql-hll"
	label["sum"] = "`sum(hashint8(x)::bigint)`"
	label["group_by"] = "`GROUP BY`, exact"
	n = split("dc_hll dc_cms dc_topk would_change hll sum group_by", sides, " ")
	print "| case | by | seconds | times as long |"
	print "|---|---|---:|---:|"
	for (i = 1; i <= cases["sketch"]; i++) {
		name = cases["sketch", i]
		own = ""
		for (c = 1; c <= n; c++) {
			side = sides[c]
			seconds = median(key("sketch", name, side, "seconds"))
			if (seconds == "")
				continue
			printf "| %s | %s | %.3f | %s |\n", own == "" ? title["sketch", name] : "", label[side], seconds,
				show("%.2f", ratio(seconds, own))
			if (own == "")
				own = seconds
		}
	}
}

function print_sketch_stored(    i, metric, text, n, part) {
	n = split("stored/value_bytes stored/table_bytes hash_aggregate/group_bytes", metric, " ")
	text[1] = "50 items stored: the value, bytes"
	text[2] = "50 items stored: the table, bytes a row"
	text[3] = "10 items: memory of a hash aggregate, bytes a group"
	print "| | dc_hll | postgresql-hll |"
	print "|---|---:|---:|"
	for (i = 1; i <= n; i++) {
		split(metric[i], part, "/")
		print "| " text[i] " | " show("%.0f", median(key("sketch_memory", part[1], "dc_hll", part[2]))) " | " \
			show("%.0f", median(key("sketch_memory", part[1], "hll", part[2]))) " |"
	}
}

function print_sketch_size(    c, items) {
	print "| items | dc_hll(12) | dc_hll(14) | postgresql-hll of precision 14 |"
	print "|---:|---:|---:|---:|"
	for (c = 1; c <= columns["sketch_size"]; c++) {
		items = columns["sketch_size", c]
		print "| " items " | " show("%d", median(key("sketch_size", "dc_hll_12", items, "bytes"))) " | " \
			show("%d", median(key("sketch_size", "dc_hll_14", items, "bytes"))) " | " \
			show("%d", median(key("sketch_size", "hll_14", items, "bytes"))) " |"
	}
}

# Processor time, and how many times as much it is
function print_crdt_counters(    i, c, n, name, sides, side, label, own, us) {
	label["dc_merge"] = "`dc_merge`"
	label["concat"] = "`jsonb \\|\\| jsonb`"
	label["group_by"] = "`jsonb_each_text` and `GROUP BY`"
	label["plpgsql"] = "a function of jsonb in plpgsql"
	label["sql"] = "a function of jsonb in SQL"
	n = split("dc_merge concat group_by plpgsql sql", sides, " ")
	print "| case | by | us | times as much |"
	print "|---|---|---:|---:|"
	for (i = 1; i <= cases["crdt_counters"]; i++) {
		name = cases["crdt_counters", i]
		own = ""
		for (c = 1; c <= n; c++) {
			side = sides[c]
			us = median(key("crdt_counters", name, side, "call_us"))
			if (us == "")
				us = median(key("crdt_counters", name, side, "row_us"))
			if (us == "")
				continue
			printf "| %s | %s | %.3f | %s |\n", own == "" ? title["crdt_counters", name] : "", label[side], us,
				show("%.1f", ratio(us, own))
			if (own == "")
				own = us
		}
	}
}

# What a tenth of it takes, and how many times as long the whole does
function print_crdt_sets(    i, name, whole) {
	print "| case | seconds | a tenth of it | times as long | `count(DISTINCT)` of `dc_values` |"
	print "|---|---:|---:|---:|---:|"
	for (i = 1; i <= cases["crdt_sets"]; i++) {
		name = cases["crdt_sets", i]
		whole = median(key("crdt_sets", name, "whole", "seconds"))
		printf "| %s | %s | %s | %s | %s |\n", title["crdt_sets", name], show("%.3f", whole),
			show("%.4f", median(key("crdt_sets", name, "tenth", "seconds"))),
			show("%.1f", ratio(whole, median(key("crdt_sets", name, "tenth", "seconds")))),
			show("%.3f", median(key("crdt_sets", name, "distinct", "seconds")))
	}
}

# What counting costs, of one key and of many, against a counter of one database
function print_region_local(    p, parts, label, i, part, name) {
	label["region_local"] = "one key"
	label["region_many"] = "100,000 keys"
	split("region_local region_many", parts, " ")
	print "| `dc_incr` | of | rate /s | ratio | WAL bytes | ratio | processor us | ratio |"
	print "|---|---|---:|---:|---:|---:|---:|---:|"
	for (p = 1; p <= n; p++) {
		part = parts[p]
		for (i = 1; i <= cases[part]; i++) {
			name = cases[part, i]
			print "| " (i == 1 ? label[part] : "") " | " title[part, name] " | " cost("%.0f", part, name, "20_compacted", 16, "rate") " | " \
				cost("%.0f", part, name, "20_compacted", 16, "wal") " | " cost("%.1f", part, name, "20_compacted", 16, "cpu_us") " |"
		}
	}
}

function print_region_apply(    w, what, name, label, names, n, i) {
	label["new"] = "keys that are new"
	label["known"] = "keys with a row"
	label["trigger"] = "merged"
	label["none"] = "without the trigger"
	n = split("new known", what, " ")
	split("trigger none", names, " ")
	print "| rows | applied | rows /s | processor us a row | the walsender\047s, us |"
	print "|---|---|---:|---:|---:|"
	for (w = 1; w <= n; w++)
		for (i = 1; i <= 2; i++) {
			name = names[i]
			printf "| %s | %s | %s | %s | %s |\n", i == 1 ? label[what[w]] : "", label[name],
				show("%.0f", median(key("region_apply", what[w], name, "rate"))),
				show("%.2f", median(key("region_apply", what[w], name, "cpu_us"))),
				show("%.2f", median(key("region_apply", what[w], name, "sender_us")))
		}
}

function print_region_sent(    i, n, name, names, label) {
	label["increments"] = "an increment"
	label["new"] = "a key that is compacted for the first time"
	label["known"] = "and again"
	n = split("increments new known", names, " ")
	print "| bytes for | messages | with their headers | as text (`binary = false`) |"
	print "|---|---:|---:|---:|"
	for (i = 1; i <= n; i++) {
		name = names[i]
		print "| " label[name] " | " show("%.1f", median(key("region_sent", name, "binary", "message_bytes"))) " | " \
			show("%.1f", median(key("region_sent", name, "binary", "bytes"))) " | " \
			show("%.1f", median(key("region_sent", name, "text", "bytes"))) " |"
	}
}

function print_region_decode(    i, n, name, names, label) {
	label["one_key"] = "an increment of one key"
	label["many_keys"] = "of 100,000 keys"
	label["many_keys_100"] = "of these, 100 in a transaction"
	label["compacted"] = "a key that is compacted, and sent"
	n = split("one_key many_keys many_keys_100 compacted", names, " ")
	print "| what is decoded | a second of processor time |"
	print "|---|---:|"
	for (i = 1; i <= n; i++)
		print "| " label[names[i]] " | " show("%.0f", median(key("region_decode", names[i], "any", "rate"))) " |"
}

function print_outbox_read(    i, name, far, own) {
	own = median(key("outbox_read", "20_dc_fetch", "far", "rate"))
	print "| batches of 100 | events /s | ratio |"
	print "|---|---:|---:|"
	for (i = 1; i <= cases["outbox_read"]; i++) {
		name = cases["outbox_read", i]
		far = median(key("outbox_read", name, "far", "rate"))
		printf "| %s | %s | %s |\n", title["outbox_read", name], show("%.0f", far), show("%.2f", ratio(own, far))
	}
	far = median(key("outbox_read", "20_dc_fetch", "near", "rate"))
	printf "| the same, a quarter as far behind | %s | %s |\n", show("%.0f", far), show("%.2f", ratio(own, far))
	far = median(key("outbox_held", "dc_fetch", "free", "rate"))
	printf "| the same, after a minute of reading | %s | |\n", show("%.0f", far)
	far = median(key("outbox_held", "dc_fetch", "held", "rate"))
	printf "| the same, under a snapshot as old as that | %s | |\n", show("%.0f", far)
}

function print_flush(    i, name, label) {
	label["new"] = "no row yet"
	label["known"] = "a row each"
	print "| keys have | flush, s | p99 of writers before it, ms | meanwhile, ms |"
	print "|---|---:|---:|---:|"
	for (i = 1; i <= cases["flush"]; i++) {
		name = cases["flush", i]
		printf "| %s | %s | %s | %s |\n", label[name], show("%.2f", median(key("flush", name, "any", "seconds"))),
			show("%.2f", median(key("flush", name, "any", "p99_before"))), show("%.2f", median(key("flush", name, "any", "p99")))
	}
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
	else if (table == "cold")
		print_cold()
	else if (table == "held")
		print_held()
	else if (table == "five_keys")
		print_five_keys()
	else if (table == "bulk")
		print_bulk()
	else if (table == "bound_insert")
		print_bound_insert("bound_insert")
	else if (table == "bound_rows")
		print_bound_rows("bound_copy bound_update")
	else if (table == "bound_build")
		print_bound_build()
	else if (table == "rollup_insert")
		print_bound_insert("rollup_insert")
	else if (table == "rollup_rows")
		print_bound_rows("rollup_rows")
	else if (table == "rollup_read")
		print_rollup_read()
	else if (table == "worker")
		print_rates("worker", "20_dc_incr")
	else if (table == "once")
		print_rates("once", "30_dc_incr_once")
	else if (table == "replay")
		print_replay()
	else if (table == "ledger")
		print_ledger()
	else if (table == "stock")
		print_rates("stock", "30_dc_take")
	else if (table == "sold_out")
		print_rates("sold_out", "20_dc_take")
	else if (table == "hold")
		print_rates("hold", "20_dc_hold")
	else if (table == "outbox_write")
		print_rates("outbox_write", "40_trigger")
	else if (table == "outbox_read")
		print_outbox_read()
	else if (table == "buffer")
		print_rates("buffer", "30_async")
	else if (table == "buffer_keys")
		print_rates("buffer_keys", "10_unnest")
	else if (table == "cached")
		print_rates("cached", "30_cached")
	else if (table == "limit")
		print_rates("limit", "20_one_key")
	else if (table == "presence")
		print_rates("presence", "20_beat")
	else if (table == "unread")
		print_rates("unread", "20_unread")
	else if (table == "unread_mark")
		print_rates("unread_mark", "20_mark")
	else if (table == "rank" || table == "rank_write")
		print_rates(table, table == "rank" ? "20_rank" : "20_ranks")
	else if (table ~ /^budget/)
		print_rates(table, table == "budget_refused" ? "20_refused" : table == "budget" ? "30_reserve" : "30_settle")
	else if (table == "sample")
		print_rates("sample", "30_sampled")
	else if (table == "lite")
		print_rates(table, "10_update_one_row")
	else if (table ~ /^lite_/)
		print_rates(table, table == "lite_once" ? "20_insert" : "10_update")
	else if (table == "trend" || table == "trend_zipf")
		print_rates(table, "30_with")
	else if (table == "trending")
		print_rates("trending", "20_trending")
	else if (table == "window" || table == "window_keys")
		print_rates(table, "20_incr_at")
	else if (table == "window_read")
		print_rates("window_read", "30_buckets")
	else if (table == "retention")
		print_retention()
	else if (table == "distinct")
		print_rates("distinct", "20_repeat")
	else if (table == "distinct_new" || table == "distinct_hot")
		print_rates(table, "20_add")
	else if (table == "mix")
		print_rates("mix", "20_exact")
	else if (table == "flush")
		print_flush()
	else if (table == "million")
		print_million()
	else if (table == "sketch")
		print_sketch()
	else if (table == "sketch_stored")
		print_sketch_stored()
	else if (table == "sketch_size")
		print_sketch_size()
	else if (table == "crdt_counters")
		print_crdt_counters()
	else if (table == "crdt_sets")
		print_crdt_sets()
	else if (table == "region_local")
		print_region_local()
	else if (table == "region_apply")
		print_region_apply()
	else if (table == "region_sent")
		print_region_sent()
	else if (table == "region_decode")
		print_region_decode()
	else if (table == "bars")
		print_bars()
	else
		print_plot()
}
