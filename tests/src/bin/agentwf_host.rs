//! A host binary for tests: the command line with linked tools and workflows.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentflow::RunId;
use agentflow::message::{Part, Role, ToolCall};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::prelude::*;
use agentflow::store::SqliteStore;

/// Add two integers.
#[tool(effects = "none")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// The weather of a city.
#[tool(effects = "read")]
async fn get_weather(
    /// The city's name.
    city: String,
    unit: Option<String>,
) -> String {
    let unit = unit.unwrap_or_else(|| "celsius".to_owned());
    format!("12 degrees {unit} in {city}")
}

/// Wait, for a test that stops a run meanwhile.
#[tool(effects = "none")]
async fn wait(milliseconds: u64) -> &'static str {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    "waited"
}

/// Hold a thread, for a test of what cannot be stopped.
#[tool(effects = "none")]
fn block(milliseconds: u64) -> &'static str {
    std::thread::sleep(Duration::from_millis(milliseconds));
    "held"
}

/// Forget everything; only for a run that may.
#[tool(scopes("admin"), approve)]
fn forget() -> &'static str {
    "forgotten"
}

/// Wait until a file exists, so that a test decides when a step ends. Reports on standard error
/// that it waits.
#[tool(effects = "read")]
async fn await_file(file: String) -> String {
    let mut said = false;
    while !Path::new(&file).exists() {
        if !std::mem::replace(&mut said, true) {
            note(&format!("waiting for {file}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    "there".to_owned()
}

/// Deliver when the file exists. It is not idempotent.
#[tool]
async fn deliver(file: String) -> String {
    await_file(file).await
}

fn note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn shout(text: &str) -> Result<String> {
    Ok(text.to_uppercase())
}

async fn find(file: &str) -> Result<String, String> {
    match Path::new(file).exists() {
        true => Ok("found".to_owned()),
        false => Err(format!("there is no {file}")),
    }
}

/// Throw something away for good.
#[tool(approve)]
fn shred(what: String) -> String {
    format!("{what} is gone")
}

/// Say it again.
#[agent(model = "parrot/grey", tools = [shred, await_file])]
async fn echo(cx: &Context) -> Result<String>;

/// Rate {text} from 1 to 5.
#[agent(model = "parrot/grey")]
async fn rate(text: String) -> Result<u8>;

/// Says a word several times.
///
/// Nothing of it takes long.
#[workflow]
async fn quick(word: String, times: u8) -> Result<String> {
    let loud = shout(&word).await?;
    let parts = map!(vec![loud; usize::from(times)], |part| shout(&part)).await?;
    Ok(parts.join("-"))
}

/// Asks before it publishes.
#[workflow]
async fn publish(text: String) -> Result<String> {
    let loud = shout(&text).await?;
    let approval = gate!("publish {loud}?", loud).await?;
    let said = match approval {
        Approval::Granted { .. } => shout(&loud).await?,
        Approval::Denied { comment } => shout(&comment.unwrap_or_default()).await?,
    };
    Ok(said)
}

/// Asks for a number.
#[workflow]
async fn price(article: String) -> Result<u32> {
    let cents = gate!("how much is a {article}?", article, answer = u32).await?;
    Ok(cents * 2)
}

/// Fails as long as a file is missing.
#[workflow]
async fn needs_file(file: String) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let before = shout("before").await?;
    #[after(before)]
    let found = find(&file).await?;
    let after = shout(&found).await?;
    Ok(after)
}

/// Runs until a file is there.
#[workflow]
async fn slow(file: String) -> Result<String> {
    let begun = shout("begun").await?;
    #[after(begun)]
    let there = await_file(file).await;
    let last = shout(&there).await?;
    Ok(last)
}

/// Does two things at once, until a file is there; only one of them may be done twice.
#[workflow]
async fn slow_delivery(file: String) -> Result<String> {
    let there = await_file(file).await;
    #[node(unordered)]
    let delivered = deliver(file).await;
    Ok(format!("{there} {delivered}"))
}

/// Sign a contract.
#[tool(compensate = annul)]
async fn sign(cx: &Context, name: String) -> Result<String> {
    note(&format!("{} signs {name}", cx.run_id()));
    Ok(name)
}

/// Annul it, when a person agrees.
#[tool]
async fn annul(cx: &Context, name: String, output: String) -> Result<String> {
    let annulled = annulled(cx, name).await?;
    Ok(format!("{annulled}, which was {output}"))
}

#[workflow]
async fn annulled(cx: &Context, name: String) -> Result<String> {
    let approval = gate!("annul {name}?", name).await?;
    let done = annulled_or_not(cx, name, approval).await?;
    Ok(done)
}

async fn annulled_or_not(cx: &Context, name: String, approval: Approval) -> Result<String> {
    note(&format!("{} has the answer {approval:?}", cx.run_id()));
    Ok(name)
}

/// Lend a thing.
#[tool(compensate = take_back)]
async fn lend(thing: String) -> String {
    thing
}

/// Take it back.
#[tool(idempotent)]
async fn take_back(thing: String, output: String) -> bool {
    thing == output
}

/// Lends, signs, and finds that a file is missing.
#[workflow]
async fn deal(
    cx: &Context,
    file: String,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let lent = lend("a pen".to_owned()).await;
    let signed = sign(cx, lent).await?;
    #[after(signed)]
    let found = find(&file).await?;
    Ok(found)
}

/// Starts a run with compensation enabled, which the command line cannot do: `begin-deal STORE RUN
/// FILE`.
async fn begin_deal(store: String, run: String, file: String) -> Result<String> {
    let runtime = Runtime::builder().store(SqliteStore::open(store).await?).build();
    runtime.start(deal::workflow(), file).run_id(RunId::new(run)).compensate().await?.result().await
}

/// A custom model of the host that repeats the task. If the task is to shred something or to await
/// a file, it calls that tool first. If the task is to recall, it repeats all user messages.
struct Parrot(ModelInfo);

impl Model for Parrot {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let last = request.messages.last();
        let said = last.map(|message| message.text().into_owned()).unwrap_or_default();
        let call = |tool: &str, argument: &str, value: &str| {
            let arguments = agentflow::serde_json::json!({argument: value}).to_string();
            Message::new(
                Role::Assistant,
                vec![Part::ToolCall(Arc::new(ToolCall::new("call_1", tool, arguments)))],
            )
        };
        let message =
            match (said.split_once(' '), last.and_then(|message| message.results().next())) {
                (_, Some(result)) => Message::assistant(result.text()),
                (Some(("shred", what)), None) => call("shred", "what", what),
                (Some(("await", file)), None) => call("await_file", "file", file),
                (None, None) if said == "recall" => {
                    let user = request
                        .messages
                        .messages()
                        .iter()
                        .filter(|message| message.role() == Role::User);
                    Message::assistant(
                        user.map(|message| message.text()).collect::<Vec<_>>().join(", "),
                    )
                }
                (_, None) => Message::assistant(said),
            };
        let answer = ModelResponse::new(message);
        ModelStream::new(futures_util::stream::iter([Ok(ModelEvent::Completed(Box::new(answer)))]))
    }
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [command, store, run, file] = &args[..]
        && command == "begin-deal"
    {
        let process = tokio::runtime::Runtime::new().expect("a runtime can be made");
        let ended = process.block_on(begin_deal(store.clone(), run.clone(), file.clone()));
        note(&ended.unwrap_or_else(|error| error.to_string()));
        return std::process::ExitCode::SUCCESS;
    }
    let host = Runtime::builder().model_provider("parrot", |model, _| {
        Ok(Arc::new(Parrot(ModelInfo::new(model.provider(), model.model()))))
    });
    agentflow::cli::run_from(host)
}
