//! Limits of a typed tool's schema, such as `maxLength`, are enforced before its function runs.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::Deserialize;
use agentflow::serde_json::{Value, json};
use agentflow::tool::FnTool;
use agentflow_testing::test_runtime;

#[derive(Deserialize, JsonSchema)]
struct Country(#[schemars(length(max = 3))] String);

#[derive(Deserialize, JsonSchema)]
struct Parcel {
    #[schemars(range(min = 1, max = 20))]
    kilos: u32,
    #[schemars(regex(pattern = r"^[A-Z]{2}\d+$"))]
    label: Option<String>,
    #[schemars(length(min = 1), inner(length(max = 4)))]
    tags: Vec<String>,
}

static SHIPPED: AtomicU32 = AtomicU32::new(0);

/// Ships parcels.
#[tool]
async fn ship_within_limits(
    to: Country,
    parcels: Vec<Parcel>,
    via: Option<HashSet<u8>>,
) -> Result<usize> {
    SHIPPED.fetch_add(1, Ordering::SeqCst);
    let shown = parcels
        .iter()
        .filter(|parcel| parcel.kilos > 0 && parcel.label.is_some() && !parcel.tags.is_empty());
    Ok(shown.count() + to.0.len() + via.map_or(0, |via| via.len()))
}

#[derive(Deserialize, JsonSchema)]
struct Shipment {
    to: Country,
    #[schemars(length(max = 2))]
    parcels: Vec<Parcel>,
}

async fn called(
    tool: impl agentflow::tool::IntoTools,
    name: &str,
    arguments: Value,
) -> (ToolStatus, String) {
    let call = ToolCall::new("1", name, arguments.to_string());
    let result = test_runtime().tools(tool).build().invoke(&call, &[]).await.unwrap();
    (result.status, result.text().into_owned())
}

#[tokio::test]
async fn a_typed_tool_enforces_the_limits_of_its_schema() {
    let shipped = SHIPPED.load(Ordering::SeqCst);
    let parcel = json!({"kilos": 2, "label": "DE7", "tags": ["new"]});
    let fitting = json!({"to": "DE", "parcels": [parcel], "via": [1, 2]});
    let (status, text) =
        called(tools![ship_within_limits], "ship_within_limits", fitting.clone()).await;
    assert_eq!((status, &*text), (ToolStatus::Success, "5"));
    for (at, value, path, limit) in [
        ("/to", json!("GERMANY"), "`to`: ", "3"),
        ("/parcels/0/kilos", json!(0), "`parcels[0].kilos`: ", "1"),
        ("/parcels/0/kilos", json!(21), "`parcels[0].kilos`: ", "20"),
        ("/parcels/0/label", json!("de7"), "`parcels[0].label`: ", r"^[A-Z]{2}\d+$"),
        ("/parcels/0/tags", json!([]), "`parcels[0].tags`: ", "1"),
        ("/parcels/0/tags/0", json!("broken"), "`parcels[0].tags[0]`: ", "4"),
        ("/via", json!([1, 1]), "`via`: ", "unique"),
    ] {
        let mut arguments = fitting.clone();
        *arguments.pointer_mut(at).unwrap() = value.clone();
        let (status, text) =
            called(tools![ship_within_limits], "ship_within_limits", arguments).await;
        assert_eq!(status, ToolStatus::InvalidArguments, "{at}: {text}");
        let says_all = text.starts_with(path)
            && text.contains(limit)
            && text.ends_with(&format!("seen: {value}"));
        assert!(says_all, "{at}: {text}");
    }
    assert_eq!(SHIPPED.load(Ordering::SeqCst), shipped + 1);
}

#[tokio::test]
async fn a_closure_with_typed_arguments_enforces_them_too() {
    let tool = || {
        FnTool::new("ship", "Ships parcels.", |_cx, shipment: Shipment| async move {
            Ok::<_, std::io::Error>(shipment.parcels.len() + shipment.to.0.len())
        })
    };
    let parcel = json!({"kilos": 2, "tags": ["new"]});
    let (status, text) = called(tool(), "ship", json!({"to": "DE", "parcels": [parcel]})).await;
    assert_eq!((status, &*text), (ToolStatus::Success, "3"));
    for (arguments, says) in [
        (json!({"to": "GERMANY", "parcels": []}), "`to`: "),
        (json!({"to": "DE", "parcels": [parcel, parcel, parcel]}), "`parcels`: "),
    ] {
        let (status, text) = called(tool(), "ship", arguments).await;
        assert!(status == ToolStatus::InvalidArguments && text.starts_with(says), "{text}");
    }
}
