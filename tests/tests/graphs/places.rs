//! Tests that an agent without a runtime uses the runtime of the step that calls it: its model
//! providers, resources, secrets and middleware.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::document::Document;
use agentflow::middleware::{Flow, Middleware, ToolStep};
use agentflow::model::{Model, Secret, SecretProvider};
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::MemoryStore;
use agentflow::value::Encoded;
use agentflow::{Agent, async_trait, message::ToolResult};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use futures_util::FutureExt;
use serde_json::json;

struct Shelf(u32);

/// Looks how many there are.
#[tool(effects = "read")]
async fn places_look(shelf: Inject<Shelf>) -> u32 {
    shelf.0
}

struct Vault;

#[async_trait]
impl SecretProvider for Vault {
    async fn secret(&self, name: &str) -> Option<Secret> {
        (name == "LAB_KEY").then(|| Secret::new("sesame"))
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<AtomicU32>);

#[async_trait]
impl Middleware for Seen {
    fn name(&self) -> &str {
        "seen"
    }

    async fn before_tool(&self, _: &mut ToolStep) -> Result<Flow<ToolResult>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Flow::Continue)
    }
}

/// A test environment. Records whether models can read the secret, and counts the tool calls that
/// the middleware sees.
#[derive(Clone, Default)]
struct Lab {
    secrets: Arc<Mutex<Vec<bool>>>,
    tools: Seen,
}

impl Lab {
    fn runtime(&self) -> RuntimeBuilder {
        let secrets = Arc::clone(&self.secrets);
        let lab = move |_: &_, given: &Arc<dyn SecretProvider>| {
            let is_there = given.secret("LAB_KEY").now_or_never().flatten().is_some();
            secrets.lock().unwrap().push(is_there);
            let model = ScriptedModel::from_fn(|request| match request.messages.len() {
                0..=2 => Turn::call("places_look", json!({})),
                _ => Turn::text("forty"),
            });
            Ok(Arc::new(model) as Arc<dyn Model>)
        };
        let runtime = test_runtime().model_provider("lab", lab).resource(Shelf(40)).secrets(Vault);
        runtime.with(self.tools.clone()).store(MemoryStore::new())
    }

    #[track_caller]
    fn check(&self, place: &str) {
        let secrets = self.secrets.lock().unwrap().clone();
        assert!(
            !secrets.is_empty() && secrets.iter().all(|is_there| *is_there),
            "{place}: {secrets:?}"
        );
        assert_eq!(self.tools.0.load(Ordering::SeqCst), 1, "{place}: the middleware sees the call");
    }
}

fn asker() -> Agent {
    Agent::new("lab/small").name("places_asker").instruct("Look.").tools(tools![places_look])
}

#[workflow]
async fn places_step(cx: &Context) -> Result<String> {
    let said = places_ask(cx).await?;
    Ok(said)
}

async fn places_ask(cx: &Context) -> Result<String> {
    Ok(asker().run_in(cx, "How many?").await?.output().clone())
}

const DOCUMENT: &str = "
name: places
agents:
  - name: places_of_document
    model: lab/small
    instruction: Look.
    tools: [places_look]
orchestration: {type: sequential, agents: [places_of_document]}
";

#[tokio::test]
async fn an_agent_has_the_runtime_of_its_run_in_every_place() {
    let lab = Lab::default();
    let agent = asker().runtime(&lab.runtime().build());
    assert_eq!(agent.run("How many?").await.unwrap().output(), "forty");
    lab.check("by itself");

    let lab = Lab::default();
    let runtime = lab.runtime().agent(&asker()).build();
    let run = runtime.start_agent("places_asker", "How many?").await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "forty");
    lab.check("by its name");

    let lab = Lab::default();
    let runtime = lab.runtime().build();
    let run = runtime.start(places_step::workflow(), ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "forty");
    lab.check("in a step");

    let input = || Encoded::new(&json!({"input": "How many?"})).unwrap();
    let lab = Lab::default();
    let runtime = lab.runtime().pipeline("ask", Pipeline::from(asker())).build();
    let run = runtime.start_named("ask", input()).await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "forty");
    lab.check("in a pipeline");

    let lab = Lab::default();
    let runtime =
        lab.runtime().agent(&asker()).pipeline("ask", Pipeline::agent("places_asker")).build();
    let run = runtime.start_named("ask", input()).await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "forty");
    lab.check("in a pipeline, by its name");

    let lab = Lab::default();
    let document = Document::read("places.yaml", DOCUMENT).unwrap();
    let runtime = lab.runtime().document(document).build();
    let message = Encoded::new(&json!({"message": "How many?"})).unwrap();
    let run = runtime.start_named("places", message).await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "forty");
    lab.check("in the workflow of a document");
}

#[tokio::test]
async fn missing_resources_of_a_workflows_agent_are_reported_before_the_run() {
    let pipeline = Pipeline::value("first") >> Pipeline::from(asker());
    let input = || Encoded::new(&json!({"input": 1})).unwrap();
    let runtime = test_runtime()
        .pipeline("ask", &pipeline)
        .resource(Shelf(1))
        .store(MemoryStore::new())
        .build();
    let error = runtime.start_named("ask", input()).await.unwrap_err().to_string();
    assert!(error.contains("the agent `places_asker`: no adapter is called `lab`"), "{error}");
    assert!(runtime.catalogue().dry_run("ask").await.unwrap_err().to_string().contains("`lab`"));

    let lab = |_: &_, _: &_| Ok(Arc::new(ScriptedModel::new([])) as Arc<dyn Model>);
    let runtime = test_runtime()
        .pipeline("ask", &pipeline)
        .model_provider("lab", lab)
        .store(MemoryStore::new())
        .build();
    let error = runtime.start_named("ask", input()).await.unwrap_err().to_string();
    assert!(
        error.contains("Shelf` for the tool `places_look` of the agent `places_asker`"),
        "{error}"
    );
}
