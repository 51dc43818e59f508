//! Masks secrets and personal data in events before stores, sinks and subscribers receive them.
//!
//! It checks strings, JSON within strings, and numbers in values. A secret without a known form is
//! found only if it was named.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::IgnoredAny;

use super::identities::restore;
use super::personal_data::{cards, emails, phones, social_security_numbers, without};
use crate::event::{AgentCompleted, EventKind, RunBody, RunCompleted, WorkflowCompleted};
use crate::mask;
use crate::value::Encoded;

/// Minimum length of a secret in bytes. Shorter strings would be found everywhere.
const SHORTEST: usize = 6;
/// Prefixes of API keys and tokens of well-known providers, each with the minimum number of
/// characters that follow.
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
/// Enumerated values of the event format, which are never masked.
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

/// Enumerated values of the event format that are shorter than a secret.
const SHORT_WORDS: &[&str] = &[
    "user", "tool", "text", "stop", "none", "read", "write", "error", "media", "link", "value",
    "agent", "other", "cache", "auto", "auth", "idle", "total", "any", "deny", "fail", "skip",
];

/// Rules that mask secrets and personal data in events. Created by
/// [`redact`](crate::middleware::redact). Texts that look like keys of well-known providers are
/// always masked.
///
/// Every string of an event is checked before the event is stored or passed to a sink or
/// subscriber. A match is replaced by `[redacted]`. JSON within a string, such as the arguments of
/// a tool, is checked text by text and number by number, at any depth, and stays valid JSON. The
/// values of a workflow are checked in the same way; a masked number becomes the text
/// `"[redacted]"`. The model, the tools and the caller receive the original data. This has the
/// following consequences:
///
/// - A run that is resumed after a crash continues from its journal, which contains the masked
///   strings. The model then sees `[redacted]` in their places. No recorded work is repeated, and
///   every call keeps its result. A node of a workflow that reads a masked number fails, because it
///   finds a string.
/// - Responses are not streamed, since a secret may be split across two deltas. Subscribers receive
///   whole responses.
/// - Spans contain no message contents, even if `trace_content` is set.
/// - A tool receives a person's answer, and arguments that a person changed, as they are recorded.
///   An answer that would be masked is refused, so that the tool never receives a modified answer.
///
/// Messages that a runtime logs with `tracing` about its runs are masked too, for example the
/// reason why a run failed or was not resumed. The following data is not masked:
///
/// - Log messages of other components: a store, a cache, a panicking sink, a tool server whose list
///   cannot be read.
/// - Data of the program itself: instructions, tools and the graphs of workflows, which are stored
///   once by their hash; artifacts and memories; and entries of a
///   [`cache`](crate::middleware::cache()).
/// - A request to a run that another process executes, such as an answer or a message. It stays
///   unmasked among the messages of the store until that process has read it, because the run needs
///   the full text. The events that result from it are masked.
///
/// Identifiers are not masked: callers, sessions, ids of runs, messages, calls and questions, trace
/// ids, scopes, hashes of definitions and artifacts, and names of stored documents. Resumed runs and later runs of a session
/// compare them, and two masked callers would be equal. Therefore, do not put secrets into such
/// ids. Paths of steps contain the tool names that the model wrote, and are not checked.
#[derive(Clone)]
pub struct Redact {
    rules: Vec<Rule>,
    secrets: Vec<String>,
}

impl Redact {
    /// Creates rules that mask only keys of well-known providers.
    pub(crate) fn with_known_keys() -> Self {
        Self { rules: Vec::new(), secrets: Vec::new() }.known(keys)
    }
}

/// A rule that masks parts of strings.
#[derive(Clone)]
struct Rule {
    /// Minimum length of the strings that it checks, in bytes.
    least: usize,
    take_out: TakeOut,
}

/// Returns the text with its matches masked, or `None` if there is no match.
type TakeOut = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl Rule {
    /// Returns `true` if the rule is a function of the program, which may match any text.
    fn is_of_host(&self) -> bool {
        self.least < SHORTEST
    }
}

pub(crate) const REDACTED: &str = "[redacted]";

impl Redact {
    /// Masks every occurrence of this text, also with escapes. A string shorter than six bytes is
    /// ignored.
    #[must_use]
    pub fn secret(mut self, secret: impl AsRef<str>) -> Self {
        let secret = secret.as_ref().to_owned();
        if secret.len() < SHORTEST || self.secrets.contains(&secret) {
            return self;
        }
        self.secrets.push(secret);
        // Longer secrets first, since a secret may contain another one.
        self.secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self
    }

    /// Masks email addresses, also with a percent-encoded `@` (`%40`).
    #[must_use]
    pub fn emails(self) -> Self {
        self.known(|text| without(text, emails(text), REDACTED))
    }

    /// Masks numbers of payment cards: 13 to 19 digits, in groups or contiguous, with a valid check
    /// digit, also next to other numbers such as the expiry date and the security code. A
    /// contiguous number that starts with 0 or 1 is not masked, since it is a timestamp or an id.
    /// About one in ten other numbers of this length has a valid check digit by chance, and is
    /// masked too.
    #[must_use]
    pub fn cards(self) -> Self {
        self.known(|text| without(text, cards(text), REDACTED))
    }

    /// Masks numbers in the format of a US social security number, `123-45-6789`.
    #[must_use]
    pub fn social_security_numbers(self) -> Self {
        self.known(|text| without(text, social_security_numbers(text), REDACTED))
    }

    /// Masks telephone numbers in the international form, such as `+49 30 1234567`.
    #[must_use]
    pub fn phone_numbers(self) -> Self {
        self.known(|text| without(text, phones(text), REDACTED))
    }

    /// Adds a custom rule. It returns the masked text, or `None` if it changes nothing. It receives
    /// one text at a time, of any length, such as a message or the arguments of a tool call. For
    /// JSON it also receives each text and each number in it. It does not receive the enumerated
    /// values of the event format.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.rules.push(Rule { least: 1, take_out: Arc::new(rule) });
        self
    }

    /// Adds a rule that matches no short strings.
    fn known(mut self, rule: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.rules.push(Rule { least: SHORTEST, take_out: Arc::new(rule) });
        self
    }
}

/// Shows the number of rules but no secret.
impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// Masks strings in events. Returned by
/// [`Middleware::redactor`](crate::middleware::Middleware::redactor).
#[derive(Clone, Debug)]
pub struct Redactor(Arc<[Redact]>);

impl From<Redact> for Redactor {
    fn from(redact: Redact) -> Self {
        Self(Arc::from([redact]))
    }
}

impl Redactor {
    /// Combines two redactors; `other` is applied last.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.iter().chain(other.0.iter()).cloned().collect())
    }

    /// Returns the text with all matches masked.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.text_by(text, true)
    }

    /// Masks a string. Custom rules are applied only if `by_host` is `true`.
    fn text_by<'t>(&self, text: &'t str, by_host: bool) -> Cow<'t, str> {
        // JSON within the text is masked first, so that it stays valid. The rules then check the
        // whole text.
        let mut text = match is_json(text).then(|| self.json(text, JsonPlace::Content)).flatten() {
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

    /// Masks an event. Its JSON is rewritten text by text, so all other bytes stay unchanged.
    pub(crate) fn event(&self, mut kind: EventKind) -> EventKind {
        // Values are masked first: in the JSON of the whole event their numbers look like numbers
        // of the format.
        self.values(&mut kind);
        let Ok(json) = serde_json::to_string(&kind) else { return kind };
        let Some(without) = self.json(&json, JsonPlace::Event) else { return kind };
        match Self::read(&without, &kind) {
            Ok(read) => read,
            Err(problem) => {
                // The rules never see enumerated values of the format, so a custom rule produced
                // invalid content. All strings of the event are masked, to leak nothing.
                tracing::error!(%problem, "an event could not be redacted; its texts are left out");
                let blank = Redact { rules: Vec::new(), secrets: Vec::new() };
                let blank = Self::from(blank.rule(|_| Some(REDACTED.to_owned())));
                let json = blank.json(&json, JsonPlace::Event).unwrap_or_default();
                Self::read(&json, &kind)
                    .unwrap_or(EventKind::RunCancelled { reason: REDACTED.into(), by: None })
            }
        }
    }

    /// Parses a masked event, which must have the same kind as before.
    fn read(json: &str, was: &EventKind) -> Result<EventKind, String> {
        let mut read: EventKind = serde_json::from_str(json).map_err(|error| error.to_string())?;
        match read.shape().name == was.shape().name {
            true => {
                restore(&mut read, was);
                Ok(read)
            }
            // A changed kind parses as an unknown event.
            false => Err(format!("it is no longer the event `{}`", was.shape().name)),
        }
    }

    /// Masks the values of the program's own types, in which numbers are checked too.
    fn values(&self, kind: &mut EventKind) {
        let redact = |value: &mut Encoded| {
            if let Some(without) =
                self.json(value.as_str(), JsonPlace::Content).map(Encoded::from_json)
            {
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

    /// Masks the strings of a JSON text, and its numbers if they are content. Returns `None` if
    /// there is no match.
    fn json(&self, json: &str, place: JsonPlace) -> Option<String> {
        let mut out = String::new();
        // Scans the text instead of parsing it, so that all parts without a match stay byte for
        // byte.
        let (mut copied, mut at) = (0, 0);
        let bytes = json.as_bytes();
        while at < bytes.len() {
            if place == JsonPlace::Content && (bytes[at] == b'-' || bytes[at].is_ascii_digit()) {
                let length = json[at..]
                    .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
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
            if text.len() < self.least()
                || place == JsonPlace::Event && is_of_format(&text, &json[at..])
            {
                continue;
            }
            // A custom rule could rename a field of the event, so it does not receive field names.
            let by_host = place == JsonPlace::Content || !is_field(&text, &json[at..]);
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

    /// Returns the minimum length of the strings that are checked.
    fn least(&self) -> usize {
        let rules = self.0.iter().flat_map(|redact| &redact.rules);
        rules.map(|rule| rule.least).min().unwrap_or(SHORTEST).min(SHORTEST)
    }

    /// Returns `true` if a number must be masked. A number such as `4.1e15` is also checked by its
    /// digits.
    fn finds_number(&self, literal: &str) -> bool {
        let found = |digits: &str| {
            digits.len() >= self.least() && matches!(self.text(digits), Cow::Owned(_))
        };
        let whole = || {
            literal
                .parse::<f64>()
                .ok()
                .filter(|number| number.fract() == 0.0 && number.abs() < 1e20)
        };
        found(literal)
            || literal.contains(['.', 'e', 'E'])
                && whole().is_some_and(|number| found(&format!("{number:.0}")))
    }
}

/// The context of a JSON text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonPlace {
    /// The event itself, which contains enumerated values and numbers of the format.
    Event,
    /// A string or a value of an event.
    Content,
}

/// Returns `true` if a string is a JSON array, object or string.
fn is_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '[', '"'])
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns `true` if a string of an event belongs to the format: an enumerated value, the name of
/// an event, or a field name shorter than a secret. `rest` is the JSON that follows the text.
fn is_of_format(text: &str, rest: &str) -> bool {
    let is_short = text.len() < SHORTEST && (SHORT_WORDS.contains(&text) || is_field(text, rest));
    is_short || WORDS.contains(&text) || is_name(text)
}

/// Returns `true` if a string of an event may be a field name, given the JSON that follows it.
fn is_field(text: &str, rest: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    rest.starts_with(':')
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(is_letter)
}

/// Returns `true` if a string is the name of an event.
fn is_name(text: &str) -> bool {
    EventKind::shapes().iter().any(|shape| shape.name == text)
}

/// Masks the words of a string that satisfy `is`. A word consists of characters that satisfy
/// `letter`.
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

/// Masks strings that look like keys of well-known providers.
fn keys(text: &str) -> Option<String> {
    if !KEYS.iter().any(|(prefix, _)| text.contains(prefix)) {
        return None;
    }
    words(
        text,
        |c| c.is_ascii_alphanumeric() || "-_.".contains(c),
        |word| {
            KEYS.iter().any(|(prefix, least)| {
                word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least)
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// An event stays readable when a rule masks every string that it receives.
    #[test]
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn no_word_of_the_format_is_shown_to_a_rule() {
        let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/event-kinds.jsonl");
        let Ok(goldens) = std::fs::read_to_string(goldens) else {
            eprintln!("skipped: the project's golden events are not beside this crate");
            return;
        };
        for line in goldens.lines() {
            let event: Event = serde_json::from_str(line).unwrap();
            let all = |text: &str| (!text.contains('-')).then(|| "-".repeat(text.len()));
            let redactor = Redactor::from(Redact::with_known_keys().rule(all));
            let json = serde_json::to_string(&event.kind).unwrap();
            let without = redactor.json(&json, JsonPlace::Event).unwrap_or(json);
            let read = serde_json::from_str::<EventKind>(&without);
            let read = read.unwrap_or_else(|error| panic!("{}: {error}\n{without}", event.name()));
            assert_eq!(read.shape().name, event.kind.shape().name, "{without}");
        }
    }

    #[test]
    fn a_rule_sees_short_texts_and_numbers() {
        let redactor = Redactor::from(
            Redact::with_known_keys()
                .rule(|text| text.contains("Ada").then(|| text.replace("Ada", "#"))),
        );
        assert_eq!(redactor.text("Ada"), "#");
        assert_eq!(redactor.text(r#"{"Ada": ["Ada", 7]}"#), r##"{"#": ["#", 7]}"##);
        let pin = Redactor::from(
            Redact::with_known_keys().rule(|text| (text == "1234").then(|| "#".to_owned())),
        );
        assert_eq!(pin.text("[1234, 12345]"), "[\"[redacted]\", 12345]");
        // No provider's key is that short.
        assert_eq!(Redactor::from(Redact::with_known_keys()).text("[1234]"), "[1234]");
    }
}
