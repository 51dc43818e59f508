//! Removes secrets and personal data from a cassette before it is written.
//!
//! It examines strings only. A secret that has no known form and is in no known variable must be
//! given explicitly.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Replacement for a secret.
pub(super) const SCRUBBED: &str = "[scrubbed]";

/// Variables that contain keys, in addition to all names that end in [`VARIABLE_ENDS`].
const VARIABLES: &[&str] = &["ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN", "HF_TOKEN"];
const VARIABLE_ENDS: &str = "_API_KEY";
/// Minimum length of a key. Shorter values would be found in unrelated strings.
const SHORTEST: usize = 8;

/// Prefixes of the keys of model providers.
const PREFIXES: &[&str] =
    &["sk-", "sk_", "AIza", "gsk_", "xai-", "hf_", "ghp_", "github_pat_", "AKIA", "ya29."];
/// Minimum length of a key after its prefix.
const AFTER_PREFIX: usize = 12;

/// Names, in lower case, whose values are keys.
const NAMES: &[&str] =
    &["authorization", "x-api-key", "x-goog-api-key", "api-key", "api_key", "apikey"];
/// Authentication schemes that may precede a key.
const SCHEMES: &[&str] = &["bearer", "basic"];

/// The configured strings, variables and rules.
#[derive(Clone, Default)]
pub(super) struct Scrubber {
    texts: Vec<String>,
    variables: Vec<String>,
    rules: Vec<Arc<Rule>>,
}

type Rule = dyn Fn(&str) -> String + Send + Sync;

impl Scrubber {
    pub(super) fn text(&mut self, text: String) {
        if !text.is_empty() {
            self.texts.push(text);
        }
    }

    pub(super) fn variable(&mut self, name: String) {
        self.variables.push(name);
    }

    pub(super) fn rule(&mut self, rule: Arc<Rule>) {
        self.rules.push(rule);
    }

    /// Reads the current values of the variables.
    pub(super) fn ready(&self) -> Ready {
        let mut texts = self.texts.clone();
        for (name, value) in std::env::vars_os() {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
            let named = self.variables.iter().any(|variable| variable == name);
            let known = VARIABLES.contains(&name) || name.ends_with(VARIABLE_ENDS);
            let value = value.trim();
            if named && !value.is_empty() || known && value.len() >= SHORTEST {
                texts.push(value.to_owned());
            }
        }
        // Longer strings come first, so that a string that contains another one is replaced as a
        // whole.
        texts.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ready { texts, rules: self.rules.clone() }
    }
}

/// Omits the strings and rules.
impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber").field("variables", &self.variables).finish_non_exhaustive()
    }
}

/// A scrubber with the values of its variables.
pub(super) struct Ready {
    texts: Vec<String>,
    rules: Vec<Arc<Rule>>,
}

impl Ready {
    /// Returns a string without its secrets.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.texts {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), SCRUBBED);
            }
        }
        text = without_keys(&text);
        for rule in &self.rules {
            text = rule(&text);
        }
        text
    }

    /// Removes the secrets from all strings of a value.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                for (name, value) in std::mem::take(fields) {
                    let mut value = value;
                    match &mut value {
                        Value::String(text) if NAMES.contains(&&*name.to_ascii_lowercase()) => {
                            SCRUBBED.clone_into(text);
                        }
                        other => self.value(other),
                    }
                    fields.insert(self.text(&name), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Replaces strings that look like a key.
fn without_keys(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let begins_word = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if begins_word && let Some((kept, key)) = key_at(rest) {
            out.push_str(&rest[..kept]);
            out.push_str(SCRUBBED);
            at += kept + key;
            continue;
        }
        let Some(next) = rest.chars().next() else { break };
        out.push(next);
        at += next.len_utf8();
    }
    out
}

/// Finds a key at the start of `text`, or after a name or scheme at the start. Returns the length
/// of the text before the key and the length of the key.
fn key_at(text: &str) -> Option<(usize, usize)> {
    if let Some(prefix) = PREFIXES.iter().find(|prefix| text.starts_with(**prefix)) {
        let after = &text[prefix.len()..];
        let key = run(after);
        return (key >= AFTER_PREFIX && looks_random(&after[..key]))
            .then_some((0, prefix.len() + key));
    }
    if let Some(scheme) = starts_with_any(text, SCHEMES) {
        let after = text[scheme..].strip_prefix(' ')?;
        let key = run(after);
        return (key >= SHORTEST && looks_random(&after[..key])).then_some((scheme + 1, key));
    }
    let name = starts_with_any(text, NAMES)?;
    // Quotes may be escaped, because a tool's arguments are JSON in a string.
    let open = |text: &str| text.len() - text.trim_start_matches(['"', '\'', '\\', ' ']).len();
    let mut before = name + open(&text[name..]);
    before += text[before..].starts_with([':', '=']).then_some(1)?;
    before += open(&text[before..]);
    if let Some(scheme) = starts_with_any(&text[before..], SCHEMES) {
        before += scheme;
        before += open(&text[before..]);
    }
    let key = run(&text[before..]);
    (key >= SHORTEST).then_some((before, key))
}

fn starts_with_any(text: &str, words: &[&str]) -> Option<usize> {
    words
        .iter()
        .find(|word| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
        .map(|word| word.len())
}

/// Returns the length of the longest prefix that consists of characters of a key.
fn run(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.~+/=".contains(c))).unwrap_or(text.len())
}

/// Returns `true` for text with digits or inner capitals. Ordinary words have neither.
fn looks_random(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        || text.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{Scrubber, without_keys};

    #[test]
    fn what_looks_like_a_key_is_taken_out() {
        for (text, scrubbed) in [
            ("the key sk-proj-abcdefghijk1 works", "the key [scrubbed] works"),
            ("AIzaSyA1234567890", "[scrubbed]"),
            ("Authorization: Bearer abc.def.123", "Authorization: Bearer [scrubbed]"),
            ("authorization=Basic dXNlcjpwYXNz", "authorization=Basic [scrubbed]"),
            (r#"{\"x-api-key\": \"0123456789\"}"#, r#"{\"x-api-key\": \"[scrubbed]\"}"#),
            ("https://h/v1?api_key=secret-key&a=1", "https://h/v1?api_key=[scrubbed]&a=1"),
            ("bearer 0123456789abcdef", "bearer [scrubbed]"),
        ] {
            assert_eq!(without_keys(text), scrubbed);
            assert_eq!(without_keys(scrubbed), scrubbed, "scrubbing twice is scrubbing once");
        }
    }

    #[test]
    fn plain_text_stays() {
        for text in [
            "a basic understanding of task-oriented work",
            "Bearer of news",
            "the api_key: see below",
            "sk-1",
            "größe",
            "sk_buff_of_the_kernel",
        ] {
            assert_eq!(without_keys(text), text);
        }
    }

    #[test]
    fn values_are_scrubbed_by_their_names_and_by_rules_of_the_caller() {
        let mut scrubber = Scrubber::default();
        scrubber.text("Ada".to_owned());
        scrubber.rule(Arc::new(|text| text.replace("Oslo", "[city]")));
        let mut value = json!({"Authorization": "short", "list": ["Ada in Oslo", 1]});
        scrubber.ready().value(&mut value);
        assert_eq!(
            value,
            json!({"Authorization": "[scrubbed]", "list": ["[scrubbed] in [city]", 1]})
        );
        assert!(!format!("{scrubber:?}").contains("Ada"));
    }
}
