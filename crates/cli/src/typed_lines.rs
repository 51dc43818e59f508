//! Reads the lines that a person types in a chat, and decides for each line if it is a message to
//! the agent or the answer to a question.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal, Read};
use std::thread;

use agentflow_schema::text::OneLine;
use tokio::sync::mpsc;

use super::print::{DIM, note, prompt};

/// The typed lines, read on a separate thread, because reading from a terminal blocks.
pub(super) struct Lines {
    lines: mpsc::UnboundedReceiver<String>,
    prompts: bool,
    /// Lines that were typed before a question was shown. They cannot be its answer.
    pub(super) early: VecDeque<String>,
    /// `true` if another client answered a question while the person was typing. The next line may
    /// be meant as its answer.
    answered: bool,
}

/// Maximum number of bytes of a line, the same as for a message.
const LONGEST: usize = 1 << 20;

/// Reads the next line without its end. Returns `None` at the end of the input, and `Some(None)`
/// for a line that is too long.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Option<String>>> {
    let mut line = Vec::new();
    if input.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > LONGEST && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        return Ok(Some(None));
    }
    let line = String::from_utf8_lossy(&line);
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(Some(Some(line.strip_suffix('\r').unwrap_or(line).to_owned())))
}

/// Returns `true` if the text is one of the words, ignoring case.
pub(super) fn is_one_of(typed: &str, words: [&str; 2]) -> bool {
    words.iter().any(|word| typed.eq_ignore_ascii_case(word))
}

impl Lines {
    pub(super) fn begin() -> Self {
        let (send, lines) = mpsc::unbounded_channel();
        // If the thread cannot be started, the input is empty.
        let _ = thread::Builder::new().name("chat".to_owned()).spawn(move || {
            let mut input = io::stdin().lock();
            while let Ok(Some(line)) = read_line(&mut input) {
                let Some(line) = line else {
                    note(format_args!(
                        "a line of more than {LONGEST} bytes is no message and was left out; give the agent a file to read"
                    ));
                    continue;
                };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, prompts: io::stdin().is_terminal(), early: VecDeque::new(), answered: false }
    }

    /// Prompts for and returns the next line, or `None` at the end of the input.
    pub(super) async fn next(&mut self, text: impl std::fmt::Display) -> Option<String> {
        if let Some(line) = self.early.pop_front() {
            return Some(line);
        }
        loop {
            if self.prompts {
                prompt(&text);
            }
            let line = self.lines.recv().await?;
            if !self.is_late(&line) {
                return Some(line);
            }
        }
    }

    /// Notes that another client answered the shown question.
    pub(super) fn note_answered(&mut self) {
        self.answered = self.prompts;
    }

    /// Returns `true` if a line answers a question that is already answered. The line is dropped,
    /// and the person is informed.
    fn is_late(&mut self, line: &str) -> bool {
        let word = line.trim();
        let answers = || {
            is_one_of(word, ["y", "n"])
                || is_one_of(word, ["yes", "no"])
                || word.parse::<u16>().is_ok()
        };
        let is_late = std::mem::take(&mut self.answered) && answers();
        if is_late {
            note(format_args!(
                "{DIM}left out, since nothing asks any more: {}{DIM:#}",
                OneLine(line)
            ));
        }
        is_late
    }

    /// Returns the next line that is typed on a terminal during a run. Input from a pipe is not
    /// read here, because each of its lines is a question with its own run.
    pub(super) async fn meanwhile(&mut self) -> String {
        while self.prompts
            && let Some(line) = self.lines.recv().await
        {
            if !self.is_late(&line) {
                return line;
            }
        }
        std::future::pending().await
    }

    /// Prompts for and returns the answer to a question, or `None` at the end of the input. On a
    /// terminal, lines that were typed before the question was shown are kept for later.
    pub(super) async fn answer(&mut self, text: &str) -> Option<String> {
        self.answered = false;
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
            let mut lines = Lines { lines, prompts, early: VecDeque::new(), answered: false };
            send.send("yes".to_owned()).unwrap();
            let later = async {
                tokio::task::yield_now().await;
                send.send("no".to_owned()).unwrap();
            };
            let (answered, ()) = tokio::join!(lines.answer("yes or no? "), later);
            assert_eq!(
                (answered.as_deref(), lines.next("> ").await.as_deref()),
                (Some(answer), Some(next))
            );
        }
    }

    #[tokio::test]
    async fn lines_that_are_not_typed_wait_for_their_own_run() {
        for prompts in [true, false] {
            let (send, lines) = mpsc::unbounded_channel();
            let mut lines = Lines { lines, prompts, early: VecDeque::new(), answered: false };
            send.send("and more".to_owned()).unwrap();
            let line = lines.meanwhile().now_or_never();
            assert_eq!(line.is_some(), prompts);
            drop(send);
            assert_eq!(lines.meanwhile().now_or_never(), None);
        }
    }

    #[test]
    fn a_line_has_a_largest_size() {
        let long = "x".repeat(LONGEST);
        let text = format!("one\r\n{long}\n{long}y\n{long}{long}\n\u{e9}\n\nlast");
        let mut input = text.as_bytes();
        let mut read = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            read.push(line.map(|line| if line.len() < 10 { line } else { line.len().to_string() }));
        }
        let is = |line: &str| Some(line.to_owned());
        assert_eq!(
            read,
            [is("one"), is(&LONGEST.to_string()), None, None, is("\u{e9}"), is(""), is("last")]
        );
        assert_eq!(read_line(&mut &b"\xff\n"[..]).unwrap(), Some(is("\u{fffd}")));
    }

    #[tokio::test]
    async fn an_answer_to_what_nobody_asks_any_more_goes_nowhere() {
        let (send, lines) = mpsc::unbounded_channel();
        let mut lines = Lines { lines, prompts: true, early: VecDeque::new(), answered: false };
        lines.note_answered();
        ["Y", "yes"].iter().for_each(|line| send.send((*line).to_owned()).unwrap());
        assert_eq!(lines.meanwhile().now_or_never().as_deref(), Some("yes"));
        lines.note_answered();
        send.send("What now?".to_owned()).unwrap();
        assert_eq!(lines.next("> ").now_or_never().flatten().as_deref(), Some("What now?"));
    }
}
