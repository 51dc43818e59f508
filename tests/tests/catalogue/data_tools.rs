//! The JSON tools `condition` and `transform`, called like by a model.

use agentflow::message::{ToolCall, ToolStatus};
use agentflow::serde_json::{Value, json};
use agentflow::tools;
use agentflow_testing::test_runtime;

async fn call(name: &str, arguments: Value) -> (ToolStatus, String) {
    let runtime = test_runtime().tools(tools::condition()).tools(tools::transform()).build();
    let result =
        runtime.invoke(&ToolCall::new("1", name, arguments.to_string()), &[]).await.unwrap();
    (result.status, result.text().into_owned())
}

#[tokio::test]
async fn conditions_hold_or_do_not() {
    let of = async |expression: &str| {
        call("condition", json!({"expression": expression, "variables": {"n": 3, "names": ["a"]}}))
            .await
    };
    assert_eq!(of("n > 2 && 'a' in names").await, (ToolStatus::Success, "true".to_owned()));
    assert_eq!(of("n > 3").await, (ToolStatus::Success, "false".to_owned()));
    for (expression, says) in [
        ("n >", "the expression ends at byte 3, and a value should follow"),
        ("m > 1", "unknown name `m` at byte 0; did you mean `n`?"),
        ("n", "the value of `n` is `3`, neither `true` nor `false`; compare it"),
        ("n > 'a'", "`>` cannot compare a number with a text at byte 2"),
        ("__import__('os')", "unknown function `__import__` at byte 0"),
    ] {
        let (status, text) = of(expression).await;
        assert!(status == ToolStatus::Error && text.contains(says), "{expression}: {text}");
    }
}

#[tokio::test]
async fn parts_are_taken_out() {
    let data = json!({"rows": [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}], "all": [[1, 2]]});
    let of = async |path: &str| call("transform", json!({"data": data, "path": path})).await;
    for (path, expected) in [
        ("$.rows[1].t", json!("b")),
        ("$.rows[*].n", json!([1, 2])),
        ("$.rows[?@.n > 1].t", json!("b")),
        ("$..n", json!([1, 2])),
        ("$.all[*]", json!([1, 2])),
        ("$.none", Value::Null),
        ("$", data.clone()),
    ] {
        let (status, text) = of(path).await;
        let value = text.parse().unwrap_or(Value::String(text));
        assert_eq!((status, value), (ToolStatus::Success, expected), "{path}");
    }
    for (path, says) in [
        ("rows", "`rows` is not a JSONPath query: "),
        ("$.rows[", "write one such as `$.rows[0].name`"),
        ("$..a..b..c..d", "at most 3 of `..` and `?`, and this one has 4; name the fields"),
    ] {
        let (status, text) = of(path).await;
        assert!(status == ToolStatus::Error && text.contains(says), "{path}: {text}");
    }
    let (_, text) = of(&format!("$.{}", "a".repeat(5000))).await;
    assert!(text.contains("a query has at most 4096 bytes, and this one has 5002"), "{text}");
}

/// A wide query over deep data ends quickly.
#[tokio::test]
async fn a_wide_query_over_deep_data_ends() {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let data: Vec<Value> = std::iter::repeat_n(deep, 20).collect();
    let (status, text) = call("transform", json!({"data": data, "path": "$..[?@..*]"})).await;
    assert!(
        matches!(status, ToolStatus::Success | ToolStatus::OutputTooLarge),
        "{status:?} {text}"
    );
}

/// Each selector may select the same place again, and a filter may start at the root for each item,
/// so the work is limited.
#[tokio::test]
async fn a_query_that_names_one_place_without_end_is_refused() {
    let data = json!([[[[1]]]]);
    for path in [format!("${}", "[0,0,0,0,0,0,0,0]".repeat(10)), "$[?count($[*])>0]".to_owned()] {
        let (status, text) = call("transform", json!({"data": data, "path": path})).await;
        assert_ne!(status, ToolStatus::Success, "{path}");
        assert!(text.contains("a query names one place at most 64 times"), "{text}");
    }
    let (status, text) =
        call("transform", json!({"data": {"a": 1, "b": 2, "$": 3}, "path": "$['a','b','$']"}))
            .await;
    assert_eq!((status, text.as_str()), (ToolStatus::Success, "[1,2,3]"));
}
