//! The lease of a sandbox whose owner is killed, with a real server.

use connect::login::Dialer;
use replay::{LoginMap, Target};
use sandbox::{Dirs, Sandbox, Stop};
use study::{LeasePurpose, SandboxLease};

/// A sandbox with a name, which is deleted at the end.
struct Named {
    name: String,
    places: Dirs,
}

impl Named {
    fn create() -> Self {
        let places = Dirs::from_environment().unwrap();
        let name = format!("lease-{}", std::process::id());
        let made = test_support::server().create();
        made.keep(&name, &places).unwrap();
        Named { name, places }
    }

    fn open(&self) -> Sandbox {
        sandbox::open(&self.name, &self.places).unwrap()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = sandbox::down(&self.name, &self.places);
    }
}

fn work_mem(target: &Target) -> String {
    let login = LoginMap::default().login(target, "", "", "");
    let dialer = Dialer::new(target).unwrap();
    let answer = dialer.query(&login, "SHOW work_mem").unwrap();
    answer.rows[0][0].clone().unwrap()
}

#[test]
fn lease_killed_while_restoring_is_refused_to_others_and_can_be_resumed() {
    let named = Named::create();
    let acquire = |purpose: LeasePurpose, resumed: Option<Vec<(String, String)>>| {
        SandboxLease::acquire(named.open(), "postgres", purpose, resumed)
    };
    let mut lease = acquire(LeasePurpose::Sweep, None).unwrap();
    let settings = [("work_mem".to_owned(), "9MB".to_owned())];
    assert_eq!(work_mem(&lease.restart_clean(&settings).unwrap()), "9MB");
    drop(lease);
    let mut killed = named.open();
    killed.stop(Stop::Immediate).unwrap();
    std::fs::remove_dir_all(killed.data_dir()).unwrap();
    drop(killed);

    for purpose in [
        LeasePurpose::Sweep,
        LeasePurpose::Proof,
        LeasePurpose::Exploration,
    ] {
        let error = acquire(purpose, None).unwrap_err().to_string();
        assert!(error.contains("a sweep that did not end"), "{error}");
    }
    let mut resumed = acquire(LeasePurpose::Sweep, Some(Vec::new())).unwrap();
    assert_eq!(work_mem(&resumed.start().unwrap()), "4MB");
    resumed.release().unwrap();

    let mut released = named.open();
    assert!(released.pid().is_some());
    assert!(released.snapshots().is_empty() && released.settings().is_empty());
}
