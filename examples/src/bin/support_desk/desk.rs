//! Functions of the desk: tools that look up data and pay refunds, a workflow that investigates a
//! letter, and the agent that talks to the customer.

use agentflow::model::ModelSource;
use agentflow::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shop::{LIMIT, Order, Payment, Shop};

/// What a customer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    Refund,
    Delivery,
    Other,
}

/// A letter, sorted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sorted {
    pub(crate) topic: Topic,
    /// The number of the order that the customer names.
    pub(crate) order: Option<u32>,
}

/// The facts about a letter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Case {
    pub(crate) topic: Topic,
    pub(crate) order: Option<Order>,
    pub(crate) parcel: Option<String>,
    /// A draft of the answer.
    pub(crate) draft: String,
}

/// Sort a letter to the support desk of a shop.
///
/// {letter}
#[agent(model = "openai/gpt-5-mini")]
pub(crate) async fn sort(cx: &Context, letter: String) -> Result<Sorted>;

/// Draft the answer to a letter, in two sentences. Promise no money.
///
/// The letter: {letter}
/// The order: {order}
/// Its parcel: {parcel}
/// Our rules: {rules}
#[agent(model = "openai/gpt-5-mini")]
pub(crate) async fn draft(
    cx: &Context,
    letter: String,
    order: Option<Order>,
    parcel: Option<String>,
    rules: String,
) -> Result<String>;

/// The order that a customer names.
#[tool(effects = "read")]
async fn find_order(cx: &Context, number: Option<u32>) -> Result<Option<Order>> {
    let shop = cx.inject::<Shop>()?;
    Ok(number.and_then(|number| shop.order(number)))
}

/// Where the parcel of an order is.
#[tool(effects = "read")]
async fn track_parcel(cx: &Context, number: Option<u32>) -> Result<Option<String>> {
    let shop = cx.inject::<Shop>()?;
    Ok(number.map(|number| shop.parcel(number).to_owned()))
}

/// The rules of the shop on a topic.
#[tool(effects = "read")]
async fn read_rules(topic: Topic) -> String {
    match topic {
        Topic::Refund => "Who asks within 30 days has the money back.",
        Topic::Delivery => "A parcel takes five days.",
        Topic::Other => "Be kind.",
    }
    .to_owned()
}

/// Look into a customer's letter: what it is about, the order, the parcel, and a draft of the answer.
#[workflow]
pub(crate) async fn look_into(cx: &Context, letter: String) -> Result<Case> {
    let sorted = sort(cx, letter).await?;
    let order = find_order(cx, sorted.order).await?; // these three run side by side
    let parcel = track_parcel(cx, sorted.order).await?;
    let rules = read_rules(sorted.topic).await;
    let draft = draft(cx, letter, order, parcel, rules).await?;
    Ok(Case { topic: sorted.topic, order, parcel, draft })
}

/// Pay back a small amount for an order.
#[tool(idempotent)]
async fn refund(
    cx: &Context,
    shop: Inject<Shop>,
    order: u32,
    cents: u32,
) -> Result<Payment, String> {
    if cents > LIMIT {
        return Err(format!(
            "{cents} cents are more than {LIMIT}; call `large_refund`, which asks a person"
        ));
    }
    pay_back(cx, &shop, order, cents)
}

/// Pay back an amount for an order that needs a person's word. The person may change the amount.
#[tool(idempotent, approve)]
async fn large_refund(
    cx: &Context,
    shop: Inject<Shop>,
    order: u32,
    cents: u32,
) -> Result<Payment, String> {
    pay_back(cx, &shop, order, cents)
}

/// Pays with the idempotency key of the call, which stays the same if a crash repeats the call.
fn pay_back(cx: &Context, shop: &Shop, order: u32, cents: u32) -> Result<Payment, String> {
    let bought = shop.order(order).ok_or_else(|| format!("there is no order {order}"))?;
    if cents > bought.cents {
        return Err(format!("order {order} cost {} cents; no more can be paid back", bought.cents));
    }
    shop.pay(&cx.idempotency_key(), &Payment { order, cents }).map_err(|error| error.to_string())
}

/// Builds the agent that talks to the customer.
pub(crate) fn support(model: impl Into<ModelSource>) -> Agent {
    Agent::new(model)
        .name("support")
        .instruct("You are the support desk of a shop. Look into each letter first. Pay back what the rules allow.")
        .tools(tools![refund, large_refund])
        .tools(look_into::workflow())
}
