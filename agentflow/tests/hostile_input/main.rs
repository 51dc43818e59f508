//! Tests with a bounded number of untrusted inputs: the seeds of the fuzz corpus, and mutations of
//! them from a generator with a fixed seed. `fuzz/` runs the same checks without a bound.
#![cfg(all(
    feature = "anthropic",
    feature = "gemini",
    feature = "openai-chat",
    feature = "openai-responses"
))]

#[cfg(all(feature = "mcp-server", feature = "tool-api"))]
mod address_check;
mod check;
#[cfg(all(feature = "documents", feature = "tool-api"))]
mod cost;
#[cfg(feature = "documents")]
mod document_check;
#[cfg(all(feature = "a2a-client", feature = "mcp"))]
mod peer_check;
#[cfg(feature = "tool-api")]
mod reader_check;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use agentflow::Event;
use agentflow::message::Conversation;
use check::Format;
use fastrand::Rng;

/// Number of mutated inputs of each kind.
const CASES: usize = 400;

/// Time limit for one input in a debug build on a busy machine. On an idle machine, each takes less
/// than a second.
const LONGEST: Duration = Duration::from_secs(30);

/// Texts that often break parsers: limits of number types, keys and values with other types, line
/// endings, lone surrogates.
const WORDS: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "0.5",
    "1e999",
    "4294967296",
    "18446744073709551616",
    "\"\\ud800\"",
    "\"\\u0000\\u001b[2J\"",
    "\"index\":",
    "\"type\":",
    "\"content\":",
    "data: ",
    "event: ",
    "[DONE]",
    "\n\n",
    "\r",
    ":",
    "\u{feff}",
    "\u{202e}",
    "\\",
    "\"",
    "{",
    "]",
];

/// Returns the seeds of a kind, sorted by name.
fn seeds(kind: &str) -> Vec<Vec<u8>> {
    // Other tests also use the documents.
    let folder = match kind {
        "document" => "../crates/core/tests/documents",
        _ => &format!("tests/hostile_input/seeds/{kind}"),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("seeds").map(|file| file.expect("a seed").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("a seed")).collect()
}

/// Checks the seeds and mutations of them, and prints the input that violates a check.
fn hostile(kind: &str, check: impl Fn(&[u8])) {
    let seeds = seeds(kind);
    let mut rng = Rng::with_seed(7);
    let changed = std::iter::repeat_with(|| change(&seeds, &mut rng)).take(CASES);
    for input in seeds.iter().cloned().chain(changed) {
        let timed = || {
            let begin = Instant::now();
            check(&input);
            assert!(
                begin.elapsed() < LONGEST,
                "an input of {} bytes took {:?}",
                input.len(),
                begin.elapsed()
            );
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(timed)) {
            #[expect(clippy::print_stderr, reason = "the input is what a reader needs")]
            {
                eprintln!("{kind}: b\"{}\"", input.escape_ascii());
            }
            resume_unwind(panic);
        }
    }
}

/// Returns a seed with one to four mutations.
fn change(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = seeds[rng.usize(..seeds.len())].clone();
    for _ in 0..rng.usize(1..=4) {
        let from = rng.usize(..=input.len());
        let to = (from + rng.usize(..=40)).min(input.len());
        let word = WORDS[rng.usize(..WORDS.len())].as_bytes();
        match rng.u8(..8) {
            0 => input.truncate(from),
            1 => drop(input.drain(from..to)),
            2 => drop(input.splice(to..to, input[from..to].to_vec())),
            3 => drop(input.splice(from..from, word.iter().copied())),
            4 => drop(input.splice(from..from, "[".repeat(rng.usize(..300)).into_bytes())),
            5 if from < input.len() => input[from] = rng.u8(..),
            6 => {
                let other = &seeds[rng.usize(..seeds.len())];
                input.truncate(from);
                input.extend_from_slice(&other[rng.usize(..=other.len())..]);
            }
            // Replaces a JSON value.
            _ => {
                let values: Vec<usize> = (0..input.len()).filter(|at| input[*at] == b':').collect();
                if !values.is_empty() {
                    let from = values[rng.usize(..values.len())] + 1;
                    let end =
                        input[from..].iter().position(|byte| b",}]\n".contains(byte)).unwrap_or(0);
                    input.splice(from..from + end, word.iter().copied());
                }
            }
        }
    }
    input
}

#[test]
fn answers_of_chat_completions() {
    hostile("chat", |bytes| check::answer(Format::Chat, bytes));
}

#[test]
fn answers_of_responses() {
    hostile("responses", |bytes| check::answer(Format::Responses, bytes));
}

#[test]
fn answers_of_anthropic() {
    hostile("anthropic", |bytes| check::answer(Format::Anthropic, bytes));
}

#[test]
fn answers_of_gemini() {
    hostile("gemini", |bytes| check::answer(Format::Gemini, bytes));
}

#[cfg(feature = "documents")]
#[test]
fn documents() {
    hostile("document", document_check::document);
}

#[test]
fn http_responses() {
    hostile("response", check::response);
}

#[cfg(all(feature = "a2a-client", feature = "mcp"))]
#[test]
fn results_of_agents() {
    hostile("a2a", peer_check::a2a);
}

#[cfg(all(feature = "a2a-client", feature = "mcp"))]
#[test]
fn results_of_mcp_servers() {
    hostile("mcp", peer_check::mcp);
}

#[cfg(feature = "tool-api")]
#[test]
fn schemas() {
    hostile("schema", reader_check::schema);
}

#[cfg(feature = "tool-api")]
#[test]
fn queries() {
    hostile("json_path", reader_check::json_path);
}

#[cfg(feature = "tool-api")]
#[test]
fn expressions() {
    hostile("expression", reader_check::expression);
}

#[cfg(feature = "tool-api")]
#[test]
fn templates() {
    hostile("template", reader_check::template);
}

#[cfg(feature = "tool-api")]
#[test]
fn near_names() {
    hostile("nearest", reader_check::nearest);
}

#[cfg(feature = "tool-api")]
#[test]
fn descriptions_of_tools() {
    hostile("api_tool", reader_check::api_tool);
}

#[cfg(feature = "tool-api")]
#[test]
fn open_api_documents() {
    hostile("open_api", reader_check::open_api);
}

#[cfg(all(feature = "mcp-server", feature = "tool-api"))]
#[test]
fn addresses() {
    hostile("address", address_check::address);
}

#[test]
fn stored_events() {
    for seed in seeds("event") {
        serde_json::from_slice::<Event>(&seed)
            .unwrap_or_else(|error| panic!("{error}: {}", seed.escape_ascii()));
    }
    hostile("event", check::event);
}

#[test]
fn stored_journals() {
    let journal = seeds("event").join(&b'\n');
    let mut rng = Rng::with_seed(7);
    for _ in 0..CASES / 10 {
        check::journal(&change(std::slice::from_ref(&journal), &mut rng));
    }
}

#[test]
fn stored_conversations() {
    for seed in seeds("conversation") {
        serde_json::from_slice::<Conversation>(&seed).expect("a seed is a conversation");
    }
    hostile("conversation", check::conversation);
}
