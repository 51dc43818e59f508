//! A rule-based model for use without a real one. It searches for the question's words, reads the
//! best passages and answers with the most relevant sentences, each with its file and line.
//!
//! Like a model, it sees only the conversation and opens no files. It only quotes.

use std::collections::BTreeSet;

use agentflow::message::{Conversation, Part, Role, ToolCall, ToolResult};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::serde_json::{self, Value, json};
use agentflow::{Message, Model};
use futures_util::stream;

use crate::library::repeats;
use crate::text::{Kind, Passage, passages, share_of_about, words};

/// Number of passages that are read.
const PLACES: usize = 6;
/// Number of lines that are read before and after a passage.
const AROUND: usize = 5;
/// Maximum number of quoted sentences.
const QUOTED: usize = 5;

#[derive(Debug)]
pub(crate) struct StandIn(ModelInfo);

impl StandIn {
    pub(crate) fn new() -> Self {
        Self(ModelInfo::new("example", "stand-in"))
    }
}

impl Model for StandIn {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let parts = next(&request.messages);
        let response = ModelResponse::new(Message::new(Role::Assistant, parts));
        ModelStream::new(stream::iter([Ok(ModelEvent::Completed(Box::new(response)))]))
    }
}

/// Returns the next message for this conversation.
fn next(conversation: &Conversation) -> Vec<Part> {
    let messages = conversation.messages();
    let asked = messages.iter().rposition(|message| message.role() == Role::User).unwrap_or(0);
    let question =
        messages.get(asked).map(|message| message.text().into_owned()).unwrap_or_default();
    let results: Vec<&ToolResult> = messages[asked..]
        .iter()
        .flat_map(|message| message.results())
        .map(|result| &**result)
        .collect();
    let Some(search) = results.iter().find(|result| result.name == "search") else {
        return calls(&[("search", json!({"query": question}))]);
    };
    let found: Value = serde_json::from_str(&search.output).unwrap_or_default();
    let reads: Vec<Value> = results
        .iter()
        .filter(|result| result.name == "read_lines" && result.status.is_success())
        .filter_map(|result| serde_json::from_str(&result.output).ok())
        .collect();
    let places = places(&found);
    if reads.is_empty() && !places.is_empty() {
        return calls(&places);
    }
    vec![Part::Text { text: answer(&question, &found, &reads) }]
}

fn calls(calls: &[(&str, Value)]) -> Vec<Part> {
    // Calls without ids: the agent assigns them.
    calls
        .iter()
        .map(|(tool, arguments)| {
            Part::ToolCall(ToolCall::new("", *tool, arguments.to_string()).into())
        })
        .collect()
}

/// Returns the best passages of a search as reads that include the surrounding lines.
fn places(found: &Value) -> Vec<(&'static str, Value)> {
    let mut places: Vec<(&str, u64)> = Vec::new();
    for hit in found["hits"].as_array().into_iter().flatten() {
        let (Some(path), Some(line)) = (hit["path"].as_str(), hit["line"].as_u64()) else {
            continue;
        };
        let near =
            places.iter().any(|(known, at)| *known == path && at.abs_diff(line) <= AROUND as u64);
        if places.len() < PLACES && !near {
            places.push((path, line));
        }
    }
    let around = AROUND as u64;
    let read = |(path, line): (&str, u64)| {
        (
            "read_lines",
            json!({"path": path, "from": line.saturating_sub(around).max(1), "to": line + around}),
        )
    };
    places.into_iter().map(read).collect()
}

/// A sentence that may be quoted.
struct Quote {
    path: String,
    passage: Passage,
    words: BTreeSet<String>,
    /// Weighted share of the question's words in the sentence, from 0 to 1. Rare words have a
    /// higher weight.
    covered: f64,
    score: f64,
}

fn answer(question: &str, found: &Value, reads: &[Value]) -> String {
    let weights: Vec<(&str, f64)> = found["words"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_f64()?)))
        .collect();
    let mut quotes = quotes(question, &weights, reads);
    quotes.sort_by(|a, b| b.score.total_cmp(&a.score));
    let least = quotes.first().map_or(0.0, |best| best.score * 0.4);
    let mut chosen: Vec<&Quote> = Vec::new();
    for quote in quotes.iter().filter(|quote| quote.score >= least) {
        if chosen.len() < QUOTED && !chosen.iter().any(|other| alike(&quote.words, &other.words)) {
            chosen.push(quote);
        }
    }
    let missing: Vec<&str> =
        weights.iter().filter(|(_, weight)| *weight == 0.0).map(|(word, _)| *word).collect();
    let mut text = String::new();
    if chosen.is_empty() {
        let all: Vec<&str> = weights.iter().map(|(word, _)| *word).collect();
        return match all.is_empty() {
            true => "The question has no word that could be looked for. Ask with a name or a term."
                .to_owned(),
            false => {
                format!("The documents say nothing about this; looked for: {}.", all.join(", "))
            }
        };
    }
    let lost = missing.len() as f64 / weights.len().max(1) as f64;
    let direct = chosen.iter().any(|quote| quote.covered * (1.0 - lost) >= 0.5);
    text.push_str(match direct {
        true => "The documents say:\n",
        false => "No sentence that was read has most of the question's words. The nearest are:\n",
    });
    for Quote { path, passage, .. } in chosen {
        let lines = match passage.first == passage.last {
            true => passage.first.to_string(),
            false => format!("{}-{}", passage.first, passage.last),
        };
        text.push_str(&format!("\n- \"{}\"\n  {path}:{lines}", passage.text));
        if !passage.about.is_empty() {
            text.push_str(&format!(" (on: {})", passage.about));
        }
        text.push('\n');
    }
    if !missing.is_empty() {
        text.push_str(&format!("\nNowhere in the documents: {}.\n", missing.join(", ")));
    }
    text
}

/// Returns all sentences that were read and relate to the question.
fn quotes(question: &str, weights: &[(&str, f64)], reads: &[Value]) -> Vec<Quote> {
    let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut quotes: Vec<Quote> = Vec::new();
    for (rank, read) in reads.iter().enumerate() {
        let (Some(path), Some(text)) = (read["path"].as_str(), read["text"].as_str()) else {
            continue;
        };
        let numbered: Vec<(usize, &str)> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter_map(|(number, line)| {
                Some((number.parse().ok()?, line.strip_prefix(' ').unwrap_or(line)))
            })
            .collect();
        let Some((first, _)) = numbered.first() else { continue };
        let read = passages(path, *first, numbered.iter().map(|(_, line)| *line));
        let last_line = numbered.len() + first - 1;
        for (at, passage) in read.iter().enumerate() {
            let own: BTreeSet<String> = words(&passage.text).into_iter().collect();
            let known = quotes.iter().any(|quote| {
                quote.path == path && quote.passage.first == passage.first && quote.words == own
            });
            let about: BTreeSet<String> = words(&passage.about).into_iter().collect();
            // The first and the last sentence of an excerpt may be incomplete.
            let cut = (at == 0 && *first > 1)
                || (passage.last == last_line && at + 1 == read.len() && reads.len() > 1);
            if known
                || passage.kind == Kind::Heading
                || repeats(&passage.text, question)
                || passage.text.ends_with(" (cut off)")
            {
                continue;
            }
            let covered: f64 = weights
                .iter()
                .map(|(word, weight)| match () {
                    () if own.contains(*word) => *weight,
                    () if about.contains(*word) => weight * f64::from(share_of_about(path)),
                    () => 0.0,
                })
                .sum();
            let long =
                (own.len() as f64 / 6.0).min(1.0) * (40.0 / own.len().max(1) as f64).min(1.0);
            let kind = match passage.kind {
                Kind::Sentence => 1.0,
                Kind::Row => 0.8,
                _ => 0.45,
            };
            let asks = if passage.text.ends_with('?') { 0.5 } else { 1.0 };
            let place = 1.0 - rank as f64 * 0.04;
            let score = (covered / all.max(f64::MIN_POSITIVE)).powf(1.5)
                * kind
                * asks
                * place
                * (0.4 + 0.6 * long)
                * if cut { 0.5 } else { 1.0 };
            let says_something = weights.iter().any(|(word, _)| own.contains(*word));
            if says_something && score > 0.0 {
                let covered = covered / all.max(f64::MIN_POSITIVE);
                quotes.push(Quote {
                    path: path.to_owned(),
                    passage: passage.clone(),
                    words: own,
                    covered,
                    score,
                });
            }
        }
    }
    quotes
}

/// Returns `true` if two sentences have mostly the same words.
fn alike(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let common = a.intersection(b).count();
    common * 10 >= a.len().min(b.len()) * 7
}
