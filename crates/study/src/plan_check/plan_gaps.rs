//! Statements whose plans need something that a private server lacks: an index, a partition or the like that cannot be
//! restored, or the number of rows of a table that a change creates.

use std::collections::{BTreeMap, BTreeSet};

use planner_copy::{CreatedTable, NotRestored, PlannerExport, SchemaObject};
use plans::Plan;
use sql::{Lexeme, split_statements};

use super::result::{CheckedStatement, PlanVerdict};

/// Reason for which plans of a relation are not those of a server with the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlanGap {
    /// A part of the relation cannot be restored.
    Part(String),
    /// A change creates the relation, so its rows are not known.
    Created(String),
}

/// Relations that a private server does not have as the exported server does. Names have no schema, as in plans.
#[derive(Debug, Default)]
pub(super) struct PlanGaps {
    /// Reasons, by the name of a relation in a plan.
    in_plans: BTreeMap<String, String>,
    /// Reasons, by a name in the text of a statement. The plan may not have the relation, if it lacks all its partitions.
    in_texts: BTreeMap<String, String>,
    /// Tables that a change creates.
    created: BTreeSet<String>,
    /// Relations of the export with the prefix of the system catalogue.
    prefixed: BTreeSet<String>,
}

/// Prefix of relations and functions of the system catalogue.
const CATALOGUE_PREFIX: &str = "pg_";

impl PlanGaps {
    /// Finds the gaps of one side.
    pub(super) fn add(
        &mut self,
        export: &PlannerExport,
        left_out: &[NotRestored],
        created: &[CreatedTable],
    ) {
        let names = export.relations.iter().map(|relation| &relation.name);
        let prefixed = names.filter(|name| name.starts_with(CATALOGUE_PREFIX));
        self.prefixed.extend(prefixed.cloned());
        let objects = export.objects.iter();
        let objects: BTreeMap<String, &SchemaObject> = objects
            .map(|object| (format!("{} {}", object.kind, object.name), object))
            .collect();
        for part in left_out {
            let Some(object) = objects.get(&part.subject) else {
                continue;
            };
            let reason = format!("the private server lacks the {}", part.subject);
            let Some(relation) = relation_of(object) else {
                continue;
            };
            let kind = object.kind.as_str();
            // No plan has a view.
            if kind != "owner of a view" {
                self.in_plans.insert(relation.clone(), reason.clone());
            }
            if matches!(kind, "partition" | "owner of a view") {
                self.add_parent(export, relation, &reason);
            }
        }
        self.created
            .extend(created.iter().map(|table| table.name.clone()));
    }

    /// Adds a view, or a table without one of its partitions, with the tables and views that read it, and its other
    /// partitions.
    fn add_parent(&mut self, export: &PlannerExport, parent: String, reason: &str) {
        // Another of its partitions is missing, too.
        if self.in_texts.contains_key(&parent) {
            return;
        }
        let of_kind = |kind: &'static str| {
            let objects = export.objects.iter();
            objects.filter(move |object| object.kind == kind)
        };
        let links: Vec<(String, String)> = of_kind("partition").filter_map(link_of).collect();
        let views: Vec<(String, BTreeSet<String>)> = of_kind("view")
            .map(|view| (last_name(&view.name), names_of(&view.sql)))
            .collect();
        let mut wanted = vec![parent];
        while let Some(name) = wanted.pop() {
            if self
                .in_texts
                .insert(name.clone(), reason.to_owned())
                .is_some()
            {
                continue;
            }
            for (parent, child) in &links {
                if *child == name {
                    wanted.push(parent.clone());
                } else if *parent == name {
                    self.in_plans.insert(child.clone(), reason.to_owned());
                }
            }
            let readers = views.iter().filter(|(_, names)| names.contains(&name));
            wanted.extend(readers.map(|(view, _)| view.clone()));
        }
    }

    /// Returns the gap of a statement's plans, if there is one and the verdict needs what is lacking. A statement that the server
    /// after refuses is refused in any case, and a changed plan is reported even if a part is lacking.
    pub(super) fn of(&self, statement: &CheckedStatement) -> Option<PlanGap> {
        if statement.verdict == PlanVerdict::Error {
            return None;
        }
        let pairs = statement.plans.iter();
        let (before, after): (Vec<_>, Vec<_>) = pairs
            .map(|pair| (pair.plans.before.plan(), pair.plans.after.plan()))
            .unzip();
        let after = relations(after.into_iter().flatten());
        if let Some(name) = self.created.intersection(&after).next() {
            return Some(PlanGap::Created(format!(
                "the change creates the table {name}, whose rows and statistics are not known"
            )));
        }
        let mut read = relations(before.into_iter().flatten());
        read.extend(after);
        let is_catalogue =
            |name: &&String| name.starts_with(CATALOGUE_PREFIX) && !self.prefixed.contains(*name);
        if let Some(name) = read.iter().find(is_catalogue) {
            return Some(PlanGap::Part(format!(
                "it reads {name} of the system catalogue, which is small on the private server and has no statistics"
            )));
        }
        if statement.verdict == PlanVerdict::Changed {
            return None;
        }
        let in_plans = read.iter().find_map(|name| self.in_plans.get(name));
        let reason = in_plans.or_else(|| {
            // No text is read without need.
            let names = match self.in_texts.is_empty() {
                true => BTreeSet::new(),
                false => names_of(&statement.sql),
            };
            names.iter().find_map(|name| self.in_texts.get(name))
        });
        reason.map(|reason| PlanGap::Part(reason.clone()))
    }
}

fn relations<'p>(plans: impl Iterator<Item = &'p Plan>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for plan in plans {
        plan.root
            .each(&mut |node, _| found.extend(node.relation.clone()));
    }
    found
}

/// Returns the relation that lacks an object, as its statement names it.
fn relation_of(object: &SchemaObject) -> Option<String> {
    let before_name = match object.kind.as_str() {
        "index" | "index of a materialized view" | "policy" => "on",
        "check constraint"
        | "constraint"
        | "foreign key"
        | "dropped column"
        | "row security"
        | "owner of a table with policies" => "table",
        "owner of a view" => "view",
        "partition" => return link_of(object).map(|(parent, _)| parent),
        "extended statistics" => "from",
        "rule" => "to",
        _ => return None,
    };
    let statements = split_statements(&object.sql);
    let words = &statements.first()?.words;
    let mut places = (0..words.len()).filter(|place| words[*place].is(before_name));
    // An expression of extended statistics may have the word, too.
    let place = match before_name {
        "from" => places.next_back()?,
        _ => places.next()?,
    };
    qualified_name(&words[place + 1..])
}

/// Returns parent and child of a partition's statement.
fn link_of(object: &SchemaObject) -> Option<(String, String)> {
    let statements = split_statements(&object.sql);
    let words = &statements.first()?.words;
    let after = |keyword: &str| {
        let place = words.iter().position(|word| word.is(keyword))?;
        qualified_name(&words[place + 1..])
    };
    match after("inherit") {
        Some(parent) => Some((parent, after("table")?)),
        None => Some((after("table")?, after("partition")?)),
    }
}

/// Returns the last part of the qualified name at the start of these words, after `ONLY`.
fn qualified_name(words: &[Lexeme<'_>]) -> Option<String> {
    let is_only = words.first().is_some_and(|word| word.is("only"));
    let words = &words[usize::from(is_only)..];
    match words {
        [_, dot, name, ..] if dot.is_symbol(".") => name.name(),
        [name, ..] => name.name(),
        [] => None,
    }
}

fn last_name(qualified: &str) -> String {
    let statements = split_statements(qualified);
    let words = statements.first().map_or(&[][..], |one| &one.words[..]);
    qualified_name(words).unwrap_or_default()
}

/// Returns all names of a text, without qualification.
fn names_of(sql: &str) -> BTreeSet<String> {
    let statements = split_statements(sql).into_iter();
    let words = statements.flat_map(|statement| statement.words);
    words.filter_map(|word| word.name()).collect()
}
