//! Two targets side by side: settings, extensions, databases, relations and indexes.
//!
//! What one run does not know (older runs, roles without privileges, what was left out) is no
//! difference: nothing is said to be missing on a side that was not fully looked at.

mod schema;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use run::{DatabaseFact, FactNote, Facts};
use schemars::JsonSchema;
use serde::Serialize;

use crate::warning::Side;

pub use schema::{
    Detail, IndexDifference, InvalidIndex, ObjectDifference, Presence, SIZE_FACTOR, SizeDifference,
};
pub use settings::{Bearing, SettingDifference, SettingSide, readable};

/// What is different between two targets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TargetsComparison {
    /// Whether the targets are alike, as far as is known, except for sizes and for places such as ports
    /// and directories.
    pub same: bool,
    /// `server_version` before, if known.
    pub version_before: Option<String>,
    /// `server_version` after, if known.
    pub version_after: Option<String>,
    /// Settings; those that bear on plans first.
    pub settings: Vec<SettingDifference>,
    /// Settings that only the server before has, and that are as by default there.
    pub settings_gone: usize,
    /// Settings that only the server after has, and that are as by default there.
    pub settings_new: usize,
    /// Databases' encoding, locale and collation versions.
    pub databases: Vec<ObjectDifference>,
    /// Extensions that are in one only, or of another version.
    pub extensions: Vec<ObjectDifference>,
    /// Tables and the like that are in one only, or defined otherwise.
    pub relations: Vec<ObjectDifference>,
    /// Indexes that are in one only, or defined otherwise.
    pub indexes: Vec<IndexDifference>,
    /// Indexes that queries may not use, on either side.
    pub invalid_indexes: Vec<InvalidIndex>,
    /// Sizes and estimates that differ by more than [`SIZE_FACTOR`], the greatest factor first.
    pub sizes: Vec<SizeDifference>,
    /// What a side does not know.
    pub notes: Vec<TargetNote>,
}

/// Something that is not known of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetNote {
    /// The side.
    pub side: Side,
    /// What is not known.
    #[serde(flatten)]
    pub note: FactNote,
}

impl TargetsComparison {
    fn is_same(&self) -> bool {
        let matters = |one: &&SettingDifference| one.bearing != Bearing::Place;
        self.settings.iter().find(matters).is_none()
            && self.version_before == self.version_after
            && self.databases.is_empty()
            && self.extensions.is_empty()
            && self.relations.is_empty()
            && self.indexes.is_empty()
            && self.invalid_on(Side::Before) == self.invalid_on(Side::After)
    }

    /// Tables and names; a copy has the same under the name of another database.
    fn invalid_on(&self, side: Side) -> BTreeSet<(&str, &str)> {
        let all = self.invalid_indexes.iter();
        all.filter(|one| one.side == side)
            .map(|one| (&*one.table, &*one.name))
            .collect()
    }
}

/// Compares what two runs know of their targets.
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
        let pair = schema::Pair {
            before,
            after,
            names: [&one.name, &other.name],
            shown: &name,
        };
        found.extensions.extend(pair.extensions());
        found.relations.extend(pair.relations());
        found.indexes.extend(pair.indexes());
        found.sizes.extend(pair.sizes());
    }
    found
        .sizes
        .sort_by(|a, b| b.factor().total_cmp(&a.factor()));
    for (side, facts) in [(Side::Before, before), (Side::After, after)] {
        found.invalid_indexes.extend(schema::invalid(side, facts));
        // The first says only that it was asked.
        let notes = facts.notes.iter().skip(1);
        found
            .notes
            .extend(notes.cloned().map(|note| TargetNote { side, note }));
    }
    found.same = found.is_same();
    found
}

/// The databases that correspond: those of one name, and the last one on either side.
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
        // What a version does not tell is no difference.
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
