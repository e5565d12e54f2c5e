//! Pure numerics: quantiles, samples in the order of time, resampling, tests of differences.
//!
//! All times are nanoseconds unless a name says otherwise. Quantiles are nearest rank ([`quantile`]). Randomness is
//! seeded ([`SplitMix64`]), so that the same values always give the same answer. Nothing here knows of databases or runs.

mod arrivals;
pub mod between_runs;
pub mod blocks;
pub mod bootstrap;
pub mod discovery;
pub mod exchange;
mod histogram;
mod latency_summary;
mod measure;
pub mod quantile;
mod random;
pub mod series;
pub mod timeline;
pub mod trend;
mod unit;

pub use arrivals::{ARRIVAL_BUCKETS_MAX, Arrivals, width_us};
pub use bootstrap::{INTERVAL_LEVEL_PERCENT, Interval, RESAMPLES, Ratio};
pub use discovery::FALSE_DISCOVERY_RATE;
pub use histogram::Histogram;
pub use latency_summary::LatencySummary;
pub use measure::Measure;
pub use random::SplitMix64;
pub use series::SAMPLES_MAX;
pub use timeline::STRETCHES_MAX;
pub use unit::Unit;
