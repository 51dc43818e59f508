//! The registry: tools by name, and its errors for a tool that is registered twice or missing.

use std::time::Duration;

use agentflow::agent::{AgentOutline, Limits};
use agentflow::error::RegistryError;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::run::OnTimeout;
use agentflow::serde_json::{self, json};
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::{Agent, Context, Registry};
use agentflow_testing::ScriptedModel;

fn named(name: &str) -> FnTool {
    FnTool::new(name.to_owned(), "Does nothing.", |_: Context, (): ()| async { Ok::<_, String>(1) })
}

#[test]
fn tools_are_ordered_by_name_whatever_order_they_came_in() {
    let mut registry = Registry::new();
    for name in ["write", "add", "search"] {
        registry.register(named(name)).unwrap();
    }
    assert_eq!(registry.names().collect::<Vec<_>>(), ["add", "search", "write"]);
    let manifest = registry.manifest();
    let names: Vec<_> = manifest.definitions().iter().map(|definition| &*definition.name).collect();
    assert_eq!(names, ["add", "search", "write"]);
}

#[test]
fn the_second_tool_of_a_name_is_an_error() {
    let mut registry = Registry::new();
    registry.register(named("add")).unwrap();
    let error = registry.register(named("add")).unwrap_err();
    assert!(matches!(error, RegistryError::Duplicate { ref name, .. } if &**name == "add"));
    assert!(error.to_string().contains("two tools are named `add`"), "{error}");
}

#[test]
fn an_unknown_name_offers_the_nearest() {
    let mut registry = Registry::new();
    registry.register(named("search")).unwrap();
    let near = registry.get("serach").unwrap_err().to_string();
    assert_eq!(near, "there is no tool `serach`; did you mean `search`?");
    let far = registry.get("x").unwrap_err().to_string();
    assert_eq!(far, "there is no tool `x`; the only tool is `search`");
}

#[test]
fn a_name_or_a_schema_that_no_provider_takes_is_refused() {
    let mut registry = Registry::new();
    for name in ["", "with space", "é", &"x".repeat(65)] {
        assert!(
            matches!(registry.register(named(name)), Err(RegistryError::InvalidName { .. })),
            "{name}"
        );
    }
    let list = ToolDefinition::new("list", "Takes a list.", json!({"type": "array"}));
    let tool = FnTool::dynamic(list, |_, value| async move { Ok::<_, String>(value) });
    assert!(matches!(registry.register(tool), Err(RegistryError::NoObjectSchema { .. })));
}

#[test]
fn what_the_program_counts_on_and_was_not_linked_is_named() {
    let mut registry = Registry::new();
    registry.register(named("add")).unwrap();
    registry.expect(["add"]).unwrap();
    let error = registry.expect(["add", "search", "write"]).unwrap_err();
    assert!(error.to_string().contains("search, write"), "{error}");
}

#[test]
fn scopes_select_the_tools_that_need_no_others() {
    let mut registry = Registry::new();
    let scoped = |name, scopes: &[&str]| {
        named(name).policy(ToolPolicy::default().scopes(scopes.iter().copied()))
    };
    registry.register(scoped("both", &["read", "write"])).unwrap();
    registry.register(scoped("free", &[])).unwrap();
    registry.register(scoped("read", &["read"])).unwrap();
    let names = |scopes: &[&str]| {
        let tools = registry.with_scopes(scopes.iter().copied());
        tools.iter().map(|tool| tool.definition().name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["free"]);
    assert_eq!(names(&["read"]), ["free", "read"]);
    assert_eq!(names(&["write", "read"]), ["both", "free", "read"]);
}

#[tokio::test]
async fn a_call_by_name_always_has_a_result() {
    let mut registry = Registry::new();
    registry.register(named("add")).unwrap();
    let call = |name: &str, arguments: &str| ToolCall::new("1", name, arguments);
    let cx = Context::detached();
    for (call, status, output) in [
        (call("add", ""), ToolStatus::Success, "1"),
        (call("add", "{}"), ToolStatus::Success, "1"),
        (
            call("add", r#"{"a":1}"#),
            ToolStatus::InvalidArguments,
            "this tool takes no arguments; send an empty object",
        ),
        (call("ad", "{}"), ToolStatus::NotFound, "there is no tool `ad`; did you mean `add`?"),
    ] {
        let result = registry.invoke(&cx, &call, &[]).await;
        assert_eq!((result.status, result.output.as_str()), (status, output));
    }
}

#[test]
fn durations_are_milliseconds_in_json_and_their_earlier_form_is_read() {
    let policy = ToolPolicy::default()
        .timeout(Duration::from_micros(1_500_200))
        .approve_timeout(Duration::from_secs(86_400), OnTimeout::Deny);
    let form = serde_json::to_value(&policy).unwrap();
    assert_eq!(
        (&form["timeout_ms"], &form["approve_timeout_ms"]),
        (&json!(1501), &json!(86_400_000))
    );
    assert!(form["timeout"].is_null() && form["approve_timeout"].is_null(), "{form}");
    let read: ToolPolicy = serde_json::from_value(form).unwrap();
    assert_eq!(
        (read.timeout, read.approve_timeout),
        (Some(Duration::from_millis(1501)), policy.approve_timeout)
    );
    let earlier = json!({
        "timeout": {"secs": 5, "nanos": 500_000_000},
        "approve_timeout": {"secs": 86_400, "nanos": 0},
        "on_timeout": "deny",
    });
    let read: ToolPolicy = serde_json::from_value(earlier).unwrap();
    let mut expected = policy;
    expected.timeout = Some(Duration::from_millis(5500));
    assert_eq!(read, expected);
    let without: ToolPolicy = serde_json::from_value(json!({"timeout": null})).unwrap();
    assert_eq!(without, ToolPolicy::default());
    let wrong = serde_json::from_value::<ToolPolicy>(json!({"timeout_ms": "5s"})).unwrap_err();
    assert_eq!(wrong.to_string(), "a number of milliseconds");
}

#[test]
fn the_time_limit_of_an_agent_is_milliseconds_in_json_and_its_earlier_form_is_read() {
    let limits = Limits::default().timeout(Duration::from_millis(1500));
    let agent = Agent::new(ScriptedModel::new([])).settings(limits.clone());
    let outline = AgentOutline::of(&agent);
    let form = serde_json::to_value(&outline).unwrap()["limits"].clone();
    assert_eq!((&form["timeout_ms"], form.get("timeout")), (&json!(1500), None));
    assert_eq!(serde_json::from_value::<Limits>(form.clone()).unwrap(), limits);
    let mut earlier = form;
    earlier.as_object_mut().unwrap().remove("timeout_ms");
    earlier["timeout"] = json!({"secs": 1, "nanos": 500_000_000});
    assert_eq!(serde_json::from_value::<Limits>(earlier).unwrap(), limits);
}
