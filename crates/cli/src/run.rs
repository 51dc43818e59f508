//! `agentwf run`: runs an agent over linked tools, prints its events or its progress, and stops it
//! on Ctrl-C. `workflow_as_task.rs` runs a workflow instead of an agent.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::StreamExt;

use super::args::RunStartArgs;
use super::print::{Answer, DIM, Stop, counted, note, print_json, short};
use super::progress::{NamedModel, Progress};
use super::run_args::RunArgs;
use super::runs::operator;
use super::{ctrl_c, model, workflow_as_task};
use agentflow_core::agent::{Agent, AgentSettings, Limits, RunRequest};
use agentflow_core::error::Error;
use agentflow_core::event::{Event, EventKind};
use agentflow_core::message::{ToolResult, ToolStatus};
use agentflow_core::model::Usage;
use agentflow_core::run::RunStream;
use agentflow_core::runtime::Runtime;
use agentflow_core::tool::{Effects, ToolRef};

const CTRL_C: &str = "stopped by Ctrl-C";

pub(super) async fn run(host: &Runtime, args: RunArgs) -> Result<(), Stop> {
    if let Some(workflow) = args.instead.workflow().map(ToOwned::to_owned) {
        return workflow_as_task::run(host, &workflow, args).await;
    }
    let (Some(reference), Some(task)) = (&args.reference, &args.task) else {
        return Err(Stop::Usage("an agent needs --model and --task".to_owned()));
    };
    let mut tools: Vec<ToolRef> = Vec::new();
    for name in &args.tools {
        tools.push(host.catalogue().tool(name.trim()).await?);
    }
    let mut limits = Limits::default();
    if let Some(max_steps) = args.max_steps {
        limits = limits.max_steps(max_steps);
    }
    let scopes = args.grant.iter().map(|scope| scope.trim());
    let model = model::open(host, reference, &args.model)?;
    let named = NamedModel { reference: reference.trim().to_owned(), info: model.info().clone() };
    let mut agent = Agent::new(model).runtime(host).tools(tools).settings(
        AgentSettings::new().model(model::settings(&args.model)).limits(limits).grant(scopes),
    );
    if let Some(instructions) = &args.model.instruct {
        agent = agent.instruct(instructions.as_str());
    }
    let events = args.events.is_some();
    let RunStartArgs { caller, tags, run_timeout, max_llm_calls } = args.began;
    let request = caller.into_iter().fold(RunRequest::new(task.as_str()), RunRequest::caller);
    let request = tags.into_iter().fold(request, |request, (key, value)| request.tag(key, value));
    let request = run_timeout.into_iter().fold(request, RunRequest::timeout);
    let request = max_llm_calls.into_iter().fold(request, RunRequest::max_llm_calls);
    let mut run = agent.stream(request)?;
    let mut progress = Progress::new(!events, named);
    let mut done = Done::default();
    let watched = watch(&mut run, |event| {
        done.see(event);
        progress.see(event);
        if events { print_json(event) } else { Ok(()) }
    })
    .await;
    progress.clear();
    let result = run.result().await;
    // An output error is returned only after the run has ended.
    watched?;
    match result {
        Ok(result) if events => drop(result),
        Ok(result) => {
            let mut text = Answer::new();
            text.push(result.output())?;
            text.end_line()?;
            note(format_args!("{DIM}{}: {done}{DIM:#}", short(result.stop_reason().as_str())));
        }
        // The reason distinguishes Ctrl-C from other cancellations.
        Err(Error::Cancelled { reason }) if &*reason == CTRL_C => {
            note(format_args!("{reason}: {done}"));
            return Err(Stop::Interrupted);
        }
        Err(error) => {
            let failed = Stop::from(error);
            if done.steps > 0 {
                note(format_args!("{DIM}until then: {done}{DIM:#}"));
            }
            return Err(failed);
        }
    }
    Ok(())
}

/// Passes the events of a run to `see` until the run has ended. The first Ctrl-C cancels the run;
/// the second exits the process. An error of `see` cancels the run, too. In both cases the function
/// waits for the end of the run.
async fn watch(
    run: &mut RunStream,
    mut see: impl FnMut(&Event) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut failed = Ok(());
    let mut pressed = false;
    let mut ctrl_c = ctrl_c::watch();
    loop {
        let event = tokio::select! {
            event = run.next() => event,
            told = &mut ctrl_c, if !pressed => {
                pressed = true;
                if told.is_ok() {
                    note("stopping; Ctrl-C again does not wait for it");
                    // The run may have ended meanwhile.
                    let _ = run.handle().cancel(CTRL_C).by(operator()).await;
                }
                continue;
            }
        };
        let Some(event) = event else { return failed };
        // After an output error, the remaining events are drained so that the run can end.
        if failed.is_ok() {
            failed = see(&event);
            if failed.is_err() {
                let _ = run.handle().cancel("its events could not be written").await;
            }
        }
    }
}

/// Statistics of a run.
#[derive(Default)]
struct Done {
    steps: usize,
    usage: Usage,
    tools: BTreeMap<String, Calls>,
}

#[derive(Default)]
struct Calls {
    ended: usize,
    failed: usize,
    interrupted: usize,
    effects: Effects,
}

impl Done {
    fn see(&mut self, event: &Event) {
        match &event.kind {
            EventKind::RunStep { .. } => self.steps += 1,
            EventKind::ToolStarted { call, effects, .. } => {
                self.tools.entry(call.name.clone()).or_default().effects = *effects;
            }
            EventKind::ModelCompleted(response) => self.usage.add(&response.usage),
            EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                self.count(result);
            }
            _ => {}
        }
    }

    fn count(&mut self, result: &ToolResult) {
        let calls = self.tools.entry(result.name.clone()).or_default();
        match result.status {
            ToolStatus::Success => calls.ended += 1,
            ToolStatus::Cancelled | ToolStatus::Interrupted => calls.interrupted += 1,
            _ => {
                calls.ended += 1;
                calls.failed += 1;
            }
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.steps, "step"))?;
        for (name, Calls { ended, failed, interrupted, effects }) in &self.tools {
            let name = short(name);
            if *ended > 0 {
                write!(f, ", {} of {name}", counted(*ended, "call"))?;
            }
            if *failed > 0 {
                write!(f, " ({failed} failed)")?;
            }
            if *interrupted > 0 {
                let calls = counted(*interrupted, "call");
                write!(f, ", {calls} of {name} interrupted ({})", effects.describe_interrupted())?;
            }
        }
        write!(f, ", {} tokens in, {} out", self.usage.input_tokens, self.usage.output_tokens)
    }
}
