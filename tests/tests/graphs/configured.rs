//! Tests runtime settings from a file and from environment variables: their effect, their
//! precedence, and the report of every mistake.

use std::fs;
use std::path::PathBuf;

use agentflow::prelude::*;
use agentflow::runtime::{Changes, ConfigError, RuntimeConfig};
use agentflow_testing::{FakeProvider, FakeReply, ProviderFormat, ScriptedModel};
use serde_json::json;

use crate::documents::{places, run};

const ALL: &str = "model: openai/gpt-5-mini
agent_models: {writer: anthropic/claude-sonnet-4-5}
app: {company: Acme, seats: 3}
documents: [flows, /elsewhere]
store: runs.db
grant: [mail.send, files]
max_llm_calls: 50
max_output_bytes: 1000
max_nesting: 4
trace_content: true
changes: accept-all
";

fn none(_: &str) -> Option<String> {
    None
}

#[test]
fn a_file_has_all_settings_and_variables_stand_in_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agentflow.yaml");
    fs::write(&file, ALL).unwrap();
    let config = RuntimeConfig::open(&file).unwrap();
    assert_eq!(config.model.as_deref(), Some("openai/gpt-5-mini"));
    assert_eq!(config.agent_models["writer"], "anthropic/claude-sonnet-4-5");
    assert_eq!((&config.app["company"], &config.app["seats"]), (&json!("Acme"), &json!(3)));
    assert_eq!(config.documents, [folder.path().join("flows"), PathBuf::from("/elsewhere")]);
    assert_eq!(config.store, Some(folder.path().join("runs.db").into()));
    assert_eq!(config.grant, ["mail.send", "files"]);
    let numbers = (config.max_llm_calls, config.max_output_bytes, config.max_nesting);
    assert_eq!(numbers, (Some(50), Some(1000), Some(4)));
    assert_eq!((config.trace_content, config.changes), (Some(true), Some(Changes::AcceptAll)));
    assert_eq!(config.clone().with_variables(none).unwrap(), config);

    let variables = [
        ("AGENTFLOW_MODEL", "gemini/gemini-2.5-flash"),
        ("AGENTFLOW_DOCUMENTS", "one:/two"),
        ("AGENTFLOW_STORE", "other.db"),
        ("AGENTFLOW_GRANT", "mail.read, files,"),
        ("AGENTFLOW_MAX_LLM_CALLS", "7"),
        ("AGENTFLOW_MAX_OUTPUT_BYTES", "8"),
        ("AGENTFLOW_MAX_NESTING", "9"),
        ("AGENTFLOW_TRACE_CONTENT", "false"),
        ("AGENTFLOW_CHANGES", "refuse"),
    ];
    let of = |name: &str| {
        variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
    };
    let with = config.clone().with_variables(of).unwrap();
    assert_eq!(with.model.as_deref(), Some("gemini/gemini-2.5-flash"));
    #[cfg(unix)]
    assert_eq!(with.documents, [PathBuf::from("one"), PathBuf::from("/two")]);
    assert_eq!(
        (&with.store, with.grant.as_slice()),
        (&Some("other.db".into()), &["mail.read".into(), "files".into()][..])
    );
    assert_eq!(
        (with.max_llm_calls, with.max_output_bytes, with.max_nesting),
        (Some(7), Some(8), Some(9))
    );
    assert_eq!((with.trace_content, with.changes), (Some(false), Some(Changes::Refuse)));
    // Settings without a variable keep the value from the file.
    assert_eq!((with.agent_models, with.app), (config.agent_models, config.app));
    assert_eq!(
        RuntimeConfig::read("nothing.yaml", "{} # nothing yet\n").unwrap(),
        RuntimeConfig::default()
    );
    assert_eq!(
        RuntimeConfig::read("it.json", "{\"max_nesting\": 2}").unwrap().max_nesting,
        Some(2)
    );
}

#[test]
fn every_mistake_of_a_file_is_reported_where_it_stands() {
    let text = "modell: openai/gpt-5-mini\nagent_models: {writer: no-such-model}\nmax_llm_calls: many\ngrant: files\nchanges: all\ngrant: []\n";
    let Err(ConfigError::File(error)) = RuntimeConfig::read("service.yaml", text) else {
        panic!("it has mistakes")
    };
    let found = places(&error);
    let begins = |place: &str, says: &str| {
        assert!(
            found.iter().any(|problem| problem.starts_with(place) && problem.contains(says)),
            "{place}: {found:#?}"
        );
    };
    begins("1:1", "did you mean `model`?");
    begins("2:", "the model `no-such-model` cannot be used");
    begins("3:16", "many");
    begins("4:8", "files");
    begins("5:10", "`all` is not one of `refuse`, `accept-compatible` and `accept-all`");
    begins("6:1", "grant");
    assert_eq!(found.len(), 6, "{found:#?}");
    let error = RuntimeConfig::open("no/such/file.yaml").unwrap_err();
    assert!(error.to_string().contains("the file cannot be read"), "{error}");
    assert!(RuntimeConfig::read("list.yaml", "- a\n").is_err());
    let error = RuntimeConfig::read("empty.yaml", "# nothing yet\n").unwrap_err();
    assert!(error.to_string().contains("the document is empty"), "{error}");
    assert!(RuntimeConfig::read("text.yaml", "model: [\n").is_err());
}

#[test]
fn every_variable_that_is_wrong_is_named() {
    let of = |name: &str| match name {
        "AGENTFLOW_MODEL" => Some("no-such-model".to_owned()),
        "AGENTFLOW_MAX_LLM_CALLS" => Some("-1".to_owned()),
        "AGENTFLOW_TRACE_CONTENT" => Some("yes".to_owned()),
        "AGENTFLOW_CHANGES" => Some("ACCEPT".to_owned()),
        _ => None,
    };
    let Err(ConfigError::Variables(problems)) = RuntimeConfig::default().with_variables(of) else {
        panic!("wrong")
    };
    let begins = [
        "`AGENTFLOW_MODEL`: the model `no-such-model`",
        "`AGENTFLOW_MAX_LLM_CALLS`: `-1` is not a whole number",
    ];
    let begins = begins.into_iter().chain([
        "`AGENTFLOW_TRACE_CONTENT`: `yes` is neither",
        "`AGENTFLOW_CHANGES`: `ACCEPT` is not one of",
    ]);
    for (problem, begin) in problems.iter().zip(begins) {
        assert!(problem.starts_with(begin), "{problem}");
    }
    assert_eq!(problems.len(), 4, "{problems:?}");
}

#[tokio::test]
async fn a_builder_takes_a_configuration_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("flows")).unwrap();
    let text = "id: sum\nnodes:\n  - {id: t, tool: reload_add, args_template: {a: 1, b: 2}}\n";
    fs::write(folder.path().join("flows/sum.yaml"), text).unwrap();
    let file = folder.path().join("agentflow.yaml");
    fs::write(
        &file,
        ALL.replace(", /elsewhere", "").replace("max_output_bytes: 1000", "max_output_bytes: 20"),
    )
    .unwrap();
    let config = RuntimeConfig::open(&file).unwrap();
    let builder =
        Runtime::builder().config(config.clone()).await.unwrap().model(ScriptedModel::new([]));
    let runtime = builder.agent_model("writer", ScriptedModel::new([])).boot().await.unwrap();
    // The runtime loads the configured folder, and the configured store keeps the run.
    assert_eq!(run(&runtime, "sum", json!({})).await, json!(3));
    drop(runtime);
    let runtime = Runtime::builder().config(config.clone()).await.unwrap().build();
    assert_eq!(runtime.runs().list(agentflow::store::RunFilter::new()).await.unwrap().len(), 1);
    // The output limit from the file applies.
    fs::write(folder.path().join("flows/sum.yaml"), text.replace("b: 2", "b: 99999999999"))
        .unwrap();
    let _ = runtime.documents().reload().await.unwrap();
    let started = runtime.start_named("sum", json!({})).await.unwrap();
    assert!(started.result().await.unwrap_err().to_string().contains("20 bytes"));
    // A store that cannot be opened is an error.
    let wrong = RuntimeConfig::read("it", "store: no/such/folder/runs.db").unwrap();
    let error = Runtime::builder().config(wrong).await.map(drop).unwrap_err();
    assert!(matches!(error, ConfigError::Store(_)), "{error}");
    assert!(
        error.to_string().starts_with("the store of the configuration cannot be opened: "),
        "{error}"
    );
}

/// Greet.
#[agent(model = "ollama/llama3")]
async fn greet_by_ollama(cx: &Context) -> Result<String>;

/// Greet.
#[agent(model = "deepseek-chat")]
async fn greet_by_deepseek(cx: &Context) -> Result<String>;

/// Greet.
#[agent(model = "openrouter/maker/small")]
async fn greet_by_openrouter(cx: &Context) -> Result<String>;

/// Greet.
#[agent(model = "openai/gpt-5-mini")]
async fn greet_by_openai(cx: &Context) -> Result<String>;

/// Checks that known providers need no `format`, and that the short name of a provider needs no
/// further entry.
#[tokio::test]
async fn names_of_providers_mean_the_same_in_attributes_and_configurations() {
    let greetings = ["ollama", "deepseek", "openrouter", "openai", "document"].map(FakeReply::text);
    let server = FakeProvider::start(ProviderFormat::OpenAiChat, greetings).unwrap();
    let entry = json!({"base_url": server.base_url(), "key": "sesame-street"});
    let providers =
        json!({"ollama": entry, "deepseek": entry, "openrouter": entry, "openai": entry});
    let config =
        RuntimeConfig::read("it.json", &json!({"providers": providers}).to_string()).unwrap();
    let runtime = Runtime::builder().config(config).await.unwrap().build();
    let cx = runtime.context();
    assert_eq!(greet_by_ollama(&cx).await.unwrap(), "ollama");
    assert_eq!(greet_by_deepseek(&cx).await.unwrap(), "deepseek");
    assert_eq!(greet_by_openrouter(&cx).await.unwrap(), "openrouter");
    assert_eq!(greet_by_openai(&cx).await.unwrap(), "openai");
    let names: Vec<String> =
        server.requests().iter().map(|request| request["model"].to_string()).collect();
    assert_eq!(names, [r#""llama3""#, r#""deepseek-chat""#, r#""maker/small""#, r#""gpt-5-mini""#]);
}

#[tokio::test]
async fn a_known_provider_has_its_own_server_unless_another_is_named() {
    let text = "providers: {deepseek: {key: k}, openrouter: {format: anthropic}, lab: {base_url: 'http://127.0.0.1:1'}}";
    let config = RuntimeConfig::read("it.yaml", text).unwrap();
    let runtime = Runtime::builder().config(config).await.unwrap().build();
    let provider = |name: &str| runtime.model(name).unwrap().info().provider.to_string();
    assert_eq!(provider("deepseek/deepseek-chat"), "deepseek");
    assert_eq!(provider("openrouter/claude-x"), "anthropic");
    assert_eq!(provider("lab/small"), "openai-chat");
}

#[test]
fn an_unknown_provider_is_named_with_the_nearest_one_or_a_remedy() {
    let error = |name: &str| match Runtime::default().model(name) {
        Ok(_) => panic!("{name} is known"),
        Err(error) => error.to_string(),
    };
    for (name, says) in [
        ("olama/llama3", "no adapter is called `olama`; did you mean `ollama`?"),
        ("deepsek-chat", "no provider has models of such names; did you mean `deepseek-..`?"),
        ("mistral/large", "a host adds its own with `Runtime::builder().model_provider(..)`"),
        ("mistral", "name its provider too, as in `openai-chat/gpt-5-mini`"),
    ] {
        assert!(error(name).ends_with(says), "{}", error(name));
    }
}
