//! Numerical methods: quantiles, samples over time, resampling, and tests of differences.
//!
//! All times are nanoseconds unless a name says otherwise. Quantiles are nearest rank
//! ([`quantile`]). Randomness is seeded ([`SplitMix64`]), so that equal inputs give equal results.
//! This crate knows neither databases nor runs.

mod arrivals;
pub mod block_length;
pub mod bootstrap;
pub mod false_discovery_rate;
mod histogram;
mod latency_summary;
mod measure;
pub mod permutation_test;
pub mod quantile;
mod random;
mod sample_mean;
pub mod sequential;
pub mod series;
pub mod timeline;
pub mod trend;
mod unit;
pub mod variance_components;

pub use arrivals::{ARRIVAL_BUCKETS_MAX, Arrivals, width_us};
pub use bootstrap::{INTERVAL_LEVEL_PERCENT, Interval, RESAMPLES, Ratio};
pub use false_discovery_rate::FALSE_DISCOVERY_RATE;
pub use histogram::Histogram;
pub use latency_summary::LatencySummary;
pub use measure::Measure;
pub use random::SplitMix64;
pub use sample_mean::SampleMean;
pub use series::SAMPLES_MAX;
pub use timeline::STRETCHES_MAX;
pub use unit::Unit;
