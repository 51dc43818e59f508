//! Scripted stand-ins for the models. Each computes its agent's answers from the request by rules.

use agentflow::message::{Message, Role};
use agentflow::model::ModelRequest;
use agentflow::serde_json::{self, Value, json};
use agentflow_testing::Turn;

use crate::desk::{Case, Topic};
use crate::shop::LIMIT;

/// Sorts a letter by its words.
pub(crate) fn sort(request: &ModelRequest) -> Turn {
    let letter = last_of(request).map_or_else(String::new, |message| message.text().to_lowercase());
    let has = |words: &[&str]| words.iter().any(|word| letter.contains(word));
    let topic = if has(&["refund", "money"]) {
        "refund"
    } else if has(&["where", "parcel", "late"]) {
        "delivery"
    } else {
        "other"
    };
    let number =
        letter.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse::<u32>().ok());
    Turn::text(json!({"topic": topic, "order": number}).to_string())
}

/// Drafts an answer from the known facts.
pub(crate) fn draft(request: &ModelRequest) -> Turn {
    let known = last_of(request).map_or_else(String::new, |message| message.text().into_owned());
    let parcel = known
        .lines()
        .find_map(|line| line.strip_prefix("Its parcel: "))
        .filter(|parcel| *parcel != "null");
    Turn::text(match parcel {
        Some(parcel) => format!("Your parcel is {parcel}."),
        None => "Thank you for your letter.".to_owned(),
    })
}

/// Investigates a letter, pays a refund and answers. It also counts the letters, which shows that
/// the session is remembered.
pub(crate) fn support(request: &ModelRequest) -> Turn {
    let messages = request.messages.messages();
    let letters = messages.iter().filter(|message| message.role() == Role::User).count();
    let newest =
        messages.iter().rposition(|message| message.role() == Role::User).unwrap_or_default();
    let letter =
        messages.get(newest).map_or_else(String::new, |message| message.text().into_owned());
    let results: Vec<_> = messages[newest..].iter().flat_map(|message| message.results()).collect();
    let Some(first) = results.first() else {
        return Turn::call("look_into", json!({"letter": letter}));
    };
    let Ok(case) = serde_json::from_str::<Case>(&first.output) else {
        return Turn::text(format!("We could not look into your letter: {}", first.output));
    };
    let paid = match (results.get(1), case.order) {
        (Some(result), _) => match serde_json::from_str::<Value>(&result.output) {
            Ok(payment) if payment["cents"].is_u64() => {
                format!(" We pay back {} cents.", payment["cents"])
            }
            _ => format!(" We cannot pay back: {}", result.output),
        },
        (None, Some(order)) if case.topic == Topic::Refund => {
            let tool = if order.cents > LIMIT { "large_refund" } else { "refund" };
            return Turn::call(tool, json!({"order": order.number, "cents": order.cents}));
        }
        (None, _) => String::new(),
    };
    Turn::text(format!("{}{paid} (letter {letters})", case.draft))
}

/// Returns the last message of the request.
fn last_of(request: &ModelRequest) -> Option<&Message> {
    request.messages.messages().last().map(AsRef::as_ref)
}
