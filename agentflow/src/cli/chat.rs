//! `agentwf chat`: a person and an agent talk in a session on a terminal. It shows what was said before, the answer as it
//! comes, the calls of tools, and asks the person what the run asks. The session remembers; nothing is kept here.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal};
use std::thread;

use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::args::ChatArgs;
use super::ctrl_c;
use super::print::{Answer, BOLD, DIM, Stop, note, prompt, short};
use super::runs::{operator, with_store};
use super::typed_answer::{Asked, asked_at};
use crate::agent::RunRequest;
use crate::error::Error;
use crate::event::{ApprovalRequest, Event, EventKind, ModelDelta, RunId};
use crate::message::{Message, Role, ToolCall};
use crate::path::StepPath;
use crate::run::{Approval, RunHandle};
use crate::runtime::Runtime;
use crate::session::{Session, Summary};
use crate::text::OneLine;
use crate::value::Encoded;

pub(super) async fn chat(host: &Runtime, args: ChatArgs) -> Result<(), Stop> {
    let mut told = ctrl_c::watch();
    host.agent_outline(&args.agent)?;
    let runtime = with_store(host, &args.store).await?;
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
    /// Who answers the questions of runs.
    by: String,
    args: ChatArgs,
}

impl Chat {
    async fn talk(&self) -> Result<(), Stop> {
        let mut lines = Lines::begin();
        self.come_back(&mut lines).await?;
        loop {
            let Some(line) = lines.next(format_args!("{BOLD}>{BOLD:#} ")).await else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            let session = Session::from(self.args.session.as_str()).summarized(Summary::default());
            let request = RunRequest::new(line).session(session);
            let request = self.args.caller.clone().into_iter().fold(request, RunRequest::caller);
            match self.runtime.start_agent(&self.args.agent, request).await {
                Ok(handle) => self.follow(&handle, 0, &mut lines).await?,
                // This run cannot begin, such as while the session has another; the next one may.
                Err(error @ (Error::Store(_) | Error::Middleware { .. } | Error::RunResource { .. })) => {
                    not_answered(&error);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Shows what was said before, and continues a run that was stopped in the middle.
    async fn come_back(&self, lines: &mut Lines) -> Result<(), Stop> {
        let id = &*self.args.session;
        let Some(session) = self.runtime.session_record(id).await? else {
            note(format_args!("{DIM}a new session{DIM:#}"));
            return Ok(());
        };
        for run in self.runtime.session_history(id, self.args.history).await? {
            run.messages.iter().try_for_each(|message| said(message))?;
        }
        let Some(run) = session.unfinished else { return Ok(()) };
        note(format_args!("{DIM}continuing {}{DIM:#}", OneLine(&run)));
        let seen = self.runtime.run_record(&run).await?.events;
        for message in self.runtime.journal(&run).await?.iter().filter_map(asked) {
            said(&message)?;
        }
        let open = self.runtime.inspect(&run).await?;
        let handle = self.runtime.resume(&run).await?;
        for node in open.nodes.iter().filter(|node| node.question.is_some()) {
            let about = node.about.as_ref().map(ToString::to_string).unwrap_or_default();
            let asked = asked_at(&self.runtime, &run, &node.name).await?;
            self.ask(&run, &node.name, (node.question.as_deref().unwrap_or_default(), about), &asked, lines).await?;
        }
        self.follow(&handle, seen, lines).await
    }

    /// Shows a run to its end. That it failed is said, and ends nothing.
    async fn follow(&self, handle: &RunHandle<Encoded>, seen: u64, lines: &mut Lines) -> Result<(), Stop> {
        let (mut events, mut answer) = (handle.events(), Answer::new());
        // Whether the answer that is coming was shown piece by piece.
        let mut shown = false;
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                line = lines.meanwhile() => {
                    send(handle, line, lines).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            if event.seq <= seen && event.is_recorded() {
                continue;
            }
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
                    note(format_args!("{DIM}  {} failed: {}{DIM:#}", OneLine(&result.name), short(&result.text())));
                }
                EventKind::ApprovalRequested(request) => {
                    let ApprovalRequest { message, payload, answer, .. } = &**request;
                    let about = (message.as_str(), payload.to_string());
                    self.ask(&event.run_id, &event.path.to_string(), about, &Asked::of(answer), lines).await?;
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

    /// Asks the person what a run asks. Where that is a yes or a no, JSON is given as it is, and everything else but a yes is a
    /// no, with the text as the reason.
    async fn ask(
        &self,
        run: &RunId,
        at: &str,
        (question, about): (&str, String),
        asked: &Asked,
        lines: &mut Lines,
    ) -> Result<(), Stop> {
        note(format_args!("{BOLD}{}{BOLD:#} {DIM}{}{DIM:#}", OneLine(question), short(&about)));
        if let Asked::Choice(choices) = asked {
            for (number, choice) in (1..).zip(choices) {
                note(format_args!("  {number}  {}", OneLine(choice)));
            }
        }
        loop {
            let Some(line) = lines.answer(asked.prompt()).await else {
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
                (_, Some(Ok(answer))) => self.runtime.answer_encoded(run, at, answer, &self.by).await,
                (_, Some(Err(error))) => {
                    note(format_args!("this is not JSON: {}", OneLine(error)));
                    continue;
                }
                (word, None) if is_one_of(word, ["y", "yes"]) => {
                    self.runtime.approve(run, at, Approval::granted(), &self.by).await
                }
                (word, None) if is_one_of(word, ["n", "no"]) => {
                    self.runtime.approve(run, at, Approval::denied("the person said no"), &self.by).await
                }
                (reason, None) => self.runtime.approve(run, at, Approval::denied(reason), &self.by).await,
            };
            match answered {
                Ok(()) => return Ok(()),
                Err(error) => note(OneLine(error)),
            }
            // Somebody else may have answered, or the run has ended.
            let still = self.runtime.inspect(run).await?;
            if !still.nodes.iter().any(|node| *node.name == *at && node.question.is_some()) {
                return Ok(());
            }
        }
    }
}

/// Whether somebody typed one of these words, in letters of any size.
fn is_one_of(typed: &str, words: [&str; 2]) -> bool {
    words.iter().any(|word| typed.eq_ignore_ascii_case(word))
}

fn not_answered(error: &Error) {
    note(format_args!("{DIM}this was not answered: {}{DIM:#}", OneLine(error)));
}

/// Sends the run what the person has typed meanwhile. One that takes it no more has ended: it is the next question.
async fn send(handle: &RunHandle<Encoded>, line: String, lines: &mut Lines) {
    if line.trim().is_empty() {
        return;
    }
    match handle.send_message(line.as_str()).await {
        Ok(()) => note(format_args!("{DIM}the agent sees this after what it does now{DIM:#}")),
        Err(_) => lines.early.push_back(line),
    }
}

/// Whether a path is one of the agent itself, not of something in a tool.
fn is_own(path: &StepPath) -> bool {
    path.depth() == 1
}

fn called(call: &ToolCall) {
    note(format_args!("{DIM}  {}({}){DIM:#}", OneLine(&call.name), short(&call.arguments)));
}

/// What a run was asked.
fn asked(event: &Event) -> Option<Message> {
    match &event.kind {
        EventKind::RunStarted(started) => started.agent()?.input.last().cloned(),
        _ => None,
    }
}

/// Shows what was said before.
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

/// The lines that the person types, read on a thread of their own.
struct Lines {
    lines: mpsc::UnboundedReceiver<String>,
    prompts: bool,
    /// What was typed before a question was shown: it answers nothing that the person had not seen.
    early: VecDeque<String>,
}

impl Lines {
    fn begin() -> Self {
        let (send, lines) = mpsc::unbounded_channel();
        // Without the thread there are no lines.
        let _ = thread::Builder::new().name("chat".to_owned()).spawn(move || {
            for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if send.send(line.strip_suffix('\r').unwrap_or(&line).to_owned()).is_err() {
                    return;
                }
            }
        });
        Self { lines, prompts: io::stdin().is_terminal(), early: VecDeque::new() }
    }

    /// The next line; `None` at the end.
    async fn next(&mut self, text: impl std::fmt::Display) -> Option<String> {
        if let Some(line) = self.early.pop_front() {
            return Some(line);
        }
        if self.prompts {
            prompt(text);
        }
        self.lines.recv().await
    }

    /// The next line that is typed on a terminal while a run is at work. Lines that come from elsewhere are questions, each
    /// with a run of its own.
    async fn meanwhile(&mut self) -> String {
        if self.prompts
            && let Some(line) = self.lines.recv().await
        {
            return line;
        }
        std::future::pending().await
    }

    /// The answer to a question; `None` at the end. On a terminal it is a line that was typed after the question was
    /// shown.
    async fn answer(&mut self, text: &str) -> Option<String> {
        if self.prompts {
            while let Ok(line) = self.lines.try_recv() {
                note(format_args!("{DIM}after the answer: {}{DIM:#}", OneLine(&line)));
                self.early.push_back(line);
            }
            prompt(text);
        }
        self.lines.recv().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn what_was_typed_before_a_question_is_no_answer_to_it() {
        for (prompts, answer, next) in [(true, "no", "yes"), (false, "yes", "no")] {
            let (send, lines) = mpsc::unbounded_channel();
            let mut lines = Lines { lines, prompts, early: VecDeque::new() };
            send.send("yes".to_owned()).unwrap();
            let later = async {
                tokio::task::yield_now().await;
                send.send("no".to_owned()).unwrap();
            };
            let (answered, ()) = tokio::join!(lines.answer("yes or no? "), later);
            assert_eq!((answered.as_deref(), lines.next("> ").await.as_deref()), (Some(answer), Some(next)));
        }
    }

    #[tokio::test]
    async fn lines_that_are_not_typed_wait_for_their_own_run() {
        for prompts in [true, false] {
            let (send, lines) = mpsc::unbounded_channel();
            let mut lines = Lines { lines, prompts, early: VecDeque::new() };
            send.send("and more".to_owned()).unwrap();
            let line = lines.meanwhile().now_or_never();
            assert_eq!(line.is_some(), prompts);
            drop(send);
            assert_eq!(lines.meanwhile().now_or_never(), None);
        }
    }
}
