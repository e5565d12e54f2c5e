#!/bin/sh
# Makes the plans in this folder anew: VERSION/NAME.json, the answers of real servers.
#
#   sh make.sh            # needs psql, and rehearse in PATH or named by REHEARSE
set -eu
cd "$(dirname "$0")"
rehearse=${REHEARSE:-rehearse}

explain() { # NAME, SQL, and settings in front of it
    psql -XqAt "$url" -c "${3:-}" -c "EXPLAIN (FORMAT JSON${settings}) $2" >"$version/$1.json"
}

for version in 13 15 18; do
    mkdir -p "$version"
    url=$("$rehearse" sandbox up "plans$version" --postgres-version "$version" | grep -o 'postgres://[^ ]*')
    psql -Xq "$url" -f schema.sql
    settings=', SETTINGS'
    by_customer="SELECT id, total FROM orders WHERE customer = 42 AND status = 'done'"
    join="SELECT c.name, count(*) FROM orders o JOIN customers c ON c.id = o.customer WHERE c.region = 3 AND o.placed >= '2026-11-01' GROUP BY c.name ORDER BY c.name"
    latest="SELECT * FROM orders WHERE customer = 42 ORDER BY placed DESC LIMIT 10"
    month="SELECT count(*) FROM events WHERE at BETWEEN '2026-01-03' AND '2026-01-15'"
    year="SELECT count(*) FROM events WHERE at BETWEEN '2026-01-03' AND '2026-12-15'"
    explain by_customer "$by_customer"
    explain by_customer-one_row "SELECT id, total FROM orders WHERE customer = 4711 AND status = 'open'"
    explain by_customer-no_index "$by_customer" "SET enable_indexscan = off; SET enable_bitmapscan = off"
    explain by_customer-index_scan "$by_customer" "SET enable_bitmapscan = off"
    explain join "$join"
    explain join-merge "$join" "SET enable_hashjoin = off; SET enable_nestloop = off; SET work_mem = '64kB'"
    explain join-loop "$join" "SET enable_hashjoin = off; SET enable_mergejoin = off"
    explain latest "$latest"
    explain month "$month"
    explain year "$year"
    explain sum "SELECT sum(total) FROM orders"
    explain sum-parallel "SELECT sum(total) FROM orders" \
        "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2"
    explain update "UPDATE orders SET total = total + 1 WHERE id = 7"
    explain subplan "SELECT (SELECT max(total) FROM orders o WHERE o.customer = c.id) FROM customers c WHERE c.region IN (SELECT n FROM generate_series(1, 3) n)"
    explain sets "SELECT status, customer % 3, count(*) FROM orders GROUP BY GROUPING SETS ((status), (customer % 3), ())"
    "$rehearse" sandbox down "plans$version"
done
