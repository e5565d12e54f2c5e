//! Pages in a real browser: they load without errors and without requests, and their controls work.
//! Without a browser these tests print a note and pass, unless `REHEARSE_TEST_BROWSER=1` requires
//! one. `REHEARSE_TEST_PICTURES=FOLDER` keeps screenshots of the pages.

mod chromium;
mod compare;
mod flame;
mod harness;
mod inspect;
mod plans;
mod shop_runs;
mod sweep;
#[path = "../synthetic/mod.rs"]
mod synthetic;
#[path = "../../../analysis/compare/tests/made_up/mod.rs"]
mod synthetic_runs;
// The tests of the program use more of it, on pages that the program serves.
#[allow(dead_code)]
mod tab;
mod upgrade;
