//! Which values of a text stand by a key.

use super::*;
use crate::rewrite::counterfactual::swapped::key::KeyKind;

fn key() -> SwappedKey {
    let column = |table: &str, column: &str, place| KeyColumn {
        schema: "public".to_owned(),
        table: table.to_owned(),
        column: column.to_owned(),
        place,
    };
    SwappedKey {
        kind: KeyKind::Uuid,
        columns: vec![column("links", "id", 0), column("visits", "link", 1)],
        namesakes: vec![("others".to_owned(), "id".to_owned())],
    }
}

/// The text with what was found in brackets: values `«…»`, arrays `««…»»`, types `{…}`.
fn marked(sql: &str) -> String {
    let found = places(sql, &key());
    if let Some(why) = found.refused {
        return why.to_owned();
    }
    let mut marks: Vec<(usize, &str)> = Vec::new();
    for place in &found.values {
        let (open, close) = match place.is_array {
            true => ("««", "»»"),
            false => ("«", "»"),
        };
        marks.extend([(place.token.start, open), (place.token.end, close)]);
    }
    for range in &found.types {
        marks.extend([(range.start, "{"), (range.end, "}")]);
    }
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.0));
    let mut out = sql.to_owned();
    for (at, mark) in marks {
        out.insert_str(at, mark);
    }
    out
}

#[test]
fn values_stand_by_the_columns_of_the_key() {
    for expected in [
        "select * from links where id = «$1»",
        "select * from links l where l.id = «$1» and l.other = $2 and m.id = $3",
        "select * from public.links where «'x'»::{uuid} = links.id and other = 'y'::uuid",
        "select * from elsewhere.links where id = $1",
        "select * from other where id = $1",
        "select * from links where id in («$1», «'b'») and n in (1, 2)",
        "select * from links where id not in («$1»)",
        "select * from links as \"L\" where \"L\".id = any (««$1»»::{uuid}[]) or \"L\".id = any(array[«$2», «$3»::{uuid}]::{uuid}[])",
        "select * from links where id is not distinct from «$1» and id between «$2» and «$3»",
        "select * from links where id > «$1» order by id limit $2",
        "select * from links where id = ( «$1» ) and id = cast(«$2» as {uuid}) and id = {uuid} «'z'»",
        "select coalesce($1, a) from links where id = f(a)",
        "insert into links values («$1», $2), («'x'»::{uuid}, $3) on conflict do nothing",
        "insert into links (a, id) values ($1, «$2») on conflict (id) do update set a = $3 where links.id = «$4»",
        "insert into visits as v (\"link\", at) values («$1», default)",
        "insert into links (id, a) values (default, 1), (null, 2)",
        "insert into links (a) values ($1)",
        "insert into visits (at, link) select $1, «$2»::{uuid} where not exists (select 1 from links where id = «$3»)",
        "insert into visits (at, link) select now(), l.id from links l where l.id = «$1»",
        "with gone as (delete from visits where link = «$1» returning link) select * from gone where link = «$2»",
        "update visits set link = «$1», n = n + $2 where link = «$3»",
        "select * from links where id in (select link from visits where at > 100 and link = «$1» limit 10)",
        "select * from links where id = any (select link from visits where n = $1)",
        "select * from links where id = «$1»::character varying(36) and id = «$2»::{pg_catalog.uuid}",
        "select * from visits v, links l where v.link = l.id and l.id = «$1» and n in (1, 2)",
        "select * from (select 1) x, links where links.id = «$1» and n = $2",
        "select * from links where id = «$1» or id = «$1»",
        "insert into links (id) values («$1») on conflict (id) do update set a = $2 where links.id = «$1»",
        "select * from others o join links l on o.n = l.n where l.id = «$1» and o.id = $2",
        "update others set a = 5 where id = 7 and \"links\" = 'x'",
        "select * from orders where id = 7 and exists (select 1 from visits where visits.link = orders.x)",
        "copy (select * from links where id = «'x'») to stdout",
        "delete from links where id=«$1»; select $2",
    ] {
        let sql: String = expected
            .chars()
            .filter(|one| !"«»{}".contains(*one))
            .collect();
        assert_eq!(marked(&sql), expected);
    }
}

#[test]
fn what_words_do_not_say_is_refused_or_left() {
    for (sql, expected) in [
        (
            "insert into links (id) values (f($1))",
            "an expression in the place of a key",
        ),
        (
            "insert into links (id) values (gen_random_uuid())",
            "an expression in the place of a key",
        ),
        (
            "select * from links where id = f($1)",
            "an expression beside a key",
        ),
        (
            "select * from links where decode($1, 'hex') = id",
            "an expression beside a key",
        ),
        (
            "update visits set link = coalesce($1, link) where n = $2",
            "an expression beside a key",
        ),
        (
            "select case id when $1 then 1 end from links",
            "an expression beside a key",
        ),
        (
            "select * from links where id::text = $1",
            "a cast of a key's column",
        ),
        (
            "select * from links where id::text in ($1)",
            "a cast of a key's column",
        ),
        (
            "select * from links where id like $1",
            "a pattern for a key",
        ),
        (
            "select * from links where (id, a) = ($1, $2)",
            "a key in a row that is compared",
        ),
        (
            "select * from links where (at, id) > ($1, $2)",
            "a key in a row that is compared",
        ),
        (
            "select * from links where id in (values ($1))",
            "a key in a row that is compared",
        ),
        (
            "insert into links (id, a) select $1, 1 union all select $2, 2",
            "keys from rows of a query",
        ),
        (
            "insert into links (id) select * from unnest($1::uuid[])",
            "keys from rows of a query",
        ),
        (
            "insert into users (id, name) select $1, $1 from links where id = $1",
            "a parameter that is more than a key",
        ),
        (
            "select * from others, links where id = $1",
            "a column's name that two of its tables have",
        ),
        (
            "merge into links l using (values ($1)) v(x) on l.id = v.x when matched then delete",
            "PREPARE or MERGE",
        ),
        (
            "copy links (id) from stdin; copy visits (link) from stdin",
            "several COPYs in one text",
        ),
        (
            "prepare p as select * from links where id = $1",
            "PREPARE or MERGE",
        ),
        (
            "copy links (a, id) from stdin (format csv)",
            "a COPY in another form than text",
        ),
        (
            "copy links (a) from stdin (format csv)",
            "copy links (a) from stdin (format csv)",
        ),
        ("copy links to stdout", "copy links to stdout"),
    ] {
        assert_eq!(marked(sql), expected, "{sql}");
    }
    let found = places("copy visits from stdin", &key());
    assert_eq!(found.copied, [1]);
    let found = places("copy public.visits (at, link) from stdin", &key());
    assert_eq!(found.copied, [1]);
    assert!(
        places("copy visits (at) from stdin", &key())
            .copied
            .is_empty()
    );
    let found = places("select f($1) from links where id = $2", &key());
    assert_eq!(found.others.len(), 1);
    assert_eq!(found.others[0].parameter, Some(1));
}
