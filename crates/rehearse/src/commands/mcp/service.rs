//! The service that clients see: tools, their calls and errors.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    InitializeResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::answer::Answer;
use super::call::{CallError, Calls, StopReason, WorkerEnd};
use super::call_arguments::{Call, tools};
use crate::terminal;

/// Interval of notes that a call is still in progress, for clients that ask for them.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Purpose of the server, for assistants.
const INSTRUCTIONS: &str = "Rehearse captures PostgreSQL traffic, replays it, compares, diagnoses and proves. Start with `list`. \
     Statements are normalised: no answer has values of the traffic. Only `prove` measures whether a change helps; findings of `diagnose` are hypotheses.";

/// The service of one client.
pub struct Service {
    /// Performs the calls.
    pub calls: Arc<Calls>,
    /// Whether proofs are allowed.
    pub allows_proofs: bool,
}

impl ServerHandler for Service {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new("rehearse", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools(self.allows_proofs).into_iter().map(|tool| {
            let is_proof = tool.name == "prove";
            Tool::new(
                Cow::Borrowed(tool.name),
                Cow::Borrowed(tool.description),
                Arc::new(tool.arguments),
            )
            .with_annotations(
                // A proof stops the private server while it is copied.
                ToolAnnotations::new()
                    .read_only(!is_proof)
                    .destructive(false)
                    .open_world(false),
            )
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        if !tools(true).iter().any(|tool| tool.name == name) {
            let names: Vec<&str> = tools(self.allows_proofs)
                .iter()
                .map(|tool| tool.name)
                .collect();
            let message = format!(
                "there is no tool `{name}`; call one of {}",
                names.join(", ")
            );
            let message = self.calls.limits.cut_message(&message);
            return Err(ErrorData::invalid_params(message, None));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let call = match Call::parse(name, arguments) {
            Ok(Call::Prove(_)) if !self.allows_proofs => {
                return Ok(self.refuse(
                    "proofs are not allowed here: this server was started without --allow-proofs; restart it with this option, or call `rehearse prove` in a terminal",
                ));
            }
            Ok(call) => call,
            Err(message) => return Ok(self.refuse(&message)),
        };
        let cancelled = context.ct.clone();
        let performed = self
            .calls
            .clone()
            .perform(call, async move { cancelled.cancelled().await });
        let reported = with_progress(performed, &context).await;
        Ok(match reported {
            Ok(answer) => complete(answer),
            Err(CallError::Failed(message)) => self.refuse(&message),
            Err(CallError::Stopped(reason, end)) => {
                let message = self.describe_stop(name, reason, end);
                terminal::note(&message);
                self.refuse(&message)
            }
        })
    }
}

impl Service {
    /// Returns an error that the assistant sees, so that it can correct its call.
    fn refuse(&self, message: &str) -> CallToolResponse {
        let message = self.calls.limits.cut_message(message);
        CallToolResult::error(vec![ContentBlock::text(message)]).into()
    }

    fn describe_stop(&self, name: &str, reason: StopReason, end: WorkerEnd) -> String {
        let freed = describe_end(name, end);
        match reason {
            StopReason::Cancelled => format!("`{name}` was cancelled by the client; {freed}"),
            StopReason::TimedOut => format!(
                "`{name}` timed out after {}, the --time-limit of this server; {freed}. Ask for less, or restart the server with a larger limit",
                clock::duration_text(self.calls.time_limit.as_nanos() as i64)
            ),
            StopReason::ServerEnds => {
                format!("`{name}` was stopped, since the server ends; {freed}")
            }
        }
    }
}

/// Notifies the client regularly that a call is in progress, if the client requested that.
async fn with_progress<T>(
    performed: impl Future<Output = T>,
    context: &RequestContext<RoleServer>,
) -> T {
    let Some(token) = context.meta.get_progress_token() else {
        return performed.await;
    };
    tokio::pin!(performed);
    let mut count = 0.0;
    loop {
        tokio::select! {
            done = &mut performed => return done,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                count += PROGRESS_INTERVAL.as_secs_f64();
                let note = ProgressNotificationParam::new(token.clone(), count)
                    .with_message("seconds in progress");
                // A client that does not read is stopped by the end of its input.
                let _ = context.peer.notify_progress(note).await;
            }
        }
    }
}

fn complete(answer: Answer) -> CallToolResponse {
    let mut result = CallToolResult::success(vec![ContentBlock::text(answer.text)]);
    result.structured_content = Some(answer.content);
    result.into()
}

/// Describes what a stopped call leaves.
fn describe_end(name: &str, end: WorkerEnd) -> String {
    match (end, name) {
        (WorkerEnd::Ended, "prove") => {
            "its temporary files and its private server are removed".to_owned()
        }
        (WorkerEnd::Ended, _) => "its temporary files are removed".to_owned(),
        (WorkerEnd::Killed(limit), name) => {
            let remains = match name {
                "prove" => {
                    "the copy of the private server may remain, and the private server may be stopped; see `rehearse sandbox list`"
                }
                _ => "temporary files may remain",
            };
            format!(
                "its process did not end within {} and was killed: {remains}",
                clock::duration_text(limit.as_nanos() as i64)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_call_that_was_killed_names_what_may_remain() {
        let killed = WorkerEnd::Killed(Duration::from_secs(60));
        for (name, end, expected) in [
            ("prove", WorkerEnd::Ended, "private server are removed"),
            ("prove", killed, "the copy of the private server may remain"),
            ("inspect", WorkerEnd::Ended, "files are removed"),
            ("inspect", killed, "temporary files may remain"),
        ] {
            let text = describe_end(name, end);
            assert!(text.contains(expected), "{text}");
            let is_killed = end == killed;
            assert_eq!(text.contains("was killed"), is_killed, "{text}");
        }
    }
}
