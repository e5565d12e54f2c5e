//! The official client for Python lists and calls the tools.

use super::*;

const SCRIPT: &str = include_str!("official_client.py");

#[test]
fn mcp_tools_are_listed_and_called_by_the_official_client() {
    let Ok(python) = std::env::var("REHEARSE_TEST_MCP_PYTHON") else {
        test_support::report_skipped(
            "REHEARSE_TEST_MCP_PYTHON names no Python with the package mcp",
        );
        return;
    };
    let room = Room::new();
    room.write_log("a.log", 30);
    room.write_run("a.run", 1, 1.0);
    room.write_run("b.run", 2, 4.0);
    let done = std::process::Command::new(python)
        .args(["-c", SCRIPT, env!("CARGO_BIN_EXE_rehearse"), CANARY])
        .arg(room.root())
        .env("TMPDIR", room.temporary())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "all tools answered\n"
    );
    assert_eq!(room.leftovers(), Vec::<PathBuf>::new());
}
