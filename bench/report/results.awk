# Reads titles (part, case, title), results (part, case, parameter, metric,
# round, value) and bars, in this order; then print_TABLE of tables.awk runs.

function key(part, name, parameter, metric) {
	return part "/" name "/" parameter "/" metric
}

# The median of the rounds; "" if it was not run.
function median(k,    n, i, j, v, parts) {
	n = split(substr(values[k], 2), parts, " ")
	if (n == 0)
		return ""
	for (i = 1; i <= n; i++) {          # insertion sort: n is small
		v = parts[i] + 0
		for (j = i - 1; j >= 1 && parts[j] > v; j--)
			parts[j + 1] = parts[j]
		parts[j + 1] = v
	}
	return n % 2 ? parts[(n + 1) / 2] : (parts[n / 2] + parts[n / 2 + 1]) / 2
}

function sum(k,    n, i, parts, total) {
	n = split(substr(values[k], 2), parts, " ")
	if (n == 0)
		return ""
	for (i = 1; i <= n; i++)
		total += parts[i]
	return total
}

# A number for a table, or a dash where there is none.
function show(format, value) {
	return value == "" ? "-" : sprintf(format, value)
}

function ratio(a, b) {
	return a == "" || b == "" || b == 0 ? "" : a / b
}

function rank_of_case(part, name) {
	if (!((part, name) in seen)) {
		seen[part, name] = 1
		cases[part, ++cases[part]] = name
	}
}

function column_of(part, parameter) {
	if (!((part, parameter) in columns_seen)) {
		columns_seen[part, parameter] = 1
		columns[part, ++columns[part]] = parameter
	}
}

FNR == 1 { file++ }
file == 1 { title[$1, $2] = $3 }
file == 2 {
	rank_of_case($1, $2)
	column_of($1, $3)
	k = key($1, $2, $3, $4)
	values[k] = values[k] " " $6
}
file == 3 && !/^#/ { bars[++bars_count] = $0 }
