//! Cassettes: a replay returns the recorded answers, and any other request fails with a reason.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::message::{Part, Reasoning};
use agentflow::model::{
    ModelError, ModelErrorKind, ModelRequest, ModelSettings, OutputSchema, Usage,
};
use agentflow::tool::FnTool;
use agentflow::{Agent, Event, Model, tool, tools};
use agentflow_testing::{Cassette, ScriptedModel, Turn, check_events, test_runtime, within};
use agentflow_tests::test_as_process;
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Add two integers.
#[tool(effects = "none")]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// A file of this test, deleted at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let last = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("cassette-{}-{last}.json", std::process::id());
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn calculator(model: impl Model + 'static) -> Agent {
    Agent::new(model)
        .name("calculator")
        .instruct("Be exact.")
        .tools(tools![add])
        .runtime(&test_runtime().build())
}

/// Returns all events of a run, including deltas, and its outcome.
async fn watched(agent: Agent, task: &str) -> (Vec<Event>, String) {
    let mut run = agent.stream(task).unwrap();
    let mut events = Vec::new();
    while let Some(event) = within("the next event", run.next()).await {
        events.push(event);
    }
    let result = run.result().await;
    (events, result.map_or_else(|error| format!("{error:?}"), |result| result.into_output()))
}

fn panic_text(body: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("it should have panicked");
    panic.downcast_ref::<String>().cloned().unwrap()
}

fn sum_script() -> ScriptedModel {
    ScriptedModel::new([
        Turn::call("add", json!({"a": 2, "b": 3}))
            .reasoning("I must add.")
            .usage(Usage::new(20, 5)),
        Turn::pieces(["It ", "is ", "5."]).usage(Usage::new(30, 4)),
    ])
    .named("openai-chat", "gpt-test")
}

async fn recorded_sum(file: &Scratch) {
    let model = Cassette::record(&file.0, sum_script()).unwrap();
    assert!(model.is_recording());
    watched(calculator(model.clone()), "What is 2 + 3?").await;
    model.finish();
}

/// The golden file fixes the format: this release writes it, and every later release must read it.
#[tokio::test(start_paused = true)]
async fn the_format_is_the_one_of_the_golden_file() {
    let file = Scratch::new();
    recorded_sum(&file).await;
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/cassette-v1.json");
    if std::env::var_os("BLESS").is_some() {
        std::fs::copy(&file.0, &golden).unwrap();
    }
    assert_eq!(file.text(), std::fs::read_to_string(&golden).unwrap());

    let model = Cassette::replay(golden).unwrap();
    assert_eq!(model.info().model.as_ref(), "gpt-test");
    let (events, output) = watched(calculator(model.clone()), "What is 2 + 3?").await;
    model.finish();
    assert_eq!(output, "It is 5.");
    check_events(&events).unwrap();
    let deltas = events.iter().filter(|event| event.name() == "model.delta").count();
    assert_eq!(deltas, 5, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn another_request_fails_with_a_diff() {
    let file = Scratch::new();
    recorded_sum(&file).await;
    let model = Cassette::replay(&file.0).unwrap();
    let error = calculator(model.clone()).run("What is 2 + 4?").await.unwrap_err();
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(
        text.contains("- {\"user\": \"What is 2 + 3?\"}\n+ {\"user\": \"What is 2 + 4?\"}"),
        "{text}"
    );
    assert_eq!(model.failures().len(), 1);
    let panic = panic_text(|| drop(model));
    assert!(
        panic.contains(
            "call 1: it is not entry 1 (- recorded, + asked):\n  {\"system\": \"Be exact.\"}\n- "
        ),
        "{panic}"
    );
    assert!(
        panic.contains("entry 1 was never asked for") && panic.contains("entry 2 was never"),
        "{panic}"
    );
}

/// Each part of a request is compared.
#[tokio::test(start_paused = true)]
async fn settings_tools_and_schemas_are_matched() {
    let file = Scratch::new();
    recorded_sum(&file).await;
    for (agent, said) in [
        (
            Box::new(|agent: Agent| agent.settings(ModelSettings::default().temperature(0.1)))
                as Box<dyn Fn(_) -> _>,
            "+ settings {\"temperature\": 0.1}",
        ),
        (Box::new(|agent: Agent| agent.instruct("Be quick.")), "+ {\"system\": \"Be quick.\"}"),
        (
            Box::new(|agent: Agent| {
                agent.tools([FnTool::new("sub", "", |_: agentflow::Context, (): ()| async {
                    Ok::<_, String>(1)
                })])
            }),
            "+ tool {\n+   \"description\": \"\",\n+   \"name\": \"sub\"",
        ),
    ] {
        let model = Cassette::replay(&file.0).unwrap();
        let error =
            agent(calculator(model.clone())).run("What is 2 + 3?").await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        panic_text(|| model.finish());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_after_the_last_one_and_one_that_is_left_fail() {
    let file = Scratch::new();
    recorded_sum(&file).await;
    let model = Cassette::replay(&file.0).unwrap();
    calculator(model.clone()).run("What is 2 + 3?").await.unwrap();
    let error = calculator(model.clone()).run("What is 2 + 3?").await.unwrap_err().to_string();
    assert!(
        error.contains("call 3: the cassette has 2 calls, and all were played before"),
        "{error}"
    );
    assert!(panic_text(|| model.finish()).contains("call 3"));

    let model = Cassette::replay(&file.0).unwrap();
    let panic = panic_text(|| drop(model));
    assert!(
        panic.contains("entry 1 was never asked for: {\"user\":\"What is 2 + 3?\"}"),
        "{panic}"
    );
}

#[test]
fn files_that_are_not_cassettes_are_refused_with_the_reason() {
    let file = Scratch::new();
    let said = |text: &str| {
        std::fs::write(&file.0, text).unwrap();
        Cassette::replay(&file.0).unwrap_err().to_string()
    };
    assert!(said("{").contains("not JSON"));
    assert!(said("{}").contains("no `version`"));
    assert!(said(r#"{"version": 2}"#).contains("version 2"));
    let head = r#""version": 1, "model": {"provider": "p", "model": "m"}, "order": "recorded""#;
    assert!(
        said(&format!("{{{head}, \"calls\": [], \"more\": 1}}")).contains("unknown field `more`")
    );
    assert!(
        said(&format!(r#"{{{head}, "calls": [{{"call": 2, "messages": []}}]}}"#))
            .contains("where call 1 should be")
    );
    assert!(
        said(&format!(r#"{{{head}, "calls": [{{"call": 1, "messages": []}}]}}"#))
            .contains("one of `answer`")
    );
    let call = r#"{"call": 1, "continues": 1, "messages": [], "ended": "cut"}"#;
    assert!(said(&format!(r#"{{{head}, "calls": [{call}]}}"#)).contains("not an earlier call"));
}

#[test]
fn a_missing_file_says_how_to_record_it() {
    let error = Cassette::new("no/such/cassette.json", "openai-chat/gpt-test").unwrap_err();
    assert!(format!("{error:?}").contains("AGENTFLOW_RECORD=1"), "{error:?}");
    assert_eq!(error.path(), std::path::Path::new("no/such/cassette.json"));
    assert!(
        Cassette::new("no/such/cassette.json", "what").unwrap_err().to_string().contains("`what`")
    );
}

#[tokio::test(start_paused = true)]
async fn another_model_than_the_recorded_one_is_refused() {
    let file = Scratch::new();
    recorded_sum(&file).await;
    let error = Cassette::new(&file.0, "openai-chat/gpt-other").unwrap_err().to_string();
    assert!(
        error.contains("openai-chat/gpt-test and is asked to be openai-chat/gpt-other"),
        "{error}"
    );
    let model = Cassette::new(&file.0, "openai-chat/gpt-test").unwrap();
    assert!(!model.is_recording());
    calculator(model.clone()).run("What is 2 + 3?").await.unwrap();
    model.finish();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[tokio::test(start_paused = true)]
async fn a_typed_agent_replays_in_the_mode_it_was_recorded_in() {
    let file = Scratch::new();
    let script = ScriptedModel::new([Turn::text(r#"{"sum": 5}"#)]);
    let model = Cassette::record(&file.0, script).unwrap();
    let typed = |model: Cassette| Agent::new(model).output::<Sum>();
    assert_eq!(typed(model.clone()).run("2 + 3?").await.unwrap().output().sum, 5);
    model.finish();
    assert_eq!(
        file.json()["output_modes"],
        json!([{"schema": "Sum", "with_tools": false, "native": true}])
    );

    let model = Cassette::replay(&file.0).unwrap();
    assert_eq!(typed(model.clone()).run("2 + 3?").await.unwrap().output().sum, 5);
    model.finish();
    let other = OutputSchema::new("Other", json!({"type": "object"}));
    assert!(model.output_mode(&other, false).unwrap_err().contains("record it again"));
}

/// Concurrent agents: their calls overlap in the recording and have another order in the replay.
#[tokio::test(start_paused = true)]
async fn agents_at_the_same_time_are_distinguished_by_their_requests() {
    let file = Scratch::new();
    let script = ScriptedModel::from_fn(|request: &ModelRequest| {
        let task = request.messages.messages()[1].text().into_owned();
        let number: i64 = task.parse().unwrap();
        let wait = Duration::from_millis(100 + 10 * (number.unsigned_abs() % 3));
        let turn = match request.messages.last().unwrap().results().next() {
            None => Turn::call("add", json!({"a": number, "b": 1})),
            Some(result) => Turn::text(format!("{task} and one is {}", result.output)),
        };
        turn.after(wait)
    });
    let tasks: Vec<String> = (0..8).map(|number| (number / 2).to_string()).collect();
    let model = Cassette::record(&file.0, script).unwrap();
    let recorded =
        join_all(tasks.iter().map(|task| watched(calculator(model.clone()), task))).await;
    model.finish();
    assert_eq!(file.json()["order"], "any");
    assert_eq!(file.json()["calls"].as_array().unwrap().len(), 16);

    // Sequentially, in reverse order.
    let model = Cassette::replay(&file.0).unwrap();
    for (task, (_, output)) in tasks.iter().zip(&recorded).rev() {
        assert_eq!(watched(calculator(model.clone()), task).await.1, *output);
    }
    let error = calculator(model.clone()).run("1").await.unwrap_err().to_string();
    assert!(error.contains("all were played before"), "{error}");
    panic_text(|| model.finish());

    let model = Cassette::replay(&file.0).unwrap();
    let error = calculator(model.clone()).run("7").await.unwrap_err().to_string();
    assert!(
        error.contains("not among the entries that are left")
            && error.contains("+ {\"user\": \"7\"}"),
        "{error}"
    );
    panic_text(|| model.finish());
}

/// Sequential calls are replayed only in the recorded order.
#[tokio::test(start_paused = true)]
async fn the_order_of_calls_counts_when_they_did_not_overlap() {
    let file = Scratch::new();
    let model =
        Cassette::record(&file.0, ScriptedModel::new([Turn::text("a"), Turn::text("b")])).unwrap();
    for text in ["first", "second"] {
        model.call(ModelRequest::new(text)).await.unwrap();
    }
    model.finish();
    assert_eq!(file.json()["order"], "recorded");
    let model = Cassette::replay(&file.0).unwrap();
    assert!(
        model
            .call(ModelRequest::new("second"))
            .await
            .unwrap_err()
            .message()
            .contains("it is not entry 1")
    );
    panic_text(|| model.finish());
}

/// A call that was dropped early replays its deltas and then never ends.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_dropped_is_one_that_never_ends() {
    let file = Scratch::new();
    let script = ScriptedModel::new([Turn::pieces(["some", "thing"]).then_stall()]);
    let wait = Duration::from_secs(5);
    let model = Cassette::record(&file.0, script).unwrap();
    drop_call(&model, wait).await;
    model.finish();
    let model = Cassette::replay(&file.0).unwrap();
    drop_call(&model, wait).await;
    model.finish();
    assert_eq!(file.json()["calls"][0]["ended"], "dropped");
}

async fn drop_call(model: &Cassette, wait: Duration) {
    let mut stream = model.stream(ModelRequest::new("Hi").streamed());
    for _ in 0..2 {
        within("the next event", stream.next()).await.unwrap().unwrap();
    }
    assert!(tokio::time::timeout(wait, stream.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_test_that_fails_writes_nothing() {
    let file = Scratch::new();
    let path = file.0.clone();
    let failing = async move {
        let model = Cassette::record(path, ScriptedModel::new([Turn::text("Hello.")])).unwrap();
        model.call(ModelRequest::new("Hi")).await.unwrap();
        panic!("as a failed assertion would");
    };
    AssertUnwindSafe(failing).catch_unwind().await.unwrap_err();
    assert!(!file.0.exists());
}

const KEY: &str = "k3y-of-this-test-0123456789";

/// Known keys are removed everywhere, also if a stream splits them. The rest of the text is
/// unchanged.
#[tokio::test(start_paused = true)]
async fn no_known_key_is_in_the_file() {
    let file = Scratch::new();
    let (one, two) = KEY.split_at(9);
    let opaque = json!({"signature": "stays", "note": KEY});
    let reasoning = Reasoning::new(format!("The key is {KEY}."), "script").opaque(opaque);
    let script = ScriptedModel::new([
        Turn::pieces(["Your key is ", one, two, ", ", "Ada."]),
        Turn::call("add", json!({"a": KEY})).and_part(Part::Reasoning(reasoning)),
        Turn::raw_call("add", r#"{"authorization": "Bearer abcdef0123456789"}"#),
        Turn::error(
            ModelError::new(ModelErrorKind::Auth, format!("wrong key {KEY}"))
                .with_body(KEY)
                .with_provider_code(KEY),
        ),
        Turn::text("sk-live-abcdefgh1234567890 and bob@example.com"),
    ]);
    let scrubbed = |cassette: Cassette| {
        cassette.scrub(KEY).scrub_with(|text| text.replace("bob@example.com", "[address]"))
    };
    let model = scrubbed(Cassette::record(&file.0, script).unwrap());
    let ask = |text: String| {
        let mut request = ModelRequest::new(text).streamed();
        request.settings =
            ModelSettings::default().extra("headers", json!({"Authorization": KEY})).into();
        request
    };
    let asked: Vec<ModelRequest> =
        (0..5).map(|call| ask(format!("call {call} with {KEY}"))).collect();
    for request in &asked {
        let _ = model.stream(request.clone()).collect::<Vec<_>>().await;
    }
    model.finish();
    let text = file.text();
    for secret in [KEY, one, two, "abcdef0123456789", "sk-live", "bob@example.com"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
    assert!(text.contains("stays") && text.contains("Your key is [scrubbed], Ada."), "{text}");

    let model = scrubbed(Cassette::replay(&file.0).unwrap());
    for request in asked {
        let _ = model.stream(request).collect::<Vec<_>>().await;
    }
    model.finish();
}

/// The tests below run this in a new process, since a process cannot change its own environment
/// safely.
#[tokio::test(start_paused = true)]
#[ignore = "a part of the tests that start it"]
async fn inner_greeting() {
    let path = std::env::var("CASSETTE_PATH").unwrap();
    let key = std::env::var("ACME_API_KEY").unwrap();
    let script = ScriptedModel::from_fn(move |_| Turn::text(format!("Hello, {key}.")));
    let model = Cassette::new(path, script).unwrap();
    let answer = model.call(ModelRequest::new("Hi")).await.unwrap();
    model.finish();
    let said = if model.is_recording() { "recorded" } else { "replayed" };
    #[expect(clippy::print_stdout, reason = "the outer test reads it")]
    {
        println!("{said}: {}", answer.text());
    }
}

#[test]
fn the_environment_decides_and_its_keys_are_scrubbed() {
    let file = Scratch::new();
    let run = |record: &str| {
        let output = test_as_process(module_path!(), "inner_greeting")
            .arg("--ignored")
            .env("CASSETTE_PATH", &file.0)
            .env("ACME_API_KEY", KEY)
            .env("AGENTFLOW_RECORD", record)
            .output()
            .unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    };
    assert!(run("0").contains("record it by running the test with AGENTFLOW_RECORD=1"));
    assert!(run("yes").contains("set it to `1`, `missing` or `0`"));
    assert!(run("missing").contains("recorded: "));
    assert!(run("missing").contains("replayed: "));
    assert!(run("1").contains("recorded: "));
    assert!(run("").contains("replayed: Hello, [scrubbed]."));
    assert!(!file.text().contains(KEY));
}

/// A turn as data, because a script can be used only once.
#[derive(Clone, Debug)]
enum Said {
    Text(Vec<String>, u64),
    Call(i64, i64, Option<String>),
    Raw(String),
    Fails(ModelErrorKind, Option<String>),
    Cut(String),
}

impl Said {
    fn turn(&self) -> Turn {
        match self {
            Self::Text(pieces, tokens) => {
                Turn::pieces(pieces.clone()).usage(Usage::new(*tokens, 1))
            }
            Self::Call(a, b, reasoning) => {
                let turn = Turn::call("add", json!({"a": a, "b": b}))
                    .and_call("add", json!({"a": b, "b": a}));
                match reasoning {
                    Some(text) => turn.reasoning(text.clone()),
                    None => turn,
                }
            }
            Self::Raw(arguments) => Turn::raw_call("add", arguments.clone()),
            Self::Fails(kind, None) => Turn::error(
                ModelError::new(*kind, "failed")
                    .with_status(429)
                    .with_retry_after(Duration::from_millis(1500))
                    .permanent(),
            ),
            Self::Fails(kind, Some(text)) => {
                Turn::text(text.clone()).then_error(ModelError::new(*kind, text.clone()))
            }
            Self::Cut(text) => Turn::text(text.clone()).then_cut(),
        }
    }
}

fn said() -> impl Strategy<Value = Said> {
    let text = "[ -~]{0,20}|[a-zäß\n\"\\\\]{0,8}";
    let kind = prop_oneof![
        Just(ModelErrorKind::RateLimited),
        Just(ModelErrorKind::BadRequest),
        Just(ModelErrorKind::Timeout(agentflow::model::TimeoutKind::Idle)),
    ];
    prop_oneof![
        3 => (proptest::collection::vec(text, 1..40), 0..1000_u64).prop_map(|(pieces, tokens)| Said::Text(pieces, tokens)),
        4 => (-9..9_i64, -9..9_i64, proptest::option::of(text)).prop_map(|(a, b, text)| Said::Call(a, b, text)),
        1 => text.prop_map(Said::Raw),
        1 => (kind, proptest::option::of(text)).prop_map(|(kind, text)| Said::Fails(kind, text)),
        1 => text.prop_map(Said::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A recorded script and its replay have the same events, including deltas and times, and the
    /// same outcome.
    #[test]
    fn what_was_recorded_comes_back(script in proptest::collection::vec(said(), 1..6), task in "[ -~]{1,30}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let file = Scratch::new();
            let script = script.clone();
            let next = AtomicUsize::new(0);
            let endless = ScriptedModel::from_fn(move |_| {
                script.get(next.fetch_add(1, Ordering::Relaxed)).map_or_else(|| Turn::text("the end"), Said::turn)
            });
            let model = Cassette::record(&file.0, endless).unwrap();
            let recorded = watched(calculator(model.clone()), &task).await;
            model.finish();
            let model = Cassette::replay(&file.0).unwrap();
            let replayed = watched(calculator(model.clone()), &task).await;
            model.finish();
            assert_eq!(recorded, replayed);
        });
    }
}
