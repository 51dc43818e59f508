//! The step of a node that changes the state by data. `state/transform.rs` defines the changes.

use std::sync::Arc;

use super::spec::Step;
use super::step_error::StepError;
use crate::context::Context;
use crate::error::FailureKind;
use crate::state::StateTransform;
use crate::value::Encoded;

/// Builds a step that makes these changes. Its output is an object with the values that were set.
pub(super) fn step(transforms: &[StateTransform]) -> Step {
    let transforms: Arc<[StateTransform]> = transforms.into();
    Arc::new(move |cx, _| {
        let transforms = Arc::clone(&transforms);
        Ok(Box::pin(async move { made(&cx, &transforms).await }))
    })
}

async fn made(cx: &Context, transforms: &[StateTransform]) -> Result<Encoded, StepError> {
    let set = cx.transformed(transforms).await.map_err(StepError::from_error)?;
    let unwritten =
        |error: serde_json::Error| StepError::new(FailureKind::Value, error.to_string());
    let fields =
        set.iter().map(|(key, value)| Ok((key.clone(), value.decode().map_err(unwritten)?)));
    let fields = fields.collect::<Result<serde_json::Map<_, _>, StepError>>()?;
    Encoded::new(&fields).map_err(unwritten)
}
