//! Applications with planted troubles, and the harness that diagnoses them with the built program.

#![allow(
    dead_code,
    reason = "the benchmark and the test each use a part of the harness"
)]

#[path = "application.rs"]
pub mod application;
#[path = "case.rs"]
pub mod case;
#[path = "client.rs"]
pub mod client;
#[path = "draw.rs"]
pub mod draw;
#[path = "kinds/mod.rs"]
pub mod kinds;
#[path = "program.rs"]
pub mod program;
#[path = "table.rs"]
pub mod table;
#[path = "truth.rs"]
pub mod truth;
