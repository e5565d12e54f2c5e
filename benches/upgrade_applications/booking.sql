-- Directory and bookings: indexes on text in the order of the database's collation, text search, arrays, ranges, functions.
CREATE EXTENSION btree_gist;
CREATE FUNCTION draw(bigint, bigint) RETURNS float8 IMMUTABLE LANGUAGE sql
    AS 'SELECT (hashint8extended($1, $2) & 1073741823) / 1073741824.0';
CREATE FUNCTION sort_key(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT lower(regexp_replace($1, ''[^[:alnum:]]'', '''', ''g''))';
CREATE FUNCTION price_of(nights int, rate numeric) RETURNS numeric STABLE LANGUAGE plpgsql
    AS 'BEGIN RETURN nights * rate * CASE WHEN nights >= 7 THEN 0.9 ELSE 1 END; END';
CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, given text NOT NULL, town text NOT NULL, phone text NOT NULL, interests text[] NOT NULL,
    joined date NOT NULL);
INSERT INTO people SELECT i, (ARRAY['Adams', 'adler', 'Baker', 'de Boer', 'Clark', 'Ericson', 'eriksen', 'Fischer', 'Garcia', 'van Hall',
        'Ivanov', 'jones', 'Keller', 'Lopez', 'Meyer', 'meier', 'O''Neil', 'Smith', 'Smyth', 'Zhang'])[1 + floor(draw(i, 1) ^ 2 * 20)]
        || '-' || to_char(i % 4000, 'FM0000'),
    (ARRAY['Anna', 'Ben', 'Chris', 'Dora', 'Eva', 'Finn', 'Greta', 'Hugo'])[1 + i % 8], 'Town ' || floor(draw(i, 2) ^ 3 * 800), '+49' || i,
    ARRAY['i' || floor(draw(i, 3) ^ 2 * 60), 'i' || floor(draw(i, 4) * 60), 'j' || i % 9], '2018-01-01'::date + i / 60
    FROM generate_series(1, 150000) i;
CREATE INDEX people_name ON people (name, given);
CREATE INDEX people_key ON people (sort_key(name));
CREATE INDEX people_town ON people (town, name);
CREATE INDEX people_interests ON people USING gin (interests);
CREATE UNIQUE INDEX people_phone ON people (phone);
CREATE TABLE places (id int PRIMARY KEY, title text NOT NULL, town text NOT NULL, rate numeric(8, 2) NOT NULL, beds int NOT NULL, features text[] NOT NULL,
    about text NOT NULL, search tsvector NOT NULL);
INSERT INTO places SELECT i, 'House ' || i % 977 || ' at ' || t, t, 20 + i % 180, 1 + i % 6, ARRAY['f' || i % 25, 'g' || i % 40], about,
    to_tsvector('english', about) FROM (SELECT i, 'Town ' || floor(draw(i, 5) ^ 2 * 800) AS t,
        'A ' || (ARRAY['quiet', 'bright', 'large', 'small', 'old', 'modern'])[1 + floor(draw(i, 6) ^ 2 * 6)] || ' house with '
        || (ARRAY['garden', 'pool', 'balcony', 'fireplace', 'view', 'garage', 'sauna', 'terrace'])[1 + floor(draw(i, 7) ^ 2 * 8)]
        || ' close to the ' || (ARRAY['lake', 'forest', 'station', 'centre', 'beach', 'castle'])[1 + floor(draw(i, 8) * 6)] || ' number' || i % 500 AS about
        FROM generate_series(1, 40000) i) s;
CREATE INDEX places_search ON places USING gin (search);
CREATE INDEX places_features ON places USING gin (features);
CREATE INDEX places_town ON places (town, rate);
CREATE INDEX places_title ON places (title);
CREATE TABLE bookings (id int PRIMARY KEY, place int NOT NULL REFERENCES places, person int NOT NULL REFERENCES people, stay daterange NOT NULL,
    state text NOT NULL, note text);
INSERT INTO bookings SELECT i, 1 + i % 40000, 1 + floor(draw(i, 9) ^ 2 * 150000), daterange('2024-01-01'::date + i / 40000 * 50 + i % 30,
        '2024-01-01'::date + i / 40000 * 50 + i % 30 + 1 + (draw(i, 10) ^ 2 * 14)::int),
    CASE WHEN i > 395000 THEN 'asked' WHEN draw(i, 11) < 0.05 THEN 'cancelled' ELSE 'paid' END, CASE WHEN i % 50 = 0 THEN 'note ' || i END
    FROM generate_series(1, 400000) i;
CREATE INDEX bookings_person ON bookings (person);
ALTER TABLE bookings ADD CONSTRAINT bookings_stay EXCLUDE USING gist (place WITH =, stay WITH &&);
CREATE INDEX bookings_first ON bookings (lower(stay));
CREATE INDEX bookings_asked ON bookings (place) WHERE state = 'asked';
CREATE INDEX bookings_note ON bookings (note) WHERE note IS NOT NULL;
CREATE TABLE towns (name text PRIMARY KEY, country text NOT NULL, people int NOT NULL);
INSERT INTO towns SELECT 'Town ' || i, (ARRAY['DE', 'AT', 'CH', 'FR'])[1 + i % 4], 1000 + i * 37 FROM generate_series(0, 799) i;
CREATE VIEW guests AS SELECT b.id, b.place, b.stay, p.name, p.given, p.town FROM bookings b JOIN people p ON p.id = b.person WHERE b.state = 'paid';
CREATE STATISTICS places_towns (ndistinct, mcv) ON town, beds FROM places;
DROP FUNCTION draw;
