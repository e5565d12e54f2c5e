//! The examples that check plans in pipelines: their commands run on an export of a real server.

use std::path::Path;
use std::process::{Command, Output};

use super::{DUMP, HARMFUL, HARMLESS, done, log, root, text, yaml};

/// Returns the commands of both examples.
fn commands() -> [String; 2] {
    let workflow = yaml("docs/ci/plans-github-workflow.yml");
    let steps = workflow["jobs"]["plans"]["steps"].as_vec().unwrap();
    let all = steps.iter().filter_map(|step| step["run"].as_str());
    let mut of_github = all.filter(|run| run.contains("plans check rehearsal"));
    let gitlab = yaml("docs/ci/plans-gitlab-ci.yml");
    let of_gitlab = gitlab["plans"]["script"][0].as_str().unwrap();
    [of_github.next().unwrap(), of_gitlab].map(str::to_owned)
}

fn run(command: &str, directory: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_rehearse"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", command]).env("PATH", path);
    bash.current_dir(directory).output().unwrap()
}

#[test]
fn examples_of_plan_checks_fail_for_a_dropped_index_and_leave_a_comment() {
    let (_sandbox, endpoint) = test_support::server().major(15).start();
    let mut client = test_support::connect(&endpoint);
    client.batch_execute(DUMP).unwrap();
    client.batch_execute("ANALYZE").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for name in ["rehearsal", "migrations"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    std::fs::write(path("shop.log"), log()).unwrap();
    let (logged, workload) = (path("shop.log"), path("rehearsal/shop.workload"));
    done(
        &[
            "capture", "log", &logged, "--prefix", "%m [%p] ", "-o", &workload,
        ],
        0,
    );
    let (url, planner) = (endpoint.url("postgres"), path("rehearsal/shop.planner"));
    done(&["plans", "export", "--target", &url, "-o", &planner], 0);
    for command in commands() {
        for (migration, code) in [(HARMFUL, 1), (HARMLESS, 0), ("DROP TABLE no_such", 3)] {
            let _ = std::fs::remove_file(path("plans.md"));
            std::fs::write(path("migrations/next.sql"), migration).unwrap();
            let output = run(&command, directory.path());
            let messages = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{migration}: {messages}");
            let comment = std::fs::read_to_string(path("plans.md"));
            assert_eq!(comment.is_ok(), code != 3, "{migration}");
            let holds = comment.is_ok_and(|comment| comment.contains("scan</code> holds"));
            assert_eq!(holds, code == 1, "{migration}");
        }
    }
    let workflow = std::fs::read_to_string(root().join("docs/ci/plans-github-workflow.yml"));
    assert!(workflow.unwrap().contains(report::plans_markdown::MARK));
}
