//! The window of a session's history: which messages of earlier runs a model is given. Pure: it is handed one run after
//! the other, the newest first, and reads nothing itself.

use std::sync::Arc;

use crate::event::SessionWindow;
use crate::message::{Message, Part, Role, ToolCall, ToolContent, ToolResult};

/// How many bytes a token is taken for.
const TOKEN: usize = 4;
/// The most tokens that a file is taken for: providers scale images down.
const FILE: usize = 1_600;

/// What a completed run has added to its session.
pub(crate) struct PastRun {
    /// Its number in the session.
    pub(crate) number: u64,
    /// What was said in it, without instructions.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The text of its answer.
    pub(crate) answer: String,
}

/// A window that is being filled.
pub(crate) struct Window {
    limits: SessionWindow,
    tokens_left: usize,
    runs_left: u32,
    /// The newest run first.
    taken: Vec<Vec<Arc<Message>>>,
}

impl Window {
    pub(crate) fn new(limits: SessionWindow) -> Self {
        Self { limits, tokens_left: limits.tokens as usize, runs_left: limits.runs, taken: Vec::new() }
    }

    /// Whether there may be room for another run.
    pub(crate) fn has_room(&self) -> bool {
        self.runs_left > 0 && self.tokens_left > 0
    }

    /// Takes the run before those that it has. Whether it fitted, as a whole or as its question and its answer.
    pub(crate) fn take(&mut self, run: PastRun) -> bool {
        if !self.has_room() {
            return false;
        }
        let question: Vec<_> =
            run.messages.iter().take_while(|message| message.role() == Role::User).cloned().collect();
        let answer = Arc::new(Message::assistant(run.answer));
        let whole = self.whole(run.number, run.messages, &answer);
        let taken = match self.fits(&whole) {
            true => whole,
            false => {
                let short = question.into_iter().chain([answer]).collect::<Vec<_>>();
                if !self.fits(&short) {
                    self.runs_left = 0;
                    return false;
                }
                short
            }
        };
        self.tokens_left -= tokens(&taken);
        self.runs_left -= 1;
        self.taken.push(taken);
        true
    }

    fn fits(&self, messages: &[Arc<Message>]) -> bool {
        tokens(messages) <= self.tokens_left
    }

    /// All messages of a run, with its answer as the last one.
    fn whole(&self, number: u64, messages: Vec<Arc<Message>>, answer: &Arc<Message>) -> Vec<Arc<Message>> {
        let limit = self.limits.tool_tokens as usize * TOKEN;
        let mut whole: Vec<_> = messages
            .into_iter()
            .filter(|message| message.role() != Role::System)
            .map(|message| match has_calls(&message) {
                true => Arc::new(fitted(&message, number, limit)),
                false => message,
            })
            .collect();
        // An answer that was given by a tool is said as well: not every provider takes a question after a result.
        if whole.last().is_none_or(|last| last.role() != Role::Assistant) {
            whole.push(Arc::clone(answer));
        }
        whole
    }

    /// What was taken, the oldest first.
    pub(crate) fn into_messages(self) -> Vec<Arc<Message>> {
        self.taken.into_iter().rev().flatten().collect()
    }
}

fn has_calls(message: &Message) -> bool {
    message.tool_calls().next().is_some() || message.results().next().is_some()
}

/// The same message with calls that no other run's are mistaken for, and with short results.
fn fitted(message: &Message, number: u64, limit: usize) -> Message {
    let part = |part: &Part| match part {
        Part::ToolCall(call) if is_made(&call.id) => {
            Part::ToolCall(Arc::new(ToolCall { id: of_run(&call.id, number), ..ToolCall::clone(call) }))
        }
        Part::ToolResult(result) => Part::ToolResult(shortened(result, number, limit)),
        other => other.clone(),
    };
    Message::new(message.role(), message.parts().iter().map(part).collect::<Vec<_>>())
}

/// Whether an id was made up here, since a provider gave none: `call_2_1`, `gemini_call_3_0`. Such a one is unique in its
/// own run alone.
fn is_made(id: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = id.rsplitn(3, '_');
    let (last, before) = (parts.next(), parts.next());
    last.is_some_and(is_number)
        && before.is_some_and(is_number)
        && parts.next().is_some_and(|name| name.ends_with("call"))
}

/// The id with the number of its run before its last part, by which an adapter knows the call's place.
fn of_run(id: &str, number: u64) -> String {
    match id.rsplit_once('_') {
        Some((name, place)) => format!("{name}_r{number}_{place}"),
        None => id.to_owned(),
    }
}

fn shortened(result: &Arc<ToolResult>, number: u64, limit: usize) -> Arc<ToolResult> {
    let made = is_made(&result.call_id);
    let files: usize = result.media().map(|_| FILE * TOKEN).sum();
    let text = result.text();
    if !made && text.len() + files <= limit {
        return Arc::clone(result);
    }
    let mut short = ToolResult::clone(result);
    if made {
        short.call_id = of_run(&short.call_id, number);
    }
    if text.len() + files > limit {
        let mut end = limit.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let note = match (text.len() - end, result.media().count()) {
            (0, files) => format!("[{files} files left out]"),
            (bytes, 0) => format!("[{bytes} more bytes left out]"),
            (bytes, files) => format!("[{bytes} more bytes and {files} files left out]"),
        };
        let text = format!("{}\n{note}", &text[..end]);
        // JSON text, as every result has that succeeded.
        short.output = match short.status.is_success() {
            true => serde_json::Value::String(text.clone()).to_string(),
            false => text.clone(),
        };
        short.content = short.content.is_some().then(|| Box::new(ToolContent { text: Some(text), parts: Vec::new() }));
    }
    Arc::new(short)
}

/// How many tokens messages have, by their bytes.
fn tokens(messages: &[Arc<Message>]) -> usize {
    /// What a message or a part has around its content.
    const FRAME: usize = 16;
    let part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Reasoning(reasoning) => {
            reasoning.text.len() + reasoning.opaque.as_ref().map_or(0, |it| it.to_string().len())
        }
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.text().len() + result.media().count() * FILE * TOKEN,
        Part::Media(file) => (FILE * TOKEN).min(file.url.len()),
    };
    let of = |message: &Arc<Message>| FRAME + message.parts().iter().map(|one| FRAME + part(one)).sum::<usize>();
    messages.iter().map(of).sum::<usize>().div_ceil(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Conversation, ToolStatus};

    fn call(id: &str) -> Arc<ToolCall> {
        Arc::new(ToolCall::new(id, "look", "{}"))
    }

    /// A run that asks, calls once and answers.
    fn past(number: u64, id: &str, result: &str) -> PastRun {
        let result = ToolResult::new(&call(id), ToolStatus::Success, serde_json::json!(result).to_string());
        let messages = vec![
            Message::user(format!("question {number}")),
            Message::new(Role::Assistant, vec![Part::ToolCall(call(id))]),
            Message::tool_results([Arc::new(result)]),
            Message::assistant(format!("answer {number}")),
        ];
        PastRun { number, messages: messages.into_iter().map(Arc::new).collect(), answer: format!("answer {number}") }
    }

    fn filled(limits: SessionWindow, runs: impl IntoIterator<Item = PastRun>) -> Conversation {
        let mut window = Window::new(limits);
        for run in runs {
            if !window.take(run) {
                break;
            }
        }
        window.into_messages().into_iter().collect()
    }

    #[test]
    fn the_newest_runs_are_taken_in_their_order() {
        let taken = filled(SessionWindow::default().runs(2), (1..=9).rev().map(|n| past(n, "call_1_1", "found")));
        assert_eq!(taken.len(), 8);
        assert_eq!(taken.messages()[0].text(), "question 8");
        assert_eq!(taken.last().unwrap().text(), "answer 9");
        assert!(taken.open_calls().is_empty());
        assert_eq!(taken.messages()[1].tool_calls().next().unwrap().id, "call_1_r8_1");
    }

    #[test]
    fn what_does_not_fit_as_a_whole_is_its_question_and_its_answer() {
        let whole = tokens(&past(1, "x", &"long ".repeat(100)).messages);
        let limits = SessionWindow::default().tokens(u32::try_from(whole + 40).unwrap());
        let taken = filled(limits, (1..=3).rev().map(|n| past(n, "x", &"long ".repeat(100))));
        let texts: Vec<_> = taken.messages().iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts, ["question 2", "answer 2", "question 3", "", "", "answer 3"]);
        let nothing = filled(SessionWindow::default().tokens(3), [past(1, "x", "found")]);
        assert!(nothing.is_empty());
        assert!(filled(SessionWindow::default().runs(0), [past(1, "x", "found")]).is_empty());
    }

    #[test]
    fn long_results_are_cut_at_a_character() {
        let taken = filled(SessionWindow::default().tool_tokens(1), [past(1, "x", "h\u{e9}\u{e9}\u{e9}")]);
        let result = taken.messages()[2].results().next().unwrap();
        assert_eq!(result.text(), "h\u{e9}\n[4 more bytes left out]");
        serde_json::from_str::<String>(&result.output).unwrap();
    }

    #[test]
    fn ids_that_were_made_up_are_recognised() {
        for made in ["call_1_2", "gemini_call_12_0"] {
            assert!(is_made(made), "{made}");
        }
        for given in ["call_abc", "toolu_01", "", "call_1", "1_2", "fc_1_2", "call_x_2"] {
            assert!(!is_made(given), "{given}");
        }
    }
}
