//! Export of a single node to the form `tree`, with its values and conditions, in which the
//! preceding value is named `input`. `export_tree.rs` and `export_tree_walk.rs` combine the parts.

use std::cell::Cell;

use agentflow_schema::diagnostic::{Code, Diagnostic, Suggestion};
use agentflow_schema::template::Template;
use serde_json::{Map, Value, json};

use super::document_export::{node_problem, of_node};
use super::export_codes as codes;
use super::export_tree::{Inner, body, own_workflow};
use super::export_tree_labels::named;
use super::export_tree_walk::Part;
use crate::workflow::{Condition, GraphBody, GraphNode, Mapping, NodePolicy, NodeSchema, OnError};

/// Name of the workflow's input, and of the input value of a part.
pub(super) const INPUT: &str = "input";

/// Exports a node as a part.
///
/// # Errors
/// The part of the node that the form cannot express.
pub(super) fn part(node: &GraphNode, given: &str, inner: &Inner<'_>) -> Result<Part, Diagnostic> {
    let name = &node.name;
    let of_node = |problem: Diagnostic| of_node(problem, name);
    let refused = |code: Code| node_problem(name, code);
    let does = node.does.as_ref().ok_or_else(|| refused(codes::NODE_NOT_EXPRESSIBLE))?;
    let (from_given, item) = (Mapping::from(given), Mapping::Item(String::new()));
    if let GraphBody::Call(call) = does
        && !node.policy.tap
        && let Some(part) = own_workflow(node, call, given, inner)?
    {
        return Ok(part);
    }
    let mut policy = node.policy.clone();
    let (mut fields, depth) = (Map::new(), Cell::new(0));
    let within = |part: Part| {
        depth.set(depth.get().max(part.depth + 1));
        part.json
    };
    let mut say = |field: &str, value: Value| drop(fields.insert(field.to_owned(), value));
    match does {
        GraphBody::Call(call) if node.policy.tap => {
            say("tap", within(body(call, &from_given, inner).map_err(of_node)?));
            // `tap` implies that the node observes and that its failure is skipped.
            policy.tap = false;
            if policy.on_error == OnError::Skip {
                policy.on_error = NodePolicy::default().on_error;
            }
        }
        _ if node.policy.tap => {
            return Err(refused(codes::TAP_WITHOUT_CALL));
        }
        GraphBody::Call(call) => {
            if call.gives.is_some() {
                return Err(refused(codes::CALL_CHANGES_OUTPUT).name("callee", &call.name));
            }
            say(call.kind.as_str(), json!(call.name));
            if call.with != from_given {
                say("with", value(&call.with, given).map_err(of_node)?);
            }
        }
        GraphBody::Value(of) => match policy.approve.take() {
            // The time limit of a gate applies to the answer, so a node with another time limit is
            // not a gate.
            Some(question)
                if *of == from_given
                    && policy.timeout_ms.is_none()
                    && !question.trim().is_empty() =>
            {
                say("gate", asked(&question, given).map_err(of_node)?);
            }
            approve => {
                policy.approve = approve;
                say("value", value(of, given).map_err(of_node)?);
            }
        },
        GraphBody::Transform(transforms) => say("transform", json!(transforms)),
        GraphBody::Map { items, call } if items == given => {
            say("map_over", within(body(call, &item, inner).map_err(of_node)?));
        }
        GraphBody::Repeat { first, call, until, max } if first == given => {
            say("loop", within(body(call, &item, inner).map_err(of_node)?));
            say("max", json!(max));
            if let Some(until) = until {
                say("until", condition(name, until, INPUT)?);
            }
        }
        GraphBody::Map { items: other, .. } | GraphBody::Repeat { first: other, .. } => {
            return Err(refused(codes::OTHER_SOURCE).name("other", other).name("given", given));
        }
        GraphBody::Race(calls) | GraphBody::Fallback(calls) => {
            let word = if matches!(does, GraphBody::Race(_)) { "race" } else { "fallback" };
            let parts = calls.iter().map(|call| body(call, &from_given, inner).map(within));
            say(word, Value::Array(parts.collect::<Result<_, _>>().map_err(of_node)?));
        }
        GraphBody::Route(_) => {
            return Err(refused(codes::ROUTER_ALONE));
        }
        GraphBody::Ask(_) => {
            return Err(refused(codes::QUESTION_WITH_FORM));
        }
        GraphBody::Decide(_) => {
            return Err(refused(codes::DECIDER_OF_NODE));
        }
    }
    policy_over(&mut policy, given).map_err(of_node)?;
    described(node, &policy, &mut fields)?;
    Ok(Part { json: named(Value::Object(fields), name)?, depth: depth.get() })
}

/// Adds the options of a node.
///
/// # Errors
/// The option that the form cannot express.
pub(super) fn described(
    node: &GraphNode,
    policy: &NodePolicy,
    fields: &mut Map<String, Value>,
) -> Result<(), Diagnostic> {
    let mut saves = node.saves.iter();
    if let Some((key, at)) = saves.next() {
        if !at.is_empty() || saves.next().is_some() {
            return Err(node_problem(&node.name, codes::SAVES_PARTS));
        }
        fields.insert("save".to_owned(), json!(key));
    }
    if *policy != NodePolicy::default() {
        fields.insert("policy".to_owned(), json!(policy));
    }
    let schema = node.schema.to_value();
    if schema != NodeSchema::default().to_value() {
        fields.insert("output".to_owned(), schema);
    }
    Ok(())
}

/// Checks that a node that combines parts has no options. Options of several parts belong to a
/// separate workflow.
///
/// # Errors
/// A problem with this code, if the node has options.
pub(super) fn check_has_no_options(node: &GraphNode, code: Code) -> Result<(), Diagnostic> {
    let is_plain = node.saves.is_empty()
        && node.policy == NodePolicy::default()
        && node.schema == NodeSchema::default();
    if is_plain { Ok(()) } else { Err(node_problem(&node.name, code)) }
}

/// Exports a question that is a template over the input value.
///
/// # Errors
/// The name in the template that a tree cannot express.
fn asked(question: &str, given: &str) -> Result<Value, Diagnostic> {
    match question.parse::<Template>() {
        Ok(template) => value(&Mapping::Template(template), given),
        Err(_) => Ok(json!(question)),
    }
}

/// Renames the input value to `input` in the question of a policy.
///
/// # Errors
/// The name in the template that a tree cannot express.
pub(super) fn policy_over(policy: &mut NodePolicy, given: &str) -> Result<(), Diagnostic> {
    if let Some(question) = &mut policy.approve {
        let text = asked(question, given)?;
        *question = text.as_str().unwrap_or_default().to_owned();
    }
    Ok(())
}

/// Exports a mapping as a value with templates over the input value.
///
/// # Errors
/// The part of the mapping that is not such a template.
pub(super) fn value(mapping: &Mapping, given: &str) -> Result<Value, Diagnostic> {
    let refused = || {
        let value = Value::from(mapping.clone());
        Diagnostic::new(codes::NOT_A_TEMPLATE).source("value", value)
    };
    Ok(match mapping {
        Mapping::From { node, at, or: None } if node == given && at.is_empty() => {
            json!(format!("{{{INPUT}}}"))
        }
        Mapping::Template(template) => {
            let mut text = template.as_str().to_owned();
            let mut places = Vec::new();
            for of in template.placeholders() {
                let root = of.parts().first().map(String::as_str);
                if root == Some(given) {
                    let at = of.at() + 1;
                    places.push(at + text[at..].len() - text[at..].trim_start().len());
                } else if root == Some(INPUT) {
                    let problem = format!("`{INPUT}` is the output of `{given}` at this place");
                    return Err(refused().suggest(Suggestion::advice(problem)));
                }
            }
            places.sort_unstable();
            for at in places.into_iter().rev() {
                if !text[at..].starts_with(given) {
                    return Err(refused());
                }
                text.replace_range(at..at + given.len(), INPUT);
            }
            json!(text)
        }
        Mapping::Value(Value::String(text)) => json!(text.replace('{', "{{").replace('}', "}}")),
        // A tree creates lists and objects from their items, so a constant list or object would be
        // another mapping.
        Mapping::Value(Value::Array(_) | Value::Object(_)) => return Err(refused()),
        Mapping::Value(value) => value.clone(),
        Mapping::Object(fields) => {
            let fields = fields.iter().map(|(name, of)| Ok((name.clone(), value(of, given)?)));
            Value::Object(fields.collect::<Result<Map<_, _>, Diagnostic>>()?)
        }
        Mapping::List(items) => {
            Value::Array(items.iter().map(|of| value(of, given)).collect::<Result<_, _>>()?)
        }
        _ => return Err(refused()),
    })
}

/// Exports a condition over the input value as a line of CEL.
///
/// # Errors
/// If the condition is not CEL, or if it reads the input of the workflow at a position where
/// `input` is another value.
pub(super) fn condition(
    name: &str,
    condition: &Condition,
    given: &str,
) -> Result<Value, Diagnostic> {
    let Condition::Cel(expression) = condition else {
        return Err(node_problem(name, codes::CONDITION_NOT_CEL));
    };
    let mut text = expression.as_str().to_owned();
    if given == INPUT {
        return Ok(json!(text));
    }
    let node = format!("nodes['{given}']");
    let start = |at: usize| at + text[at..].len() - text[at..].trim_start().len();
    let mut places: Vec<usize> = expression.paths().iter().map(|path| start(path.at)).collect();
    places.sort_unstable();
    places.dedup();
    if expression.paths().iter().any(|path| path.parts.first().is_some_and(|root| root == INPUT)) {
        return Err(node_problem(name, codes::CONDITION_READS_INPUT).name("given", given));
    }
    for at in places.into_iter().rev().filter(|at| expression.as_str()[*at..].starts_with(&node)) {
        text.replace_range(at..at + node.len(), INPUT);
    }
    Ok(json!(text))
}
