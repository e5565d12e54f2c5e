//! Work in constraints and triggers, which is not in the plan of the statement.

use super::super::application::{Application, Sessions, Value, prepared};
use super::super::draw::{Draw, Role};
use super::super::truth::Truth;

/// Adds a parent and a child without an index on the foreign key.
fn add_family(
    draw: &mut Draw,
    app: &mut Application,
    action: &str,
    is_kept: bool,
) -> (String, String, String, u64) {
    let (parent, child) = (draw.table(), draw.table());
    let key = format!("{}_{parent}", draw.column(Role::Reference));
    let (parents, children) = (draw.number(20_000, 40_000), draw.number(80_000, 140_000));
    let (columns, values) = draw.filler();
    app.table(
        parent,
        &format!("id int PRIMARY KEY, {columns}"),
        parents,
        &format!("i, {values}"),
    );
    let (columns, values) = draw.filler();
    let first = if is_kept { parents / 2 } else { 0 };
    app.table(
        child,
        &format!("id int PRIMARY KEY, {key} int REFERENCES {parent} (id) {action}, {columns}"),
        children,
        &format!("i, {first} + 1 + (i * 31::bigint) % ({parents} - {first}), {values}"),
    );
    (parent.to_owned(), child.to_owned(), key, parents)
}

/// Parents without children are deleted, and each is looked for in all children.
pub fn delete_parent(draw: &mut Draw, app: &mut Application) {
    let (parent, child, key, parents) = add_family(draw, app, "", true);
    let sql = format!("DELETE FROM {parent} WHERE id = $1");
    app.sessions.push(Sessions::troubled(
        2,
        30,
        vec![prepared(sql, vec![Value::number(1, parents / 2)])],
    ));
    app.truth = Truth::new(&[&["create index", &format!("on {child} ({key}")]]);
}

/// Children are deleted with their parent.
pub fn cascade(draw: &mut Draw, app: &mut Application) {
    let action = draw.choose(&["ON DELETE CASCADE", "ON DELETE SET NULL"]);
    let (parent, child, key, parents) = add_family(draw, app, action, false);
    let sql = format!("DELETE FROM {parent} WHERE id = $1");
    app.sessions.push(Sessions::troubled(
        2,
        30,
        vec![prepared(sql, vec![Value::number(1, parents)])],
    ));
    app.truth = Truth::new(&[&["create index", &format!("on {child} ({key}")]]);
}

/// A trigger that reads another table without an index.
pub fn trigger(draw: &mut Draw, app: &mut Application) {
    let (table, other) = (draw.table(), draw.table());
    let (group, amount) = (draw.column(Role::Reference), draw.column(Role::Amount));
    let groups = draw.number(800, 2_000);
    let rows = draw.number(60_000, 120_000);
    let (columns, values) = draw.filler();
    app.table(
        other,
        &format!("id int PRIMARY KEY, {group} int NOT NULL, {amount} int NOT NULL, {columns}"),
        rows,
        &format!("i, (i * 7919::bigint) % {groups}, i % 100, {values}"),
    );
    app.sql(format!(
        "CREATE TABLE {table} (id bigserial PRIMARY KEY, {group} int NOT NULL, total bigint)"
    ));
    let function = format!("sum_of_{other}");
    app.sql(format!(
        "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         SELECT sum({amount}) INTO NEW.total FROM {other} WHERE {group} = NEW.{group}; RETURN NEW; END $$"
    ));
    let name = format!("fill_{table}");
    app.sql(format!(
        "CREATE TRIGGER {name} BEFORE INSERT ON {table} FOR EACH ROW EXECUTE PROCEDURE {function}()"
    ));
    let sql = format!("INSERT INTO {table} ({group}) VALUES ($1)");
    app.sessions.push(Sessions::troubled(
        2,
        30,
        vec![prepared(sql, vec![Value::number(0, groups)])],
    ));
    app.truth = Truth::new(&[
        &["create index", &format!("on {other} ({group}")],
        &["trigger", &format!("{name}|{function}")],
    ])
    .or_by_hand(&[&["trigger", &format!("{name}|{function}")]]);
}

/// A check that calls a slow function.
pub fn check(draw: &mut Draw, app: &mut Application) {
    let (table, amount) = (draw.table(), draw.column(Role::Amount));
    let function = format!("is_valid_{amount}");
    let loops = draw.number(100_000, 200_000);
    app.sql(format!(
        "CREATE FUNCTION {function}(value int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ DECLARE n int := 0; \
         BEGIN FOR i IN 1..{loops} LOOP n := n + i % 7; END LOOP; RETURN value >= 0; END $$"
    ));
    let constraint = format!("{table}_sane");
    app.sql(format!(
        "CREATE TABLE {table} (id bigserial PRIMARY KEY, {amount} int NOT NULL, \
         CONSTRAINT {constraint} CHECK ({function}({amount})))"
    ));
    let sql = format!("INSERT INTO {table} ({amount}) VALUES ($1)");
    app.sessions.push(Sessions::troubled(
        2,
        20,
        vec![prepared(sql, vec![Value::number(0, 1_000)])],
    ));
    let term = format!("{constraint}|{function}");
    app.truth = Truth::new(&[&["constraint|check|function", &term]])
        .or_by_hand(&[&["constraint|check|function", &term]]);
}
