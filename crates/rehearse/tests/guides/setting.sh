# What the guides assume: a server with traffic in its log, copies of its data, workloads and runs.
# Runs in an empty directory, with rehearse and PostgreSQL's clients on PATH.
set -euo pipefail

server() { # NAME [OPTION…]: a private server on TCP; prints its URL
    rehearse sandbox up "$@" --tcp >/dev/null
    rehearse sandbox url "$1"
}

cat >schema.sql <<'SQL'
CREATE ROLE app LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE DATABASE shop;
\connect shop
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id int NOT NULL, status text NOT NULL, total numeric NOT NULL);
CREATE TABLE image_links (id int PRIMARY KEY, url text NOT NULL, download_after timestamptz);
INSERT INTO orders (customer_id, status, total)
    SELECT id * 7919 % 500, 'open', id % 1000 FROM generate_series(1, 20000) AS id;
INSERT INTO image_links SELECT id, 'https://example.com/' || id FROM generate_series(1, 1000) AS id;
GRANT SELECT, INSERT, UPDATE ON orders, image_links TO app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app;
VACUUM ANALYZE;
SQL
cat >client.sql <<'SQL'
SELECT id, total FROM orders WHERE customer_id = 17;
UPDATE orders SET status = 'paid' WHERE id = 42;
UPDATE image_links SET download_after = '2026-03-02 09:30' WHERE id = 5;
INSERT INTO orders (customer_id, status, total) VALUES (17, 'open', 12.50);
INSERT INTO orders (customer_id, status, total) VALUES (18, 'open', 7.25);
SELECT count(*) FROM orders WHERE customer_id = 18;
SQL
echo 'CREATE INDEX ON orders (customer_id);' >index.sql

DB=$(server db --set logging_collector=on --set log_filename=postgresql-1.log --set log_destination=stderr,csvlog)
SHOP=${DB/postgres\?/shop?}
psql -qX -v ON_ERROR_STOP=1 -f schema.sql "$DB"
pg_dump -Fc "$SHOP" >shop.dump

rehearse capture settings 2>/dev/null | psql -qX "$DB" >/dev/null
# Both kinds of log: the guides have examples of each.
psql -qX -c "ALTER SYSTEM SET log_destination = 'stderr,csvlog'" -c 'SELECT pg_reload_conf()' "$DB" >/dev/null
clients=()
for client in 1 2 3; do
    for _ in 1 2 3 4 5; do
        PGAPPNAME=web$client PGOPTIONS=-crole=app psql -qX -o /dev/null -f client.sql "$SHOP"
    done &
    clients+=($!)
done
wait "${clients[@]}"
data=$(psql -qXAt -c 'SHOW data_directory' "$DB")
mkdir log
cp "$data/log/postgresql-1.log" log/
cp "$data/log/postgresql-1.csv" postgresql.csv
gzip -c log/postgresql-1.log >old.log.gz
rehearse capture settings --undo 2>/dev/null | psql -qX "$DB" >/dev/null

# A copy as the server was at the start, to which the clients' statements are replayed.
copy() { # NAME [OPTION…]: prints its URL
    local url
    url=$(server "$@")
    psql -qX -v ON_ERROR_STOP=1 "$url" >/dev/null <<'SQL'
CREATE ROLE app LOGIN;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
SQL
    pg_restore --create --dbname "$url" shop.dump
    psql -qX "${url/postgres\?/shop?}" -c 'VACUUM ANALYZE' >/dev/null
    echo "$url"
}
COPY=$(copy copy)
rehearse capture log postgresql.csv -o given.workload >/dev/null
for run in before b1 b2 b3 after a1 a2 a3; do
    rehearse replay given.workload --target "$COPY" --speed max -o "$run.run" --explain --observe >/dev/null
done
printf '%s\n' "$DB" "$COPY" >urls
