//! Typed answers: requested by schema or by a tool, validated, and requested again if they are
//! invalid.

use agentflow::agent::Limits;
use agentflow::message::{Conversation, ToolStatus};
use agentflow::model::{
    ModelInfo, ModelRequest, ModelStream, OutputMode, OutputSchema, ToolChoice,
};
use agentflow::schemars::{self, JsonSchema};
use agentflow::serde::{self, Deserialize};
use agentflow::tool::FnTool;
use agentflow::{Agent, Context, Error, Model};
use agentflow_testing::{ScriptedModel, Turn, assert_trace, check_events};
use serde_json::json;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(crate = "self::serde")]
#[schemars(crate = "self::schemars")]
struct Risk {
    level: u8,
}

fn count() -> FnTool {
    FnTool::new("count", "Counts.", |_: Context, (): ()| async { Ok::<_, String>(3) })
}

/// A model whose provider does not accept schemas.
struct ByTool(ScriptedModel);

impl Model for ByTool {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }
}

/// A model whose provider cannot express a schema.
struct Cannot(ScriptedModel);

impl Model for Cannot {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn output_mode(&self, schema: &OutputSchema, _: bool) -> Result<OutputMode, String> {
        Err(format!("`{}.level` has a minimum", schema.name))
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }
}

#[tokio::test]
async fn with_the_request_where_the_provider_takes_a_schema() {
    let model = ScriptedModel::new([
        Turn::call("count", json!({})).expect_tools(["count"]).check(|request| {
            let schema = request.output.as_ref().unwrap();
            assert_eq!((&*schema.name, &schema.schema["type"]), ("Risk", &json!("object")));
        }),
        Turn::text(r#"{"level": 3}"#),
    ]);
    let result =
        Agent::new(model.clone()).tools([count()]).output::<Risk>().run("Judge.").await.unwrap();
    assert_eq!(*result.output(), Risk { level: 3 });
    assert_eq!(result.to_string(), r#"{"level": 3}"#);
    model.finish();
}

#[tokio::test]
async fn an_answer_that_does_not_fit_goes_back_to_the_model() {
    let model = ScriptedModel::new([
        Turn::text("It is risky."),
        Turn::text(r#"{"level": 999}"#).expect_text("expected value"),
        Turn::text("```json\n{\"level\": 9}\n```")
            .expect_text("`level`: invalid value: integer `999`, expected u8"),
    ]);
    let result = Agent::new(model.clone()).output::<Risk>().run("Judge.").await.unwrap();
    assert_eq!(result.steps(), 3);
    let events = result.events();
    assert_eq!(events.iter().filter(|event| event.name() == "output.rejected").count(), 2);
    check_events(&events).unwrap();
    assert_eq!(Conversation::from_events(&events), *result.conversation());
    assert_eq!(result.into_output(), Risk { level: 9 });
    model.finish();
}

#[tokio::test]
async fn after_so_many_answers_the_run_gives_up() {
    let model = ScriptedModel::from_fn(|_| Turn::text("high"));
    let error = Agent::new(model).output::<Risk>().run("Judge.").await.unwrap_err();
    assert!(matches!(error, Error::InvalidOutput { attempts: 3, .. }), "{error}");
    let model = ScriptedModel::new([Turn::text("high")]);
    let strict =
        Agent::new(model.clone()).output::<Risk>().settings(Limits::default().output_retries(0));
    let error = strict.run("Judge.").await.unwrap_err();
    assert!(matches!(error, Error::InvalidOutput { attempts: 1, .. }), "{error}");
    model.finish();
}

#[tokio::test]
async fn by_a_tool_where_the_provider_takes_none() {
    let script = ScriptedModel::new([
        Turn::call("count", json!({})).expect_tools(["count", "final_answer"]).check(|request| {
            assert!(request.output.is_none());
            assert_eq!(request.settings.get_tool_choice(), Some(&ToolChoice::Required));
        }),
        Turn::call("final_answer", json!({"level": "high"})),
        Turn::call("final_answer", json!({"level": 2})).expect_failure(
            "final_answer",
            ToolStatus::InvalidArguments,
            "`level`: invalid type: string \"high\", expected u8",
        ),
    ]);
    let agent = Agent::new(ByTool(script.clone())).tools([count()]).output::<Risk>();
    let result = agent.run("Judge.").await.unwrap();
    assert_eq!(*result.output(), Risk { level: 2 });
    assert_trace(
        result.events(),
        r#"
        run.started "Judge."
        model#1 completed tool_calls
        tool#1.count started {}
        tool#1.count completed 3
        model#2 completed tool_calls
        tool#2.final_answer started {"level":"high"}
        tool#2.final_answer failed invalid_arguments "That answer does not fit the schema: `level`: invalid type: string \"high\", expected u8 at line 1 column 15. Answer again, with JSON that fits and nothing else."
        model#3 completed tool_calls
        tool#3.final_answer started {"level":2}
        tool#3.final_answer completed "accepted"
        run.completed ""
        "#,
    );
    // The conversation can be continued because every call has its result.
    assert!(result.conversation().open_calls().is_empty());
    assert_eq!(Conversation::from_events(&result.events()), *result.conversation());
    script.finish();
}

#[tokio::test]
async fn text_in_place_of_the_tool_is_reported_to_the_model() {
    let script = ScriptedModel::new([
        Turn::text("level 2"),
        Turn::call("final_answer", json!({"level": 2}))
            .expect_text("it is not a call of `final_answer`"),
    ]);
    let result = Agent::new(ByTool(script.clone())).output::<Risk>().run("Judge.").await.unwrap();
    assert_eq!(*result.output(), Risk { level: 2 });
    script.finish();
}

#[tokio::test]
async fn what_is_no_object_works_too() {
    let model = ScriptedModel::new([Turn::text(r#"{"value": ["a", "b"]}"#)]);
    let result = Agent::new(model).output::<Vec<String>>().run("List.").await.unwrap();
    assert_eq!(result.into_output(), ["a", "b"]);
}

#[test]
fn a_schema_the_provider_cannot_express_is_found_when_the_agent_is_built() {
    let error = Agent::new(Cannot(ScriptedModel::new([]))).output::<Risk>().build().unwrap_err();
    assert!(
        error.to_string().contains("its output type does not work: `Risk.level` has a minimum"),
        "{error}"
    );
    let taken = FnTool::new("final_answer", "", |_: Context, (): ()| async { Ok::<_, String>(()) });
    let error = Agent::new(ByTool(ScriptedModel::new([])))
        .tools([taken])
        .output::<Risk>()
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("the tool name `final_answer` is taken"), "{error}");
}

#[tokio::test]
async fn a_handle_and_a_stream_give_the_value_too() {
    let agent =
        Agent::new(ScriptedModel::from_fn(|_| Turn::text(r#"{"level": 1}"#))).output::<Risk>();
    let run = agent.start("Judge.").unwrap();
    assert_eq!(run.result().await.unwrap().into_output(), Risk { level: 1 });
    let run = agent.stream("Judge.").unwrap();
    assert_eq!(run.result().await.unwrap().into_output(), Risk { level: 1 });
}
