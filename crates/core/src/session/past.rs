//! The window of a session's history: selects the messages of earlier runs that a model receives.
//! Pure: the caller passes one run after another, newest first.

use std::collections::HashSet;
use std::sync::Arc;

use crate::event::{SessionSummarized, SessionWindow};
use crate::message::{Message, Part, Role, ToolCall, ToolContent, ToolResult};

/// Number of bytes that count as a token.
pub(super) const TOKEN: usize = 4;
/// Maximum number of tokens that are counted for a file. Providers scale images down.
const FILE: usize = 1_600;

/// The contribution of a completed run to its session.
#[derive(Clone)]
pub(crate) struct PastRun {
    /// Number of the run in the session.
    pub(crate) number: u64,
    /// Messages of the run, without instructions.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Text of the answer.
    pub(crate) answer: String,
    /// The summary of earlier runs that the run has recorded.
    pub(crate) summarized: Option<Arc<SessionSummarized>>,
}

impl PastRun {
    /// Returns the recorded summary, if it was successful.
    pub(crate) fn summary(&self) -> Option<&Arc<SessionSummarized>> {
        self.summarized.as_ref().filter(|summarized| summarized.text.is_some())
    }
}

/// Fraction of a window to which a long question or answer is cut.
pub(super) const QUARTER: u32 = 4;

/// A window that is being filled.
pub(crate) struct Window {
    limits: SessionWindow,
    tokens_left: usize,
    runs_left: u32,
    /// Messages by run, newest first.
    taken: Vec<Vec<Arc<Message>>>,
    /// Ids of the calls in these messages.
    ids: HashSet<String>,
}

impl Window {
    pub(crate) fn new(limits: SessionWindow) -> Self {
        Self {
            limits,
            tokens_left: limits.tokens as usize,
            runs_left: limits.runs,
            taken: Vec::new(),
            ids: HashSet::new(),
        }
    }

    /// `true` if there may be room for another run.
    pub(crate) fn has_room(&self) -> bool {
        self.runs_left > 0 && self.tokens_left > 0
    }

    /// Adds the run before those in the window. Returns `true` if it fits, as a whole or reduced to
    /// its question and answer.
    pub(crate) fn take(&mut self, run: PastRun) -> bool {
        if !self.has_room() {
            return false;
        }
        let question: Vec<_> = run
            .messages
            .iter()
            .take_while(|message| message.role() == Role::User)
            .cloned()
            .collect();
        let answer = Arc::new(Message::assistant(run.answer));
        let whole = self.whole(run.number, run.messages, &answer);
        let taken = match self.fits(&whole) {
            true => whole,
            false => {
                // Second choice: question and answer without the calls. Third choice: both cut.
                let full =
                    || question.iter().cloned().chain([Arc::clone(&answer)]).collect::<Vec<_>>();
                match [full(), self.cut(&question, &answer)]
                    .into_iter()
                    .find(|short| self.fits(short))
                {
                    Some(short) => short,
                    None => {
                        // The history has no gaps: after a run that does not fit, no older run is
                        // taken.
                        self.runs_left = 0;
                        return false;
                    }
                }
            }
        };
        self.tokens_left -= tokens(&taken);
        self.runs_left -= 1;
        self.ids.extend(
            taken.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.clone()),
        );
        self.taken.push(taken);
        true
    }

    fn fits(&self, messages: &[Arc<Message>]) -> bool {
        tokens(messages) <= self.tokens_left
    }

    /// Returns the question and the answer of a run, each cut to a quarter of the window, so that a
    /// long text or files cannot displace the whole history.
    fn cut(&self, question: &[Arc<Message>], answer: &Arc<Message>) -> Vec<Arc<Message>> {
        let room = self.limits.tokens as usize;
        let each = room / QUARTER as usize / question.len().max(1);
        let cut = |message: &Arc<Message>, most: usize| match tokens(std::slice::from_ref(message))
            > most
        {
            true => Arc::new(cut_message(message, most * TOKEN)),
            false => Arc::clone(message),
        };
        question
            .iter()
            .map(|message| cut(message, each))
            .chain([cut(answer, room / QUARTER as usize)])
            .collect()
    }

    /// Returns all messages of a run, with the answer as the last one.
    fn whole(
        &self,
        number: u64,
        messages: Vec<Arc<Message>>,
        answer: &Arc<Message>,
    ) -> Vec<Arc<Message>> {
        let limit = self.limits.tool_tokens as usize * TOKEN;
        let mut whole: Vec<_> = messages
            .into_iter()
            .filter(|message| message.role() != Role::System)
            .map(|message| match has_calls(&message) {
                true => Arc::new(self.with_unique_calls(&message, number, limit)),
                false => message,
            })
            .collect();
        // An answer that was given by the answer tool is added as text: not every provider accepts
        // a user message after a tool result.
        if whole.last().is_none_or(|last| last.role() != Role::Assistant) {
            whole.push(Arc::clone(answer));
        }
        whole
    }

    /// Returns the message with unique call ids and shortened results.
    fn with_unique_calls(&self, message: &Message, number: u64, limit: usize) -> Message {
        let id =
            |id: &str| (is_generated_id(id) || self.ids.contains(id)).then(|| of_run(id, number));
        let part = |part: &Part| match part {
            Part::ToolCall(call) => match id(&call.id) {
                Some(id) => Part::ToolCall(Arc::new(ToolCall { id, ..ToolCall::clone(call) })),
                None => part.clone(),
            },
            Part::ToolResult(result) => {
                Part::ToolResult(shortened(result, id(&result.call_id), limit))
            }
            other => other.clone(),
        };
        Message::new(message.role(), message.parts().iter().map(part).collect::<Vec<_>>())
    }

    /// Returns the messages, oldest first.
    pub(crate) fn into_messages(self) -> Vec<Arc<Message>> {
        self.taken.into_iter().rev().flatten().collect()
    }
}

fn has_calls(message: &Message) -> bool {
    message.tool_calls().next().is_some() || message.results().next().is_some()
}

/// `true` if an id was generated because the provider sent none: `call_2_1`, `gemini_call_3_0`.
/// These ids are unique only within a run.
fn is_generated_id(id: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = id.rsplitn(3, '_');
    let (last, before) = (parts.next(), parts.next());
    last.is_some_and(is_number)
        && before.is_some_and(is_number)
        && parts.next().is_some_and(|name| name.ends_with("call"))
}

/// Inserts the number of the run before the last part of an id. Adapters derive the position of a
/// call from the last part.
fn of_run(id: &str, number: u64) -> String {
    match id.rsplit_once('_') {
        Some((name, place)) => format!("{name}_r{number}_{place}"),
        None => format!("{id}_r{number}"),
    }
}

/// Returns a result with another id, if given, and with at most `limit` bytes.
fn shortened(result: &Arc<ToolResult>, id: Option<String>, limit: usize) -> Arc<ToolResult> {
    let files: usize = result.media().map(|_| FILE * TOKEN).sum();
    let text = result.text();
    if id.is_none() && text.len() + files <= limit {
        return Arc::clone(result);
    }
    let mut short = ToolResult::clone(result);
    if let Some(id) = id {
        short.call_id = id;
    }
    if text.len() + files > limit {
        let text = beginning(&text, limit, result.media().count());
        // The output of a successful result is JSON text.
        short.output = match short.status.is_success() {
            true => serde_json::Value::String(text.clone()).to_string(),
            false => text.clone(),
        };
        short.content = short
            .content
            .is_some()
            .then(|| Box::new(ToolContent { text: Some(text), parts: Vec::new() }));
    }
    Arc::new(short)
}

/// Reduces a message to its text, with at most `limit` bytes.
fn cut_message(message: &Message, limit: usize) -> Message {
    let files = message.parts().iter().filter(|part| matches!(part, Part::Media(_))).count();
    Message::new(
        message.role(),
        vec![Part::Text { text: beginning(&message.text(), limit, files) }],
    )
}

/// Returns at most `limit` bytes from the beginning of a string, followed by a note about the
/// omitted bytes and files.
pub(super) fn beginning(text: &str, limit: usize, files: usize) -> String {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let note = match (text.len() - end, files) {
        (0, files) => format!("[{files} files left out]"),
        (bytes, 0) => format!("[{bytes} more bytes left out]"),
        (bytes, files) => format!("[{bytes} more bytes and {files} files left out]"),
    };
    format!("{}\n{note}", &text[..end])
}

/// Estimates the number of tokens of messages from their bytes.
fn tokens(messages: &[Arc<Message>]) -> usize {
    /// Overhead of a message or a part, in bytes.
    const FRAME: usize = 16;
    let part = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Reasoning(reasoning) => {
            reasoning.text.len() + reasoning.opaque.as_ref().map_or(0, |it| it.to_string().len())
        }
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.text().len() + result.media().count() * FILE * TOKEN,
        // A small inline file costs no more than its data.
        Part::Media(file) => (FILE * TOKEN).min(file.url.len()),
    };
    let of = |message: &Arc<Message>| {
        FRAME + message.parts().iter().map(|one| FRAME + part(one)).sum::<usize>()
    };
    messages.iter().map(of).sum::<usize>().div_ceil(TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Conversation, ToolStatus};

    fn call(id: &str) -> Arc<ToolCall> {
        Arc::new(ToolCall::new(id, "look", "{}"))
    }

    /// Returns a run with a question, a call and an answer.
    fn past(number: u64, id: &str, result: &str) -> PastRun {
        let result =
            ToolResult::new(&call(id), ToolStatus::Success, serde_json::json!(result).to_string());
        let messages = vec![
            Message::user(format!("question {number}")),
            Message::new(Role::Assistant, vec![Part::ToolCall(call(id))]),
            Message::tool_results([Arc::new(result)]),
            Message::assistant(format!("answer {number}")),
        ];
        PastRun {
            number,
            messages: messages.into_iter().map(Arc::new).collect(),
            answer: format!("answer {number}"),
            summarized: None,
        }
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
        let taken = filled(
            SessionWindow::default().runs(2),
            (1..=9).rev().map(|n| past(n, "call_1_1", "found")),
        );
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
        let texts: Vec<_> =
            taken.messages().iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts, ["question 2", "answer 2", "question 3", "", "", "answer 3"]);
        let nothing = filled(SessionWindow::default().tokens(3), [past(1, "x", "found")]);
        assert!(nothing.is_empty());
        assert!(filled(SessionWindow::default().runs(0), [past(1, "x", "found")]).is_empty());
    }

    #[test]
    fn a_question_that_fits_no_window_is_cut_and_hides_nothing_before_it() {
        let mut pasted = past(2, "x", "found");
        pasted.messages[0] = Arc::new(Message::user("a page ".repeat(20_000)));
        let taken = filled(
            SessionWindow::default(),
            [past(3, "x", "found"), pasted, past(1, "x", "found")],
        );
        let texts: Vec<_> =
            taken.messages().iter().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts.len(), 4 + 2 + 4);
        assert_eq!((&*texts[0], &*texts[5], &*texts[9]), ("question 1", "answer 2", "answer 3"));
        assert!(
            texts[4].starts_with("a page a page")
                && texts[4].ends_with("\n[124000 more bytes left out]"),
            "{}",
            texts[4]
        );
        // Answers are cut too, and so are the files of a question.
        let mut shown = past(1, "x", "found");
        let photo = || {
            Part::Media(crate::message::Media::new(
                "image/png",
                "https://example.com/a.png".repeat(400),
            ))
        };
        let photos = std::iter::repeat_with(photo).take(20);
        let asked = [Part::Text { text: "What is there?".into() }].into_iter().chain(photos);
        shown.messages[0] = Arc::new(Message::new(Role::User, asked.collect::<Vec<_>>()));
        shown.answer = "h\u{e9}".repeat(40_000);
        let taken = filled(SessionWindow::default(), [shown]);
        assert_eq!(taken.messages()[0].text(), "What is there?\n[20 files left out]");
        assert!(taken.messages()[1].text().ends_with("\u{e9}h\n[104000 more bytes left out]"));
    }

    #[test]
    fn long_results_are_cut_at_a_character() {
        let taken =
            filled(SessionWindow::default().tool_tokens(1), [past(1, "x", "h\u{e9}\u{e9}\u{e9}")]);
        let result = taken.messages()[2].results().next().unwrap();
        assert_eq!(result.text(), "h\u{e9}\n[4 more bytes left out]");
        serde_json::from_str::<String>(&result.output).unwrap();
    }

    #[test]
    fn an_id_that_two_runs_have_gets_the_number_of_the_earlier_one() {
        let taken = filled(
            SessionWindow::default(),
            [past(3, "call_0", "a"), past(2, "call_0", "b"), past(1, "it", "c")],
        );
        let calls: Vec<_> = taken
            .messages()
            .iter()
            .flat_map(|message| message.tool_calls())
            .map(|call| &*call.id)
            .collect();
        assert_eq!(calls, ["it", "call_r2_0", "call_0"]);
        assert!(taken.open_calls().is_empty());
    }

    #[test]
    fn ids_that_were_made_up_are_recognised() {
        for made in ["call_1_2", "gemini_call_12_0"] {
            assert!(is_generated_id(made), "{made}");
        }
        for given in ["call_abc", "toolu_01", "", "call_1", "1_2", "fc_1_2", "call_x_2"] {
            assert!(!is_generated_id(given), "{given}");
        }
    }
}
