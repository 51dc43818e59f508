//! `agentwf chat`: a conversation between a person and an agent on a terminal. Shows earlier
//! messages, the answer while it is generated, and tool calls, and asks the person the questions of
//! the run. The session in the store has the whole state.

use std::collections::VecDeque;

use agentflow_schema::text::OneLine;
use futures_util::StreamExt;

use super::args::ChatArgs;
use super::ctrl_c;
use super::print::{Answer, BOLD, DIM, Stop, note, short};
use super::runs::{operator, with_store};
use super::typed_answer::{Asked, asked_at};
use super::typed_lines::{Lines, is_one_of};
use agentflow_core::agent::RunRequest;
use agentflow_core::error::Error;
use agentflow_core::event::{ApprovalRequest, Edge, Event, EventKind, ModelDelta, RunId};
use agentflow_core::message::{Message, Role, ToolCall};
use agentflow_core::path::StepPath;
use agentflow_core::run::{Approval, Events, RunHandle};
use agentflow_core::runtime::Runtime;
use agentflow_core::session::{Session, Summary};
use agentflow_core::value::Encoded;

pub(super) async fn chat(host: &Runtime, args: ChatArgs) -> Result<(), Stop> {
    let mut told = ctrl_c::watch();
    host.catalogue().agent_outline(&args.agent)?;
    let runtime = with_store(host, args.store.as_ref()).await?;
    let chat = Chat { runtime, by: args.caller.clone().unwrap_or_else(operator), args };
    tokio::select! {
        ended = chat.talk() => ended,
        () = ctrl_c::pressed(&mut told) => {
            note("\nstopped; the session continues where it is when you come back");
            Err(Stop::Interrupted)
        }
    }
}

struct Chat {
    runtime: Runtime,
    /// Name of the person who answers questions.
    by: String,
    args: ChatArgs,
}

impl Chat {
    async fn talk(&self) -> Result<(), Stop> {
        let mut lines = Lines::begin();
        self.restore_session(&mut lines).await?;
        loop {
            let Some(line) = lines.next(format_args!("{BOLD}>{BOLD:#} ")).await else {
                return Ok(());
            };
            if line.trim().is_empty() {
                continue;
            }
            // `shared`: the user of the store has access to all sessions in it.
            let session =
                Session::from(self.args.session.as_str()).shared().summarized(Summary::default());
            let request = RunRequest::new(line).session(session);
            let request = self.args.caller.clone().into_iter().fold(request, RunRequest::caller);
            match self.runtime.start_agent(&self.args.agent, request).await {
                Ok(handle) => self.follow(&handle, Followed::after(&handle, 0), &mut lines).await?,
                // This run could not start, for example because the session has another run; the
                // next one may.
                Err(
                    error
                    @ (Error::Store(_) | Error::Middleware { .. } | Error::RunResource { .. }),
                ) => {
                    not_answered(&error);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Shows the earlier messages, and continues a run that was interrupted.
    async fn restore_session(&self, lines: &mut Lines) -> Result<(), Stop> {
        let id = &*self.args.session;
        let Some(session) = self.runtime.sessions().find(id).await? else {
            note(format_args!("{DIM}a new session{DIM:#}"));
            return Ok(());
        };
        for run in self.runtime.sessions().history(id, self.args.history).await? {
            run.messages.iter().try_for_each(|message| said(message))?;
        }
        let Some(run) = session.unfinished else { return Ok(()) };
        note(format_args!("{DIM}continuing {}{DIM:#}", OneLine(&run)));
        let seen = self.runtime.run(&run).record().await?.events;
        for message in self.runtime.run(&run).journal().await?.iter().filter_map(asked) {
            said(&message)?;
        }
        let open = self.runtime.run(&run).inspect().await?;
        let handle = self.runtime.run(&run).resume().await?;
        // Starts before the questions are shown, so that answers given meanwhile are seen.
        let mut followed = Followed::after(&handle, seen);
        for node in open.nodes.iter().filter(|node| node.question.is_some()) {
            let about = node.about.as_ref().map(ToString::to_string).unwrap_or_default();
            let (asked, id) = asked_at(&self.runtime, &run, &node.name).await?;
            let question = Question {
                run: &run,
                at: &node.name,
                id: &id,
                text: node.question.as_deref().unwrap_or_default(),
                about: &about,
                asked: &asked,
            };
            self.ask(question, &mut followed, lines).await?;
        }
        self.follow(&handle, followed, lines).await
    }

    /// Shows a run until its end. A failure of the run is printed and does not end the chat.
    async fn follow(
        &self,
        handle: &RunHandle<Encoded>,
        mut run: Followed,
        lines: &mut Lines,
    ) -> Result<(), Stop> {
        let mut answer = Answer::new();
        // `true` if the current answer was printed in pieces.
        let mut shown = false;
        loop {
            let event = tokio::select! {
                // Pending events are shown before further lines are read.
                biased;
                event = run.next() => event,
                // Lines that are typed during the run are sent to it as messages.
                line = lines.meanwhile() => {
                    send(handle, &self.by, line, lines).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            match &event.kind {
                EventKind::ModelDelta(ModelDelta::Text(text)) if is_own(&event.path) => {
                    answer.push(text)?;
                    shown = true;
                }
                EventKind::ModelCompleted(response) if is_own(&event.path) => {
                    if !std::mem::take(&mut shown) {
                        answer.push(&response.message.text())?;
                    }
                    answer.end_line()?;
                    response.message.tool_calls().for_each(|call| called(call));
                }
                EventKind::ToolFailed { result, .. } => {
                    note(format_args!(
                        "{DIM}  {} failed: {}{DIM:#}",
                        OneLine(&result.name),
                        short(&result.text())
                    ));
                }
                EventKind::ApprovalRequested(request) => {
                    let ApprovalRequest { message, payload, answer, .. } = &**request;
                    let question = Question {
                        run: &event.run_id,
                        at: &event.path.to_string(),
                        id: &request.id_at(&event.path),
                        text: message,
                        about: &payload.to_string(),
                        asked: &Asked::of(answer),
                    };
                    self.ask(question, &mut run, lines).await?;
                }
                _ => {}
            }
        }
        match handle.result().await {
            Ok(_) => {}
            Err(error) => not_answered(&error),
        }
        Ok(())
    }

    /// Asks the person a question of the run, until it is answered here or by another client. To a
    /// yes-or-no question, JSON is passed on unchanged, "yes" grants, and any other text denies
    /// with the text as the reason.
    async fn ask(
        &self,
        question: Question<'_>,
        followed: &mut Followed,
        lines: &mut Lines,
    ) -> Result<(), Stop> {
        let Question { run, at, id, text, about, asked } = question;
        note(format_args!("{BOLD}{}{BOLD:#} {DIM}{}{DIM:#}", OneLine(text), short(about)));
        if let Asked::Choice(choices) = asked {
            for (number, choice) in (1..).zip(choices) {
                note(format_args!("  {number}  {}", OneLine(choice)));
            }
        }
        loop {
            let line = tokio::select! {
                // An answer from another client takes precedence over a typed line.
                biased;
                by = followed.answered(at) => {
                    match by {
                        Some(by) => note(format_args!("\n{DIM}answered by {}{DIM:#}", OneLine(by))),
                        None => note(format_args!("\n{DIM}nothing asks this any more{DIM:#}")),
                    }
                    lines.note_answered();
                    return Ok(());
                }
                line = lines.answer(asked.prompt()) => line,
            };
            let Some(line) = line else {
                note(format_args!("{DIM}the run waits for the answer{DIM:#}"));
                return Err(Stop::Said);
            };
            let json = match asked {
                Asked::Approval if line.trim().starts_with(['{', '[', '"']) => {
                    Some(Encoded::from_json(line.trim().to_owned()))
                }
                Asked::Approval => None,
                _ => Some(asked.read(&line)),
            };
            let answered = match (line.trim(), json) {
                ("", _) => continue,
                (_, Some(Ok(answer))) => {
                    self.runtime.run(run).answer_encoded(id, answer, &self.by).await
                }
                (_, Some(Err(error))) => {
                    note(format_args!("this is not JSON: {}", OneLine(error)));
                    continue;
                }
                (word, None) if is_one_of(word, ["y", "yes"]) => {
                    self.runtime.run(run).approve(id, Approval::granted(), &self.by).await
                }
                (word, None) if is_one_of(word, ["n", "no"]) => {
                    self.runtime
                        .run(run)
                        .approve(id, Approval::denied("the person said no"), &self.by)
                        .await
                }
                (reason, None) => {
                    self.runtime.run(run).approve(id, Approval::denied(reason), &self.by).await
                }
            };
            match answered {
                Ok(()) => return Ok(()),
                Err(error) => note(OneLine(error)),
            }
            // Another client may have answered, or the run has ended.
            let still = self.runtime.run(run).inspect().await?;
            if !still.nodes.iter().any(|node| *node.name == *at && node.question.is_some()) {
                return Ok(());
            }
        }
    }
}

fn not_answered(error: &Error) {
    note(format_args!("{DIM}this was not answered: {}{DIM:#}", OneLine(error)));
}

/// A question of a run.
struct Question<'q> {
    run: &'q RunId,
    /// Path of the step that asks.
    at: &'q str,
    /// The id of the question.
    id: &'q str,
    text: &'q str,
    about: &'q str,
    asked: &'q Asked,
}

/// Events of a run. Supports reading ahead for the answer to a question.
struct Followed {
    events: Events,
    /// Events that were read ahead.
    later: VecDeque<Event>,
}

impl Followed {
    fn after(handle: &RunHandle<Encoded>, seen: u64) -> Self {
        Self { events: handle.events_after(seen), later: VecDeque::new() }
    }

    async fn next(&mut self) -> Option<Event> {
        match self.later.pop_front() {
            Some(event) => Some(event),
            None => self.events.next().await,
        }
    }

    /// Waits until the question at a path is answered or cancelled. Returns the name of the person
    /// who answered.
    async fn answered(&mut self, at: &str) -> Option<String> {
        let end = |event: &Event| match &event.kind {
            kind if event.path.to_string() != at => kind.ends_run().then_some(None),
            EventKind::ApprovalResolved { by, .. } => Some(Some(by.to_string())),
            kind => (kind.shape().edge == Edge::Closes).then_some(None),
        };
        if let Some(by) = self.later.iter().find_map(end) {
            return by;
        }
        while let Some(event) = self.events.next().await {
            let by = end(&event);
            self.later.push_back(event);
            if let Some(by) = by {
                return by;
            }
        }
        None
    }
}

/// Sends a line that was typed during the run to its agent. If the run has ended, the line becomes
/// the next question.
async fn send(handle: &RunHandle<Encoded>, by: &str, line: String, lines: &mut Lines) {
    if line.trim().is_empty() {
        return;
    }
    match handle.send_message(line.as_str()).by(by).await {
        Ok(()) => note(format_args!("{DIM}the agent sees this after what it does now{DIM:#}")),
        Err(_) => lines.early.push_back(line),
    }
}

/// Returns `true` if a path belongs to the agent itself and not to a nested call.
fn is_own(path: &StepPath) -> bool {
    path.depth() == 1
}

fn called(call: &ToolCall) {
    note(format_args!("{DIM}  {}({}){DIM:#}", OneLine(&call.name), short(&call.arguments)));
}

/// Returns the message that started a run.
fn asked(event: &Event) -> Option<Message> {
    match &event.kind {
        EventKind::RunStarted(started) => started.agent()?.input.last().cloned(),
        _ => None,
    }
}

/// Prints an earlier message.
fn said(message: &Message) -> Result<(), Stop> {
    match message.role() {
        Role::User => note(format_args!("{BOLD}>{BOLD:#} {}", OneLine(message.text()))),
        Role::Assistant => {
            let mut answer = Answer::new();
            answer.push(&message.text())?;
            answer.end_line()?;
            message.tool_calls().for_each(|call| called(call));
        }
        _ => {}
    }
    Ok(())
}
