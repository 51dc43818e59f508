//! Builds the plan that runs if a workflow is replaced. It has the same name, inputs and output,
//! and one step, which calls the replacement. So its records, retries and recovery are the same as
//! for any workflow in a step.

use std::sync::Arc;

use super::builder::Builder;
use super::input_object::to_object;
use super::node::Node;
use super::node_handle::RawHandle;
use super::node_schema::ValueCheck;
use super::spec::{Body, NodeIndex, NodeKind, Outputs, Spec, Step, StepFuture};
use super::step_error::StepError;
use crate::context::Context;
use crate::error::{Error, Failure, Result};
use crate::tool::{ReplacedError, StandIn};
use crate::value::Encoded;

/// Builds the plan of a replaced workflow.
///
/// # Errors
/// [`Error::Build`] if the plan cannot be built.
pub(super) fn replaced(spec: &Spec, stand_in: StandIn) -> Result<Arc<Spec>> {
    let mut builder = Builder::new(Arc::clone(&spec.name));
    let inputs = spec.nodes.iter().filter(|node| node.kind == NodeKind::Input);
    let inputs: Vec<(String, RawHandle)> = inputs
        .map(|input| {
            let (name, of) =
                (input.path.names().to_owned(), (input.type_name.clone(), input.schema.clone()));
            // The inputs were checked against the types of the replaced workflow.
            let body = Body::Input { fits: ValueCheck::Type(|_| Ok(())) };
            let at = builder.add(Node::new(name.as_str()), NodeKind::Input, Vec::new(), body, of);
            (name, at)
        })
        .collect();
    // The step must not have the name of an input.
    let mut name = "replaced".to_owned();
    while inputs.iter().any(|(input, _)| *input == name) {
        name.push('_');
    }
    let output = spec.node(spec.output);
    let of = (output.type_name.clone(), output.schema.clone());
    let reads = inputs.iter().map(|(_, at)| *at).collect();
    let node =
        builder.add(Node::new(name), NodeKind::Step, reads, Body::Step(step(inputs, stand_in)), of);
    let name = Arc::clone(&spec.name);
    let built = builder.finish(Arc::clone(&name), node).map(Arc::new);
    built.map_err(|problems| {
        let problem = super::joined(&problems);
        Error::Build { what: "workflow", name, problem }
    })
}

fn step(inputs: Vec<(String, RawHandle)>, stand_in: StandIn) -> Step {
    let (names, places): (Vec<String>, Vec<NodeIndex>) =
        inputs.into_iter().map(|(name, at)| (name, at.node)).unzip();
    Arc::new(move |cx: Context, outputs: &dyn Outputs| -> Result<StepFuture, StepError> {
        let values: Option<Vec<Encoded>> =
            places.iter().map(|at| outputs.output(*at).cloned()).collect();
        let values = values.ok_or_else(StepError::read_too_early)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (input, stand_in) = (to_object(&names, &values), stand_in.clone());
        Ok(Box::pin(async move {
            match stand_in.call(input.as_str(), cx.path().parent().as_ref()).await {
                Ok(output) => Encoded::from_json(output.into_json()).map_err(|error| {
                    StepError::value(
                        &format!("what replaces `{}` gave no JSON", stand_in.name),
                        &error,
                    )
                }),
                Err(ReplacedError { error, value }) => {
                    let failure = Failure::new(error.status().as_str(), error.message());
                    Err(StepError::recorded(Failure { value, ..failure }))
                }
            }
        }))
    })
}
