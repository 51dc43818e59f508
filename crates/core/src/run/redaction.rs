//! Masks secrets and personal data in events before stores, sinks and subscribers see them.
//!
//! It looks at texts, at JSON text inside of texts, and at the numbers of values. A secret that has no known form is
//! only found when it is named.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::identities::restore;
use super::personal_data::{cards, emails, phones, social_security_numbers, without};
use crate::event::{AgentCompleted, EventKind, RunBody, RunCompleted, WorkflowCompleted};
use crate::mask;
use crate::value::Encoded;

/// A shorter text is not a secret and would be found everywhere.
const SHORTEST: usize = 6;
/// How the keys of the makers of models and others begin, and how many letters follow at least.
const KEYS: &[(&str, usize)] = &[
    ("sk-", 16),
    ("sk_", 16),
    ("AIza", 30),
    ("gsk_", 16),
    ("xai-", 16),
    ("hf_", 16),
    ("ghp_", 20),
    ("github_pat_", 20),
    ("AKIA", 16),
    ("ya29.", 16),
    ("xoxb-", 16),
    ("eyJ", 40),
];
/// The words of the event format itself: a text that is one of them is left.
const WORDS: &[&str] = &[
    "system",
    "assistant",
    "reasoning",
    "tool_call",
    "tool_result",
    "success",
    "invalid_arguments",
    "not_found",
    "unauthorized",
    "too_many_calls",
    "timeout",
    "panicked",
    "output_too_large",
    "cancelled",
    "interrupted",
    "tool_calls",
    "length",
    "content_filter",
    "refusal",
    "pause_turn",
    "approval",
    "operator",
    "message",
    "object",
    "workflow",
    "answer",
    "approve",
    "running",
    "queued",
    "paused",
    "failed",
    "compensating",
    "validation",
    "permission",
    "rate_limit",
    "unavailable",
    "model_error",
    "tool_error",
];

/// Those of its words that are shorter.
const SHORT_WORDS: &[&str] = &[
    "user", "tool", "text", "stop", "none", "read", "write", "error", "media", "link", "value", "agent", "other",
    "cache", "auto", "auth", "idle", "total", "any", "deny", "fail", "skip",
];

/// What is taken out of events; made by [`redact`](crate::middleware::redact). Texts that look like keys of well-known
/// makers always are.
///
/// Every text of every event is looked at, before the event is stored or shown to a sink or a subscriber; what is found
/// becomes `[redacted]`. JSON inside of a text, such as a tool's arguments, is looked at text by text and number by
/// number, however deep it is in others, and stays JSON. So do the values of a workflow: a number that is taken out of
/// one becomes the text `"[redacted]"`. The model, the tools and the caller see everything as it is. So:
///
/// - A run that is resumed after a crash continues from its journal, and there the texts are gone: from then on the
///   model sees `[redacted]` where they were. What was done is not done again, and every call keeps its result. A node
///   of a workflow that reads a number which is gone fails, since it finds a text.
/// - Nobody sees pieces of answers as they come, since a secret may be in two of them; whole answers are seen.
/// - Spans hold no contents, whatever `trace_content` says.
/// - A person's answer to a tool, and arguments that a person gives in the place of a model's, are what is recorded of them. One
///   that holds what is taken out is refused, so that no tool is given something else than was said.
///
/// What a runtime logs by `tracing` about its runs, such as why one failed or was not resumed, is without it, too. Elsewhere it
/// stays:
///
/// - What others say in the log: a store, a cache, a sink that panics, a server of tools whose list is not read.
/// - What the program itself says is stored as it is: instructions, tools and the graphs of workflows, which are kept once by
///   their hash. So are artifacts and memories, and what a [`cache`](crate::middleware::cache()) keeps.
/// - What somebody asks of a run that another process executes, such as an answer or a message, stands as it is among the
///   messages of the store until that process has taken it: the run needs it whole. What follows from it is recorded without.
///
/// What tells things apart stays as it is: callers, sessions, ids of runs, of messages, of calls and of questions, trace ids,
/// scopes, and hashes of definitions and artifacts, since a run that is resumed and the next one of its session go by them; two callers
/// that were masked would be one. So make such ids of nothing that is secret. Paths of steps hold the names of tools as the
/// model wrote them and are not looked at.
#[derive(Clone)]
pub struct Redact {
    rules: Vec<Rule>,
    secrets: Vec<String>,
}

impl Redact {
    /// Takes out what looks like a key of a well-known maker.
    pub(crate) fn of_keys() -> Self {
        Self { rules: Vec::new(), secrets: Vec::new() }.known(keys)
    }
}

/// A way to take something out of texts.
#[derive(Clone)]
struct Rule {
    /// The shortest text that it looks at, in bytes.
    least: usize,
    take_out: TakeOut,
}

/// A text without what is to be taken out of it; `None` when nothing was found.
type TakeOut = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Rule {
    /// Whether it is a function of the host, of which nobody knows what it takes out.
    fn is_of_host(&self) -> bool {
        self.least < SHORTEST
    }
}

pub(crate) const REDACTED: &str = "[redacted]";

impl Redact {
    /// Takes out this text wherever it stands, also where it is written with escapes. One of less than six bytes is no
    /// secret and is not looked for.
    #[must_use]
    pub fn secret(mut self, secret: impl AsRef<str>) -> Self {
        let secret = secret.as_ref().to_owned();
        if secret.len() < SHORTEST || self.secrets.contains(&secret) {
            return self;
        }
        self.secrets.push(secret);
        // A text that holds another one is taken out first.
        self.secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self
    }

    /// Takes out e-mail addresses, also where the `@` is written as in a URL, `%40`.
    #[must_use]
    pub fn emails(self) -> Self {
        self.known(|text| without(text, emails(text), REDACTED))
    }

    /// Takes out numbers of payment cards: 13 to 19 digits, in groups or in one, whose check digit is right, also where other
    /// numbers stand beside them, such as the date and the code of the card. One group that begins with 0 or 1 is left: it
    /// is a time or an id, not a card. Of ten other numbers as long about one has such a check digit by chance, and is taken
    /// out too.
    #[must_use]
    pub fn cards(self) -> Self {
        self.known(|text| without(text, cards(text), REDACTED))
    }

    /// Takes out numbers that are written like a US social security number, `123-45-6789`.
    #[must_use]
    pub fn social_security_numbers(self) -> Self {
        self.known(|text| without(text, social_security_numbers(text), REDACTED))
    }

    /// Takes out telephone numbers in the international form, such as `+49 30 1234567`.
    #[must_use]
    pub fn phone_numbers(self) -> Self {
        self.known(|text| without(text, phones(text), REDACTED))
    }

    /// Takes out whatever a function takes out: it gives the text without it, or `None` when there is nothing to
    /// change. It sees one text at a time, however short, such as a message or the arguments of a tool call; of one that is
    /// JSON also each text and each number in it. The words of the format of events are not shown to it.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.rules.push(Rule { least: 1, take_out: Arc::new(rule) });
        self
    }

    /// A rule that finds nothing in short texts.
    fn known(mut self, rule: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.rules.push(Rule { least: SHORTEST, take_out: Arc::new(rule) });
        self
    }
}

/// Shows how much there is and nothing of it.
impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// Takes texts out of events; what [`Middleware::redactor`](crate::middleware::Middleware::redactor) gives.
#[derive(Clone, Debug)]
pub struct Redactor(Arc<[Redact]>);

impl From<Redact> for Redactor {
    fn from(redact: Redact) -> Self {
        Self(Arc::from([redact]))
    }
}

impl Redactor {
    /// This one, and another one after it.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.iter().chain(other.0.iter()).cloned().collect())
    }

    /// A text without what is to be taken out of it.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.text_by(text, true)
    }

    /// The same, with the rules of the host or without.
    fn text_by<'t>(&self, text: &'t str, by_host: bool) -> Cow<'t, str> {
        let mut text = match is_json(text).then(|| self.json(text, Place::Content)).flatten() {
            Some(without) => Cow::Owned(without),
            None => Cow::Borrowed(text),
        };
        for redact in self.0.iter() {
            for secret in &redact.secrets {
                if let Some(without) = mask::without(&text, secret, REDACTED) {
                    text = Cow::Owned(without);
                }
            }
            for rule in redact.rules.iter().filter(|rule| by_host || !rule.is_of_host()) {
                if text.len() >= rule.least
                    && let Some(without) = (rule.take_out)(&text)
                {
                    text = Cow::Owned(without);
                }
            }
        }
        text
    }

    /// An event without it. Its JSON is rewritten text by text, so that everything else stays byte for byte.
    pub(crate) fn event(&self, mut kind: EventKind) -> EventKind {
        self.values(&mut kind);
        let Ok(json) = serde_json::to_string(&kind) else { return kind };
        let Some(without) = self.json(&json, Place::Event) else { return kind };
        match Self::read(&without, &kind) {
            Ok(read) => read,
            Err(problem) => {
                // No word of the format is ever replaced, so this is a rule that breaks JSON: say less, not more.
                tracing::error!(%problem, "an event could not be redacted; its texts are left out");
                let blank = Redact { rules: Vec::new(), secrets: Vec::new() };
                let blank = Self::from(blank.rule(|_| Some(REDACTED.to_owned())));
                let json = blank.json(&json, Place::Event).unwrap_or_default();
                Self::read(&json, &kind).unwrap_or(EventKind::RunCancelled { reason: REDACTED.into(), by: None })
            }
        }
    }

    /// The event, which must still be what it was.
    fn read(json: &str, was: &EventKind) -> Result<EventKind, String> {
        let mut read: EventKind = serde_json::from_str(json).map_err(|error| error.to_string())?;
        match read.shape().name == was.shape().name {
            true => {
                restore(&mut read, was);
                Ok(read)
            }
            // What it cannot read it keeps as it is.
            false => Err(format!("it is no longer the event `{}`", was.shape().name)),
        }
    }

    /// The same for the values of the host's own types, whose numbers are not those of the event.
    fn values(&self, kind: &mut EventKind) {
        let redact = |value: &mut Encoded| {
            if let Some(without) = self.json(value.as_str(), Place::Content).map(Encoded::from_json) {
                *value = without.unwrap_or_else(|_| Encoded::null());
            }
        };
        let of_answer = |agent: &mut Arc<AgentCompleted>| {
            if agent.saved.is_some() {
                Arc::make_mut(agent)
                    .saved
                    .iter_mut()
                    .for_each(|saved| Arc::make_mut(saved).values_mut().for_each(redact));
            }
        };
        if let EventKind::NodeCompleted { saved: Some(saved), .. }
        | EventKind::ToolCompleted { saved: Some(saved), .. } = kind
        {
            Arc::make_mut(saved).values_mut().for_each(redact);
        }
        match kind {
            EventKind::RunStarted(started) => {
                let started = Arc::make_mut(started);
                if let RunBody::Workflow(workflow) = &mut started.body {
                    redact(&mut workflow.input);
                }
                if let Some(state) = &mut started.state {
                    Arc::make_mut(state).values_mut().for_each(redact);
                }
            }
            EventKind::WorkflowStarted(workflow) => redact(&mut Arc::make_mut(workflow).input),
            EventKind::RunCompleted(completed) => match Arc::make_mut(completed) {
                RunCompleted::Workflow(workflow) => redact(&mut workflow.output),
                RunCompleted::Agent(agent) => of_answer(agent),
            },
            EventKind::AgentCompleted(agent) => of_answer(agent),
            EventKind::ModelCompleted(response) if response.saved.is_some() => {
                let saved = Arc::make_mut(response).saved.iter_mut();
                saved.for_each(|saved| Arc::make_mut(saved).values_mut().for_each(redact));
            }
            EventKind::WorkflowCompleted(WorkflowCompleted { output, .. })
            | EventKind::NodeCompleted { output, .. }
            | EventKind::ApprovalResolved { answer: output, .. }
            | EventKind::StateRead { value: Some(output), .. }
            | EventKind::ToolFailed { error: Some(output), .. } => redact(output),
            EventKind::ApprovalRequested(request) => redact(&mut Arc::make_mut(request).payload),
            _ => {}
        }
    }

    /// JSON text with its strings redacted, and its numbers where they are content; `None` when there was nothing to
    /// take out.
    fn json(&self, json: &str, place: Place) -> Option<String> {
        let mut out = String::new();
        let (mut copied, mut at) = (0, 0);
        let bytes = json.as_bytes();
        while at < bytes.len() {
            if place == Place::Content && (bytes[at] == b'-' || bytes[at].is_ascii_digit()) {
                let length = json[at..].find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
                let end = length.map_or(bytes.len(), |length| at + length);
                if self.finds_number(&json[at..end]) {
                    out.push_str(&json[copied..at]);
                    out.push_str(&format!("\"{REDACTED}\""));
                    copied = end;
                }
                at = end;
                continue;
            }
            if bytes[at] != b'"' {
                at += 1;
                continue;
            }
            let begin = at;
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at = (at + 1).min(bytes.len());
            let literal = &json[begin..at];
            let Ok(text) = serde_json::from_str::<String>(literal) else { continue };
            if text.len() < self.least() || place == Place::Event && is_of_format(&text, &json[at..]) {
                continue;
            }
            let by_host = place == Place::Content || !is_field(&text, &json[at..]);
            if let Cow::Owned(without) = self.text_by(&text, by_host) {
                out.push_str(&json[copied..begin]);
                out.push_str(&serde_json::to_string(&without).unwrap_or_default());
                copied = at;
            }
        }
        if copied == 0 {
            return None;
        }
        out.push_str(&json[copied..]);
        Some(out)
    }

    /// The shortest text that is looked at.
    fn least(&self) -> usize {
        let rules = self.0.iter().flat_map(|redact| &redact.rules);
        rules.map(|rule| rule.least).min().unwrap_or(SHORTEST).min(SHORTEST)
    }

    /// Whether a number is to be taken out. `4.1e15` is a number as its digits are.
    fn finds_number(&self, literal: &str) -> bool {
        let found = |digits: &str| digits.len() >= self.least() && matches!(self.text(digits), Cow::Owned(_));
        let whole = || literal.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() < 1e20);
        found(literal)
            || literal.contains(['.', 'e', 'E']) && whole().is_some_and(|number| found(&format!("{number:.0}")))
    }
}

/// Where JSON text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The event itself, with words and numbers of its own.
    Event,
    /// Inside of a text or a value.
    Content,
}

/// Whether a text is a list, an object or a text in JSON.
fn is_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '[', '"']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Whether a text of an event is one of the format's own: a word, the name of an event, or the name of a field that is too short
/// for a secret. `rest` is what follows it.
fn is_of_format(text: &str, rest: &str) -> bool {
    let is_short = text.len() < SHORTEST && (SHORT_WORDS.contains(&text) || is_field(text, rest));
    is_short || WORDS.contains(&text) || is_name(text)
}

/// Whether a text of an event may be the name of a field of the format, from what follows it.
fn is_field(text: &str, rest: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    rest.starts_with(':') && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(is_letter)
}

/// Whether a text is the name of an event.
fn is_name(text: &str) -> bool {
    EventKind::shapes().iter().any(|shape| shape.name == text)
}

/// Takes out the runs of certain letters that are something.
fn words(text: &str, letter: impl Fn(char) -> bool, is: impl Fn(&str) -> bool) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut rest = 0;
    while let Some(begin) = text[rest..].find(&letter).map(|at| rest + at) {
        let end = text[begin..].find(|c| !letter(c)).map_or(text.len(), |at| begin + at);
        let word = text[begin..end].trim_matches(|c: char| !c.is_alphanumeric() && c != '+');
        let start = begin + text[begin..end].find(word).unwrap_or(0);
        if !word.is_empty() && is(word) {
            out.push_str(&text[copied..start]);
            out.push_str(REDACTED);
            copied = start + word.len();
        }
        rest = end;
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Takes out what looks like the key of a well-known maker.
fn keys(text: &str) -> Option<String> {
    if !KEYS.iter().any(|(prefix, _)| text.contains(prefix)) {
        return None;
    }
    words(
        text,
        |c| c.is_ascii_alphanumeric() || "-_.".contains(c),
        |word| KEYS.iter().any(|(prefix, least)| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// A rule that takes out all that it is shown leaves events that are read.
    #[test]
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn no_word_of_the_format_is_shown_to_a_rule() {
        let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/event-kinds.jsonl");
        let Ok(goldens) = std::fs::read_to_string(goldens) else {
            eprintln!("skipped: the project's golden events are not beside this crate");
            return;
        };
        for line in goldens.lines() {
            let event: Event = serde_json::from_str(line).unwrap();
            let all = |text: &str| (!text.contains('-')).then(|| "-".repeat(text.len()));
            let redactor = Redactor::from(Redact::of_keys().rule(all));
            let json = serde_json::to_string(&event.kind).unwrap();
            let without = redactor.json(&json, Place::Event).unwrap_or(json);
            let read = serde_json::from_str::<EventKind>(&without);
            let read = read.unwrap_or_else(|error| panic!("{}: {error}\n{without}", event.name()));
            assert_eq!(read.shape().name, event.kind.shape().name, "{without}");
        }
    }

    #[test]
    fn a_rule_sees_short_texts_and_numbers() {
        let redactor =
            Redactor::from(Redact::of_keys().rule(|text| text.contains("Ada").then(|| text.replace("Ada", "#"))));
        assert_eq!(redactor.text("Ada"), "#");
        assert_eq!(redactor.text(r#"{"Ada": ["Ada", 7]}"#), r##"{"#": ["#", 7]}"##);
        let pin = Redactor::from(Redact::of_keys().rule(|text| (text == "1234").then(|| "#".to_owned())));
        assert_eq!(pin.text("[1234, 12345]"), "[\"[redacted]\", 12345]");
        // One of a maker's keys is never shorter.
        assert_eq!(Redactor::from(Redact::of_keys()).text("[1234]"), "[1234]");
    }
}
