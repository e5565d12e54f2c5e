//! Pages in a real browser: they open without a complaint and without a request, and what one can
//! do with them works. Where there is no browser these tests say so and pass, unless
//! `REHEARSE_TEST_BROWSER=1` asks for one. `REHEARSE_TEST_PICTURES=FOLDER` keeps pictures of the
//! pages, to be looked at.

mod chromium;
mod compare;
mod flame;
mod harness;
mod inspect;
#[path = "../made_up/mod.rs"]
mod made_up;
#[path = "../../../analysis/compare/tests/made_up/mod.rs"]
mod made_up_runs;
mod shop_runs;
mod sweep;
// The tests of the program open what it serves, and use more of it.
#[allow(dead_code)]
mod tab;
