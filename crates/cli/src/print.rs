//! Output and exit codes of the command line. All other files of this module print through this
//! one.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use agentflow_schema::text::{Lines, OneLine, head, write_json_line};
use anstyle::{AnsiColor, Style};
use serde::Serialize;

use agentflow_core::error::{ControlError, Error, RegistryError};
use agentflow_core::model::{ModelError, ModelRefError};
use agentflow_core::store::StoreError;
use agentflow_core::time::Timestamp;

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// Reason for which a command did not succeed.
#[derive(Debug)]
pub(super) enum Stop {
    /// The command failed. The problem is still to be printed.
    Failed(Box<Problem>),
    /// The command line is wrong, in a way that clap cannot detect.
    Usage(String),
    /// The command failed, and the problem has been printed.
    Said,
    /// The reader of standard output closed it.
    Closed,
    /// Ctrl-C stopped the command, and this has been printed.
    Interrupted,
}

/// A problem, as `call --json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    kind: String,
    status: Option<u16>,
    provider_code: Option<String>,
    message: String,
    retryable: bool,
    /// The message for a person, including status and code.
    #[serde(skip)]
    sentence: String,
    /// `true` if the sentence quotes a model's server. It is then printed in one line.
    #[serde(skip)]
    is_foreign: bool,
}

impl Problem {
    pub(super) fn new(kind: &str, message: String) -> Self {
        Self {
            kind: kind.to_owned(),
            status: None,
            provider_code: None,
            sentence: message.clone(),
            message,
            retryable: false,
            is_foreign: false,
        }
    }
}

impl From<&ModelError> for Problem {
    fn from(error: &ModelError) -> Self {
        Self {
            kind: error.kind().as_str().to_owned(),
            status: error.status(),
            provider_code: error.provider_code().map(ToOwned::to_owned),
            message: error.message().to_owned(),
            retryable: error.is_retryable(),
            sentence: error.to_string(),
            is_foreign: true,
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Model(error) => Self::from(&**error),
            other => Self {
                retryable: other.is_retryable(),
                ..Self::new(other.kind().as_str(), other.to_string())
            },
        }
    }
}

impl Stop {
    pub(super) fn failed(kind: &str, message: impl Into<String>) -> Self {
        Self::Failed(Box::new(Problem::new(kind, message.into())))
    }

    /// Prints the problem if necessary, and returns the exit code.
    pub(super) fn report(self) -> ExitCode {
        match self {
            Self::Failed(problem) => {
                let sentence = match problem.is_foreign {
                    true => OneLine(&problem.sentence).to_string(),
                    // Further lines are indented, so that quoted text cannot look like another
                    // message.
                    false => Lines(&problem.sentence).to_string().replace('\n', "\n  "),
                };
                note(format_args!("{BAD}error:{BAD:#} {sentence}"));
                ExitCode::FAILURE
            }
            Self::Usage(problem) => {
                note(format_args!("{BAD}error:{BAD:#} {problem}"));
                ExitCode::from(2)
            }
            Self::Said => ExitCode::FAILURE,
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            // 128 + SIGPIPE, as a shell reports it.
            Self::Closed => ExitCode::from(141),
        }
    }
}

/// 128 + SIGINT, as a shell reports it.
pub(super) const INTERRUPTED: u8 = 130;

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(Box::new(Problem::from(&error)))
    }
}

/// Lets `?` convert an error that the core's error contains.
macro_rules! stop_from {
    ($($error:ty),*) => {
        $(impl From<$error> for Stop {
            fn from(error: $error) -> Self {
                Error::from(error).into()
            }
        })*
    };
}

stop_from!(ControlError, ModelError, ModelRefError, RegistryError, StoreError);

fn written(result: io::Result<()>) -> Result<(), Stop> {
    result.map_err(|error| match error.kind() {
        // A closed pipe, as in `| head`, is not reported as an error.
        io::ErrorKind::BrokenPipe => Stop::Closed,
        _ => Stop::failed("output", format!("standard output cannot be written: {error}")),
    })
}

/// Formats a time in the local time zone with its offset, such as `2026-03-01 14:05:09 +01:00`.
pub(super) fn local_time(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).ok();
    let time_utc = millis.and_then(chrono::DateTime::from_timestamp_millis);
    let local = time_utc
        .map(|time| time.with_timezone(&chrono::Local).format("%Y-%m-%d %H:%M:%S %:z").to_string());
    local.unwrap_or_else(|| time.to_string())
}

/// Prints a line to standard output. Styles are removed if the output does not support them.
pub(super) fn line(text: impl fmt::Display) -> Result<(), Stop> {
    let mut out = anstream::stdout().lock();
    written(writeln!(out, "{}", Styled(&text.to_string())).and_then(|()| out.flush()))
}

/// Prints a dimmed sentence to standard output, wrapped at word boundaries.
pub(super) fn sentence(indent: usize, text: &str) -> Result<(), Stop> {
    /// Maximum width of a line, without indentation.
    const WIDTH: usize = 90;
    let (text, mut row) = (OneLine(text).to_string(), String::new());
    let mut rows = Vec::new();
    for word in text.split(' ') {
        if !row.is_empty() && row.chars().count() + 1 + word.chars().count() > WIDTH {
            rows.push(std::mem::take(&mut row));
        }
        if !row.is_empty() {
            row.push(' ');
        }
        row += word;
    }
    rows.push(row);
    rows.iter().try_for_each(|row| line(format_args!("{:indent$}{DIM}{row}{DIM:#}", "")))
}

/// Prints a value as one line of JSON to standard output.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Stop> {
    let mut line = Vec::new();
    write_json_line(&mut line, value).map_err(|error| {
        Stop::failed("output", format!("this cannot be written as JSON: {error}"))
    })?;
    let mut out = io::stdout().lock();
    written(out.write_all(&line).and_then(|()| out.flush()))
}

/// Prints a line to standard error. Write errors are ignored.
pub(super) fn note(text: impl fmt::Display) {
    let _ = writeln!(anstream::stderr().lock(), "{}", Styled(&text.to_string()));
}

/// Prints the beginning of a line to standard error, where a person types the rest.
pub(super) fn prompt(text: impl fmt::Display) {
    let mut out = anstream::stderr().lock();
    let _ = write!(out, "{}", Styled(&text.to_string())).and_then(|()| out.flush());
}

/// Text with styles of this program. Text from other sources is escaped before it is inserted,
/// because it could end the line or imitate a style. As a second protection, this type escapes all
/// escape sequences except the program's own styles.
struct Styled<'a>(&'a str);

impl fmt::Display for Styled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        // Only the exact sequences of the four styles pass; all other escape characters are shown
        // as text.
        while let Some(at) = rest.find('\u{1b}') {
            write!(f, "{}", Lines(&rest[..at]))?;
            let own = [DIM, BOLD, GOOD, BAD]
                .into_iter()
                .flat_map(|style| [style.render().to_string(), format!("{style:#}")]);
            match own.into_iter().find(|own| rest[at..].starts_with(own.as_str())) {
                Some(own) => {
                    f.write_str(&own)?;
                    rest = &rest[at + own.len()..];
                }
                None => {
                    write!(f, "{}", Lines('\u{1b}'))?;
                    rest = &rest[at + 1..];
                }
            }
        }
        write!(f, "{}", Lines(rest))
    }
}

/// Prints the result of a command, such as the text of a model, to standard output. The text is
/// unchanged in a pipe. On a terminal, control characters are escaped, so that it cannot move the
/// cursor, reverse the writing direction or change the window.
pub(super) struct Answer<W = io::Stdout> {
    out: W,
    raw: bool,
    open_line: bool,
}

impl Answer {
    pub(super) fn new() -> Self {
        let out = io::stdout();
        Self { raw: !out.is_terminal(), out, open_line: false }
    }
}

impl<W: Write> Answer<W> {
    pub(super) fn push(&mut self, text: &str) -> Result<(), Stop> {
        if text.is_empty() {
            return Ok(());
        }
        self.open_line = !text.ends_with('\n');
        // A pipe gets the exact bytes, a terminal gets escaped control characters.
        let shown = match self.raw {
            true => self.out.write_all(text.as_bytes()),
            false => write!(self.out, "{}", Lines(text)),
        };
        written(shown.and_then(|()| self.out.flush()))
    }

    /// Ends the current line, if it is not empty.
    pub(super) fn end_line(&mut self) -> Result<(), Stop> {
        if self.open_line { self.push("\n") } else { Ok(()) }
    }
}

/// Returns the beginning of a foreign text, escaped, in one line.
pub(super) fn short(text: &str) -> String {
    let start = head(text, 100);
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", OneLine(start.trim()))
}

/// Formats a count with its noun: `1 step`, `2 steps`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_one_line_without_control_sequences() {
        assert_eq!(short("a\nb\u{1b}[2J\n"), r"a\nb\u{1b}[2J");
        assert_eq!(short(&"x".repeat(200)), format!("{}…", "x".repeat(100)));
    }

    #[test]
    fn only_our_own_styles_reach_a_terminal() {
        let text =
            format!("{BOLD}run{BOLD:#} {BAD}bad{BAD:#}\n\u{1b}[2J\u{1b}[8m\u{9b}H\u{202e}\u{1b}");
        let expected = format!("{BOLD}run{BOLD:#} {BAD}bad{BAD:#}\n")
            + r"\u{1b}[2J\u{1b}[8m\u{9b}H\u{202e}\u{1b}";
        assert_eq!(Styled(&text).to_string(), expected);
    }

    #[test]
    fn an_answer_is_escaped_on_a_terminal_and_raw_in_a_pipe() {
        for (raw, expected) in
            [(true, "a\n\tb\u{1b}]0;x\u{7}\n"), (false, "a\n\tb\\u{1b}]0;x\\u{7}\n")]
        {
            let mut answer = Answer { out: Vec::new(), raw, open_line: false };
            answer.push("a\n\tb").unwrap();
            answer.push("\u{1b}]0;x\u{7}").unwrap();
            answer.end_line().unwrap();
            assert_eq!(String::from_utf8(answer.out).unwrap(), expected);
        }
    }
}
