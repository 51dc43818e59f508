//! Sorts and answers customers' letters with agents and a tool, combined with operators.
//!
//! The program is agentflow's command line with the workflow `support_triage`: `workflow run
//! support_triage --input '{"input": "I was charged twice!"}'`, `workflow show support_triage`.
//! Without arguments it answers three letters. `AGENTFLOW_MODEL` names the model; without it a
//! rule-based stand-in answers.

mod stand_in;

use std::process::ExitCode;

use agentflow::model::{ModelRef, ModelSource};
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a customer wants.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Intent {
    Billing,
    Fault,
    Question,
}

/// A letter, sorted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Sorted {
    intent: Intent,
    /// How sure that is, from 0 to 1.
    confidence: f64,
    /// The letter in one sentence.
    summary: String,
}

/// A ticket that was opened.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Ticket {
    ticket_id: String,
    summary: String,
}

/// You sort letters of customers. What is this one about, and how sure are you? {letter}
#[agent(model = "openai/gpt-5-mini")]
async fn classify(cx: &Context, letter: String) -> Result<Sorted>;

/// You answer letters of customers in two sentences. Name the ticket if there is one. {case}
#[agent(model = "openai/gpt-5-mini")]
async fn resolve(cx: &Context, case: String) -> Result<String>;

/// Open a ticket. The same letter has the same ticket, however often it is opened.
#[tool(idempotent)]
fn create_ticket(intent: Intent, summary: String) -> Ticket {
    let number = summary
        .bytes()
        .fold(7_u32, |number, byte| number.wrapping_mul(31).wrapping_add(byte.into()))
        % 9000
        + 1000;
    let kind = match intent {
        Intent::Billing => "B",
        Intent::Fault => "F",
        Intent::Question => "Q",
    };
    Ticket { ticket_id: format!("{kind}-{number}"), summary }
}

/// Builds the workflow. A letter is classified. If the confidence is low, the run waits for a
/// person. Faults and bills get a ticket. Then the letter is answered.
fn support_triage() -> Pipeline {
    let classify = Pipeline::agent("classify").with(json!({"letter": "{input}"}));
    let ticket = Pipeline::tool("create_ticket")
        .with(json!({"intent": "{input.intent}", "summary": "{input.summary}"}));
    let resolve = Pipeline::agent("resolve");
    let with_ticket = ticket
        >> resolve.clone().with(json!({"case": "{input.summary} (ticket {input.ticket_id})"}));
    let without = resolve.with(json!({"case": "{input.summary}"}));
    classify.save("sorted")
        >> Pipeline::when(
            "input.confidence < 0.5",
            Pipeline::gate("Is this letter for the support desk?"),
        )
        .otherwise(Pipeline::value("{input}"))
        >> Pipeline::when("input.intent == 'question'", without).otherwise(with_ticket)
}

fn runtime() -> Result<Runtime, Box<dyn std::error::Error>> {
    let model: ModelSource = match std::env::var("AGENTFLOW_MODEL") {
        Ok(name) => name.parse::<ModelRef>()?.into(),
        Err(_) => stand_in::model().into(),
    };
    Ok(Runtime::builder().pipeline("support_triage", support_triage()).model(model).build())
}

fn main() -> ExitCode {
    let ended = match runtime() {
        Ok(runtime) if std::env::args().len() > 1 => return agentflow::cli::run_with(&runtime),
        Ok(runtime) => answer_all(&runtime),
        Err(problem) => Err(problem),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn answer_all(runtime: &Runtime) -> Result<(), Box<dyn std::error::Error>> {
    for letter in
        ["I was charged twice for order 8.", "The lamp is broken.", "Do you ship to Norway?"]
    {
        let run = runtime.start_named("support_triage", json!({"input": letter})).await?;
        let answer: String = run.result().await?.decode()?;
        println!("{letter}\n  {answer}");
    }
    Ok(())
}
