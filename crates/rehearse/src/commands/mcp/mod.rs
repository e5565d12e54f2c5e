//! `rehearse mcp`: answers the calls of an assistant, over the Model Context Protocol on standard input and output.
//!
//! ```text
//! client ─► Stdio (a line is a message) ─► Service (tools) ─► Calls ─► a worker process for each call
//! ```
//!
//! Each call is a process, so that it can be stopped at any point, and its memory ends with it ([`worker`]).

mod answer;
mod call;
mod call_arguments;
mod listing;
mod proving;
mod reading;
mod roots;
mod scratch;
mod service;
mod stdio;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use study::{Failure, Interrupt};

use crate::exit_status::ExitStatus;
use crate::options::mcp::Mcp;
use answer::Limits;
use call::Calls;
use roots::Roots;
use service::Service;
use stdio::Stdio;

/// Interval of checks for a signal.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Time that a client has to read the last answers.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Serves one client until it closes standard input, or a signal arrives.
pub fn run(options: &Mcp) -> Result<ExitStatus, Failure> {
    if options.worker {
        return worker::run();
    }
    let roots = Roots::new(&options.root)?;
    let limits = Limits {
        rows: options.max_rows as usize,
        bytes: options.max_bytes as usize,
    };
    let interrupt = crate::signals::listen().map_err(Failure::could_not)?;
    let calls = Calls::new(roots, limits, options.time_limit).map_err(|error| {
        Failure::could_not(format!(
            "a temporary directory cannot be made: {error}; set TMPDIR"
        ))
    })?;
    let calls = Arc::new(calls);
    let service = Service {
        calls: calls.clone(),
        allows_proofs: options.allow_proofs,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::could_not)?;
    let (stdio, writer) = Stdio::start().map_err(Failure::could_not)?;
    let served = runtime.block_on(async {
        let served = tokio::select! {
            served = serve(service, stdio) => served,
            () = signalled(&interrupt) => Ok(()),
        };
        calls.finish().await;
        served
    });
    drop(runtime);
    writer.finish(LAST_LINES);
    served?;
    Ok(ExitStatus::Success)
}

async fn serve(service: Service, stdio: Stdio) -> Result<(), Failure> {
    let running = match service.serve(stdio).await {
        Ok(running) => running,
        // The client ended before it began.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => {
            return Err(Failure::could_not(format!(
                "the session could not be initialised: {error}; see the client's log"
            )));
        }
    };
    running.waiting().await.map_err(Failure::could_not)?;
    Ok(())
}

async fn signalled(interrupt: &Interrupt) {
    while !interrupt.is_requested() {
        tokio::time::sleep(SIGNAL_INTERVAL).await;
    }
}
