//! Kinds of troubles. Each generates an application with its trouble, and knows the truth about it.

mod constraints;
mod expressions;
mod healthy;
mod indexes;
mod locks;
mod planner;
mod rewrites;
mod settings;
mod writes;

use super::application::Application;
use super::draw::Draw;

/// Kind of trouble.
pub struct Kind {
    /// Name.
    pub name: &'static str,
    /// Major versions of PostgreSQL.
    versions: std::ops::RangeInclusive<u16>,
    /// Whether all tables are vacuumed and analysed after they are filled.
    is_analysed: bool,
    /// Whether commits reach the disk.
    is_flushed: bool,
    generate: fn(&mut Draw, &mut Application),
}

/// Kind on all versions, with fresh statistics.
const fn kind(name: &'static str, generate: fn(&mut Draw, &mut Application)) -> Kind {
    Kind {
        name,
        versions: 11..=99,
        is_analysed: true,
        is_flushed: false,
        generate,
    }
}

impl Kind {
    const fn on(self, first: u16, last: u16) -> Self {
        Kind {
            versions: first..=last,
            ..self
        }
    }

    const fn unanalysed(self) -> Self {
        Kind {
            is_analysed: false,
            ..self
        }
    }

    const fn flushed(self) -> Self {
        Kind {
            is_flushed: true,
            ..self
        }
    }

    /// Whether it can be planted on a version.
    pub fn supports(&self, major: Option<u16>) -> bool {
        major.is_none_or(|major| self.versions.contains(&major))
    }

    /// Generates the application.
    pub fn application(&self, draw: &mut Draw) -> Application {
        let mut application = Application::default();
        if !self.is_flushed {
            // A disk whose flushes cost nothing, so that they are not the greatest trouble.
            application.settings.push(("fsync", "off".to_owned()));
        }
        if self.name != JIT {
            // Otherwise some plans are compiled, which would be a second trouble.
            application.settings.push(("jit", "off".to_owned()));
        }
        application.add_healthy_parts(draw);
        (self.generate)(draw, &mut application);
        if self.is_analysed {
            application.sql("VACUUM ANALYZE");
        }
        application
    }
}

/// Name of the kind whose plans are compiled.
const JIT: &str = "jit-short-queries";

/// All kinds.
pub const KINDS: &[Kind] = &[
    kind("missing-composite-index", indexes::composite),
    kind("wrong-column-order", indexes::column_order),
    kind("low-selectivity-index-only", indexes::low_selectivity),
    kind("missing-partial-index", indexes::partial),
    kind("missing-covering-index", indexes::covering),
    kind("missing-join-index", indexes::join),
    kind("or-across-columns", indexes::or_columns),
    kind("jsonb-containment", indexes::jsonb_containment),
    kind("array-overlap", indexes::array_overlap),
    kind("recursive-without-index", indexes::recursive),
    kind("expression-lower", expressions::lower),
    kind("expression-date", expressions::date),
    kind("expression-coalesce", expressions::coalesce),
    kind("expression-cast", expressions::cast),
    kind("implicit-numeric-cast", expressions::numeric_parameter),
    kind("like-prefix-collation", expressions::like_prefix),
    kind("leading-wildcard", expressions::leading_wildcard),
    kind("collation-mismatch", expressions::collation_mismatch),
    kind("volatile-function", expressions::volatile_function),
    kind("foreign-key-delete", constraints::delete_parent),
    kind("foreign-key-cascade", constraints::cascade),
    kind("slow-trigger", constraints::trigger),
    kind("slow-check", constraints::check),
    kind("stale-statistics", planner::stale_statistics).unanalysed(),
    kind("correlated-columns", planner::correlated_columns).on(12, 99),
    kind("generic-plan", planner::generic_plan).on(12, 99),
    kind("many-partitions-planned", planner::partitions_planned).on(12, 99),
    kind("partition-key-missing", planner::partition_key_missing).on(12, 99),
    // The archives' builds have no compiler.
    kind(JIT, settings::jit).on(15, 15),
    kind("lossy-bitmap", settings::lossy_bitmap),
    kind("random-page-cost", settings::random_page_cost),
    kind("effective-cache-size", settings::effective_cache_size),
    kind("parallel-short-queries", settings::parallel),
    kind("offset-paging", rewrites::offset),
    kind("count-all", rewrites::count_all),
    kind("n-plus-one", rewrites::n_plus_one),
    kind("not-in-subquery", rewrites::not_in),
    kind("materialized-cte", rewrites::materialized).on(12, 99),
    kind("distinct-join-blowup", rewrites::distinct_blowup),
    kind("connection-churn", rewrites::connection_churn),
    kind("too-many-indexes", writes::too_many_indexes),
    kind("hot-broken-by-index", writes::hot_broken),
    kind("random-keys", writes::random_keys),
    kind("one-row-commits", writes::commit_flush).flushed(),
    kind("dead-rows", writes::dead_rows),
    kind("bloated-table", writes::bloated_table),
    kind("hot-row", locks::hot_row),
    kind("ddl-queue", locks::ddl_queue),
    kind("claim-without-skip", locks::claim_without_skip),
    kind("idle-in-transaction", locks::idle_in_transaction),
    kind("healthy-lookups", healthy::lookups),
    kind("healthy-reports", healthy::reports),
    kind("healthy-writes", healthy::writes),
    kind("innocent-suspects", healthy::suspects),
];
