//! Differences of functions and triggers.

use run::{Facts, FunctionFact, TriggerFact};

use super::schema::{DatabasePair, ObjectDifference, differ};

/// Whether the facts were read by a version that reads functions, triggers and the build. The build is always known.
fn knows_code(facts: &Facts) -> bool {
    !facts.build.is_empty()
}

impl DatabasePair<'_> {
    fn complete_code(&self, about: &str) -> [bool; 2] {
        let [before, after] = self.complete(about);
        [
            before && knows_code(self.before),
            after && knows_code(self.after),
        ]
    }

    pub(super) fn functions(&self) -> Vec<ObjectDifference> {
        let complete = self.complete_code("functions");
        let both = self.both::<FunctionFact, _>(
            |facts| &facts.functions,
            |one| &one.database,
            |one| format!("{}.{}({})", one.schema, one.name, one.arguments),
        );
        self.objects(both, complete, |one, other| {
            let mut details = Vec::new();
            differ(
                &mut details,
                "definition",
                &one.definition,
                &other.definition,
            );
            differ(
                &mut details,
                "hash of the source",
                &one.source_hash,
                &other.source_hash,
            );
            details
        })
    }

    pub(super) fn triggers(&self) -> Vec<ObjectDifference> {
        let complete = self.complete_code("triggers");
        let both = self.both::<TriggerFact, _>(
            |facts| &facts.triggers,
            |one| &one.database,
            |one| format!("{} on {}.{}", one.name, one.schema, one.table),
        );
        self.objects(both, complete, |one, other| {
            let mut details = Vec::new();
            differ(&mut details, "state", &one.state, &other.state);
            differ(
                &mut details,
                "definition",
                &one.definition,
                &other.definition,
            );
            details
        })
    }
}
