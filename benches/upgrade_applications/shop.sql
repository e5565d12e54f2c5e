-- Shop: joins, monthly partitions, JSON documents.
CREATE FUNCTION draw(bigint, bigint) RETURNS float8 IMMUTABLE LANGUAGE sql
    AS 'SELECT (hashint8extended($1, $2) & 1073741823) / 1073741824.0';
CREATE TABLE customers (id int PRIMARY KEY, email text NOT NULL, name text NOT NULL, country char(2) NOT NULL, tier int NOT NULL,
    created timestamptz NOT NULL, settings jsonb NOT NULL);
INSERT INTO customers SELECT i, 'customer' || i || '@example.org', 'Customer ' || i,
    (ARRAY['DE', 'DE', 'DE', 'FR', 'US', 'GB', 'IT', 'ES', 'AT', 'PL'])[1 + floor(draw(i, 1) ^ 2 * 10)], floor(draw(i, 2) ^ 3 * 8),
    '2023-01-01 00:00+00'::timestamptz + i * interval '9 minutes',
    jsonb_build_object('language', (ARRAY['de', 'en', 'fr'])[1 + i % 3], 'news', i % 5 = 0) FROM generate_series(1, 100000) i;
CREATE UNIQUE INDEX customers_email ON customers (email);
CREATE INDEX customers_country ON customers (country, tier);
CREATE INDEX customers_created ON customers (created);
CREATE TABLE categories (id int PRIMARY KEY, parent int REFERENCES categories, name text NOT NULL);
INSERT INTO categories SELECT i, CASE WHEN i > 10 THEN i / 10 END, 'Category ' || i FROM generate_series(1, 200) i;
CREATE TABLE products (id int PRIMARY KEY, sku text NOT NULL UNIQUE, category int NOT NULL REFERENCES categories,
    price numeric(10, 2) NOT NULL, stock int NOT NULL, attributes jsonb NOT NULL);
INSERT INTO products SELECT i, 'SKU-' || i, 1 + floor(draw(i, 3) ^ 2 * 200), round((1 + draw(i, 4) ^ 3 * 900)::numeric, 2),
    floor(draw(i, 5) * 100), jsonb_build_object('color', (ARRAY['black', 'white', 'red', 'blue', 'green'])[1 + floor(draw(i, 6) ^ 2 * 5)],
    'weight', i % 90, 'maker', 'maker ' || i % 300, 'notes', repeat(md5(i::text), 3)) FROM generate_series(1, 20000) i;
CREATE INDEX products_category ON products (category, price);
CREATE INDEX products_attributes ON products USING gin (attributes jsonb_path_ops);
CREATE TABLE orders (id bigint NOT NULL, customer int NOT NULL, placed timestamptz NOT NULL, status text NOT NULL,
    channel text NOT NULL, total numeric(12, 2) NOT NULL, PRIMARY KEY (id, placed)) PARTITION BY RANGE (placed);
DO $$ BEGIN FOR m IN 1..12 LOOP
    EXECUTE format('CREATE TABLE orders_%s PARTITION OF orders FOR VALUES FROM (%L) TO (%L)', to_char(m, 'FM00'),
        make_timestamptz(2025, m, 1, 0, 0, 0, 'UTC'), make_timestamptz(2025 + m / 12, 1 + m % 12, 1, 0, 0, 0, 'UTC'));
END LOOP; END $$;
INSERT INTO orders SELECT i, 1 + floor(draw(i, 7) ^ 2 * 100000), '2025-01-01 00:00+00'::timestamptz + i * interval '104 seconds',
    CASE WHEN i > 297000 THEN 'open' WHEN draw(i, 8) < 0.03 THEN 'returned' ELSE 'done' END,
    (ARRAY['web', 'app', 'store'])[1 + floor(draw(i, 9) ^ 2 * 3)], round((draw(i, 10) ^ 2 * 800)::numeric, 2)
    FROM generate_series(1, 300000) i;
CREATE INDEX orders_customer ON orders (customer, placed);
CREATE INDEX orders_placed ON orders (placed);
CREATE INDEX orders_open ON orders (placed) WHERE status = 'open';
CREATE TABLE lines (order_id bigint NOT NULL, no int NOT NULL, product int NOT NULL REFERENCES products, quantity int NOT NULL,
    price numeric(10, 2) NOT NULL, PRIMARY KEY (order_id, no));
INSERT INTO lines SELECT o, n, 1 + floor(draw(o * 4 + n, 11) ^ 2 * 20000), 1 + floor(draw(o * 4 + n, 12) ^ 3 * 5),
    round((draw(o * 4 + n, 13) * 100)::numeric, 2) FROM generate_series(1, 300000) o, generate_series(1, 2) n;
CREATE INDEX lines_product ON lines (product);
CREATE TABLE reviews (id int PRIMARY KEY, product int NOT NULL REFERENCES products, customer int NOT NULL, stars int NOT NULL,
    written date NOT NULL, body text NOT NULL);
INSERT INTO reviews SELECT i, 1 + floor(draw(i, 14) ^ 3 * 20000), 1 + floor(draw(i, 15) * 100000), 1 + floor(sqrt(draw(i, 16)) * 5),
    '2024-01-01'::date + i / 150, repeat('good ', 1 + i % 20) FROM generate_series(1, 80000) i;
CREATE INDEX reviews_product ON reviews (product);
CREATE INDEX reviews_written ON reviews USING brin (written);
CREATE TABLE carts (customer int PRIMARY KEY, changed timestamptz NOT NULL, items jsonb NOT NULL);
INSERT INTO carts SELECT i * 5, '2025-12-01 00:00+00'::timestamptz + i * interval '1 minute', '[]' FROM generate_series(1, 20000) i;
CREATE STATISTICS customers_tiers (dependencies, mcv) ON country, tier FROM customers;
DROP FUNCTION draw;
