//! Databases and roles of the sessions of a workload, from its manifest or from its sessions.

use workload::{NoRedaction, Provenance, Session, WorkloadReader, WorkloadWriter, WriterOptions};

#[test]
fn logins_of_a_workload_are_the_same_whether_its_manifest_lists_them_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    for (id, user) in (1..).zip(["b", "a", "b"]) {
        writer
            .session(Session {
                id,
                database: "shop".into(),
                user: user.into(),
                application: "".into(),
                client: "".into(),
                start_us: 0,
                end_us: 0,
                start_seen: true,
                end_seen: true,
                statements: id,
            })
            .unwrap();
    }
    let info = writer.finish(Provenance::default()).unwrap();
    let listed = info.logins.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        WorkloadReader::open(&path).unwrap().logins().unwrap(),
        listed
    );

    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let mut parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    parsed["body"].as_object_mut().unwrap().remove("logins");
    std::fs::write(&manifest, parsed.to_string()).unwrap();
    let older = WorkloadReader::open(&path).unwrap();
    assert_eq!(older.info().logins, None);
    assert_eq!(older.logins().unwrap(), listed);
}
