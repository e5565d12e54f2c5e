//! Compares two targets: settings, extensions, databases, relations and indexes.
//!
//! Facts that one run does not know (older runs, roles without privileges, facts left out) are not
//! differences: nothing is reported as missing on a side that was not fully inspected.

mod build;
mod code;
mod schema;
mod settings;
mod statistics;

use std::collections::{BTreeMap, BTreeSet};

use run::{DatabaseFact, FactNote, Facts};
use schemars::JsonSchema;
use serde::Serialize;

use crate::side::Side;

pub(crate) use schema::COLLATION_OF;
pub use schema::{
    Detail, IndexDifference, InvalidIndex, ObjectDifference, Presence, SIZE_FACTOR, SizeDifference,
};
pub use settings::{SettingArea, SettingDifference, SettingSide, readable};
pub use statistics::{StatisticsGap, StatisticsGapKind};

/// Differences between two targets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TargetsComparison {
    /// Whether the targets are equal as far as is known, except for sizes and for locations such as
    /// ports and directories.
    pub same: bool,
    /// `server_version` before, if known.
    pub version_before: Option<String>,
    /// `server_version` after, if known.
    pub version_after: Option<String>,
    /// Settings that differ; those that affect plans first.
    pub settings: Vec<SettingDifference>,
    /// Number of settings that only the server before has, with their default value.
    pub settings_gone: usize,
    /// Number of settings that only the server after has, with their default value.
    pub settings_new: usize,
    /// Databases whose encoding, locale or collation version differs.
    pub databases: Vec<ObjectDifference>,
    /// Extensions that exist on one side only, or in different versions.
    pub extensions: Vec<ObjectDifference>,
    /// Relations that exist on one side only, or with different definitions.
    pub relations: Vec<ObjectDifference>,
    /// Indexes that exist on one side only, or with different definitions.
    pub indexes: Vec<IndexDifference>,
    /// Names of indexes that are not of one table: a message with such a name may mean any of them.
    #[serde(skip)]
    pub repeated_index_names: BTreeSet<String>,
    /// Functions that exist on one side only, or with different sources. Extensions' own are not compared.
    pub functions: Vec<ObjectDifference>,
    /// Triggers that exist on one side only, or in different states or with different definitions.
    pub triggers: Vec<ObjectDifference>,
    /// Differences between the builds of the servers: packager, compiler, platform, options, JIT library, assertions.
    pub build: Vec<Detail>,
    /// Tables whose statistics one side lacks, or has much older ones of.
    pub statistics_gaps: Vec<StatisticsGap>,
    /// Indexes that queries cannot use, on either side.
    pub invalid_indexes: Vec<InvalidIndex>,
    /// Sizes and estimates that differ by more than [`SIZE_FACTOR`], by descending factor.
    pub sizes: Vec<SizeDifference>,
    /// Facts that a side does not know.
    pub notes: Vec<TargetNote>,
}

/// Fact that is not known about a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetNote {
    /// The side.
    pub side: Side,
    /// The note.
    #[serde(flatten)]
    pub note: FactNote,
}

impl TargetsComparison {
    /// Returns the first difference that two runs of one unchanged server do not have; `None` if there is none, as far as
    /// is known.
    pub fn first_difference(&self) -> Option<String> {
        let setting = self.settings.iter();
        let mut setting = setting.filter(|one| one.bearing != SettingArea::Place);
        let objects = [
            ("database", &self.databases),
            ("extension", &self.extensions),
            ("relation", &self.relations),
            ("function", &self.functions),
            ("trigger", &self.triggers),
        ];
        let object = objects
            .into_iter()
            .find_map(|(kind, all)| Some(format!("{kind} {}", all.first()?.name)));
        let build = self.build.first();
        build
            .map(|one| format!("build: {}", one.what))
            .or_else(|| setting.next().map(|one| format!("setting {}", one.name)))
            .or(object)
            .or_else(|| {
                let index = self.indexes.first()?;
                Some(format!("index {}", index.name))
            })
    }

    fn is_same(&self) -> bool {
        let matters = |one: &&SettingDifference| one.bearing != SettingArea::Place;
        self.settings.iter().find(matters).is_none()
            && self.version_before == self.version_after
            && self.databases.is_empty()
            && self.extensions.is_empty()
            && self.relations.is_empty()
            && self.indexes.is_empty()
            && self.functions.is_empty()
            && self.triggers.is_empty()
            && self.build.is_empty()
            && self.statistics_gaps.is_empty()
            && self.invalid_on(Side::Before) == self.invalid_on(Side::After)
    }

    /// Returns table and name of the invalid indexes; the database may have a different name in a
    /// copy.
    fn invalid_on(&self, side: Side) -> BTreeSet<(&str, &str)> {
        let all = self.invalid_indexes.iter();
        all.filter(|one| one.side == side)
            .map(|one| (&*one.table, &*one.name))
            .collect()
    }
}

/// Compares the facts of two targets.
pub fn compare_targets(before: &Facts, after: &Facts) -> TargetsComparison {
    let (settings, [settings_gone, settings_new]) = settings::differences(before, after);
    let version = |facts: &Facts| {
        let mut all = facts.settings.iter();
        all.find(|one| one.name == "server_version")?.value.clone()
    };
    let mut found = TargetsComparison {
        version_before: version(before),
        version_after: version(after),
        settings,
        settings_gone,
        settings_new,
        build: build::differences(before, after),
        ..TargetsComparison::default()
    };
    for (one, other) in databases(before, after) {
        let name = match one.name == other.name {
            true => one.name.clone(),
            false => format!("{} → {}", one.name, other.name),
        };
        let details = database(one, other);
        if !details.is_empty() {
            found.databases.push(ObjectDifference {
                database: name.clone(),
                name: name.clone(),
                presence: Presence::Differs,
                details,
            });
        }
        let pair = schema::DatabasePair {
            before,
            after,
            names: [&one.name, &other.name],
            shown: &name,
        };
        found.extensions.extend(pair.extensions());
        found.relations.extend(pair.relations());
        found.indexes.extend(pair.indexes());
        found.functions.extend(pair.functions());
        found.triggers.extend(pair.triggers());
        found.statistics_gaps.extend(pair.statistics_gaps());
        found.sizes.extend(pair.sizes());
    }
    found
        .sizes
        .sort_by(|a, b| b.factor().total_cmp(&a.factor()));
    for (side, facts) in [(Side::Before, before), (Side::After, after)] {
        found.invalid_indexes.extend(schema::invalid(side, facts));
        // The first note only says that the fact was requested.
        let notes = facts.notes.iter().skip(1);
        found
            .notes
            .extend(notes.cloned().map(|note| TargetNote { side, note }));
    }
    found.repeated_index_names = repeated_index_names(before, after);
    found.same = found.is_same();
    found
}

/// Returns the names that several indexes of a side have, or indexes of different tables on the two sides.
fn repeated_index_names(before: &Facts, after: &Facts) -> BTreeSet<String> {
    let mut tables: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    for facts in [before, after] {
        let mut of_side = BTreeSet::new();
        for index in &facts.indexes {
            let tables = tables.entry(&index.name).or_default();
            tables.insert((&index.schema, &index.table));
            if !of_side.insert(&index.name) || tables.len() > 1 {
                repeated.insert(index.name.clone());
            }
        }
    }
    repeated
}

/// Returns the corresponding databases: those of the same name, and the last one on either side.
fn databases<'f>(before: &'f Facts, after: &'f Facts) -> Vec<(&'f DatabaseFact, &'f DatabaseFact)> {
    let by_name = |facts: &'f Facts| -> BTreeMap<&'f str, &'f DatabaseFact> {
        let all = facts.databases.iter();
        all.map(|one| (one.name.as_str(), one)).collect()
    };
    let (one, other) = (by_name(before), by_name(after));
    let mut pairs: Vec<_> = one
        .iter()
        .filter_map(|(name, database)| Some((*database, *other.get(name)?)))
        .collect();
    let (names, others): (BTreeSet<_>, BTreeSet<_>) =
        (one.keys().collect(), other.keys().collect());
    let left: Vec<_> = names.difference(&others).collect();
    let left_other: Vec<_> = others.difference(&names).collect();
    if let ([name], [other_name]) = (&left[..], &left_other[..]) {
        pairs.push((one[***name], other[***other_name]));
    }
    pairs
}

fn database(one: &DatabaseFact, other: &DatabaseFact) -> Vec<Detail> {
    let text = |text: &str| Some(text.to_owned());
    let mut details = Vec::new();
    let mut differ = |what: &str, was: Option<String>, is: Option<String>| {
        // An attribute that a version does not have is not a difference.
        if was.is_some() && is.is_some() && was != is {
            details.push(Detail {
                what: what.to_owned(),
                before: was,
                after: is,
            });
        }
    };
    differ("encoding", text(&one.encoding), text(&other.encoding));
    differ("collation", text(&one.collate), text(&other.collate));
    differ("character type", text(&one.ctype), text(&other.ctype));
    differ(
        "locale provider",
        one.provider.clone(),
        other.provider.clone(),
    );
    differ("locale", one.locale.clone(), other.locale.clone());
    differ(
        "collation version",
        one.collation_version_now.clone(),
        other.collation_version_now.clone(),
    );
    for (side, database) in [("before", one), ("after", other)] {
        let (made_with, now) = (&database.collation_version, &database.collation_version_now);
        if let (Some(made_with), Some(now)) = (made_with, now)
            && made_with != now
        {
            details.push(Detail {
                what: format!("collation version of the {side} side: made with, and now"),
                before: Some(made_with.clone()),
                after: Some(now.clone()),
            });
        }
    }
    details
}
